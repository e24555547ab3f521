//! Drop-in malloc.
