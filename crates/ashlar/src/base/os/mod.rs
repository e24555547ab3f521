//! The calls that the allocator makes to Linux, each a thin function that never allocates.
//!
//! Owns nothing. Compiled only with the feature `os`.
//!
//! ## What may be called from here
//! An allocation may come from inside the C library, from a thread that holds one of its locks, or
//! from a thread that is about to be cancelled. System calls are therefore made by the bare
//! instruction (crate `syscalls`). It is not a cancellation point, takes no lock, and leaves
//! `errno` alone.
//!
//! Of the C library, only functions are used that are not cancellation points and take no lock:
//! `getauxval`, `clock_gettime`, `sched_getcpu` and `sysconf`, and at start-up `getenv`,
//! `getrlimit` and `sysinfo`; and `sigaction` for guard sampling ([`fault`]). There are three
//! exceptions:
//! * [`thread`], reached only when the program itself starts or stops the background thread;
//! * `loader`, which runs while the library is loaded;
//! * `abort`.
//!
//! `docs/process.md` lists all calls.
#![allow(unsafe_code, reason = "system calls")]

pub(crate) mod fault;
#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod loader;
pub(crate) mod maps;
mod mem;
mod table;
pub(crate) mod thread;
pub(crate) mod thread_id;
mod topology;
mod unwind;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod weak;
mod window;

#[cfg(all(target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) use loader::stay_loaded;
pub(crate) use mem::{LinuxSource, map_without_access, set_access};
pub(crate) use table::{map_table, unmap_table};
pub(crate) use topology::{SYSTEM, read_topology};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use unwind::is_of_c_library;
pub(crate) use unwind::{
    Extent, after_fork_in_child as forget_other_backtraces, capture, capture_of_program, has_one_thread, has_unwinder,
    load as load_unwinder,
};
pub(crate) use window::show;

use syscalls::{Errno, Sysno, syscall};

/// Backs off from a contended lock by one step. Yields at first, then sleeps, so that a lock holder
/// of lower real-time priority can run. The sleeps grow from 50 microseconds to 1.6 milliseconds.
/// Otherwise, many waiters would take the CPU time that a preempted lock holder needs.
pub(crate) fn back_off(step: u32) {
    const YIELDS: u32 = 32;
    /// The number of sleeps of each length.
    const SLEEPS: u32 = 8;
    if step < YIELDS {
        // SAFETY: the call takes no arguments.
        let _ = unsafe { syscall!(Sysno::sched_yield) };
    } else {
        sleep_ns(50_000 << ((step - YIELDS) / SLEEPS).min(5));
    }
}

/// Sleeps about `ns` nanoseconds (below one second); returns early on a signal.
pub(crate) fn sleep_ns(ns: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: `time` is readable for the duration of the call; a null remainder is allowed.
    let _ = unsafe { syscall!(Sysno::clock_nanosleep, libc::CLOCK_MONOTONIC, 0, &raw const time, 0) };
}

/// Returns the monotonic time in milliseconds, exact to a tick of the kernel (at most 10
/// milliseconds). With a vdso this only reads memory.
#[inline]
pub(crate) fn now_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable, and this clock exists since Linux 2.6.32.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Returns the CPU on which the calling thread runs at this moment; 0 if the system cannot tell.
pub(crate) fn current_cpu() -> u32 {
    // SAFETY: sched_getcpu has no preconditions.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).unwrap_or(0)
}

/// Returns the system's number of the calling thread.
#[place(cold)]
pub(crate) fn kernel_thread_id() -> u32 {
    // SAFETY: the call takes no arguments.
    unsafe { syscall!(Sysno::gettid) }.unwrap_or(0) as u32
}

/// Returns random bits for secrets. Falls back to addresses and the clock if getrandom is refused.
pub(crate) fn random_u64() -> u64 {
    let mut word = 0u64;
    // SAFETY: the buffer is the 8 bytes of `word`. GRND_NONBLOCK never waits for entropy.
    if unsafe { syscall!(Sysno::getrandom, &raw mut word, 8, libc::GRND_NONBLOCK) } == Ok(8) {
        return word;
    }
    let stack = &raw const word as u64;
    (stack ^ now_ms().rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Writes bytes to standard error. Ignores short and failed writes, because there is nowhere to
/// report them.
pub(crate) fn write_stderr(bytes: &[u8]) {
    // SAFETY: the buffer is readable for its length.
    let _ = unsafe { syscall!(Sysno::write, 2, bytes.as_ptr(), bytes.len()) };
}

/// Copies a file to a descriptor. Returns false on failure.
#[place(cold)]
pub(crate) fn copy_file(path: &core::ffi::CStr, to: i32) -> bool {
    let mut bytes = [0u8; 4096];
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated, and the buffer is writable for its length. The descriptor
    // comes from the first call.
    unsafe {
        let Ok(file) = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) else { return false };
        let good = loop {
            let got = match syscall!(Sysno::read, file, bytes.as_mut_ptr(), bytes.len()) {
                Ok(0) => break true,
                Ok(got) => got,
                Err(Errno::EINTR) => continue,
                Err(_) => break false,
            };
            if write_all(to, bytes.get(..got).unwrap_or(&[])).is_err() {
                break false;
            }
        };
        let _ = syscall!(Sysno::close, file);
        good
    }
}

/// Writes all bytes to a file descriptor.
///
/// # Errors
/// The number of the system's error.
#[place(cold)]
pub(crate) fn write_all(fd: i32, mut bytes: &[u8]) -> Result<(), i32> {
    while !bytes.is_empty() {
        // SAFETY: the buffer is readable for its length.
        match unsafe { syscall!(Sysno::write, fd, bytes.as_ptr(), bytes.len()) } {
            Ok(0) => return Err(libc::EIO),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into_raw()),
        }
    }
    Ok(())
}

/// Returns a copy of standard error with a number of 100 or more, because low ones are left to the
/// program. The copy closes at exec.
#[place(cold)]
pub(crate) fn copy_of_stderr() -> Option<i32> {
    // SAFETY: the command takes integers only.
    unsafe { syscall!(Sysno::fcntl, 2, libc::F_DUPFD_CLOEXEC, 100) }.ok().map(|copy| copy as i32)
}

/// Opens a file to append to it, and creates it if there is none. The name ends at its first zero
/// byte.
///
/// # Errors
/// The number of the system's error.
#[place(cold)]
pub(crate) fn append_to(name: &[u8]) -> Result<i32, i32> {
    create(name, libc::O_APPEND | libc::O_NOCTTY, 0o666)
}

/// Opens an empty file in place of one of this name, which only its owner may read. The name ends
/// at its first zero byte.
///
/// # Errors
/// The number of the system's error.
#[place(cold)]
pub(crate) fn replace_file(name: &[u8]) -> Result<i32, i32> {
    create(name, libc::O_TRUNC | libc::O_NOCTTY, 0o600)
}

#[place(cold)]
fn create(name: &[u8], flags: i32, mode: u32) -> Result<i32, i32> {
    let Ok(name) = core::ffi::CStr::from_bytes_until_nul(name) else { return Err(libc::ENAMETOOLONG) };
    let flags = flags | libc::O_WRONLY | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the name is NUL-terminated.
    let file = unsafe { syscall!(Sysno::openat, libc::AT_FDCWD, name.as_ptr(), flags, mode) };
    file.map(|file| file as i32).map_err(Errno::into_raw)
}

/// Closes a file descriptor of ours.
#[place(cold)]
pub(crate) fn close(fd: i32) {
    // SAFETY: the descriptor is this library's own.
    let _ = unsafe { syscall!(Sysno::close, fd) };
}

/// Returns the number of the process.
#[place(cold)]
pub(crate) fn process_id() -> u32 {
    // SAFETY: the call takes no arguments.
    unsafe { syscall!(Sysno::getpid) }.unwrap_or(0) as u32
}

/// Reads a file from its start into `buf`. Returns the number of bytes read, 0 on any failure.
pub(crate) fn read_file(path: &core::ffi::CStr, buf: &mut [u8]) -> usize {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path is NUL-terminated, the buffer is writable for its length, and the descriptor
    // comes from the first call.
    unsafe {
        let Ok(file) = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) else { return 0 };
        let got = syscall!(Sysno::read, file, buf.as_mut_ptr(), buf.len());
        let _ = syscall!(Sysno::close, file);
        got.unwrap_or(0)
    }
}

/// Ends the program by SIGABRT.
pub(crate) fn abort() -> ! {
    // SAFETY: abort has no preconditions and does not return.
    unsafe { libc::abort() }
}

/// Returns the value of an environment variable. The bytes belong to the environment, so the caller
/// reads them once, at start-up. Returns `None` in a set-user-ID program, as the dynamic linker
/// does with its own variables.
pub(crate) fn secure_env(name: &core::ffi::CStr) -> Option<&'static [u8]> {
    // SAFETY: getauxval has no preconditions.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return None;
    }
    // SAFETY: `name` is NUL-terminated. getenv returns null or a NUL-terminated string, which lives
    // until the program changes the variable. Start-up reads it before `main`.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: non-null results of getenv are NUL-terminated strings.
    Some(unsafe { core::ffi::CStr::from_ptr(value) }.to_bytes())
}

/// Runs `membarrier` for the calling process on all CPUs. Returns true on success.
pub(crate) fn membarrier(command: u32) -> bool {
    // SAFETY: membarrier takes three integers and touches no memory.
    unsafe { syscall!(Sysno::membarrier, command, 0, 0) }.is_ok()
}

/// Returns the CPUs that the calling thread may use; `None` if the system cannot tell.
fn affinity() -> Option<libc::cpu_set_t> {
    // SAFETY: cpu_set_t is plain old data; all zeros is the empty set.
    let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: `set` is writable for its size.
    unsafe { syscall!(Sysno::sched_getaffinity, 0, size_of::<libc::cpu_set_t>(), &raw mut set) }.ok()?;
    Some(set)
}

/// Restricts the calling thread to these CPUs. Returns false if refused.
fn set_affinity(set: &libc::cpu_set_t) -> bool {
    // SAFETY: the set is readable for its size.
    unsafe { syscall!(Sysno::sched_setaffinity, 0, size_of::<libc::cpu_set_t>(), &raw const *set) }.is_ok()
}

/// Returns the number of CPUs that the calling thread may use, and the highest of them; (1, 0) if
/// the system cannot tell.
pub(crate) fn allowed_cpus() -> (u32, u32) {
    let Some(set) = affinity() else { return (1, 0) };
    // SAFETY: the numbers are below the number of bits of the set.
    let allowed = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    let cpus = 0..size_of::<libc::cpu_set_t>() * 8;
    let highest = cpus.clone().rev().find(allowed).unwrap_or(0);
    ((cpus.filter(allowed).count() as u32).max(1), highest as u32)
}

/// Returns the bytes of main memory; 1 GiB if the system cannot tell.
pub(crate) fn memory_bytes() -> usize {
    // SAFETY: sysinfo is plain old data, and the call writes into it.
    unsafe {
        let mut info: libc::sysinfo = core::mem::zeroed();
        if libc::sysinfo(&mut info) != 0 {
            return 1 << 30;
        }
        (info.totalram as usize).saturating_mul(info.mem_unit as usize)
    }
}

/// Moves the calling thread to `cpu` alone. Returns the old mask, or `None` if refused.
pub(crate) fn pin_to(cpu: u32) -> Option<libc::cpu_set_t> {
    let old = affinity()?;
    if cpu as usize >= size_of::<libc::cpu_set_t>() * 8 {
        return None;
    }
    // SAFETY: an all-zero set is valid, and the number is below the number of its bits.
    let one = unsafe {
        let mut one: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut one);
        one
    };
    set_affinity(&one).then_some(old)
}

/// Gives the calling thread the mask that [`pin_to`] returned.
pub(crate) fn unpin(mask: &libc::cpu_set_t) {
    set_affinity(mask);
}

/// Runs `f` with every signal blocked in the calling thread, including those that the C library
/// reserves. `f` must be short.
pub(crate) fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    // A signal set of the kernel: 64 signals.
    let set_mask = |new: u64| {
        let mut old = 0u64;
        // SAFETY: both sets have the 8 bytes that the call is told.
        let done = unsafe {
            syscall!(Sysno::rt_sigprocmask, libc::SIG_SETMASK, &raw const new, &raw mut old, size_of::<u64>())
        };
        done.map(|_| old)
    };
    let old = set_mask(!0);
    let result = f();
    if let Ok(old) = old {
        let _ = set_mask(old);
    }
    result
}
