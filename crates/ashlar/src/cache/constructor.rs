//! What constructs the objects of a cache, with the promise that it does so.
#![allow(unsafe_code, reason = "takes a promise about a function")]

use core::alloc::Layout;

use crate::slab::cache::Construct;

/// A function that constructs objects of a cache, when they are first carved: the kernel's `ctor`.
///
/// Its making is unsafe, and so the creation of a cache by
/// [`CacheArgs::ctor`](super::CacheArgs::ctor) need not be.
/// [`Cache::constructed`](crate::Cache::constructed) needs no unsafe code at all.
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
    /// Any thread may call the function with the address of memory of that layout which it alone
    /// can reach and whose bytes may not be initialised. The function writes to no other memory by
    /// its argument, and it does not unwind. It stays callable, in a library that is not unloaded
    /// for example, as long as a cache has it.
    ///
    /// The function may allocate and free. One that always allocates from the cache whose object it
    /// constructs overflows the stack.
    pub const unsafe fn new(layout: Layout, function: unsafe extern "C" fn(*mut u8)) -> Constructor {
        Constructor { function, layout }
    }

    /// Whether it constructs objects of `size` bytes, aligned as asked for by
    /// [`CacheArgs::align`](super::CacheArgs::align).
    pub(super) fn fits(&self, size: usize, align: usize) -> bool {
        // The least that every engine aligns to is 8.
        self.layout.size() <= size && self.layout.align() <= align.max(8)
    }

    pub(super) fn function(self) -> Construct {
        self.function
    }
}
