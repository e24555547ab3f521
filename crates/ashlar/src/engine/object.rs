//! [`Object`] and [`Objects`]: what its user gives up to an engine.
//!
//! Above the engines only an unsafe function makes one, with the promise of the program that frees.
//! The call that frees consumes it, so no function of an engine has to ask its caller for that
//! promise again. Engines make one of what they have taken themselves, such as the first objects of
//! a bulk allocation that fails.
#![allow(unsafe_code, reason = "takes the promise of the program")]

use super::RawCache;

/// An object that the program gives up. Engines still check that it is one.
pub(crate) struct Object {
    pub(super) cache: &'static RawCache,
    pub(super) address: usize,
}

impl Object {
    /// # Safety
    /// The program gives up what it has at `address`, and promises that it is an object that was
    /// allocated from `cache`.
    #[inline(always)]
    pub(crate) unsafe fn new(cache: &'static RawCache, address: usize) -> Object {
        Object { cache, address }
    }

    /// Returns the cache and the address, for a caller that frees the object to its CPU's sheaf
    /// itself if it can.
    #[cfg(feature = "os")]
    #[inline]
    pub(crate) fn parts(&self) -> (&'static RawCache, usize) {
        (self.cache, self.address)
    }
}

/// Several objects of one cache that the program gives up.
pub(crate) struct Objects<'a> {
    pub(super) cache: &'static RawCache,
    pub(super) addresses: &'a [usize],
}

impl<'a> Objects<'a> {
    /// # Safety
    /// As for [`Object::new`], for each address. None occurs twice.
    #[inline(always)]
    pub(crate) unsafe fn new(cache: &'static RawCache, addresses: &'a [usize]) -> Objects<'a> {
        Objects { cache, addresses }
    }

    /// Calls `free` for each object.
    #[inline(always)]
    pub(super) fn for_each(self, mut free: impl FnMut(Object)) {
        self.addresses.iter().for_each(|&address| free(Object { cache: self.cache, address }));
    }
}
