//! Finds or makes this thread's rseq registration, and tests that the kernel aborts sections.
//!
//! | C library | what is done |
//! |---|---|
//! | glibc since 2.35 | uses its registration, published in `__rseq_offset` and `__rseq_size` |
//! | the same with `glibc.pthread.rseq=0` | nothing, unless `percpu=rseq` asks for the next row |
//! | glibc before 2.35 | each thread registers an area in our static TLS at its first slow path |
//! | musl | nothing: see below |
//!
//! With `glibc.pthread.rseq=0` the program may want to register an area of its own. In musl, a
//! detached thread unmaps its TLS and then makes one more system call, after which the kernel would
//! write to the area. glibc unmaps a thread's TLS after the kernel has reported the thread's exit,
//! so an area there may stay registered.
//!
//! Sources: the ABI in `linux/rseq.h`, and the glibc manual, "Restartable Sequences".
#![allow(unsafe_code, reason = "system calls and thread-local memory")]

use syscalls::{Sysno, syscall};

use super::area::PERCPU;
use super::sections::thread::{cpu_id, own_offset, spin_until_aborted};
use super::sections::{SIGNATURE, thread};
use crate::base::sync::{AtomicU32, Ordering};

/// Returns the C library's registration: the offset from the thread pointer and the size. The size
/// is 0 if glibc was told not to register. `None` if the C library does not support rseq.
fn of_c_library() -> Option<(isize, u32)> {
    let offset = crate::address_of!("__rseq_offset").cast::<isize>();
    let size = crate::address_of!("__rseq_size").cast::<u32>();
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: the C library exports these two constants.
    Some(unsafe { (*offset, *size) })
}

/// Registers our own area for the calling thread. Returns true if it is registered now.
fn register_own() -> bool {
    let offset = own_offset();
    if cpu_id(offset) >= 0 {
        return true;
    }
    let area = crate::base::os::thread_id::id().wrapping_add_signed(offset);
    // SAFETY: the area is 32 aligned bytes of this thread's static TLS, which lives until the
    // thread ends. The kernel drops the registration at thread exit.
    unsafe { syscall!(Sysno::rseq, area, OWN_BYTES, 0, SIGNATURE) }.is_ok()
}

/// Bytes of our own area: the size of the original ABI, which every kernel accepts.
const OWN_BYTES: u32 = 32;

/// Not 0 if our own area is in use, so that threads must register themselves.
static OWN: AtomicU32 = AtomicU32::new(0);

/// Points sections to our own area, which they store to until a registration is published. In the
/// mode `lock` they store to it for ever, and find the gate closed.
///
/// `PERCPU` cannot hold the offset from the start: that needs a relocation in data which linkers
/// refuse in shared libraries. So entry points must not reach a section before start-up.
pub(crate) fn use_own_area() {
    PERCPU.rseq_offset.store(own_offset(), Ordering::Relaxed);
}

/// A thread's registration with the kernel, or a former one. It is neither copied nor sent to
/// another thread, because the thread that had it puts it back, once.
#[derive(Debug)]
#[repr(C)]
pub struct Registration {
    /// The area; null for no registration.
    area: *mut u8,
    bytes: u32,
}

impl Registration {
    /// No registration.
    pub(crate) const NONE: Registration = Registration { area: core::ptr::null_mut(), bytes: 0 };

    /// Removes the calling thread's registration. If that fails, returns `None` and the thread
    /// stays registered.
    ///
    /// The kernel demands the size that was registered. `__rseq_size` is the part of the area in
    /// use: 32, or in newer glibc the kernel's feature size (20, 28 or 33 so far). glibc registers
    /// that size or 32, whichever is larger.
    pub(crate) fn take() -> Option<Registration> {
        let area =
            crate::base::os::thread_id::id().wrapping_add_signed(PERCPU.rseq_offset.load(Ordering::Relaxed)) as *mut u8;
        let told = of_c_library().map_or(0, |(_, size)| size);
        [told, feature_size(), 0].into_iter().map(|size| size.max(OWN_BYTES)).find_map(|bytes| {
            // SAFETY: the kernel compares the address and the size with those of the registration,
            // and drops it.
            unsafe { syscall!(Sysno::rseq, area, bytes, UNREGISTER, SIGNATURE) }.ok()?;
            Some(Registration { area, bytes })
        })
    }

    /// Registers the calling thread again.
    pub(crate) fn put_back(self) {
        if !self.area.is_null() {
            // SAFETY: the area and the size that this thread was registered with before.
            let _ = unsafe { syscall!(Sysno::rseq, self.area, self.bytes, 0, SIGNATURE) };
        }
    }

    /// Returns whether there is a registration.
    pub(crate) fn is_some(&self) -> bool {
        !self.area.is_null()
    }
}

const UNREGISTER: u32 = 1;

/// Finds or makes the calling thread's registration and publishes its offset. `asked` is true if
/// the user asked for rseq by name. Called once, at start-up.
pub(crate) fn init(asked: bool) -> bool {
    let told = of_c_library();
    if let Some((offset, size)) = told
        && size != 0
        && cpu_id(offset) >= 0
    {
        PERCPU.rseq_offset.store(offset, Ordering::Relaxed);
        return true;
    }
    let may_register = cfg!(not(target_env = "musl")) && (told.is_none() || asked);
    if may_register && register_own() {
        OWN.store(1, Ordering::Relaxed);
        PERCPU.rseq_offset.store(own_offset(), Ordering::Relaxed);
        return true;
    }
    false
}

/// Registers the calling thread if the allocator registers threads itself and has not registered
/// this one. Returns true if it did so now.
pub(crate) fn register_thread() -> bool {
    OWN.load(Ordering::Relaxed) != 0 && cpu_id(own_offset()) < 0 && register_own()
}

/// Fakes a registration: the fast paths run as on CPU 0, unprotected. For one thread only: for
/// counting instructions under tools without rseq, and for the simulator of aborts.
pub(crate) fn emulate() {
    let offset = own_offset();
    thread::pretend_cpu_0(offset);
    PERCPU.rseq_offset.store(offset, Ordering::Relaxed);
}

/// `membarrier` commands of the kernel's ABI.
const REGISTER_EXPEDITED_RSEQ: u32 = 1 << 8;
const EXPEDITED_RSEQ: u32 = 1 << 7;

/// Returns true if the kernel describes its rseq area in the auxiliary vector. Linux does since
/// 6.3, and no known emulator does. Such a kernel aborts sections, so start-up skips the self-test,
/// which costs a short-lived program on a busy machine several milliseconds.
pub(crate) fn is_described() -> bool {
    feature_size() != 0
}

/// Returns the bytes of the area that this kernel uses; 0 if the kernel does not publish them.
fn feature_size() -> u32 {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    // SAFETY: getauxval has no preconditions.
    unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) as u32 }
}

/// Registers the process for [`fence`]. Returns false if the kernel (before 5.10) or a filter
/// refuses.
pub(crate) fn register_fence() -> bool {
    crate::base::os::membarrier(REGISTER_EXPEDITED_RSEQ)
}

/// Aborts every critical section of this process that is running on any CPU. Returns false if the
/// kernel refuses.
pub(crate) fn fence() -> bool {
    crate::base::os::membarrier(EXPEDITED_RSEQ)
}

/// Stack and state of the self-test's helper, a bare clone that only makes system calls.
#[repr(C, align(64))]
struct Helper {
    stack: [u64; 64],
    /// How long the helper sleeps each time.
    nap: libc::timespec,
    stop: AtomicU32,
    tid: AtomicU32,
    /// Calls of membarrier that have returned.
    fences: AtomicU32,
}

/// Tests that the kernel aborts a critical section on request.
///
/// The helper thread is a bare `clone` without TLS. It sleeps for a few microseconds and calls
/// membarrier, in a loop, while this thread spins in a section until it is aborted. If both share a
/// CPU, the wake-up of the helper preempts the section, which must abort it too. So the test takes
/// about a tenth of a millisecond, on busy machines too.
///
/// Returns false if the helper's calls returned but no abort came. Returns true also if the helper
/// could not be started or got no CPU. Then the test has shown nothing, and the allocator relies on
/// the kernel's ABI.
pub(crate) fn self_test() -> bool {
    // The helper's stack is too small for a signal handler.
    crate::base::os::with_signals_blocked(self_test_unsignalled)
}

fn self_test_unsignalled() -> bool {
    let mut helper = Helper {
        stack: [0; 64],
        nap: libc::timespec { tv_sec: 0, tv_nsec: 10_000 },
        stop: AtomicU32::new(0),
        tid: AtomicU32::new(1),
        fences: AtomicU32::new(0),
    };
    let flags = libc::CLONE_VM
        | libc::CLONE_FS
        | libc::CLONE_FILES
        | libc::CLONE_SIGHAND
        | libc::CLONE_THREAD
        | libc::CLONE_SYSVSEM
        | libc::CLONE_CHILD_CLEARTID;
    let top = (&raw mut helper.stack).cast::<u64>().wrapping_add(64);
    // SAFETY: the loop below waits until `tid` is 0, and `helper` lives beyond it.
    let started = unsafe {
        let words = [&helper.tid, &helper.stop, &helper.fences];
        thread::start_helper(flags, top, words, &helper.nap, EXPEDITED_RSEQ)
    };
    if started < 0 {
        return true;
    }
    let aborted = was_aborted(&helper.fences);
    helper.stop.store(1, Ordering::Release);
    let mut waited = 0u32;
    while helper.tid.load(Ordering::Acquire) != 0 {
        waited = waited.saturating_add(1);
        crate::base::sync::relax(waited);
    }
    aborted
}

/// Spins inside a section for about a tenth of a millisecond at a time, and yields the CPU in
/// between. Returns false only if several of these rounds each saw a complete membarrier call and
/// none aborted the section.
fn was_aborted(fences: &AtomicU32) -> bool {
    let mut unaborted = 0;
    for _ in 0..30 {
        // If both threads share one CPU, the helper reaches its sleep now. SAFETY: the call takes
        // no arguments.
        let _ = unsafe { syscall!(Sysno::sched_yield) };
        let before = fences.load(Ordering::Acquire);
        if spin_until_aborted(PERCPU.rseq_offset.load(Ordering::Relaxed), 200_000) {
            return true;
        }
        // The first call may have begun before the section; the second did not.
        unaborted += u32::from(fences.load(Ordering::Acquire).wrapping_sub(before) >= 2);
        if unaborted == 3 {
            return false;
        }
    }
    true
}
