//! Layer 8, faces: what programs call.
//!
//! | module | for whom |
//! |---|---|
//! | [`kmem_cache`] | programs with named caches: the kernel's `kmem_cache_*` |
//! | [`typed`] | Rust programs: caches of one type |
//! | [`kmalloc`] | objects of any size: the kernel's `kmalloc` and `kfree` |
//! | [`malloc`] | C programs: `malloc` and `free`, by the crate `ashlar-malloc` |
//! | [`global`] | Rust programs: the global allocator |
//! | [`prefill`], [`numa`] | reserves of objects, and memory of a given node |
//! | [`reaper`] | the background thread, started and stopped |
//! | [`fork`], [`load`] | the C library: what is done around a fork, and when the library is loaded |
//! | [`mod@profile`] | programs, and the environment: the heap profile |
//! | [`dump`] | programs in trouble: what an address is |
//! | [`probe`] | the lab: how long locks are held |

pub(crate) mod dump;
#[cfg(feature = "os")]
mod file_name;
#[cfg(feature = "os")]
pub mod fork;
/// Without an operating system there is no fork. All threads have the same number, so a lock held
/// for a fork would be open to all.
#[cfg(not(feature = "os"))]
#[expect(dead_code, unreachable_pub, reason = "compiled so that it stays in step")]
mod fork;
pub(crate) mod global;
pub(crate) mod kmalloc;
pub(crate) mod kmem_cache;
#[cfg(all(feature = "os", not(miri)))]
mod load;
pub mod malloc;
pub(crate) mod numa;
pub(crate) mod prefill;
pub(crate) mod probe;
#[cfg(feature = "os")]
pub mod profile;
#[cfg(feature = "os")]
pub(crate) mod reaper;
pub(crate) mod stats;
pub(crate) mod typed;
