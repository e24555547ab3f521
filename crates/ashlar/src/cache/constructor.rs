//! Constructors of objects.
#![allow(unsafe_code, reason = "takes a promise about a function")]

use core::alloc::Layout;

use crate::slab::cache::Construct;

/// A function that constructs the objects of a cache when they are first carved: the kernel's
/// `ctor`.
///
/// Making one is unsafe, so creating a cache by [`CacheArgs::ctor`](super::CacheArgs::ctor) is
/// safe. [`Cache::constructed`](crate::Cache::constructed) needs no unsafe code at all.
#[derive(Clone, Copy, Debug)]
pub struct Constructor {
    function: Construct,
    layout: Layout,
}

impl Constructor {
    pub(super) const EXPECTED: &str = "ctor: expected one for objects of at most this size and alignment";

    /// Takes a constructor for objects of `layout`. Caches of smaller or less aligned objects
    /// refuse it.
    ///
    /// # Safety
    /// Any thread may call the function with the address of memory of that layout that only this
    /// thread can reach, and whose bytes may be uninitialised. The function writes to no other
    /// memory through its argument, and does not unwind. It stays callable as long as a cache has
    /// it, so its library must not be unloaded.
    ///
    /// The function may allocate and free. One that always allocates from the cache whose object it
    /// constructs overflows the stack.
    pub const unsafe fn new(layout: Layout, function: unsafe extern "C" fn(*mut u8)) -> Constructor {
        Constructor { function, layout }
    }

    /// Returns whether it can construct objects of `size` bytes with the alignment
    /// [`CacheArgs::align`](super::CacheArgs::align).
    pub(super) fn fits(&self, size: usize, align: usize) -> bool {
        // Every engine aligns to 8 at least.
        self.layout.size() <= size && self.layout.align() <= align.max(8)
    }

    pub(super) fn function(self) -> Construct {
        self.function
    }
}
