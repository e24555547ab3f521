//! Finding, or making, this thread's rseq registration; and the proof that aborts happen.
//!
//! | C library | what is done |
//! |---|---|
//! | glibc 2.35 and later | it registers every thread and publishes where (`__rseq_offset`, `__rseq_size`): that is used as it is |
//! | the same, told not to (`glibc.pthread.rseq=0`) | nothing: the program may want to register an area itself. With `percpu=rseq`, as below |
//! | glibc before 2.35 | each thread registers an area of our own in its static TLS, at its first slow path |
//! | musl | nothing: a detached thread unmaps its TLS and makes one more system call, after which the kernel writes there |
//!
//! glibc unmaps a thread's TLS when the kernel says that the thread is gone: so an area there may
//! stay registered. Source: the ABI in `linux/rseq.h`, and glibc's manual, "Restartable Sequences".
#![allow(unsafe_code, reason = "system calls and thread-local memory")]

use core::arch::{asm, global_asm};

use syscalls::{Sysno, syscall};

use super::area::PERCPU;
use super::sections::SIGNATURE;
use crate::base::sync::{AtomicU32, Ordering};

// Our own area: 32 bytes of static TLS whose CPU number starts as "uninitialised" (-1). Initial-exec access,
// so the offset from the thread pointer is one constant for all threads. In the mode `lock` sections store to this
// area and find the gate closed. (The offset cannot stand in `PERCPU` from the start: a word of data that holds it
// is a relocation that linkers refuse in shared libraries. So entry points must not reach a section before the boot.)
global_asm!(
    ".pushsection .tdata.ashlar_rseq, \"awT\", @progbits",
    ".balign 32",
    ".globl ashlar_rseq_area",
    ".hidden ashlar_rseq_area",
    ".type ashlar_rseq_area, @object",
    ".size ashlar_rseq_area, 32",
    "ashlar_rseq_area:",
    ".long 0, -1, 0, 0, 0, 0, 0, 0",
    ".popsection",
    ".weak __rseq_offset",
    ".weak __rseq_size",
);

fn own_offset() -> isize {
    let offset: isize;
    // SAFETY: reads the GOT entry that holds the symbol's offset from the thread pointer.
    unsafe { asm!("mov {}, [rip + ashlar_rseq_area@GOTTPOFF]", out(reg) offset, options(nostack, readonly)) };
    offset
}

/// The registration that the C library tells of: offset from the thread pointer and size; the size
/// is 0 where it was told not to register. `None` where it knows nothing of rseq.
fn of_c_library() -> Option<(isize, u32)> {
    let offset = crate::address_of!("__rseq_offset").cast::<isize>();
    let size = crate::address_of!("__rseq_size").cast::<u32>();
    if offset.is_null() || size.is_null() {
        return None;
    }
    // SAFETY: the C library exports these two constants.
    Some(unsafe { (*offset, *size) })
}

/// This thread's rseq area at `offset`: `[cpu_id_start, cpu_id]`.
fn cpu_id(offset: isize) -> i32 {
    let cpu: i32;
    // SAFETY: reads the second word of the thread's rseq area.
    unsafe { asm!("mov {0:e}, fs:[{1} + 4]", out(reg) cpu, in(reg) offset, options(nostack, readonly)) };
    cpu
}

/// Registers our own area for the calling thread; true when it is registered now.
fn register_own() -> bool {
    let offset = own_offset();
    if cpu_id(offset) >= 0 {
        return true;
    }
    let area = crate::base::os::thread::id().wrapping_add_signed(offset);
    // SAFETY: the area is 32 aligned bytes of this thread's static TLS, alive until the thread ends; the
    // kernel drops the registration at thread exit.
    unsafe { syscall!(Sysno::rseq, area, OWN_BYTES, 0, SIGNATURE) }.is_ok()
}

/// Bytes of our own area: those of the original ABI, which every kernel takes.
const OWN_BYTES: u32 = 32;

/// True when our own area is the one in use, so that threads must register themselves.
static OWN: AtomicU32 = AtomicU32::new(0);

/// Lets sections store to our own area: what they do until a registration is published.
pub(crate) fn use_own_area() {
    PERCPU.rseq_offset.store(own_offset(), Ordering::Relaxed);
}

/// A thread's registration with the kernel, or what was one. Neither copied nor sent to another
/// thread, since it is put back once, in the thread that had it.
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

    /// Takes the calling thread's registration away. `None` when that fails: then the thread is
    /// registered as before.
    ///
    /// The kernel wants the size that was registered. glibc says how much of the area means
    /// something: 32 bytes, then the kernel's feature size (20, 28, 33 by now), and registers that
    /// or 32, whichever is more.
    pub(crate) fn take() -> Option<Registration> {
        let area =
            crate::base::os::thread::id().wrapping_add_signed(PERCPU.rseq_offset.load(Ordering::Relaxed)) as *mut u8;
        let told = of_c_library().map_or(0, |(_, size)| size);
        [told, feature_size(), 0].into_iter().map(|size| size.max(OWN_BYTES)).find_map(|bytes| {
            // SAFETY: the kernel compares the address and the size with those of the registration,
            // and forgets it.
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

    /// Whether there is one.
    pub(crate) fn is_some(&self) -> bool {
        !self.area.is_null()
    }
}

const UNREGISTER: u32 = 1;

/// Finds or makes the calling thread's registration and publishes its offset; `asked` if the user
/// wants rseq by name. Called once, by the boot.
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

/// Registers the calling thread if that is our business and has not happened; true if it just did.
pub(crate) fn register_thread() -> bool {
    OWN.load(Ordering::Relaxed) != 0 && cpu_id(own_offset()) < 0 && register_own()
}

/// Pretends a registration: the fast paths run on CPU 0, unprotected. For one thread only: for counting
/// instructions under tools that know no rseq, and for the simulator of aborts.
pub(crate) fn emulate() {
    let offset = own_offset();
    // SAFETY: writes CPU number 0 into this thread's own, unregistered area.
    unsafe { asm!("mov dword ptr fs:[{0} + 4], 0", in(reg) offset, options(nostack)) };
    PERCPU.rseq_offset.store(offset, Ordering::Relaxed);
}

/// `membarrier` commands of the kernel's ABI.
const REGISTER_EXPEDITED_RSEQ: u32 = 1 << 8;
const EXPEDITED_RSEQ: u32 = 1 << 7;

/// True if the kernel describes its rseq area in the auxiliary vector, as Linux does since 6.3 and no emulator is known
/// to. Its word that sections are aborted is then taken without the self-test, which costs a short-lived program on a
/// busy machine several milliseconds.
pub(crate) fn is_described() -> bool {
    feature_size() != 0
}

/// Bytes of the area that this kernel uses; 0 if it does not tell.
fn feature_size() -> u32 {
    const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
    // SAFETY: getauxval has no preconditions.
    unsafe { libc::getauxval(AT_RSEQ_FEATURE_SIZE) as u32 }
}

/// Registers the process for [`fence`]; false where the kernel (before 5.10) or a filter refuses.
pub(crate) fn register_fence() -> bool {
    crate::base::os::membarrier(REGISTER_EXPEDITED_RSEQ)
}

/// Aborts every critical section of this process that runs at this moment on any CPU.
pub(crate) fn fence() -> bool {
    crate::base::os::membarrier(EXPEDITED_RSEQ)
}

/// Stack and state of the self-test's helper; the helper is a bare clone that only makes system calls.
#[repr(C, align(64))]
struct Helper {
    stack: [u64; 64],
    /// How long the helper sleeps at a time.
    nap: libc::timespec,
    stop: AtomicU32,
    tid: AtomicU32,
    /// Calls of membarrier that came back.
    fences: AtomicU32,
}

/// Shows that a thread inside a critical section is aborted when the kernel is asked for it.
///
/// A helper thread, a bare `clone` without TLS, sleeps for a few microseconds and calls membarrier, again and again,
/// beside a section that spins until it is aborted. Where both share a CPU the helper's waking preempts the section,
/// which must abort it as well: so the answer is there in about a tenth of a millisecond, on
/// busy machines too. False if
/// no abort came though the helper's calls did; true also when the helper could not be started, or got no CPU: then
/// nothing was shown either way, and the kernel's word is all there is.
pub(crate) fn self_test() -> bool {
    // The helper has no stack to speak of: no signal handler may run on it.
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
    let started: isize;
    // SAFETY: the child runs on its own stack (which it does not even use), touches only registers and the words
    // `nap`, `fences` and `stop`, and ends by the exit system call; CLONE_CHILD_CLEARTID zeroes `tid` when it is gone,
    // which is waited for below, so `helper` outlives it.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 22f",
            "23: mov eax, {clock_nanosleep}",
            "mov edi, {clock}",
            "xor esi, esi",
            "mov rdx, r14",
            "xor r10d, r10d",
            "syscall",
            "mov eax, {membarrier}",
            "mov edi, {command}",
            "xor esi, esi",
            "xor edx, edx",
            "syscall",
            "inc dword ptr [r13]",
            "cmp dword ptr [r12], 0",
            "je 23b",
            "mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "22:",
            inlateout("rax") libc::SYS_clone as isize => started,
            in("rdi") flags,
            in("rsi") top,
            in("rdx") 0usize,
            in("r10") helper.tid.as_ptr(),
            in("r8") 0usize,
            in("r12") helper.stop.as_ptr(),
            in("r13") helper.fences.as_ptr(),
            in("r14") &raw const helper.nap,
            clock_nanosleep = const libc::SYS_clock_nanosleep,
            clock = const libc::CLOCK_MONOTONIC,
            membarrier = const libc::SYS_membarrier,
            command = const EXPEDITED_RSEQ,
            exit = const libc::SYS_exit,
            out("rcx") _,
            out("r11") _,
        );
    }
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

/// Spins inside a section for about a tenth of a millisecond at a time, with the CPU given up in between. False only if
/// fences came and went during several of these times and none aborted the section.
fn was_aborted(fences: &AtomicU32) -> bool {
    let mut unaborted = 0;
    for _ in 0..30 {
        // Where there is one CPU for both, the helper gets to its sleep now.
        // SAFETY: the call takes no arguments.
        let _ = unsafe { syscall!(Sysno::sched_yield) };
        let before = fences.load(Ordering::Acquire);
        if spin_until_aborted(PERCPU.rseq_offset.load(Ordering::Relaxed), 200_000) {
            return true;
        }
        // The first may have begun before the section; the second did not.
        unaborted += u32::from(fences.load(Ordering::Acquire).wrapping_sub(before) >= 2);
        if unaborted == 3 {
            return false;
        }
    }
    true
}

/// Spins `rounds` times at most inside a section; true if it was aborted.
fn spin_until_aborted(offset: isize, rounds: u64) -> bool {
    let left: u64;
    // SAFETY: the section only counts a register down; its handler leaves the count as it is and goes on
    // behind the section. The signature stands before the handler.
    unsafe {
        asm!(
            ".pushsection __rseq_cs, \"aw\"",
            ".balign 32",
            "77: .long 0, 0",
            ".quad 2f, (3f - 2f), 4f",
            ".popsection",
            "lea {t}, [rip + 77b]",
            "mov fs:[{off} + 8], {t}",
            "2: sub {n}, 1",
            "jnz 2b",
            "3:",
            "jmp 6f",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "4:",
            "or {n}, 1",
            "6:",
            t = out(reg) _,
            n = inout(reg) rounds => left,
            off = in(reg) offset,
            options(nostack),
        );
    }
    left != 0
}
