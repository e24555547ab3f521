//! Signals that end the tool while a program runs under it.
//!
//! The program has a process group of its own. A signal for the tool (from the terminal, or from
//! `kill`) is passed to that group. A group that is still there two seconds later, or at the second
//! signal, is killed. The tool itself goes on, and prints what it has.

use core::sync::atomic::{AtomicI32, Ordering};

/// The process group of the program that runs now, or 0.
static GROUP: AtomicI32 = AtomicI32::new(0);
/// The first signal that arrived, or 0.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

const SIGNALS: [i32; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// Seconds from the signal to the end by force.
const GRACE: u32 = 2;

/// Passes signals on from now on. One that the tool was started to ignore (`nohup`) stays ignored.
pub(super) fn install() {
    for signal in SIGNALS {
        handle(signal);
    }
    handle(libc::SIGALRM);
}

/// Returns the signal that ended the comparison, if one did.
pub(super) fn signal() -> Option<i32> {
    match SIGNAL.load(Ordering::SeqCst) {
        0 => None,
        signal => Some(signal),
    }
}

/// Names the group that gets the signals.
pub(super) fn started(group: i32) {
    GROUP.store(group, Ordering::SeqCst);
    // A signal that came before the group was named has not reached it.
    if let Some(signal) = signal() {
        pass(group, signal);
    }
}

/// Takes the name of the group back, as its leader has ended; true if other processes of it are
/// still there.
#[expect(unsafe_code, reason = "a call of the C library")]
pub(super) fn ended(group: i32) -> bool {
    GROUP.store(0, Ordering::SeqCst);
    // SAFETY: alarm takes no pointer; signal 0 is not delivered.
    unsafe {
        libc::alarm(0);
        libc::kill(-group, 0) == 0
    }
}

#[expect(unsafe_code, reason = "a call of the C library")]
fn pass(group: i32, signal: i32) {
    if group > 0 {
        // SAFETY: kill takes no pointer. `group` is the program's, which was not waited for yet:
        // only then is it named.
        unsafe { libc::kill(-group, signal) };
    }
}

#[expect(unsafe_code, reason = "a signal handler")]
extern "C" fn on_signal(signal: i32) {
    // SAFETY: the address is that of this thread's errno, which lives as long as the thread. What
    // the code that was interrupted is about to read must be there again when this function
    // returns.
    let errno = unsafe { *libc::__errno_location() };
    let group = GROUP.load(Ordering::SeqCst);
    if signal == libc::SIGALRM || SIGNAL.swap(signal, Ordering::SeqCst) != 0 {
        pass(group, libc::SIGKILL);
    } else {
        pass(group, signal);
        // SAFETY: alarm takes no pointer, and may be called from a signal handler.
        unsafe { libc::alarm(GRACE) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

#[expect(unsafe_code, reason = "installs a signal handler")]
fn handle(signal: i32) {
    // SAFETY: `sigaction` is made of integers and an optional function pointer, for which all bits
    // zero is a value; the addresses are those of live values. The handler touches atomics and
    // errno and calls kill and alarm, all of which a signal handler may do.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        libc::sigaction(signal, core::ptr::null(), &raw mut action);
        if action.sa_sigaction == libc::SIG_IGN {
            return;
        }
        let handler: extern "C" fn(i32) = on_signal;
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, core::ptr::null_mut());
    }
}
