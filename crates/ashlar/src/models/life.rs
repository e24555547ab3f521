//! The life of the background thread, see [`crate::base::sync::life`]. Threads that come and go
//! start and end it, and in the end it is there if one of them is.

use std::sync::Arc;

use super::{explore, race};
use crate::base::sync::life::{Life, follow};
use crate::base::sync::{AtomicU32, Ordering};

/// The program's threads, and the life of the thread beside them.
struct Program {
    threads: AtomicU32,
    life: Life,
}

impl Program {
    fn with(threads: u32) -> Arc<Program> {
        Arc::new(Program { threads: AtomicU32::new(threads), life: Life::new() })
    }
    fn follows(&self) {
        let wanted = || self.threads.load(Ordering::Acquire) != 0;
        follow(wanted, |some| {
            if some {
                assert!(self.life.start(|| true));
            } else {
                self.life.stop(|| self.life.ended(), || ());
            }
        });
    }
    fn begins(&self) {
        self.threads.fetch_add(1, Ordering::AcqRel);
        self.follows();
    }
    fn ends(&self) {
        if self.threads.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.follows();
        }
    }
}

/// The first thread ends while its creator still starts the thread beside it.
#[test]
fn a_thread_that_ends_at_once_leaves_none_behind() {
    explore(|| {
        let program = Program::with(1);
        let thread = program.clone();
        race(move || thread.ends(), || (), || program.follows());
        assert!(!program.life.is_running());
    });
}

/// One thread creates another and ends, and the other ends, too.
#[test]
fn two_threads_that_end_leave_none_behind() {
    explore(|| {
        let program = Program::with(2);
        let [one, other] = [program.clone(), program.clone()];
        race(move || one.ends(), move || other.ends(), || program.follows());
        assert!(!program.life.is_running());
    });
}

/// The last thread ends while the next one begins.
#[test]
fn a_thread_that_begins_has_it_beside_it() {
    explore(|| {
        let program = Program::with(1);
        program.follows();
        assert!(program.life.is_running());
        let last = program.clone();
        race(move || last.ends(), || (), || program.begins());
        assert!(program.life.is_running());
    });
}
