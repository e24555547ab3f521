//! The few calls that the allocator makes to Linux, each a thin function that never allocates.
//!
//! Owns nothing. Lowest layer beside [`crate::units`]; only compiled with the feature `os`.
//!
//! ## What may be called from here
//! An allocation may come from inside the C library, from a thread that holds one of its locks, and from a thread
//! that is about to be cancelled. So system calls are made by `rustix`, whose functions are the bare instruction:
//! they are no cancellation points, take no lock, and leave `errno` alone. Of the C library only functions are
//! used that promise the same (`getauxval`, `clock_gettime`, `sched_getcpu`, `syscall`). The exceptions are in
//! [`thread`], which only a program's own call to start or stop the background thread reaches, and `abort`.
#![allow(unsafe_code, reason = "system calls")]

mod mem;
pub(crate) mod thread;
mod topology;

pub(crate) use mem::LinuxSource;
pub(crate) use topology::read_topology;

use core::mem::MaybeUninit;

use rustix::thread::{ClockId, CpuSet, MembarrierCommand, Timespec};

/// Runs `call`, which may set the C library's `errno`, and restores it.
fn keeping_errno<R>(call: impl FnOnce() -> R) -> R {
    // SAFETY: the C library gives the address of this thread's errno, which is always valid.
    let errno = unsafe { &mut *libc::__errno_location() };
    let before = *errno;
    let result = call();
    *errno = before;
    result
}

/// One step of backing off from a contended lock: yields at first, then sleeps, so that a holder of lower real-time priority can run. Sleeps
/// get longer, from 50 microseconds to 1.6 milliseconds: where many threads wait for one that was preempted, their looks would
/// else take the CPU time that it needs.
pub(crate) fn back_off(step: u32) {
    const YIELDS: u32 = 32;
    /// Sleeps of each length.
    const SLEEPS: u32 = 8;
    if step < YIELDS {
        rustix::thread::sched_yield();
    } else {
        sleep_ns(50_000 << ((step - YIELDS) / SLEEPS).min(5));
    }
}

/// Sleeps about `ns` nanoseconds (below one second); returns early on a signal.
pub(crate) fn sleep_ns(ns: i64) {
    let time = Timespec { tv_sec: 0, tv_nsec: ns };
    let _ = rustix::thread::clock_nanosleep_relative(ClockId::Monotonic, &time);
}

/// Monotonic time in milliseconds, exact to a tick of the kernel (at most 10 milliseconds): a read of memory, where the
/// kernel has a vdso.
pub(crate) fn now_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable, and this clock exists since Linux 2.6.32.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// The CPU this thread runs on at this moment; 0 when the system does not tell.
pub(crate) fn current_cpu() -> u32 {
    // SAFETY: sched_getcpu has no preconditions; it is answered by the vdso.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}

/// Random bits for secrets; falls back to addresses and the clock where getrandom is refused.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [MaybeUninit::uninit(); 8];
    // `NONBLOCK` never waits for entropy.
    if let Ok((got, _)) = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::NONBLOCK)
        && let Ok(word) = <[u8; 8]>::try_from(&*got)
    {
        return u64::from_ne_bytes(word);
    }
    let stack = &raw const bytes as u64;
    (stack ^ now_ms().rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Writes bytes to a file descriptor of the program; ignores short and failed writes, because there is no place to
/// report them.
pub(crate) fn write(fd: i32, bytes: &[u8]) {
    // SAFETY: borrowed for this call alone. A number that is no open file makes the call fail, which is ignored;
    // -1, which the type excludes, is not passed on.
    let fd = (fd >= 0).then(|| unsafe { rustix::fd::BorrowedFd::borrow_raw(fd) });
    if let Some(fd) = fd {
        let _ = rustix::io::write(fd, bytes);
    }
}

/// Writes bytes to standard error.
pub(crate) fn write_stderr(bytes: &[u8]) {
    write(2, bytes);
}

/// Reads a file from its start into `buf`; returns the number of bytes read, 0 on any failure.
pub(crate) fn read_file(path: &core::ffi::CStr, buf: &mut [u8]) -> usize {
    use rustix::fs::{Mode, OFlags};
    let Ok(file) = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) else { return 0 };
    rustix::io::read(&file, buf).unwrap_or(0)
}

/// Ends the program by SIGABRT.
pub(crate) fn abort() -> ! {
    // SAFETY: abort has no preconditions and does not return.
    unsafe { libc::abort() }
}

/// The value of an environment variable. The bytes belong to the environment: read once at start.
/// A set-user-ID program gets `None`, as the dynamic linker does with its own variables.
pub(crate) fn secure_env(name: &core::ffi::CStr) -> Option<&'static [u8]> {
    // SAFETY: getauxval has no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: `name` is NUL-terminated; getenv returns null or a NUL-terminated string that lives as
    // long as the program does not change this variable, which nobody does before `main`.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: non-null results of getenv are NUL-terminated strings.
    Some(unsafe { core::ffi::CStr::from_ptr(value) }.to_bytes())
}

/// `membarrier` for the calling process on all CPUs; true on success.
pub(crate) fn membarrier(command: MembarrierCommand) -> bool {
    rustix::thread::membarrier(command).is_ok()
}

/// How many CPUs the calling thread may use, and the highest of them; (1, 0) when the system does not tell.
pub(crate) fn allowed_cpus() -> (u32, u32) {
    let Ok(set) = rustix::thread::sched_getaffinity(None) else { return (1, 0) };
    let highest = (0..CpuSet::MAX_CPU).rev().find(|&cpu| set.is_set(cpu)).unwrap_or(0);
    (set.count().max(1), highest as u32)
}

/// Bytes of main memory; 1 GiB when the system does not tell.
pub(crate) fn memory_bytes() -> usize {
    // SAFETY: sysinfo is plain old data and the call writes into it.
    unsafe {
        let mut info: libc::sysinfo = core::mem::zeroed();
        if libc::sysinfo(&mut info) != 0 {
            return 1 << 30;
        }
        (info.totalram as usize).saturating_mul(info.mem_unit as usize)
    }
}

/// Moves the calling thread to `cpu` alone. Returns the old mask, or `None` when refused.
pub(crate) fn pin_to(cpu: u32) -> Option<CpuSet> {
    let old = rustix::thread::sched_getaffinity(None).ok()?;
    let mut one = CpuSet::new();
    if cpu as usize >= CpuSet::MAX_CPU {
        return None;
    }
    one.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &one).ok()?;
    Some(old)
}

/// Gives the calling thread the mask that [`pin_to`] returned.
pub(crate) fn unpin(mask: &CpuSet) {
    let _ = rustix::thread::sched_setaffinity(None, mask);
}

/// Runs `f` with every signal blocked in the calling thread, those of the C library too: for moments.
pub(crate) fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    // A set of the kernel's: 64 signals.
    let set_mask = |new: u64| {
        let mut old = 0u64;
        // SAFETY: both sets are the 8 bytes that the call is told of.
        let done = unsafe {
            libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_SETMASK, &raw const new, &raw mut old, size_of::<u64>())
        };
        (done == 0).then_some(old)
    };
    let old = keeping_errno(|| set_mask(!0));
    let result = f();
    if let Some(old) = old {
        keeping_errno(|| set_mask(old));
    }
    result
}
