//! The critical sections, as restartable sequences, in a folder for each kind of processor.
//!
//! * `mod.rs` there: the sections of one object, and those that read or replace a slot.
//! * `bulk`: the sections of many objects.
//! * `linked`: the sections of engines that keep one slab per CPU instead of sheaves; see [`link`].
//! * `thread`: a thread's rseq area, and the self-test.
//!
//!
//! A section is a range of instructions that ends in one store, the commit. If the thread is
//! preempted, migrated or signalled before the commit, the kernel sends it to the abort handler,
//! which leaves in the same way as a closed gate does. So a section has exclusive access to its
//! CPU's slot on that CPU, without a lock and without an atomic read-modify-write.
//!
//! A handler that restarts its section would be shorter. But a thread under a debugger's single
//! steps would never leave, because each step is an abort. Leaving costs one operation without
//! sheaves per abort, and aborts are rarer than context switches.
//!
//! Rules of every section (see Linux `Documentation/userspace-api/rseq.rst`):
//! * The only rseq field written is `rseq_cs`; the CPU number is read inside the section.
//! * There is no system call, no call and no stack access inside.
//! * The 4-byte signature stands right before the abort handler, which lies in a cold section.
//! * Inputs are unchanged when the handler leaves. Stores before the commit are to words that no
//!   other code reads, or are undone.
//! * The gate is compared inside the section, so a section that commits has seen a stop (see
//!   [`super::drain`]).

#[cfg(target_arch = "aarch64")]
mod aarch64;
pub(crate) mod link;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

use super::area::PERCPU;
use super::mode::{Mode, mode};
use crate::base::sync::Ordering;

/// Returns the CPU that this thread runs on, by rseq. `None` in the portable mode, in a thread that
/// is not registered yet, and on a CPU without an area.
#[inline(always)]
pub(crate) fn cpu() -> Option<u32> {
    if mode() == Mode::Lock {
        return None;
    }
    let cpu = thread::cpu_id(rseq_offset()) as u32;
    (cpu < PERCPU.cpus.load(Ordering::Relaxed)).then_some(cpu)
}
