//! The errors of the interface. They are small enums without strings of their own, because the
//! allocator must not allocate to report an error.

use core::fmt;

use super::units::PAGE_SIZE;

/// Out of memory: the page source refused, or the zone is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError;

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("out of memory")
    }
}

impl core::error::Error for AllocError {}

/// The reason why a cache was not created. The rules are those of the kernel's `kmem_cache_create`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CreateError {
    /// The name is empty, longer than [`crate::MAX_NAME`] bytes, or holds a control character.
    Name,
    /// The object size is 0 or larger than [`crate::MAX_OBJECT_SIZE`] bytes.
    Size,
    /// The alignment is not a power of two, or is larger than a page.
    Align,
    /// An option is out of its range; the field names it and its allowed range.
    Option(&'static str),
    /// All cache slots are taken (see [`crate::MAX_CACHES`]).
    TooManyCaches,
    /// There is no memory for the cache's own structures.
    OutOfMemory,
}

impl fmt::Display for CreateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CreateError::Name => write!(f, "name: expected 1 to 47 bytes without control characters"),
            CreateError::Size => write!(f, "size: expected 1 byte to 2 MiB"),
            CreateError::Align => write!(f, "align: expected a power of two of at most {PAGE_SIZE}"),
            CreateError::Option(what) => f.write_str(what),
            CreateError::TooManyCaches => write!(f, "too many caches"),
            CreateError::OutOfMemory => write!(f, "out of memory"),
        }
    }
}

impl core::error::Error for CreateError {}

/// The reason why a cache was not destroyed. It stays usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DestroyError {
    /// This number of objects is still allocated.
    LiveObjects(usize),
    /// The sheaves of other CPUs cannot be drained: there is no membarrier, and affinity is
    /// refused. In a kernel, they were only asked to do it; another attempt may succeed later.
    CannotDrain,
    /// The cache is a built-in size class.
    BuiltIn,
}

impl fmt::Display for DestroyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DestroyError::LiveObjects(n) => write!(f, "cache still has {n} objects"),
            DestroyError::CannotDrain => write!(f, "the sheaves of other CPUs cannot be drained"),
            DestroyError::BuiltIn => write!(f, "a cache of the library's own is never destroyed"),
        }
    }
}

impl core::error::Error for DestroyError {}

/// The reason why there is no background thread; see [`crate::start_reaper`].
#[cfg(feature = "os")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReaperError {
    /// The option `reaper` allows no thread, or per-CPU sections are not protected against other
    /// threads (`percpu=emulate`).
    Off,
    /// The system refused the thread, or the allocator has no memory. The caller may try again.
    Refused,
}

#[cfg(feature = "os")]
impl fmt::Display for ReaperError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReaperError::Off => "the options allow no background thread",
            ReaperError::Refused => "the system refused a thread",
        })
    }
}

#[cfg(feature = "os")]
impl core::error::Error for ReaperError {}

/// The reason why the tunables of a cache were not set. They are unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TuneError {
    /// The cache's engine has no such tunable; the field names it and the engines that have it.
    Engine(&'static str),
    /// A value is out of its range; the field names it and its allowed range.
    Range(&'static str),
    /// There is no memory for larger arrays.
    OutOfMemory,
}

#[place(cold)]
impl fmt::Display for TuneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TuneError::Engine(what) | TuneError::Range(what) => f.write_str(what),
            TuneError::OutOfMemory => write!(f, "out of memory"),
        }
    }
}

impl core::error::Error for TuneError {}
