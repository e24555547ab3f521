//! Looks a program up as a shell does, and tells programs apart that ignore `LD_PRELOAD`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::{env, fs};

use crate::error::ToolError;

/// Returns the path of the program `name`: itself if there is a slash in it, else the first one in
/// `PATH`.
pub fn find(name: &OsStr) -> Result<PathBuf, ToolError> {
    let not_found = || ToolError::NotFound(format!("PROGRAM: {}: not found", name.to_string_lossy()));
    if name.as_bytes().contains(&b'/') {
        return if Path::new(name).exists() { Ok(name.into()) } else { Err(not_found()) };
    }
    find_in_path(name).ok_or_else(not_found)
}

/// Returns the first file of this name in `PATH` that may be executed.
pub(crate) fn find_in_path(name: &OsStr) -> Option<PathBuf> {
    let runs = |path: &PathBuf| fs::metadata(path).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).map(|dir| dir.join(name)).find(runs)
}

/// Refuses a program that would run without a preloaded library: a static one, or one with the
/// rights of another user.
pub fn check_preload(path: &Path) -> Result<(), ToolError> {
    let refuse = |why: &str| Err(ToolError::option("PROGRAM", format_args!("{}: {why}", path.display())));
    let meta = match fs::metadata(path) {
        Ok(meta) => meta,
        Err(error) => return refuse(&error.to_string()),
    };
    if gains_rights(&meta) {
        return refuse("set-user-ID or set-group-ID: its dynamic linker ignores LD_PRELOAD");
    }
    match fs::read(path) {
        Ok(bytes) if is_static(&bytes) => {
            refuse("a static program: it has no dynamic linker to preload a library; link it with libashlar_malloc.a")
        }
        // A file that may be executed but not read is left to the system, and so are scripts.
        _ => Ok(()),
    }
}

/// Returns whether a program runs with the rights of another user.
pub(crate) fn gains_rights(meta: &fs::Metadata) -> bool {
    let me = effective_user();
    // A set-user-ID program of the user's own changes nothing, and its linker obeys.
    meta.mode() & libc::S_ISUID != 0 && meta.uid() != me || meta.mode() & libc::S_ISGID != 0 && me != 0
}

#[expect(unsafe_code, reason = "a call of the C library")]
pub(crate) fn effective_user() -> u32 {
    // SAFETY: geteuid has no preconditions and cannot fail.
    unsafe { libc::geteuid() }
}

/// True for a 64-bit ELF program without a `PT_INTERP` segment.
fn is_static(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let word = |at: usize, bytes: usize| -> Option<usize> {
        let field = elf.get(at..at.checked_add(bytes)?)?;
        Some(field.iter().rev().fold(0, |n, &byte| n << 8 | usize::from(byte)))
    };
    if !elf.starts_with(b"\x7fELF\x02\x01") {
        return false;
    }
    let headers = || -> Option<bool> {
        let (start, size, count) = (word(32, 8)?, word(54, 2)?, word(56, 2)?);
        let mut found = false;
        for number in 0..count {
            found |= word(start.checked_add(number * size)?, 4)? == PT_INTERP as usize;
        }
        Some(found)
    };
    headers() == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_elf_files_without_an_interpreter_are_static() {
        let mut elf = vec![0u8; 120];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64;
        elf[54] = 56;
        elf[56] = 1;
        assert!(is_static(&elf), "one segment, which is no interpreter");
        elf[64] = 3;
        assert!(!is_static(&elf));
        assert!(!is_static(&elf[..64]), "cut off");
        assert!(!is_static(b"#!/bin/sh\n"));
        let me = fs::read(env::current_exe().unwrap()).unwrap();
        assert!(!is_static(&me));
    }
}
