//! `LazyCache<T>`: a cache in a `static`, created by the first thread that needs it.
//!
//! The handle of the cache is set under the registry lock. A fork takes that lock, so a child never
//! finds a handle half written, as it could with a lock of this file's own.

use core::fmt;
use core::marker::PhantomData;

use super::{Cache, CacheBox, Constructed, Handle};
use crate::base::error::{AllocError, CreateError};
use crate::base::sync::SetOnce;
use crate::cache::{CacheArgs, registry};

/// A [`Cache`] for a `static`: creating it costs nothing, and the first use creates the cache.
///
/// ```
/// use ashlar::LazyCache;
///
/// struct Packet([u8; 256]);
/// static PACKETS: LazyCache<Packet> = LazyCache::new("packet");
///
/// let packet = PACKETS.alloc(Packet([0; 256])).unwrap_or_else(|_| panic!("memory"));
/// assert_eq!(PACKETS.cache()?.info().usage.live, 1);
/// # Ok::<(), ashlar::CreateError>(())
/// ```
///
/// Where several threads come first at the same time, each may create a cache. One of them stays,
/// and the others end before anything is allocated from them.
pub struct LazyCache<T> {
    /// Without the type of the values, for the reason that is given at [`Handle`].
    handle: SetOnce<Handle>,
    name: &'static str,
    args: CacheArgs,
    create: fn(&str, &CacheArgs) -> Result<Cache<T>, CreateError>,
    marker: PhantomData<Cache<T>>,
}

impl<T> LazyCache<T> {
    /// A cache of values of `T` that the first use creates, as [`Cache::new`] does.
    pub const fn new(name: &'static str) -> LazyCache<T> {
        Self::with_args(name, CacheArgs::DEFAULT)
    }

    /// A cache that the first use creates, as [`Cache::with_args`] does.
    pub const fn with_args(name: &'static str, args: CacheArgs) -> LazyCache<T> {
        Self::created_by(name, args, Cache::with_args)
    }

    const fn created_by(
        name: &'static str,
        args: CacheArgs,
        create: fn(&str, &CacheArgs) -> Result<Cache<T>, CreateError>,
    ) -> LazyCache<T> {
        LazyCache { handle: SetOnce::new(), name, args, create, marker: PhantomData }
    }

    /// The cache, which is created if this is its first use.
    ///
    /// # Errors
    /// See [`CreateError`]. The next call tries again.
    #[inline]
    pub fn cache(&self) -> Result<&Cache<T>, CreateError> {
        if self.handle.get().is_none() {
            self.create()?;
        }
        Ok(Self::typed(self.handle.get().expect("created just above, or before")))
    }

    #[cold]
    fn create(&self) -> Result<(), CreateError> {
        let cache = (self.create)(self.name, &self.args)?;
        // Where another thread was faster, this cache ends here, outside the registry lock.
        // SAFETY: the registry lock is held.
        drop(registry::with_lock(|| unsafe { self.handle.set(cache.raw) }));
        Ok(())
    }

    #[inline(always)]
    fn typed(handle: &Handle) -> &Cache<T> {
        // SAFETY: `create` made the handle as that of a `Cache<T>`, which is a transparent wrapper
        // of one.
        unsafe { &*(&raw const *handle).cast::<Cache<T>>() }
    }

    /// A value in the cache, as [`Cache::alloc`].
    ///
    /// # Errors
    /// The value is returned when memory ends or the cache cannot be created.
    /// [`cache`](LazyCache::cache) says why.
    #[inline]
    pub fn alloc(&self, value: T) -> Result<CacheBox<'_, T>, T> {
        match self.cache() {
            Ok(cache) => cache.alloc(value),
            Err(_) => Err(value),
        }
    }
}

impl<T: Constructed> LazyCache<T> {
    /// A cache whose free objects stay constructed, which the first use creates, as
    /// [`Cache::constructed`] does.
    ///
    /// ```
    /// use ashlar::{Constructed, LazyCache};
    ///
    /// struct Buffer([u8; 1500]);
    /// impl Constructed for Buffer {
    ///     fn construct() -> Buffer {
    ///         Buffer([0; 1500])
    ///     }
    /// }
    /// static BUFFERS: LazyCache<Buffer> = LazyCache::constructed("buffer");
    /// assert_eq!(BUFFERS.get().expect("memory").0.len(), 1500);
    /// ```
    ///
    /// A type that must be dropped is refused at compile time, because free objects are never
    /// dropped:
    ///
    /// ```compile_fail
    /// struct Name(String);
    /// impl ashlar::Constructed for Name {
    ///     fn construct() -> Name {
    ///         Name(String::new())
    ///     }
    /// }
    /// static NAMES: ashlar::LazyCache<Name> = ashlar::LazyCache::constructed("names");
    /// ```
    pub const fn constructed(name: &'static str) -> LazyCache<T> {
        const { super::assert_never_dropped::<T>() };
        Self::created_by(name, CacheArgs::DEFAULT, |name, _| Cache::constructed(name))
    }

    /// A constructed object, as [`Cache::get`].
    ///
    /// # Errors
    /// [`AllocError`] when memory ends or the cache cannot be created.
    #[inline]
    pub fn get(&self) -> Result<CacheBox<'_, T>, AllocError> {
        self.cache().map_err(|_| AllocError)?.get()
    }
}

impl<T> fmt::Debug for LazyCache<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let created = self.handle.get().is_some();
        f.debug_struct("LazyCache").field("name", &self.name).field("created", &created).finish_non_exhaustive()
    }
}
