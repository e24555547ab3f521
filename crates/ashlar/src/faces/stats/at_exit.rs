//! The figures at exit: `ASHLAR_STATS`.

use super::print::print_stats;
use crate::base::os;
use crate::base::report;
use crate::base::sync::{AtomicU32, AtomicUsize, Ordering, SpinLock};
use crate::faces::file_name::{ROOM, expand};

/// The descriptor for the figures: a copy of standard error made at load, because many programs
/// close theirs before they end.
static TO: AtomicU32 = AtomicU32::new(NOWHERE);
const NOWHERE: u32 = u32::MAX;
/// The figures go to the file that [`FILE`] names.
const TO_FILE: u32 = u32::MAX - 1;
/// 1: as JSON.
static AS_JSON: AtomicUsize = AtomicUsize::new(0);
/// The name of the file, as the variable has it, with a final zero byte.
#[place(large_bss)]
static FILE: SpinLock<[u8; ROOM]> = SpinLock::new([0; ROOM]);

const EXPECTED: &str = "expected text, json, text:FILE or json:FILE, with FILE of at most 1000 bytes";

/// Reads the variable.
#[inline(never)]
#[place(cold)]
pub(crate) fn at_load() {
    let Some(wish) = os::secure_env(c"ASHLAR_STATS") else { return };
    let colon = wish.iter().position(|&byte| byte == b':');
    let (form, file) = colon.map_or((wish, None), |at| (&wish[..at], Some(&wish[at + 1..])));
    let as_json = match form {
        b"text" => 0,
        b"json" => 1,
        _ => return report::warn(format_args!("ASHLAR_STATS: {EXPECTED}")),
    };
    AS_JSON.store(as_json, Ordering::Relaxed);
    match file {
        None => TO.store(os::copy_of_stderr().map_or(NOWHERE, |copy| copy as u32), Ordering::Relaxed),
        Some(file) if (1..=1000).contains(&file.len()) => {
            FILE.lock()[..file.len()].copy_from_slice(file);
            TO.store(TO_FILE, Ordering::Relaxed);
        }
        Some(_) => report::warn(format_args!("ASHLAR_STATS: {EXPECTED}")),
    }
}

/// 1: print also if nothing was allocated.
static IN_ANY_CASE: AtomicUsize = AtomicUsize::new(0);

/// Has the figures printed also if nothing was allocated, for a library that is loaded for its
/// allocator alone.
#[doc(hidden)]
#[place(cold)]
pub fn print_stats_in_any_case() {
    IN_ANY_CASE.store(1, Ordering::Relaxed);
}

/// Returns whether anything was ever allocated here. A program may only contain this crate, or
/// only have asked it for its mode.
#[place(cold)]
fn was_used() -> bool {
    crate::boot::is_up() && (crate::zone_stats().committed > 0 || crate::direct_bytes() > 0)
}

/// Returns whether this allocator has something to tell at exit.
#[place(cold)]
pub(in crate::faces) fn is_wanted() -> bool {
    IN_ANY_CASE.load(Ordering::Relaxed) != 0 || was_used()
}

/// Prints the figures, once, if the allocator was used or they are wanted in any case.
#[inline(never)]
#[place(cold)]
pub(crate) fn at_exit() {
    let to = TO.swap(NOWHERE, Ordering::Relaxed);
    if to == NOWHERE || !is_wanted() {
        return;
    }
    let as_json = AS_JSON.load(Ordering::Relaxed) != 0;
    if to != TO_FILE {
        let _ = print_stats(to as i32, as_json);
        return;
    }
    let mut name = [0; ROOM];
    if !expand(&FILE.lock()[..], &mut name) {
        return report::warn(format_args!("ASHLAR_STATS: {EXPECTED}"));
    }
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    let shown = core::str::from_utf8(&name[..end]).unwrap_or("FILE");
    let file = match os::append_to(&name) {
        Ok(file) => file,
        Err(error) => return report::warn(format_args!("ASHLAR_STATS: {shown}: cannot be opened (error {error})")),
    };
    if let Err(error) = print_stats(file, as_json) {
        report::warn(format_args!("ASHLAR_STATS: {shown}: cannot be written (error {error})"));
    }
    os::close(file);
}
