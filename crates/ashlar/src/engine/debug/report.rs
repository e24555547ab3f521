//! The reports of debugged caches, in the form of the kernel's mm/slub.c.
//!
//! Each report is a block of lines on standard error. A line is built on the stack and written by
//! one system call; nothing here allocates or takes a lock.

use core::fmt::{Arguments, Write};
use core::ops::Range;

use super::flags::DebugFlags;
use super::object::{Event, Slot, state_of};
use super::state::DebugState;
use super::track::Track;
use crate::base::report::{Line, end_unless_quarantine, frame, plain as line};
use crate::base::sync::Ordering;
use crate::base::units::PAGE_SIZE;
use crate::engine::RawCache;
use crate::pages::memmap::MEMMAP;
use crate::slab::state::SlabState;
use ashlar_macros::place;

const RULE: &str = "=============================================================================";
const THIN_RULE: &str = "-----------------------------------------------------------------------------";
/// Bytes that a line of a dump shows.
const ROW: usize = 16;

/// The first lines of a report. Counts it.
#[place(cold)]
pub(super) fn bug(cache: &RawCache, state: &DebugState, what: Arguments<'_>) {
    state.count_error();
    line(format_args!("{RULE}"));
    line(format_args!("BUG {} (ashlar {}): {what}", cache.name(), env!("CARGO_PKG_VERSION")));
    line(format_args!("{THIN_RULE}"));
}

/// Reports what was done about a defect. Counts it, as the kernel's tests do.
#[cold]
#[place(cold)]
pub(super) fn fixed(cache: &RawCache, state: &DebugState, what: Arguments<'_>) {
    state.count_error();
    line(format_args!("FIX {}: {what}", cache.name()));
}

#[place(cold)]
fn dump(what: &str, slot: &Slot, range: Range<usize>) {
    let mut at = range.start;
    while at < range.end {
        let end = (at + ROW).min(range.end);
        let mut text = Line::new();
        let _ = write!(text, "{what} {at:016x}: ");
        for byte in at..at + ROW {
            let _ = if byte < end { write!(text, "{:02x} ", slot.byte(byte)) } else { write!(text, "   ") };
        }
        for byte in at..end {
            let byte = slot.byte(byte);
            let _ = text.write_char(if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' });
        }
        let _ = writeln!(text);
        text.print();
        at = end;
    }
}

/// Prints a track with its return addresses.
#[place(cold)]
pub(super) fn track(what: &str, track: &Track) {
    #[cfg(feature = "os")]
    let age = crate::base::os::now_ms().saturating_sub(track.at_ms);
    #[cfg(not(feature = "os"))]
    let age = 0;
    line(format_args!("{what} age={age} ms cpu={} thread={}", track.cpu, track.thread));
    track.frames().for_each(frame);
}

/// Prints all that is known of an object: the kernel's `print_trailer`.
#[place(cold)]
fn trailer(slot: &Slot) {
    for (event, what) in [(Event::Alloc, "Allocated:"), (Event::Free, "Freed:")] {
        if let Some(found) = slot.track(event) {
            track(what, &found);
        }
    }
    let (page, layout) = (slot.page, &slot.layout);
    let head = MEMMAP.head(page);
    let state = SlabState(head.state.load(Ordering::Relaxed));
    line(format_args!(
        "Slab {:#x} objects={} used={} fp={:#x} flags={}",
        MEMMAP.address_of(page),
        head.objects(),
        state.inuse(),
        state.head(),
        slot.flags
    ));
    line(format_args!("Object {:#x} @offset={} size={} {}", slot.at, slot.offset_in_slab(), layout.size, slot.mark()));
    line(format_args!(""));
    if layout.left > 0 {
        dump("Redzone ", slot, slot.at - layout.left..slot.at);
    }
    dump("Object  ", slot, slot.at..slot.at + layout.size.min(PAGE_SIZE));
    if slot.flags.has(DebugFlags::RED_ZONE) {
        dump("Redzone ", slot, slot.at + layout.size..slot.at + layout.link);
    }
    if layout.padding < layout.end {
        dump("Padding ", slot, slot.at + layout.padding..slot.at + layout.end);
    }
}

/// Ends an operation of a cache, before which there were so many errors. If it reported something,
/// prints where the calling thread is, and ends the program unless it is to go on. The operation
/// holds no lock any more, so that a lock that the unwinder may take is of no consequence.
#[place(cold)]
pub(super) fn end_of_operation(cache: &RawCache, errors_before: usize) {
    if state_of(cache).errors() != errors_before {
        found();
        end_unless_quarantine();
    }
}

#[cold]
#[inline(never)]
#[place(cold)]
pub(super) fn found() {
    track("Found:", &Track::here(true));
}

/// Reports a defect of an object (the kernel's `object_err`).
#[cold]
#[place(cold)]
pub(super) fn object(slot: &Slot, what: &str) {
    bug(slot.cache, slot.state, format_args!("{what}"));
    trailer(slot);
}

/// Reports bytes, the first and the last wrong one, that should all be `value`.
#[cold]
#[place(cold)]
pub(super) fn overwritten(slot: &Slot, what: &str, wrong: Range<usize>, value: u8) {
    bug(slot.cache, slot.state, format_args!("{what} overwritten"));
    line(format_args!(
        "{:#x}-{:#x} @offset={}. First byte {:#x} instead of {value:#x}",
        wrong.start,
        wrong.end,
        wrong.start - MEMMAP.address_of(slot.page),
        slot.byte(wrong.start)
    ));
    trailer(slot);
}

/// Reports that bytes were given back their value.
#[cold]
#[place(cold)]
pub(super) fn restored(slot: &Slot, what: &str, range: Range<usize>, value: u8) {
    fixed(slot.cache, slot.state, format_args!("Restoring {what} {:#x}-{:#x}={value:#x}", range.start, range.end - 1));
}

/// Reports a defect of a slab, or of an address that is no object (the kernel's `slab_err`).
#[cold]
#[place(cold)]
pub(super) fn slab(cache: &RawCache, state: &DebugState, what: Arguments<'_>) {
    bug(cache, state, what);
}

/// Prints an object that is in use although its cache is to go.
#[cold]
#[place(cold)]
pub(super) fn remaining(slot: &Slot) {
    line(format_args!("Object {:#x} @offset={}", slot.at, slot.offset_in_slab()));
    if let Some(found) = slot.track(Event::Alloc) {
        track("Allocated:", &found);
    }
}

/// Prints the line of an allocation or a free of a traced cache.
#[cold]
#[place(cold)]
pub(super) fn trace(slot: &Slot, event: Event, by: &Track) {
    let state = SlabState(MEMMAP.head(slot.page).state.load(Ordering::Relaxed));
    let what = if event == Event::Alloc { "alloc" } else { "free" };
    line(format_args!(
        "TRACE {} {what} {:#x} inuse={} fp={:#x}",
        slot.cache.name(),
        slot.at,
        state.inuse(),
        state.head()
    ));
    if event == Event::Free {
        dump("Object  ", slot, slot.at..slot.at + slot.layout.size.min(PAGE_SIZE));
    }
    track("By:", by);
}
