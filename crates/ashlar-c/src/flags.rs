//! `gfp_t` and `slab_flags_t`: the kernel's bits, and the effect of each here.
//!
//! An allocation tests its flags once. If no bit outside [`PLAIN`] is set, it takes the fast path;
//! otherwise it calls [`allocate`].

use core::ffi::{c_uint, c_void};

use core_ashlar::DebugFlags;
use libc::{EINVAL, ENOMEM};

use crate::report::{null, panic, warn};

/// Flags of an allocation: a combination of the __GFP_ bits, most often GFP_KERNEL. Bits that are
/// not described below are refused.
pub type gfp_t = c_uint;

/// Memory for DMA. Accepted; there is only one kind of memory, as in a kernel without that zone.
pub const __GFP_DMA: gfp_t = 1 << 0;
/// Accepted; no object is ever moved.
pub const __GFP_MOVABLE: gfp_t = 1 << 3;
/// Accepted; see SLAB_RECLAIM_ACCOUNT.
pub const __GFP_RECLAIMABLE: gfp_t = 1 << 4;
/// Accepted; there are no emergency reserves. kmem_cache_prefill_sheaf creates a private reserve.
pub const __GFP_HIGH: gfp_t = 1 << 5;
/// Accepted; nothing here starts input or output.
pub const __GFP_IO: gfp_t = 1 << 6;
/// Accepted; nothing here calls into a file system.
pub const __GFP_FS: gfp_t = 1 << 7;
/// All bytes of the object are zero. Refused with EINVAL for caches with a constructor.
pub const __GFP_ZERO: gfp_t = 1 << 8;
/// Accepted; the library never sleeps for memory. It may take a lock for a few instructions with
/// any flags.
pub const __GFP_DIRECT_RECLAIM: gfp_t = 1 << 10;
/// Accepted; the background thread works without a request.
pub const __GFP_KSWAPD_RECLAIM: gfp_t = 1 << 11;
/// Accepted; pages have no writers to balance.
pub const __GFP_WRITE: gfp_t = 1 << 12;
/// Accepted; a failed allocation prints nothing anyway.
pub const __GFP_NOWARN: gfp_t = 1 << 13;
/// Accepted; before any request fails, other caches return their free memory.
pub const __GFP_RETRY_MAYFAIL: gfp_t = 1 << 14;
/// The call never returns NULL. Without memory, the program ends with a line on standard error.
pub const __GFP_NOFAIL: gfp_t = 1 << 15;
/// Accepted; the library never retries for long.
pub const __GFP_NORETRY: gfp_t = 1 << 16;
/// Accepted; there are no emergency reserves.
pub const __GFP_MEMALLOC: gfp_t = 1 << 17;
/// Accepted; large memory is always one run of pages, or one mapping.
pub const __GFP_COMP: gfp_t = 1 << 18;
/// Accepted; there are no emergency reserves.
pub const __GFP_NOMEMALLOC: gfp_t = 1 << 19;
/// Accepted; there are no cpusets.
pub const __GFP_HARDWALL: gfp_t = 1 << 20;
/// With a function that takes a node: memory of that node, or NULL. Without effect in other
/// functions.
pub const __GFP_THISNODE: gfp_t = 1 << 21;
/// Accepted; nothing is charged to anybody.
pub const __GFP_ACCOUNT: gfp_t = 1 << 22;
/// Both kinds of reclaim.
pub const __GFP_RECLAIM: gfp_t = __GFP_DIRECT_RECLAIM | __GFP_KSWAPD_RECLAIM;

/// The usual flags.
pub const GFP_KERNEL: gfp_t = __GFP_RECLAIM | __GFP_IO | __GFP_FS;
/// As GFP_KERNEL, charged to the caller's group in the kernel.
pub const GFP_KERNEL_ACCOUNT: gfp_t = GFP_KERNEL | __GFP_ACCOUNT;
/// For callers that must not sleep.
pub const GFP_ATOMIC: gfp_t = __GFP_HIGH | __GFP_KSWAPD_RECLAIM;
/// For callers that must not sleep and expect to fail.
pub const GFP_NOWAIT: gfp_t = __GFP_KSWAPD_RECLAIM | __GFP_NOWARN;
/// For callers inside the I/O path.
pub const GFP_NOIO: gfp_t = __GFP_RECLAIM;
/// For callers inside a file system.
pub const GFP_NOFS: gfp_t = __GFP_RECLAIM | __GFP_IO;
/// For memory of user processes, in the kernel.
pub const GFP_USER: gfp_t = __GFP_RECLAIM | __GFP_IO | __GFP_FS | __GFP_HARDWALL;
/// See __GFP_DMA.
pub const GFP_DMA: gfp_t = __GFP_DMA;

/// Flags of a cache: a combination of the SLAB_ bits. Bits that are not described below are refused
/// with EINVAL.
pub type slab_flags_t = c_uint;

/// Frees and freelists are checked (`F`). This flag and the five that follow make a debugged cache,
/// which is served by the engine debug: see ASHLAR_DEBUG.
pub const SLAB_CONSISTENCY_CHECKS: slab_flags_t = 1 << 8;
/// Bytes before and after each object show writes beyond it (`Z`).
pub const SLAB_RED_ZONE: slab_flags_t = 1 << 10;
/// Free and fresh objects are filled, which shows writes after a free (`P`). Without effect for
/// objects with a constructor.
pub const SLAB_POISON: slab_flags_t = 1 << 11;
/// Align objects to cache lines, to a fraction of one for small objects.
pub const SLAB_HWCACHE_ALIGN: slab_flags_t = 1 << 13;
/// Accepted; see __GFP_DMA.
pub const SLAB_CACHE_DMA: slab_flags_t = 1 << 14;
/// Each object keeps who allocated and who freed it, for reports (`U`).
pub const SLAB_STORE_USER: slab_flags_t = 1 << 16;
/// Accepted; there are no lists of reclaimable pages.
pub const SLAB_RECLAIM_ACCOUNT: slab_flags_t = 1 << 17;
/// The other name of SLAB_RECLAIM_ACCOUNT.
pub const SLAB_TEMPORARY: slab_flags_t = SLAB_RECLAIM_ACCOUNT;
/// If the cache cannot be created, the program ends with a line on standard error.
pub const SLAB_PANIC: slab_flags_t = 1 << 18;
/// A line on standard error for each allocation and each free (`T`).
pub const SLAB_TRACE: slab_flags_t = 1 << 21;
/// Accepted; nothing tracks objects here.
pub const SLAB_DEBUG_OBJECTS: slab_flags_t = 1 << 22;
/// Accepted; there is no leak detector here.
pub const SLAB_NOLEAKTRACE: slab_flags_t = 1 << 23;
/// The cache shares its slabs with no other cache. Without this flag, caches of similar objects are
/// merged by the kernel's rules, unless the option is merge=off. Each debugging flag,
/// SLAB_NOLEAKTRACE and SLAB_FAILSLAB also prevent merging.
pub const SLAB_NO_MERGE: slab_flags_t = 1 << 24;
/// Allocations fail as ASHLAR_FAILSLAB says (`A`).
pub const SLAB_FAILSLAB: slab_flags_t = 1 << 25;
/// Accepted; nothing is charged to anybody.
pub const SLAB_ACCOUNT: slab_flags_t = 1 << 26;
/// Accepted without effect, as in a kernel without KASAN.
pub const SLAB_KASAN: slab_flags_t = 1 << 27;
/// ASHLAR_DEBUG does not hold for the cache.
pub const SLAB_NO_USER_FLAGS: slab_flags_t = 1 << 28;
/// Accepted without effect, as in a kernel without KFENCE.
pub const SLAB_SKIP_KFENCE: slab_flags_t = 1 << 29;

/// Flags that do not change an allocation.
pub(crate) const PLAIN: gfp_t = __GFP_DMA
    | __GFP_MOVABLE
    | __GFP_RECLAIMABLE
    | __GFP_HIGH
    | __GFP_IO
    | __GFP_FS
    | __GFP_RECLAIM
    | __GFP_WRITE
    | __GFP_NOWARN
    | __GFP_RETRY_MAYFAIL
    | __GFP_NORETRY
    | __GFP_MEMALLOC
    | __GFP_COMP
    | __GFP_NOMEMALLOC
    | __GFP_HARDWALL
    | __GFP_THISNODE
    | __GFP_ACCOUNT;

/// All flags of caches.
pub(crate) const CACHE_FLAGS: slab_flags_t = SLAB_CONSISTENCY_CHECKS
    | SLAB_RED_ZONE
    | SLAB_POISON
    | SLAB_HWCACHE_ALIGN
    | SLAB_CACHE_DMA
    | SLAB_STORE_USER
    | SLAB_RECLAIM_ACCOUNT
    | SLAB_PANIC
    | SLAB_TRACE
    | SLAB_DEBUG_OBJECTS
    | SLAB_NOLEAKTRACE
    | SLAB_NO_MERGE
    | SLAB_FAILSLAB
    | SLAB_ACCOUNT
    | SLAB_KASAN
    | SLAB_NO_USER_FLAGS
    | SLAB_SKIP_KFENCE;

/// Flags that each prevent merging: the kernel's SLAB_NEVER_MERGE.
pub(crate) const NEVER_MERGE: slab_flags_t = SLAB_CONSISTENCY_CHECKS
    | SLAB_RED_ZONE
    | SLAB_POISON
    | SLAB_STORE_USER
    | SLAB_TRACE
    | SLAB_NOLEAKTRACE
    | SLAB_FAILSLAB
    | SLAB_KASAN
    | SLAB_NO_MERGE;

/// Returns which debugging a cache has by its flags.
pub(crate) fn debug_flags(flags: slab_flags_t) -> DebugFlags {
    let pairs = [
        (SLAB_CONSISTENCY_CHECKS, DebugFlags::CONSISTENCY_CHECKS),
        (SLAB_RED_ZONE, DebugFlags::RED_ZONE),
        (SLAB_POISON, DebugFlags::POISON),
        (SLAB_STORE_USER, DebugFlags::STORE_USER),
        (SLAB_TRACE, DebugFlags::TRACE),
        (SLAB_FAILSLAB, DebugFlags::FAILSLAB),
    ];
    let set = pairs.iter().filter(|(bit, _)| flags & bit != 0);
    set.fold(DebugFlags::NONE, |all, (_, flag)| all.with(*flag))
}

/// Returns the number of the merge group of a cache: the kernel's flags that must be equal
/// (SLAB_MERGE_SAME).
pub(crate) fn merge_group(flags: slab_flags_t) -> u8 {
    let same = [SLAB_RECLAIM_ACCOUNT, SLAB_CACHE_DMA, SLAB_ACCOUNT];
    same.iter().enumerate().map(|(at, &flag)| u8::from(flags & flag != 0) << at).sum()
}

/// Returns true if all bits are known. Reports unknown ones under the function's name.
pub(crate) fn known(function: &str, flags: gfp_t) -> bool {
    let unknown = flags & !(PLAIN | __GFP_ZERO | __GFP_NOFAIL);
    if unknown != 0 {
        warn(format_args!("{function}: gfp flags {unknown:#x}: expected a combination of the __GFP_ bits of ashlar.h"));
    }
    unknown == 0
}

/// Allocates with all flags. Passes `take` whether the memory must be zero; `take` returns null
/// without memory.
#[cold]
pub(crate) fn allocate(function: &str, flags: gfp_t, mut take: impl FnMut(bool) -> *mut u8) -> *mut c_void {
    if !known(function, flags) {
        return null(EINVAL);
    }
    let zero = flags & __GFP_ZERO != 0;
    let got = take(zero);
    if !got.is_null() {
        return got.cast();
    }
    if flags & __GFP_NOFAIL == 0 {
        return null(ENOMEM);
    }
    core_ashlar::reap();
    let got = take(zero);
    if got.is_null() {
        panic(format_args!("{function}: out of memory, and __GFP_NOFAIL says that it must not fail"));
    }
    got.cast()
}
