//! The profile as the environment asks for it: `ASHLAR_OPTIONS=profile=RATE` starts it at load, and
//! `ASHLAR_PROFILE=FILE` has it written at exit.

use crate::base::os;
use crate::base::report;
use crate::base::sync::SpinLock;
use crate::boot;
use crate::cache::settings;
use crate::faces::file_name::{ROOM, expand};
use crate::faces::stats;
use crate::sizes::profile::{self, FORMAT};

/// The rate of a file without a rate.
const USUAL_RATE: usize = 512 << 10;

/// The name of the file, as the variable has it, with a final zero byte; empty for none.
#[place(large_bss)]
static FILE: SpinLock<[u8; ROOM]> = SpinLock::new([0; ROOM]);

/// Starts the profile that the environment asks for. Called at load, because backtraces need a
/// library to be loaded. The allocator starts here only if a profile is wanted.
#[inline(never)]
#[place(cold)]
pub(crate) fn start_as_asked() {
    let file = os::secure_env(c"ASHLAR_PROFILE");
    let is_mentioned = |options: &[u8]| options.windows(7).any(|part| part == b"profile");
    if file.is_none() && !os::secure_env(c"ASHLAR_OPTIONS").is_some_and(is_mentioned) {
        return;
    }
    if !boot::ensure_base() {
        return;
    }
    let options = settings::options();
    if options.profile_ready {
        profile::load_unwinder();
    }
    let rate = match (options.profile, file) {
        (0, None) => return,
        (0, Some(_)) => USUAL_RATE,
        (rate, _) => rate,
    };
    let name = file.unwrap_or_default();
    if name.len() >= ROOM || file.is_some() && name.is_empty() {
        return report::warn(format_args!("ASHLAR_PROFILE: expected a file, with a name of at most 1000 bytes"));
    }
    match profile::start(rate) {
        Ok(()) => FILE.lock()[..name.len()].copy_from_slice(name),
        Err(error) => report::warn(format_args!("{error}")),
    }
}

/// Writes the profile to the file that the environment names, once. A program may have two
/// allocators, as one on libashlar has that also preloads the library for malloc. The second to
/// end adds `.2` to the name.
#[inline(never)]
#[place(cold)]
pub(crate) fn write_at_exit() {
    let mut name = core::mem::replace(&mut *FILE.lock(), [0; ROOM]);
    let len = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    if len == 0 || !stats::is_wanted() {
        return;
    }
    if is_written(&name)
        && let Some(end) = name.get_mut(len..len + 2)
    {
        end.copy_from_slice(b".2");
    }
    if let Err(error) = write(&name) {
        let shown = core::str::from_utf8(&name[..len]).unwrap_or("FILE");
        report::warn(format_args!("ASHLAR_PROFILE: {shown}: cannot be written (error {error})"));
    }
}

/// Returns whether a file begins as the profile of this process does.
#[place(cold)]
fn is_written(name: &[u8]) -> bool {
    let (mut path, mut head) = ([0; ROOM], [0; 64]);
    let mut own = [0; 16];
    let own = profile::pid_line(&mut own);
    expand(name, &mut path)
        && core::ffi::CStr::from_bytes_until_nul(&path).is_ok_and(|path| os::read_file(path, &mut head) > 0)
        && head.starts_with(FORMAT)
        && head.windows(own.len()).any(|line| line == own)
}

/// Writes the profile to a file; the error is the system's.
#[place(cold)]
pub(super) fn write(name: &[u8]) -> Result<(), i32> {
    let mut path = [0; ROOM];
    if !expand(name, &mut path) {
        return Err(libc::ENAMETOOLONG);
    }
    let file = os::replace_file(&path)?;
    let written = profile::dump(file);
    os::close(file);
    if written { Ok(()) } else { Err(libc::EIO) }
}
