//! Prefilled sheaves: a reserve of objects that cannot fail.
//!
//! A program that must not run out of memory in the middle of a change (a half rebalanced tree, a
//! half written transaction) reserves the most that it may need before it starts, and returns the
//! rest afterwards. Source of the interface: `kmem_cache_prefill_sheaf` and its relatives, Linux
//! 6.18.
//!
//! A prefilled sheaf is one block of kmalloc: a head, and the pointers of its objects behind it.
//! The objects come from the cache in bulk, most often from this CPU's sheaf, and count as
//! allocated until they are returned. The sheaf has one owner at a time, so it needs no lock. The
//! kernel lends one of the cache's own sheaves if the size fits. Here, copying the few pointers is
//! cheaper than the barn lock of a loan.
#![allow(unsafe_code, reason = "a head with an array behind it")]

use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::kmalloc::{kfree, kmalloc};
use super::kmem_cache::KmemCache;
use crate::base::error::AllocError;
use crate::sizes::kmalloc::kmalloc_size_roundup;

/// The start of the block.
struct Head {
    cache: NonNull<KmemCache>,
    len: usize,
    capacity: usize,
}

/// Reserved objects of one cache. As many calls of [`alloc`](PrefilledSheaf::alloc) succeed even
/// without free memory. Dropping the sheaf returns the remaining objects to the cache.
///
/// ```
/// let nodes = ashlar::KmemCache::create("tree_node", 256, &ashlar::CacheArgs::default())?;
/// let mut reserve = nodes.prefill_sheaf(3).expect("memory, before the change begins");
/// for _ in 0..3 {
///     let node = reserve.alloc().expect("three were set aside");
///     // SAFETY: allocated just above, and not used again.
///     unsafe { nodes.free(node) };
/// }
/// assert_eq!(reserve.alloc(), None);
/// # Ok::<(), ashlar::CreateError>(())
/// ```
pub struct PrefilledSheaf<'a> {
    head: NonNull<Head>,
    cache: PhantomData<&'a KmemCache>,
}

// SAFETY: it owns its block and its objects as a vector owns its elements, and any thread may use
// caches.
unsafe impl Send for PrefilledSheaf<'_> {}
// SAFETY: a shared reference gives access only to its length and its cache.
unsafe impl Sync for PrefilledSheaf<'_> {}

impl KmemCache {
    /// Reserves `size` objects (`kmem_cache_prefill_sheaf`).
    ///
    /// # Errors
    /// [`AllocError`] without memory. No object is reserved then.
    pub fn prefill_sheaf(&self, size: usize) -> Result<PrefilledSheaf<'_>, AllocError> {
        let mut sheaf = PrefilledSheaf { head: new_block(NonNull::from(self), size)?, cache: PhantomData };
        sheaf.refill(size)?;
        Ok(sheaf)
    }
}

/// Allocates an empty block with room for at least `capacity` objects.
fn new_block(cache: NonNull<KmemCache>, capacity: usize) -> Result<NonNull<Head>, AllocError> {
    let bytes = capacity.checked_mul(size_of::<*mut u8>()).and_then(|b| b.checked_add(size_of::<Head>()));
    // The whole size class is used.
    let bytes = kmalloc_size_roundup(bytes.ok_or(AllocError)?);
    let head = NonNull::new(kmalloc(bytes).cast::<Head>()).ok_or(AllocError)?;
    let capacity = (bytes - size_of::<Head>()) / size_of::<*mut u8>();
    // SAFETY: the memory is fresh, larger than a head, and aligned to 8.
    unsafe { head.write(Head { cache, len: 0, capacity }) };
    Ok(head)
}

impl<'a> PrefilledSheaf<'a> {
    fn head(&self) -> &Head {
        // SAFETY: the block is live and starts with a head, which only `&mut self` changes.
        unsafe { self.head.as_ref() }
    }

    /// Returns the cache of the objects.
    pub fn cache(&self) -> &'a KmemCache {
        // SAFETY: `prefill_sheaf` borrowed it for 'a.
        unsafe { self.head().cache.as_ref() }
    }

    /// Returns the number of objects left (`kmem_cache_sheaf_size`).
    pub fn len(&self) -> usize {
        self.head().len
    }

    /// Returns true if no object is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the address of the first pointer.
    fn objects(&self) -> *mut *mut u8 {
        // SAFETY: the array begins behind the head, inside the block.
        unsafe { self.head.as_ptr().add(1).cast() }
    }

    /// Takes one of the objects (`kmem_cache_alloc_from_sheaf`). Returns `None` only if none is
    /// left. The object holds the contents of its last use, or the state that the constructor left.
    /// It is freed like any other object of its cache.
    #[inline]
    pub fn alloc(&mut self) -> Option<NonNull<u8>> {
        // SAFETY: the block is live, and `&mut self` is the only access to it.
        let head = unsafe { self.head.as_mut() };
        head.len = head.len.checked_sub(1)?;
        let last = head.len;
        // SAFETY: the first `len` places hold objects, and this was the last of them.
        NonNull::new(unsafe { self.objects().add(last).read() })
    }

    /// Reserves more objects, until there are at least `size` (`kmem_cache_refill_sheaf`).
    ///
    /// # Errors
    /// [`AllocError`] without memory. The objects reserved before stay.
    pub fn refill(&mut self, size: usize) -> Result<(), AllocError> {
        let len = self.len();
        if size <= len {
            return Ok(());
        }
        if size > self.head().capacity {
            let new = new_block(self.head().cache, size)?;
            let old = core::mem::replace(&mut self.head, new);
            // SAFETY: the new block has room for more than `len` objects, which are behind the old
            // head; the old block is freed once, and no reference to it is left.
            unsafe {
                self.objects().copy_from_nonoverlapping(old.as_ptr().add(1).cast(), len);
                self.head.as_mut().len = len;
                kfree(old.as_ptr().cast());
            }
        }
        // SAFETY: the places up to the capacity lie inside the block. Places that were never
        // written are set to null before they are read.
        let places = unsafe {
            self.objects().add(len).write_bytes(0, size - len);
            core::slice::from_raw_parts_mut(self.objects().add(len), size - len)
        };
        if !self.cache().alloc_bulk(places) {
            return Err(AllocError);
        }
        // SAFETY: as in `alloc`.
        unsafe { self.head.as_mut() }.len = size;
        Ok(())
    }

    /// Turns the sheaf into one pointer, which C holds, for [`from_raw`](PrefilledSheaf::from_raw).
    pub fn into_raw(self) -> NonNull<u8> {
        let head = self.head;
        core::mem::forget(self);
        head.cast()
    }

    /// Turns the pointer back into the sheaf.
    ///
    /// # Safety
    /// The pointer came from [`into_raw`](PrefilledSheaf::into_raw) and was not used since. The
    /// cache lives, and is not moved, for `'a`.
    pub unsafe fn from_raw(raw: NonNull<u8>) -> PrefilledSheaf<'a> {
        PrefilledSheaf { head: raw.cast(), cache: PhantomData }
    }
}

impl Drop for PrefilledSheaf<'_> {
    /// `kmem_cache_return_sheaf`.
    fn drop(&mut self) {
        // SAFETY: the objects were allocated from this cache, and no caller has them. Those of a
        // constructed cache were not touched since. The block is freed once.
        unsafe {
            self.cache().free_bulk(core::slice::from_raw_parts(self.objects(), self.len()));
            kfree(self.head.as_ptr().cast());
        }
    }
}

impl fmt::Debug for PrefilledSheaf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrefilledSheaf").field("cache", &self.cache().name()).field("len", &self.len()).finish()
    }
}
