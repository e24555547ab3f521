//! Hooks for the tests of this crate, and for them alone: not part of the interface.
//!
//! They show what no caller may rely on (this CPU's sheaf alone, the rseq area) and make rare
//! conditions happen (a refused membarrier, a CPU beyond the reserved areas).
#![allow(unsafe_code, reason = "finds the thread's rseq area")]

use crate::KmemCache;
use crate::base::sync::Ordering;
use crate::percpu::{self, area::PERCPU};

/// Makes the membarrier of drains fail, so that their fallback runs.
pub fn fail_fence(fail: bool) {
    percpu::FAIL_FENCE.store(fail, Ordering::Relaxed);
}

/// Returns whether drains are made to do without membarrier.
pub fn fence_fails() -> bool {
    percpu::FAIL_FENCE.load(Ordering::Relaxed)
}

/// Lets only CPUs below `cpus` use their areas, as if no more had been reserved. Returns the number
/// before.
pub fn limit_cpus(cpus: u32) -> u32 {
    // Not more than there are, and none where locks protect the areas.
    let most = if percpu::mode() == percpu::Mode::Lock { 0 } else { PERCPU.cpus.load(Ordering::Relaxed) };
    percpu::drain::limit_gate(cpus.min(most))
}

/// Reads the CPUs and nodes below `root` instead of `/sys/devices/system`. For a process whose
/// allocator has not started.
#[cfg(feature = "os")]
pub fn describe_system(root: &'static str) {
    *crate::base::os::SYSTEM.lock() = root;
}

/// Fixes which call sites share a copy of a cache of kmalloc. For a process with the option
/// `random_kmalloc`.
#[cfg(feature = "os")]
pub fn set_kmalloc_seed(seed: u64) {
    crate::boot::ensure();
    crate::sizes::call_site::set_seed(seed);
}

/// Pops an object off this CPU's main sheaf; null when there is none. Never a slow path.
pub fn cpu_pop(cache: &KmemCache) -> *mut u8 {
    percpu::pop(cache.raw_cache().slot) as *mut u8
}

/// Pushes an object on this CPU's main sheaf; false when it does not fit. Never a slow path.
///
/// # Safety
/// As for [`KmemCache::free`].
pub unsafe fn cpu_push(cache: &KmemCache, object: *mut u8) -> bool {
    percpu::push(cache.raw_cache().slot, object as usize)
}

/// Frees an object as malloc's `free` does with one that another CPU was given, wherever it is
/// from.
///
/// # Safety
/// As for [`KmemCache::free`].
pub unsafe fn free_remote(cache: &KmemCache, object: *mut u8) {
    #[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
    if percpu::mode() == percpu::Mode::Rseq {
        // The spare's word is the second of the slot; one that is missing counts as full.
        let spare = percpu::slot0(cache.raw_cache().slot) + size_of::<usize>();
        if percpu::sections::push(spare, percpu::sections::rseq_offset(), object as usize) {
            return;
        }
    }
    // SAFETY: passed on.
    crate::engine::free_remote(unsafe { crate::engine::Object::new(cache.raw_cache(), object as usize) });
}

/// A round of the reaper of SLAB for every CPU and node, as if their time had come.
pub fn slab_round(cache: &KmemCache) {
    assert!(cache.engine().has_queues(), "only caches of SLAB have such rounds");
    crate::engine::history::slab_queues::round_now(cache.raw_cache());
}

/// The place of this thread's pointer to the armed critical section (`rseq_cs`), registered or
/// emulated.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn rseq_cs() -> *mut u64 {
    let tp = crate::base::os::thread_id::id();
    tp.wrapping_add_signed(PERCPU.rseq_offset.load(Ordering::Relaxed)).wrapping_add(8) as *mut u64
}
