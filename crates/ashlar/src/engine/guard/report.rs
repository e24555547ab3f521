//! The reports of guarded objects, in the kernel's words (Documentation/dev-tools/kfence.rst).

use core::fmt::{self, Arguments, Display};

use super::pool::{Changed, canary, number_at};
use super::slot::{SLOTS, State};
use crate::base::os::{self, fault::Access};
use crate::base::report::{end_unless_quarantine, frame, plain};
use crate::engine::debug::track::Track;
use ashlar_macros::place;

const RULE: &str = "==================================================================";

#[place(cold)]
impl Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Access::Read => "read",
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            Access::Write => "write",
            #[cfg(not(target_arch = "x86_64"))]
            Access::Any => "access",
        })
    }
}

/// Prints a report: what happened, where, and to which object.
#[place(cold)]
fn print(bug: Arguments<'_>, place: Arguments<'_>, number: Option<usize>) {
    plain(format_args!("{RULE}"));
    plain(format_args!("BUG: KFENCE: {bug} (ashlar {})", env!("CARGO_PKG_VERSION")));
    plain(format_args!(""));
    plain(place);
    frames(&Track::here(true));
    if let Some(number) = number {
        object(number);
    }
    plain(format_args!("{RULE}"));
}

/// Ends the program after a report, unless it is to go on.
#[cold]
#[place(cold)]
pub(super) fn end() {
    end_unless_quarantine();
}

#[place(cold)]
fn frames(track: &Track) {
    track.frames().for_each(frame);
}

/// Prints an object, and who allocated and freed it.
#[place(cold)]
fn object(number: usize) {
    let slot = &SLOTS[number];
    let (start, bytes) = (slot.start(), slot.bytes());
    let last = start + bytes.saturating_sub(1);
    plain(format_args!(""));
    plain(format_args!("kfence-#{number}: {start:#x}-{last:#x}, size={bytes}, cache={}", slot.name()));
    for (what, track) in slot.tracks() {
        if track.is_some() {
            let age = os::now_ms().saturating_sub(track.at_ms);
            plain(format_args!(""));
            plain(format_args!("{what} by thread {} on cpu {} {age} ms ago:", track.thread, track.cpu));
            frames(&track);
        }
    }
}

#[cold]
#[place(cold)]
pub(super) fn out_of_bounds(number: usize, address: usize, access: Access, distance: usize, side: &str) {
    print(
        format_args!("out-of-bounds {access}"),
        format_args!("Out-of-bounds {access} at {address:#x} ({distance}B {side} of kfence-#{number}):"),
        Some(number),
    );
}

#[cold]
#[place(cold)]
pub(super) fn use_after_free(number: usize, address: usize, access: Access) {
    print(
        format_args!("use-after-free {access}"),
        format_args!("Use-after-free {access} at {address:#x} (in kfence-#{number}):"),
        Some(number),
    );
}

#[cold]
#[place(cold)]
pub(super) fn invalid_access(address: usize, access: Access) {
    print(format_args!("invalid {access}"), format_args!("Invalid {access} at {address:#x}:"), None);
}

#[cold]
#[place(cold)]
pub(super) fn invalid_free(function: &str, address: usize) {
    let number = number_at(address).filter(|&number| !SLOTS[number].is(State::Unused));
    let bug = format_args!("invalid free");
    match number {
        Some(number) => {
            print(bug, format_args!("Invalid free of {address:#x} by {function} (in kfence-#{number}):"), Some(number))
        }
        None => print(bug, format_args!("Invalid free of {address:#x} by {function}:"), None),
    }
    end();
}

/// The bytes that differ from the pattern, and a dot for each that does not.
#[place(cold)]
impl Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (offset, &byte) in self.bytes[..self.count].iter().enumerate() {
            if byte == canary(self.at + offset) { f.write_str(". ")? } else { write!(f, "{byte:#04x} ")? }
        }
        Ok(())
    }
}

/// Reports that bytes beside an object were overwritten. The caller decides whether that is the
/// [`end`].
#[cold]
#[place(cold)]
pub(super) fn corruption(number: usize, changed: &Changed) {
    print(
        format_args!("memory corruption"),
        format_args!("Corrupted memory at {:#x} [ {}] (in kfence-#{number}):", changed.at, *changed),
        Some(number),
    );
}

/// Prints what is known of an address of the pool.
#[place(cold)]
pub(super) fn describe(address: usize) {
    let Some(number) = number_at(address).filter(|&number| !SLOTS[number].is(State::Unused)) else {
        return crate::base::report::warn(format_args!("{address:#x} lies between guarded objects"));
    };
    let state = if SLOTS[number].is(State::Live) { "in use" } else { "free" };
    crate::base::report::warn(format_args!("{address:#x} lies on the page of a guarded object, {state}"));
    object(number);
}
