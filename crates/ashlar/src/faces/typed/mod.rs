//! `Cache<T>`: a cache for one Rust type.
#![allow(unsafe_code, reason = "turns raw objects into values")]

mod boxed;
mod bulk;
mod lazy;
mod nesting;

pub use lazy::LazyCache;

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;

use super::kmem_cache::KmemCache;
use crate::base::error::{AllocError, CreateError, DestroyError};
use crate::cache::{CacheArgs, CacheInfo, Constructor};
use crate::slab::cache::MAX_NAME;

/// A type whose free objects stay constructed: made once when an object is carved, and used again
/// and again.
///
/// A value is [`Send`] because each user of an object finds what the one before left in it, and
/// that one may have been another thread.
pub trait Constructed: Send + Sized {
    /// Returns the value of an object that was never used.
    ///
    /// The allocator calls this when it carves objects, for several at a time, in whichever thread
    /// needs one. It holds no lock meanwhile, so this function may allocate, also from its own
    /// cache. But an object from there may need carving too: a function that always takes one nests
    /// without end, and is ended with a line on standard error. A panic ends the program as well.
    fn construct() -> Self;
}

/// A cache of values of `T`, which ends when it drops.
///
/// Each box borrows the cache, so none is left then: the memory goes back, the name leaves the
/// registry, and its place there serves another cache. Threads that are to share a cache take an
/// `Arc` of it; the last one ends it. One in a `static` lives as long as the process.
///
/// An object whose box was forgotten ([`mem::forget`](core::mem::forget), [`CacheBox::into_raw`])
/// stays in use, and with it the cache, which a line on standard error reports. It stays as well
/// where [`CannotDrain`](DestroyError::CannotDrain) applies. Where caches are merged, the last of
/// them ends their slabs: see [`CacheArgs::no_merge`]. [`destroy`](Cache::destroy) ends a cache by
/// hand and returns what went wrong.
///
/// ```
/// let cache = ashlar::Cache::<[u64; 4]>::new("quads")?;
/// let mut quad = cache.alloc([1, 2, 3, 4]).expect("memory");
/// quad[0] = 7;
/// drop(quad); // back into the cache
/// cache.destroy().map_err(|(_, e)| e).expect("no object is left");
/// # Ok::<(), ashlar::CreateError>(())
/// ```
#[repr(transparent)]
pub struct Cache<T> {
    raw: Handle,
    marker: PhantomData<Keeps<T>>,
}

/// Ends its cache when it drops. A type of its own, because a `Cache<T>` that implemented `Drop`
/// itself would have to die before the borrows in its values.
struct Handle(KmemCache);

impl Handle {
    /// Gives up the handle without ending the cache.
    fn into_cache(self) -> KmemCache {
        ManuallyDrop::new(self).0.again()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A cache that could not be ended is kept: `drop` cannot return it.
        let _ = self.0.again().destroy();
    }
}

/// What a cache does with values: it takes them back and hands them out again, and drops none
/// itself. So `T` must be exactly the same type on both sides, lifetimes included. Were a
/// `Cache<&'static str>` also a `Cache<&'short str>`, a constructed object that took a short borrow
/// would come out again after that borrow had ended. `CacheBox`, which borrows the cache, is
/// invariant by this as well.
type Keeps<T> = fn(T) -> T;

impl<T> fmt::Debug for Cache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("name", &self.raw.0.name()).finish_non_exhaustive()
    }
}

/// Refuses, at compile time, types that must be dropped: free objects of a constructed cache are
/// not.
const fn assert_never_dropped<T>() {
    assert!(!core::mem::needs_drop::<T>(), "free objects of a constructed cache are never dropped");
}

unsafe extern "C" fn construct<T: Constructed>(object: *mut u8) {
    let nested = nesting::enter::<T>();
    let value = T::construct();
    drop(nested);
    // SAFETY: the cache was made for objects of T's size and alignment, and hands each to this
    // function before anyone else sees it.
    unsafe { object.cast::<T>().write(value) };
}

impl<T> Cache<T> {
    fn args() -> CacheArgs {
        CacheArgs { align: align_of::<T>().max(8), ..CacheArgs::default() }
    }

    /// A cache of values of `T`, named for reports and statistics.
    ///
    /// # Errors
    /// See [`CreateError`]; types aligned to more than a page are refused.
    pub fn new(name: &str) -> Result<Cache<T>, CreateError> {
        Self::with_args(name, &CacheArgs::default())
    }

    /// As [`new`](Cache::new) with arguments; size and alignment are the type's, the constructor is
    /// ignored.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn with_args(name: &str, args: &CacheArgs) -> Result<Cache<T>, CreateError> {
        let args = CacheArgs { align: args.align.max(Self::args().align), ctor: None, ..*args };
        let raw = KmemCache::create(name, size_of::<T>().max(1), &args)?;
        Ok(Cache { raw: Handle(raw), marker: PhantomData })
    }

    /// A value in the cache; it drops and goes back with the box.
    ///
    /// # Errors
    /// The value comes back when memory ends.
    #[inline]
    pub fn alloc(&self, value: T) -> Result<CacheBox<'_, T>, T> {
        match self.alloc_uninit() {
            Some(object) => {
                let object = object.cast::<T>();
                // SAFETY: fresh memory for a T.
                unsafe { object.as_ptr().write(value) };
                Ok(CacheBox { object, cache: self, run_drop: true })
            }
            None => Err(value),
        }
    }

    /// Memory for a value; `None` when memory ends.
    #[inline(always)]
    pub fn alloc_uninit(&self) -> Option<NonNull<MaybeUninit<T>>> {
        self.raw.0.alloc().map(NonNull::cast)
    }

    /// Gives memory back without dropping what is in it.
    ///
    /// # Safety
    /// The memory came from this cache (also by [`CacheBox::into_raw`]), was not given back since,
    /// and no thread uses it any more. If [`constructed`](Cache::constructed) made the cache, it
    /// holds a valid `T`, which [`get`](Cache::get) will hand out.
    #[inline(always)]
    pub unsafe fn free_uninit(&self, object: NonNull<MaybeUninit<T>>) {
        // SAFETY: the caller's promise is that of `KmemCache::free`.
        unsafe { self.raw.0.free(object.cast()) };
    }

    /// The untyped cache underneath.
    pub fn as_raw(&self) -> &KmemCache {
        &self.raw.0
    }

    /// Shape and figures.
    pub fn info(&self) -> CacheInfo {
        self.raw.0.info()
    }

    /// Ends the cache, as dropping it does, and returns it where that fails; see
    /// [`KmemCache::destroy`].
    ///
    /// # Errors
    /// With objects in use the cache comes back.
    pub fn destroy(self) -> Result<(), (Cache<T>, DestroyError)> {
        let made_again = |raw| Cache { raw: Handle(raw), marker: PhantomData };
        self.raw.into_cache().destroy().map_err(|(raw, error)| (made_again(raw), error))
    }
}

impl<T: Constructed> Cache<T> {
    /// A cache whose free objects stay constructed. [`get`](Cache::get) hands them out as they were
    /// left.
    ///
    /// # Errors
    /// See [`CreateError`]. A type that must be dropped is refused at compile time, because free
    /// objects are never dropped:
    ///
    /// ```compile_fail
    /// struct Name(String);
    /// impl ashlar::Constructed for Name {
    ///     fn construct() -> Name {
    ///         Name(String::new())
    ///     }
    /// }
    /// let names = ashlar::Cache::<Name>::constructed("names");
    /// ```
    pub fn constructed(name: &str) -> Result<Cache<T>, CreateError> {
        const { assert_never_dropped::<T>() };
        // SAFETY: `construct` writes one `T` to its argument, by a function that any thread may
        // call: it captures nothing, and its values may go to other threads. It does not unwind, as
        // `extern "C"` functions end the program instead.
        let ctor = unsafe { Constructor::new(Layout::new::<T>(), construct::<T>) };
        let args = CacheArgs { ctor: Some(ctor), ..Self::args() };
        let raw = KmemCache::create(name, size_of::<T>().max(1), &args)?;
        Ok(Cache { raw: Handle(raw), marker: PhantomData })
    }

    /// A constructed object, in the state its last user left it in.
    ///
    /// # Errors
    /// [`AllocError`] when memory ends.
    #[inline]
    pub fn get(&self) -> Result<CacheBox<'_, T>, AllocError> {
        if self.raw.0.raw_cache().slabs.ctor.is_none() {
            return self.alloc(T::construct()).map_err(|_| AllocError);
        }
        let object = self.alloc_uninit().ok_or(AllocError)?.cast::<T>();
        Ok(CacheBox { object, cache: self, run_drop: false })
    }
}

/// A value that lives in a [`Cache`] and goes back there when dropped.
pub struct CacheBox<'a, T> {
    object: NonNull<T>,
    cache: &'a Cache<T>,
    run_drop: bool,
}

// SAFETY: a box owns its value like `Box` does, and caches may be used from any thread.
unsafe impl<T: Send> Send for CacheBox<'_, T> {}
// SAFETY: shared access to the box gives shared access to the value only.
unsafe impl<T: Sync> Sync for CacheBox<'_, T> {}

impl<T> CacheBox<'_, T> {
    /// Gives up the box; the memory goes back by [`Cache::free_uninit`].
    pub fn into_raw(self) -> NonNull<T> {
        let object = self.object;
        core::mem::forget(self);
        object
    }
}

impl<T> Deref for CacheBox<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the box owns an initialised T.
        unsafe { self.object.as_ref() }
    }
}

impl<T> DerefMut for CacheBox<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the box owns an initialised T and is borrowed mutably.
        unsafe { self.object.as_mut() }
    }
}

impl<T> Drop for CacheBox<'_, T> {
    #[inline]
    fn drop(&mut self) {
        /// Gives the memory back, also when the value's own `drop` panics.
        struct GiveBack<'b, T>(&'b Cache<T>, NonNull<T>);
        impl<T> Drop for GiveBack<'_, T> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: the memory came from this cache and is given back once, by the box that
                // owned it. Its value is dropped and not used again; a value that was not to be
                // dropped is a valid one of a constructed cache.
                unsafe { self.0.free_uninit(self.1.cast()) };
            }
        }
        let back = GiveBack(self.cache, self.object);
        if self.run_drop {
            // SAFETY: the box owns an initialised value, which is not used after this.
            unsafe { back.1.drop_in_place() };
        }
    }
}

const _: () = assert!(MAX_NAME < u8::MAX as usize, "name lengths are stored in a byte");
