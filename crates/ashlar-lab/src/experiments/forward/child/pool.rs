//! Where packets get their memory from: the caches of a kernel, or a malloc.
//!
//! Besides heads and buffers there are objects of others. In the kernel the cache of heads is
//! merged with other caches of 256 bytes, for instance that of open files, so slabs hold both:
//! [`Others`] is who uses these. A table of them lives through the run, allocated at the start
//! beside as many that are freed again at random places, and in each poll one of them is replaced.

use core::marker::PhantomData;
use core::ptr::NonNull;

use ashlar::{CacheArgs, KmemCache, Tunable};

use crate::kit::random::Rng;
use crate::systems::traits::Calls;

/// Bytes of a head: those of `struct sk_buff` in 2015, rounded up to cache lines.
pub(crate) const HEAD: usize = 256;

/// Caches of others.
pub(crate) const OTHERS: [&str; 2] = ["filp", "bio-0"];

/// What the mail's author wrote to the files of `skbuff_head_cache` in sysfs, where the cache has
/// them; the rest of the process, and kmalloc's caches among it, stays as it is.
pub(crate) const TUNED: [(Tunable, usize); 2] = [(Tunable::CpuPartial, 256), (Tunable::MinPartial, 9)];

/// An allocator as a driver sees it. Every function that allocates gives null when memory has
/// ended.
pub(crate) trait Pool: Sized + Send + Sync + 'static {
    /// Prepares the process. The error says why it cannot.
    fn new() -> Result<Self, String>;

    /// Gives the cache of heads, and whatever is merged with it, the tunables [`TUNED`] that its
    /// engine has.
    ///
    /// # Errors
    /// It was refused.
    fn tune(&self) -> Result<(), String> {
        Err("only systems with caches have tunables".to_owned())
    }

    /// Called on each further thread before its first use.
    fn thread_start(&self) {}

    /// A head of [`HEAD`] bytes, aligned to at least 8.
    fn head(&self) -> *mut u8;

    /// # Safety
    /// `head` is live and came from [`head`](Self::head).
    unsafe fn free_head(&self, head: *mut u8);

    /// Frees many heads at once; one by one where the allocator has no such call.
    ///
    /// # Safety
    /// As for [`free_head`](Self::free_head), for each, and none occurs twice.
    unsafe fn free_heads(&self, heads: &[*mut u8]) {
        for &head in heads {
            // SAFETY: passed on.
            unsafe { self.free_head(head) };
        }
    }

    /// A buffer of `size` bytes.
    fn data(&self, size: usize) -> *mut u8;

    /// # Safety
    /// `data` is live and came from `data(size)`.
    unsafe fn free_data(&self, data: *mut u8, size: usize);

    /// An object of [`HEAD`] bytes of the other cache number `which`.
    fn other(&self, which: usize) -> *mut u8;

    /// # Safety
    /// `object` is live and came from `other(which)`.
    unsafe fn free_other(&self, which: usize, object: *mut u8);

    /// What only the process knows about it.
    fn note(&self) -> String {
        String::new()
    }

    /// Locks taken and operations beyond the fast path, where they are counted.
    fn counts() -> Option<ashlar::Counts> {
        None
    }

    /// Whether heads and the objects of others lie in the same slabs, where there are slabs.
    fn merged(&self) -> Option<bool> {
        None
    }

    /// Heads and others that are still in use, where that is known.
    fn live(&self) -> Option<usize> {
        None
    }
}

/// ashlar as the kernel's drivers use slabs: a named cache for heads, `kmalloc` for buffers.
#[derive(Debug)]
pub(crate) struct Kernel {
    heads: KmemCache,
    others: [KmemCache; OTHERS.len()],
}

impl Pool for Kernel {
    fn new() -> Result<Self, String> {
        let create = |name: &str| {
            let args = CacheArgs::DEFAULT.hwcache_align(true);
            KmemCache::create(name, HEAD, &args).map_err(|error| format!("cannot create the cache {name}: {error}"))
        };
        // The kernel makes its file cache before the network's.
        let [first, second] = OTHERS;
        let others = [create(first)?, create(second)?];
        Ok(Self { heads: create("skbuff_head_cache")?, others })
    }

    fn tune(&self) -> Result<(), String> {
        for (which, value) in TUNED {
            if which.is_of(self.heads.info().engine) {
                self.heads.set_tunable(which, value).map_err(|error| format!("cannot tune the heads: {error}"))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn head(&self) -> *mut u8 {
        self.heads.alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    #[inline]
    unsafe fn free_head(&self, head: *mut u8) {
        // SAFETY: the contract says that it came from `head`, so it is not null and of this cache.
        unsafe { self.heads.free(NonNull::new_unchecked(head)) };
    }

    #[inline]
    unsafe fn free_heads(&self, heads: &[*mut u8]) {
        // SAFETY: passed on.
        unsafe { self.heads.free_bulk(heads) };
    }

    #[inline]
    fn data(&self, size: usize) -> *mut u8 {
        ashlar::kmalloc(size)
    }

    #[inline]
    unsafe fn free_data(&self, data: *mut u8, _size: usize) {
        // SAFETY: the contract says that it came from `data`, hence from `kmalloc`.
        unsafe { ashlar::kfree(data) };
    }

    fn other(&self, which: usize) -> *mut u8 {
        self.others[which].alloc().map_or(core::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn free_other(&self, which: usize, object: *mut u8) {
        // SAFETY: the contract says that it came from `other(which)`, so it is not null and of this
        // cache.
        unsafe { self.others[which].free(NonNull::new_unchecked(object)) };
    }

    fn note(&self) -> String {
        ashlar::mode().to_string()
    }

    fn counts() -> Option<ashlar::Counts> {
        Some(ashlar::total_counts())
    }

    fn merged(&self) -> Option<bool> {
        Some(self.others.iter().all(|other| self.heads.shares_slabs_with(other)))
    }

    fn live(&self) -> Option<usize> {
        // Of merged caches each tells the same, so what is left may be counted more than once.
        Some(self.heads.info().usage.live + self.others.iter().map(|cache| cache.info().usage.live).sum::<usize>())
    }
}

/// A malloc: everything is its objects, and nothing goes back in bulk.
#[derive(Debug)]
pub(crate) struct Malloc<C>(PhantomData<C>);

impl<C: Calls> Pool for Malloc<C> {
    fn new() -> Result<Self, String> {
        C::process_start().map(|()| Self(PhantomData))
    }

    fn thread_start(&self) {
        C::thread_start();
    }

    #[inline]
    fn head(&self) -> *mut u8 {
        C::alloc(HEAD)
    }

    #[inline]
    unsafe fn free_head(&self, head: *mut u8) {
        // SAFETY: passed on.
        unsafe { C::free(head, HEAD) };
    }

    #[inline]
    fn data(&self, size: usize) -> *mut u8 {
        C::alloc(size)
    }

    #[inline]
    unsafe fn free_data(&self, data: *mut u8, size: usize) {
        // SAFETY: passed on.
        unsafe { C::free(data, size) };
    }

    fn other(&self, _which: usize) -> *mut u8 {
        C::alloc(HEAD)
    }

    unsafe fn free_other(&self, _which: usize, object: *mut u8) {
        // SAFETY: passed on.
        unsafe { C::free(object, HEAD) };
    }

    fn note(&self) -> String {
        C::note()
    }

    fn counts() -> Option<ashlar::Counts> {
        C::counts()
    }
}

/// The other users of 256 bytes.
#[derive(Debug)]
pub(crate) struct Others {
    objects: Vec<(usize, *mut u8)>,
    rng: Rng,
}

impl Others {
    /// `live` of them, with as many holes between.
    ///
    /// # Errors
    /// Memory has ended.
    pub(crate) fn new<P: Pool>(pool: &P, live: usize) -> Result<Self, String> {
        let mut others = Self { objects: Vec::with_capacity(live * 2), rng: Rng::new(11) };
        for _ in 0..live * 2 {
            others.add(pool)?;
        }
        while others.objects.len() > live {
            others.remove(pool);
        }
        Ok(others)
    }

    fn add<P: Pool>(&mut self, pool: &P) -> Result<(), String> {
        let which = self.rng.below(OTHERS.len());
        let object = pool.other(which);
        if object.is_null() {
            return Err(format!("an allocation of {HEAD} bytes failed"));
        }
        // SAFETY: fresh, of `HEAD` bytes. Who allocates writes.
        unsafe { object.write_bytes(1, HEAD) };
        self.objects.push((which, object));
        Ok(())
    }

    fn remove<P: Pool>(&mut self, pool: &P) {
        let at = self.rng.below(self.objects.len());
        let (which, object) = self.objects.swap_remove(at);
        // SAFETY: allocated by `add` from this very cache, and taken off the table.
        unsafe { pool.free_other(which, object) };
    }

    /// Replaces one.
    ///
    /// # Errors
    /// Memory has ended.
    pub(crate) fn turn<P: Pool>(&mut self, pool: &P) -> Result<(), String> {
        if self.objects.is_empty() {
            return Ok(());
        }
        self.remove(pool);
        self.add(pool)
    }

    /// Frees all.
    pub(crate) fn clear<P: Pool>(&mut self, pool: &P) {
        while !self.objects.is_empty() {
            self.remove(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ashlar::Engine;

    #[test]
    fn tuning_is_for_the_cache_of_heads_and_no_other() {
        let engine = Engine::from_id("slub-bulk");
        let create = |name| {
            let mut args = CacheArgs::DEFAULT.no_merge(true);
            args.engine = engine;
            KmemCache::create(name, HEAD, &args).expect("a cache")
        };
        let pool = Kernel { heads: create("tuned-heads"), others: OTHERS.map(create) };
        let values = |cache: &KmemCache| TUNED.map(|(which, _)| cache.tunable(which));
        let before = values(&pool.others[0]);
        pool.tune().expect("in range");
        assert_eq!(values(&pool.heads), [Some(256), Some(9)]);
        assert_eq!(values(&pool.others[0]), before);
        assert_ne!(before, [Some(256), Some(9)]);
        // The default engine has one of the two.
        let pool = Kernel::new().expect("caches");
        pool.tune().expect("what it has");
        assert_eq!(values(&pool.heads), [None, Some(9)]);
    }
}
