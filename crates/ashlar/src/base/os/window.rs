//! Maps the window: a read-only mapping that has a name in `/proc/PID/maps`.

use core::ffi::CStr;

use syscalls::{Errno, Sysno, syscall};

/// The name of the mapping; `/memfd:` stands before it.
const NAME: &CStr = c"ashlar";
/// `memfd_create`: close at exec; and the file is never executed, which a system may demand.
const MFD_CLOEXEC: u32 = 1;
const MFD_NOEXEC_SEAL: u32 = 8;

/// Maps a file in memory that holds `bytes`, and closes it. The mapping appears whole, because it
/// is made last. If the system refuses any of it, there is no mapping.
#[inline(never)]
#[place(cold)]
pub(crate) fn show(bytes: &[u8]) {
    if !may_write(bytes.len()) {
        return;
    }
    // Kernels before 6.3 do not know the second flag.
    let file = match create(MFD_CLOEXEC | MFD_NOEXEC_SEAL) {
        Err(Errno::EINVAL) => create(MFD_CLOEXEC),
        file => file,
    };
    let Ok(file) = file else { return };
    // SAFETY: the bytes are readable for their length, and the descriptor is this function's own.
    // The mapping replaces no other, and no code of the process uses it.
    unsafe {
        if syscall!(Sysno::write, file, bytes.as_ptr(), bytes.len()) == Ok(bytes.len()) {
            let _ = syscall!(Sysno::mmap, 0, bytes.len(), libc::PROT_READ, libc::MAP_PRIVATE, file, 0);
        }
        let _ = syscall!(Sysno::close, file);
    }
}

fn create(flags: u32) -> Result<usize, Errno> {
    // SAFETY: the name is NUL-terminated.
    unsafe { syscall!(Sysno::memfd_create, NAME.as_ptr(), flags) }
}

/// Returns whether a file of this many bytes is within the limit of the process. Beyond the limit,
/// the kernel would send a signal that ends the process.
fn may_write(bytes: usize) -> bool {
    // SAFETY: a zeroed rlimit is valid, and getrlimit writes into it.
    unsafe {
        let mut limit: libc::rlimit = core::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) == 0 && limit.rlim_cur as usize >= bytes
    }
}
