//! The few calls that the allocator makes to Linux, each a thin function that never allocates.
//!
//! Owns nothing. Lowest layer beside [`crate::units`]; only compiled with the feature `os`.
#![allow(unsafe_code, reason = "system calls")]

mod mem;
mod topology;

pub(crate) use mem::LinuxSource;
pub(crate) use topology::read_topology;

/// One step of backing off from a contended lock: yields at first, then sleeps, so that a holder of lower real-time priority can run. Sleeps
/// get longer, from 50 microseconds to 1.6 milliseconds: where many threads wait for one that was preempted, their looks would
/// else take the CPU time that it needs.
pub(crate) fn back_off(step: u32) {
    const YIELDS: u32 = 32;
    /// Sleeps of each length.
    const SLEEPS: u32 = 8;
    if step < YIELDS {
        // SAFETY: sched_yield takes no arguments and has no preconditions.
        unsafe { libc::sched_yield() };
    } else {
        sleep_ns(50_000 << ((step - YIELDS) / SLEEPS).min(5));
    }
}

/// Sleeps about `ns` nanoseconds (below one second); returns early on a signal.
pub(crate) fn sleep_ns(ns: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ns };
    // SAFETY: `time` is a valid timespec for the duration of the call; a null remainder is allowed.
    unsafe { libc::nanosleep(&time, core::ptr::null_mut()) };
}

/// Monotonic time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable and CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
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
    let mut word = 0u64;
    // SAFETY: the buffer is the 8 bytes of `word`; GRND_NONBLOCK never waits for entropy.
    let got = unsafe { libc::syscall(libc::SYS_getrandom, &raw mut word, 8usize, libc::GRND_NONBLOCK) };
    if got == 8 {
        return word;
    }
    let stack = &raw const word as u64;
    (stack ^ now_ms().rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// Writes bytes to standard error; short or failed writes are ignored: there is nobody left to tell.
pub(crate) fn write_stderr(bytes: &[u8]) {
    // SAFETY: the buffer is valid for its length.
    let _ = unsafe { libc::write(2, bytes.as_ptr().cast(), bytes.len()) };
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

/// `membarrier` of the given command and flags on `cpu`; true on success.
pub(crate) fn membarrier(command: i32, flags: u32, cpu: i32) -> bool {
    // SAFETY: membarrier takes three integers and touches no memory of ours.
    unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) == 0 }
}

/// How many CPUs the calling thread may use, and the highest of them; (1, 0) when the system does not tell.
pub(crate) fn allowed_cpus() -> (u32, u32) {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: cpu_set_t is plain old data; `set` is writable for `size` bytes.
    let (set, known) = unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        // Not by the function of the C library: nothing else that every program runs lies near it, and a page of code costs its neighbours.
        let known = libc::syscall(libc::SYS_sched_getaffinity, 0, size, &raw mut set) > 0;
        (set, known)
    };
    if !known {
        return (1, 0);
    }
    let (mut count, mut highest) = (0, 0);
    for cpu in 0..size * 8 {
        // SAFETY: the index is below the number of bits of the set.
        if unsafe { libc::CPU_ISSET(cpu, &set) } {
            count += 1;
            highest = cpu as u32;
        }
    }
    (count.max(1), highest)
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
pub(crate) fn pin_to(cpu: u32) -> Option<libc::cpu_set_t> {
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: cpu_set_t is plain old data; all zeros is the empty set.
    let mut old: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    // SAFETY: `old` is writable for `size` bytes.
    if unsafe { libc::sched_getaffinity(0, size, &mut old) } != 0 {
        return None;
    }
    // SAFETY: as above.
    let mut one: libc::cpu_set_t = unsafe { core::mem::zeroed() };
    if cpu as usize >= size * 8 {
        return None;
    }
    // SAFETY: the index was checked against the size of the set.
    unsafe { libc::CPU_SET(cpu as usize, &mut one) };
    // SAFETY: `one` is readable for `size` bytes.
    if unsafe { libc::sched_setaffinity(0, size, &one) } != 0 {
        return None;
    }
    Some(old)
}

/// Gives the calling thread the mask that [`pin_to`] returned.
pub(crate) fn unpin(mask: &libc::cpu_set_t) {
    // SAFETY: the mask is readable for its size.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), mask) };
}

/// Runs `f` with all signals blocked in the calling thread, and in threads that it starts.
pub(crate) fn with_signals_blocked<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: both sets are initialised by the calls that get them, and the old mask is put back.
    let old = unsafe {
        let mut all: libc::sigset_t = core::mem::zeroed();
        let mut old: libc::sigset_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut old);
        old
    };
    let result = f();
    // SAFETY: `old` is the mask that was in force.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &old, core::ptr::null_mut()) };
    result
}

/// Starts a detached thread with a small stack and all signals blocked; false when refused.
pub(crate) fn spawn_detached(entry: extern "C" fn(*mut libc::c_void) -> *mut libc::c_void) -> bool {
    // SAFETY: the attribute object is initialised before use and destroyed after; the entry takes no argument
    // that must outlive us.
    with_signals_blocked(|| unsafe {
        let mut attr: libc::pthread_attr_t = core::mem::zeroed();
        if libc::pthread_attr_init(&mut attr) != 0 {
            return false;
        }
        libc::pthread_attr_setdetachstate(&mut attr, libc::PTHREAD_CREATE_DETACHED);
        let mut thread: libc::pthread_t = core::mem::zeroed();
        // A program with much static TLS, which glibc takes from the stack, needs the larger size.
        let started = [SMALL_STACK, LARGE_STACK].into_iter().any(|size| {
            libc::pthread_attr_setstacksize(&mut attr, size);
            libc::pthread_create(&mut thread, &attr, entry, core::ptr::null_mut()) == 0
        });
        libc::pthread_attr_destroy(&mut attr);
        started
    })
}

const SMALL_STACK: usize = 128 << 10;
const LARGE_STACK: usize = 8 << 20;
