//! `guard=N` and the program's own handlers of SIGSEGV.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::unix::process::ExitStatusExt;

use ashlar::malloc;
use common::{Child, child, tell};

const EACH: [(&str, &str); 1] = [("ASHLAR_OPTIONS", "guard=1")];

extern "C" fn leave_by_3(_signal: i32) {
    tell("handled", "here");
    // The stack of the handler may be too small for what runs at exit.
    // SAFETY: ends the process.
    unsafe { libc::_exit(3) };
}

/// Installs a handler of SIGSEGV. Returns the one that was there.
fn install(handler: extern "C" fn(i32), flags: i32) -> libc::sigaction {
    // SAFETY: zeros are an action; the handler is of the type that goes without SA_SIGINFO.
    unsafe {
        let (mut action, mut before): (libc::sigaction, libc::sigaction) = core::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &raw const action, &raw mut before), 0);
        before
    }
}

fn restore(action: &libc::sigaction) {
    // SAFETY: the action was in force before.
    assert_eq!(unsafe { libc::sigaction(libc::SIGSEGV, action, core::ptr::null_mut()) }, 0);
}

/// Writes where nothing is mapped.
fn fault() {
    // SAFETY: the page of zero is never mapped.
    unsafe { core::ptr::without_provenance_mut::<u8>(64).write_volatile(1) };
}

fn use_after_free() {
    let at = malloc::malloc(64);
    // SAFETY: the mistake that is tested.
    unsafe {
        malloc::free(at);
        at.write_volatile(1);
    }
}

/// A fault elsewhere is the program's: it goes to its handler, or ends it by SIGSEGV.
#[test]
fn other_faults_are_passed_on() {
    let test = "other_faults_are_passed_on";
    for (role, flags) in [("plain", 0), ("on its stack", libc::SA_ONSTACK | libc::SA_RESTART)] {
        let handled = child(test, role, &EACH, || {
            install(leave_by_3, flags);
            // The next sample puts the allocator's handler before this one.
            assert!(!malloc::malloc(64).is_null());
            fault();
        });
        if let Some(child) = handled {
            assert_eq!((child.status.code(), child.told("handled")), (Some(3), "here"), "{}", child.stderr);
        }
    }
    for role in ["died", "was sent"] {
        let died = child(test, role, &EACH, || {
            // SAFETY: the default action. The harness of Rust has a handler of its own, for stacks
            // that overflow.
            unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
            assert!(!malloc::malloc(64).is_null());
            if role == "died" {
                fault();
            } else {
                // SAFETY: sends a signal.
                unsafe { libc::raise(libc::SIGSEGV) };
            }
        });
        if let Some(Child { status, stderr, .. }) = died {
            assert_eq!(ExitStatusExt::signal(&status), Some(libc::SIGSEGV), "{role}: {stderr}");
            assert!(!stderr.contains("KFENCE"), "{stderr}");
        }
    }
    let ignored = child(test, "ignored", &EACH, || {
        // SAFETY: sends a signal that is ignored.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_IGN);
            assert!(!malloc::malloc(64).is_null());
            libc::raise(libc::SIGSEGV);
        }
    });
    if let Some(child) = ignored {
        assert_eq!(child.succeeded().stderr, "");
    }
}

static RUNS: AtomicUsize = AtomicUsize::new(0);

extern "C" fn count(_signal: i32) {
    RUNS.fetch_add(1, Ordering::Relaxed);
}

/// Signals that are sent reach the handlers as often as the system would have it.
#[test]
fn a_handler_that_is_to_run_once_runs_once() {
    let test = "a_handler_that_is_to_run_once_runs_once";
    let outcome = child(test, "once", &EACH, || {
        install(count, libc::SA_RESETHAND);
        assert!(!malloc::malloc(64).is_null());
        // SAFETY: sends a signal.
        unsafe { libc::raise(libc::SIGSEGV) };
        tell("runs", RUNS.load(Ordering::Relaxed));
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGSEGV) };
    });
    if let Some(child) = outcome {
        assert_eq!(ExitStatusExt::signal(&child.status), Some(libc::SIGSEGV), "{}", child.stderr);
        assert_eq!(child.told("runs"), "1");
    }
}

/// A program that installs a handler later, or for a while, loses neither its own nor the reports.
#[test]
fn handlers_that_come_later_are_called_after_the_look_at_the_pool() {
    let test = "handlers_that_come_later_are_called_after_the_look_at_the_pool";
    let bodies: [(&str, fn()); 2] = [
        ("later", || {
            install(leave_by_3, 0);
        }),
        ("for a while", || {
            // Longer than there are stations.
            for _ in 0..20 {
                let before = install(leave_by_3, 0);
                assert!(!malloc::malloc(64).is_null());
                restore(&before);
            }
        }),
    ];
    for (role, body) in bodies {
        let reported = child(test, role, &EACH, || {
            assert!(!malloc::malloc(64).is_null());
            body();
            use_after_free();
        });
        if let Some(Child { status, stderr, .. }) = reported {
            assert_eq!(ExitStatusExt::signal(&status), Some(libc::SIGABRT), "{stderr}");
            assert!(stderr.contains("BUG: KFENCE: use-after-free write"), "{stderr}");
        }
    }
    let restored = child(test, "restored", &EACH, || {
        // SAFETY: the default action.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_DFL) };
        assert!(!malloc::malloc(64).is_null());
        let before = install(leave_by_3, 0);
        assert!(!malloc::malloc(64).is_null());
        restore(&before);
        assert!(!malloc::malloc(64).is_null());
        fault();
    });
    if let Some(Child { status, stderr, .. }) = restored {
        assert_eq!(ExitStatusExt::signal(&status), Some(libc::SIGSEGV), "not the handler that is gone: {stderr}");
    }
}
