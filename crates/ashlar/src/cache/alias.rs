//! The names of merged caches.
//!
//! The registry keeps these records on a list, under its lock. Memory of removed records is reused.

use crate::base::sync::AtomicPtr;
use crate::engine::RawCache;
use crate::slab::cache::{MAX_NAME, copied_name};

/// One more name of a cache.
pub(crate) struct Alias {
    name: [u8; MAX_NAME],
    name_len: u8,
    /// The cache whose slabs serve it.
    pub(super) cache: &'static RawCache,
    /// The object size that was requested under this name.
    pub(super) object_size: usize,
    /// The next on the list of names, or of free records.
    pub(super) next: AtomicPtr<Alias>,
}

impl core::fmt::Debug for Alias {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(feature = "os")]
impl Alias {
    /// Where a reader outside of the process finds the fields.
    pub(super) const LAYOUT: crate::base::window::AliasAt = crate::base::window::AliasAt {
        name: core::mem::offset_of!(Alias, name) as u32,
        name_len: core::mem::offset_of!(Alias, name_len) as u32,
        cache: core::mem::offset_of!(Alias, cache) as u32,
        object_size: core::mem::offset_of!(Alias, object_size) as u32,
        next: core::mem::offset_of!(Alias, next) as u32,
    };
}

impl Alias {
    pub(super) fn new(name: &str, cache: &'static RawCache, object_size: usize, next: *mut Alias) -> Alias {
        let (name, name_len) = copied_name(name);
        Alias { name, name_len, cache, object_size, next: AtomicPtr::new(next) }
    }

    pub(crate) fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..usize::from(self.name_len)]).unwrap_or("?")
    }
}
