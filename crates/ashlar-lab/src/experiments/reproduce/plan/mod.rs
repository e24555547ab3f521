//! What is to be found out: the claims, the runs that measure what they need, and what those
//! brought.

pub(crate) mod claims;
pub(crate) mod evidence;
pub(crate) mod rows;
pub(crate) mod runs;
