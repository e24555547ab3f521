//! The handler of SIGSEGV, for addresses that this library took the access to.
//!
//! [`handle`] puts it before the program's own: a fault that the library does not know goes on to
//! the handler that was there, under the flags and the mask that it asked for, or to the default
//! action. A program may install another handler later. [`stay_first`] notices that, and puts this
//! one before it again.
//!
//! The handler that was replaced must be known even if the program saves this one, installs its
//! own for a while, and then restores what it saved. So there are several *stations*: copies of the
//! handler, each with the action that it replaced. One that the program restores still leads to
//! what came before it.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;

use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

/// What the program did at the address of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Read,
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    Write,
    /// Where the system does not say which.
    #[cfg(not(target_arch = "x86_64"))]
    Any,
}

/// What looks at a fault first. Returns whether the access is to be repeated.
type OnFault = fn(usize, Access) -> bool;
type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Most handlers of the program that this one was put before. With another one, the program's
/// stays the first.
const STATIONS: usize = 8;
static ENTRIES: [Handler; STATIONS] = [
    on_signal::<0>,
    on_signal::<1>,
    on_signal::<2>,
    on_signal::<3>,
    on_signal::<4>,
    on_signal::<5>,
    on_signal::<6>,
    on_signal::<7>,
];

/// The action that a station replaced.
struct Replaced {
    handler: AtomicUsize,
    flags: AtomicU32,
    /// The signals that are blocked while the handler runs, as bits.
    mask: AtomicU64,
}

static REPLACED: [Replaced; STATIONS] =
    [const { Replaced { handler: AtomicUsize::new(0), flags: AtomicU32::new(0), mask: AtomicU64::new(0) } }; STATIONS];
/// The number of stations that have replaced one. A station's entry is written once, by the thread
/// that holds `BUSY`, before it comes in force.
static USED: AtomicUsize = AtomicUsize::new(0);
/// 1 while a thread changes the action.
static BUSY: AtomicUsize = AtomicUsize::new(0);
/// The stations whose handler has run and was to run once (`SA_RESETHAND`), as bits.
static RESET: AtomicUsize = AtomicUsize::new(0);
/// The function of [`handle`]; 0 before it was called.
static ON_FAULT: AtomicUsize = AtomicUsize::new(0);

/// Handles SIGSEGV from now on: `on_fault` is called for each fault with an address. It may be
/// called at any moment of any thread, so it takes no lock and does not allocate. Returns false if
/// the system refuses.
#[place(cold)]
pub(crate) fn handle(on_fault: OnFault) -> bool {
    ON_FAULT.store(on_fault as usize, Ordering::Release);
    stay_first()
}

/// Puts the handler before that of the program again if the program has installed one. Returns
/// false if it cannot be first.
#[place(cold)]
pub(crate) fn stay_first() -> bool {
    let Some(now) = action() else { return false };
    if ENTRIES.iter().any(|&entry| entry as usize == now.sa_sigaction) {
        return true;
    }
    if BUSY.swap(1, Ordering::Acquire) != 0 {
        // Another thread is at it.
        return true;
    }
    let done = put_before(&now);
    BUSY.store(0, Ordering::Release);
    done
}

/// Returns the action in force.
#[place(cold)]
fn action() -> Option<libc::sigaction> {
    let mut now = MaybeUninit::zeroed();
    // SAFETY: a null action changes nothing. The call fills `now`, and zeros are an action, too.
    unsafe { (libc::sigaction(libc::SIGSEGV, core::ptr::null(), now.as_mut_ptr()) == 0).then(|| now.assume_init()) }
}

/// Puts a station before the action `now`. The caller holds `BUSY`.
#[place(cold)]
fn put_before(now: &libc::sigaction) -> bool {
    let used = USED.load(Ordering::Relaxed);
    let station = match REPLACED[..used].iter().position(|replaced| replaced.is(now)) {
        // The program has installed this handler before.
        Some(station) => station,
        None => {
            let Some(replaced) = REPLACED.get(used) else { return false };
            replaced.set(now);
            USED.store(used + 1, Ordering::Release);
            used
        }
    };
    RESET.fetch_and(!(1 << station), Ordering::Relaxed);
    let mut new = *now;
    new.sa_sigaction = ENTRIES[station] as usize;
    let is_handler = !matches!(now.sa_sigaction, libc::SIG_DFL | libc::SIG_IGN);
    // The kernel gives a handler of the program the mask that it asked for. A fault may be one of
    // the stack.
    let kept = if is_handler { now.sa_flags & (libc::SA_NODEFER | libc::SA_RESTART | libc::SA_ONSTACK) } else { 0 };
    new.sa_flags = kept | libc::SA_SIGINFO | if is_handler { 0 } else { libc::SA_ONSTACK };
    // SAFETY: the action is valid, and its handler finds its entry.
    unsafe { libc::sigaction(libc::SIGSEGV, &raw const new, core::ptr::null_mut()) == 0 }
}

/// Returns the signals of a set as bits.
#[place(cold)]
fn bits(set: &libc::sigset_t) -> u64 {
    // SAFETY: the set is valid, and the numbers are those of signals.
    let is_member = |signal: &i32| unsafe { libc::sigismember(set, *signal) == 1 };
    (1..=64).filter(is_member).fold(0, |bits, signal| bits | 1 << (signal - 1))
}

#[place(cold)]
impl Replaced {
    /// Enters an action. The station has never been in force.
    fn set(&self, action: &libc::sigaction) {
        self.handler.store(action.sa_sigaction, Ordering::Relaxed);
        self.flags.store(action.sa_flags as u32, Ordering::Relaxed);
        self.mask.store(bits(&action.sa_mask), Ordering::Relaxed);
    }

    fn is(&self, action: &libc::sigaction) -> bool {
        self.handler.load(Ordering::Relaxed) == action.sa_sigaction
            && self.flags.load(Ordering::Relaxed) == action.sa_flags as u32
            && self.mask.load(Ordering::Relaxed) == bits(&action.sa_mask)
    }
}

#[place(cold)]
unsafe extern "C" fn on_signal<const STATION: usize>(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes both to a handler with SA_SIGINFO.
    unsafe { deliver(STATION, signal, info, context) };
}

/// # Safety
/// The arguments are those that the kernel passed to the handler of this station.
#[place(cold)]
#[inline(never)]
unsafe fn deliver(station: usize, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // A signal that a process sent has no address.
    // SAFETY: the caller keeps the contract. A fault has an address.
    let (is_fault, address) = unsafe { ((*info).si_code > 0, (*info).si_addr() as usize) };
    let on_fault = ON_FAULT.load(Ordering::Acquire);
    if is_fault && on_fault != 0 {
        // SAFETY: `handle` stored a function of this type; the context is the kernel's.
        let (on_fault, access) =
            unsafe { (core::mem::transmute::<usize, OnFault>(on_fault), access_of(context.cast())) };
        if on_fault(address, access) {
            return;
        }
    }
    let replaced = &REPLACED[station];
    let flags = replaced.flags.load(Ordering::Relaxed) as c_int;
    let was_reset =
        flags & libc::SA_RESETHAND != 0 && RESET.fetch_or(1 << station, Ordering::Relaxed) & (1 << station) != 0;
    match replaced.handler.load(Ordering::Relaxed) {
        libc::SIG_IGN if !is_fault && !was_reset => {}
        // SAFETY: a zeroed action is the default one. The access is repeated, and ends the program
        // as it would have done, or the signal is sent again.
        libc::SIG_DFL | libc::SIG_IGN => unsafe { by_default(signal, is_fault) },
        // SAFETY: as above.
        _ if was_reset => unsafe { by_default(signal, is_fault) },
        // SAFETY: the program gave a handler of this type.
        handler if flags & libc::SA_SIGINFO != 0 => unsafe {
            core::mem::transmute::<usize, Handler>(handler)(signal, info, context);
        },
        // SAFETY: as above.
        handler => unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler)(signal) },
    }
}

/// Has the signal take its default action when the handler returns.
///
/// # Safety
/// The caller is a handler of this signal.
#[place(cold)]
unsafe fn by_default(signal: c_int, is_fault: bool) {
    // SAFETY: a zeroed action is the default one, with an empty mask.
    unsafe {
        let action: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, &raw const action, core::ptr::null_mut());
        if !is_fault {
            let (process, thread) = (super::process_id(), super::kernel_thread_id());
            let _ = syscalls::syscall!(syscalls::Sysno::tgkill, process, thread, signal);
        }
    }
}

/// Returns what the program did, as the processor tells it.
///
/// # Safety
/// `context` is what the kernel passed to a handler.
#[place(cold)]
unsafe fn access_of(context: *const libc::ucontext_t) -> Access {
    #[cfg(target_arch = "x86_64")]
    {
        /// The bit of the error code of a page fault for a write.
        const WRITE: i64 = 2;
        // SAFETY: the caller keeps the contract.
        let error = unsafe { (*context).uc_mcontext.gregs[libc::REG_ERR as usize] };
        if error & WRITE != 0 { Access::Write } else { Access::Read }
    }
    #[cfg(target_arch = "aarch64")]
    {
        /// The bytes of registers before the records that the kernel adds, and their alignment.
        const REGISTERS: usize = (1 + 31 + 3) * 8;
        const RECORDS: usize = REGISTERS.next_multiple_of(16);
        const RECORDS_BYTES: usize = 4096;
        /// The record of the exception's syndrome, which has the bit of a write.
        const SYNDROME: u32 = 0x4553_5201;
        const WRITE: u64 = 1 << 6;
        // SAFETY: the caller keeps the contract. Records begin at multiples of 16 and have a word
        // that names them, one with their bytes, and end with one of name 0.
        unsafe {
            let records = (&raw const (*context).uc_mcontext).cast::<u8>().add(RECORDS);
            let mut at = 0;
            while at + 16 <= RECORDS_BYTES {
                let record = records.add(at);
                let (name, bytes) = (record.cast::<u32>().read(), record.add(4).cast::<u32>().read());
                match name {
                    SYNDROME if record.add(8).cast::<u64>().read() & WRITE != 0 => return Access::Write,
                    SYNDROME => return Access::Read,
                    0 => break,
                    _ if bytes == 0 => break,
                    _ => at += bytes as usize,
                }
            }
        }
        Access::Any
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        Access::Any
    }
}

#[cfg(all(test, target_arch = "aarch64"))]
mod tests {
    use super::*;

    /// The registers of a fault, with these words from the first record on.
    fn context(words: &[u64]) -> std::boxed::Box<libc::ucontext_t> {
        // SAFETY: all its fields are numbers and pointers.
        let mut context: std::boxed::Box<libc::ucontext_t> = std::boxed::Box::new(unsafe { core::mem::zeroed() });
        let registers = (&raw mut context.uc_mcontext).cast::<u64>();
        // SAFETY: the records have 4096 bytes, behind 288 of registers.
        unsafe { registers.add(36).copy_from_nonoverlapping(words.as_ptr(), words.len()) };
        context
    }

    #[test]
    fn the_syndrome_says_whether_it_was_a_write() {
        const SYNDROME: u64 = 0x4553_5201 | 16 << 32;
        const OTHER: u64 = 0x4650_8001 | 32 << 32;
        for (words, access) in [
            (&[SYNDROME, 1 << 6][..], Access::Write),
            (&[SYNDROME, 0x9200_0007], Access::Read),
            (&[OTHER, 0, 0, 0, SYNDROME, 0x9200_0047], Access::Write),
            (&[OTHER, 0, 0, 0, 0, 0], Access::Any),
            // A record without bytes ends the search.
            (&[0x1234, 0, SYNDROME, 0], Access::Any),
            (&[], Access::Any),
        ] {
            // SAFETY: the context is valid.
            assert_eq!(unsafe { access_of(&raw const *context(words)) }, access, "{words:x?}");
        }
    }
}
