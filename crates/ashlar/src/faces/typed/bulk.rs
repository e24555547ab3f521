//! Many boxes at a time: allocated and freed by the bulk calls of the cache, up to [`CHUNK`] in
//! one.
//!
//! Invariant: each address in a chunk is an object of the cache that belongs to the chunk. It
//! leaves the chunk exactly once: in a box, or back to the cache when the chunk drops. So a panic
//! of the caller's iterator, collection or `drop` loses no object.

use core::ptr::{self, NonNull};

use super::{Cache, CacheBox, Constructed};
use crate::base::error::AllocError;

/// Objects in one bulk call. Their addresses are on the stack, 256 bytes of them.
const CHUNK: usize = 32;

/// Objects that were allocated together, and become boxes one by one.
struct Fresh<'c, T, F> {
    cache: &'c Cache<T>,
    objects: [*mut u8; CHUNK],
    taken: usize,
    count: usize,
    /// Makes the value of an object; false when there are no more values.
    make: F,
    /// Whether boxes drop their values.
    run_drop: bool,
}

impl<'c, T, F: FnMut(NonNull<T>) -> bool> Fresh<'c, T, F> {
    fn alloc(cache: &'c Cache<T>, count: usize, run_drop: bool, make: F) -> Result<Self, AllocError> {
        let mut objects = [ptr::null_mut(); CHUNK];
        let count = count.clamp(1, CHUNK);
        if !cache.raw.0.alloc_bulk(&mut objects[..count]) {
            return Err(AllocError);
        }
        Ok(Fresh { cache, objects, taken: 0, count, make, run_drop })
    }
}

impl<'c, T, F: FnMut(NonNull<T>) -> bool> Iterator for Fresh<'c, T, F> {
    type Item = CacheBox<'c, T>;

    fn next(&mut self) -> Option<CacheBox<'c, T>> {
        let object = NonNull::new(*self.objects[..self.count].get(self.taken)?)?.cast::<T>();
        if !(self.make)(object) {
            return None;
        }
        self.taken += 1;
        Some(CacheBox { object, cache: self.cache, run_drop: self.run_drop })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.count - self.taken))
    }
}

impl<T, F> Drop for Fresh<'_, T, F> {
    fn drop(&mut self) {
        // SAFETY: allocated from this cache by `alloc`, and in no box. They hold no value, or, in a
        // constructed cache, the one that they came with.
        unsafe { self.cache.raw.0.free_bulk(&self.objects[self.taken..self.count]) };
    }
}

/// Objects whose boxes were given up, to be freed together.
struct Given<'c, T> {
    cache: &'c Cache<T>,
    objects: [*mut u8; CHUNK],
    count: usize,
}

impl<T> Given<'_, T> {
    /// Takes the object of a box of this cache, and drops its value.
    fn take(&mut self, given: CacheBox<'_, T>) {
        if self.count == CHUNK {
            self.free();
        }
        let (run_drop, object) = (given.run_drop, given.into_raw());
        self.objects[self.count] = object.as_ptr().cast();
        self.count += 1;
        if run_drop {
            // SAFETY: the box owned an initialised value, which nothing uses after this. The object
            // is in the chunk already, so it returns to the cache even if the value's `drop`
            // panics.
            unsafe { object.drop_in_place() };
        }
    }

    fn free(&mut self) {
        let count = core::mem::take(&mut self.count);
        // SAFETY: each came out of a box of this cache, by `take`. Its value is dropped, or, in a
        // constructed cache, a valid one.
        unsafe { self.cache.raw.0.free_bulk(&self.objects[..count]) };
    }
}

impl<T> Drop for Given<'_, T> {
    fn drop(&mut self) {
        self.free();
    }
}

impl<T> Cache<T> {
    /// Allocates an object for each of `values` by bulk calls, and adds the boxes to `boxes`, which
    /// may be a `Vec`.
    ///
    /// ```
    /// let cache = ashlar::Cache::<u64>::new("numbers")?;
    /// let mut boxes = Vec::new();
    /// cache.alloc_bulk(0..1000, &mut boxes).expect("memory");
    /// assert_eq!(*boxes[999], 999);
    /// cache.free_bulk(boxes);
    /// # Ok::<(), ashlar::CreateError>(())
    /// ```
    ///
    /// # Errors
    /// [`AllocError`] when memory ends. Boxes made before are in `boxes`. Each value is taken after
    /// its object was allocated, so with `values.by_ref()` the caller keeps those that have none.
    pub fn alloc_bulk<'c>(
        &'c self,
        values: impl IntoIterator<Item = T>,
        boxes: &mut impl Extend<CacheBox<'c, T>>,
    ) -> Result<(), AllocError> {
        let mut values = values.into_iter();
        while values.size_hint().1 != Some(0) {
            let wanted = values.size_hint().0;
            let mut fresh = Fresh::alloc(self, wanted, true, |object: NonNull<T>| {
                let Some(value) = values.next() else { return false };
                // SAFETY: the object was just allocated for a `T`, and is in no box yet.
                unsafe { object.write(value) };
                true
            })?;
            boxes.extend(&mut fresh);
            // The values have ended, or the collection takes no more.
            if fresh.taken < fresh.count {
                break;
            }
        }
        Ok(())
    }

    /// Allocates an object for each value of an array, all or none, by one bulk call.
    ///
    /// ```
    /// let cache = ashlar::Cache::<[u8; 64]>::new("lines")?;
    /// let lines = cache.alloc_array([[0; 64], [1; 64], [2; 64]]).expect("memory");
    /// assert_eq!(lines[2][0], 2);
    /// # Ok::<(), ashlar::CreateError>(())
    /// ```
    ///
    /// # Errors
    /// The values are returned when memory ends.
    pub fn alloc_array<const N: usize>(&self, values: [T; N]) -> Result<[CacheBox<'_, T>; N], [T; N]> {
        let mut objects = [ptr::null_mut(); N];
        if !self.raw.0.alloc_bulk(&mut objects) {
            return Err(values);
        }
        let mut objects = objects.into_iter();
        Ok(values.map(|value| {
            let object = objects.next().and_then(NonNull::new).expect("the call filled all of them").cast();
            // SAFETY: the object was just allocated for a `T`, and is in no box yet.
            unsafe { object.write(value) };
            CacheBox { object, cache: self, run_drop: true }
        }))
    }

    /// Drops the values of `boxes`, and frees their objects by bulk calls. Boxes of other caches
    /// are dropped one by one.
    pub fn free_bulk<'c>(&self, boxes: impl IntoIterator<Item = CacheBox<'c, T>>)
    where
        T: 'c,
    {
        let mut given = Given { cache: self, objects: [ptr::null_mut(); CHUNK], count: 0 };
        for one in boxes {
            if ptr::eq(one.cache, self) {
                given.take(one);
            } else {
                drop(one);
            }
        }
    }
}

impl<T: Constructed> Cache<T> {
    /// Adds `count` boxes of constructed objects to `boxes`, by bulk calls. Each is as
    /// [`get`](Cache::get) returns it.
    ///
    /// # Errors
    /// [`AllocError`] when memory ends. Boxes made before are in `boxes`.
    pub fn get_bulk<'c>(&'c self, count: usize, boxes: &mut impl Extend<CacheBox<'c, T>>) -> Result<(), AllocError> {
        if self.raw.0.raw_cache().slabs.ctor.is_none() {
            return self.alloc_bulk((0..count).map(|_| T::construct()), boxes);
        }
        let mut left = count;
        while left > 0 {
            let mut fresh = Fresh::alloc(self, left, false, |_| true)?;
            boxes.extend(&mut fresh);
            left -= fresh.taken;
            if fresh.taken < fresh.count {
                break;
            }
        }
        Ok(())
    }
}
