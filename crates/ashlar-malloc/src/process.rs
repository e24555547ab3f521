//! Load, fork and exit.
//!
//! At load the fork handlers are registered. The C library calls the handlers of `prepare` in reverse order of
//! registration and the others in order, and this library comes up before the program: so all locks are taken after
//! every other handler ran, and released before any other runs, and all of them may allocate. Allocation before
//! this constructor needs none of it.
//!
//! Then replaced forms of new and delete are looked for. What start-up used of the library and no
//! call needs any more is dropped when that is over. At exit the table that `ASHLAR_STATS` asks for
//! is printed.

use core::ffi::c_char;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::figures;
use crate::text::to_stderr;
#[cfg(target_arch = "x86_64")]
use crate::weak::address_of;

unsafe extern "C" {
    /// glibc and musl: `getenv` that knows set-user-ID.
    fn secure_getenv(name: *const c_char) -> *const c_char;
}

extern "C" fn at_load() {
    if !ashlar::fork::register() {
        to_stderr(b"ashlar: no memory for fork handlers: do not fork while threads allocate\n");
    }
    #[cfg(target_arch = "x86_64")]
    crate::cxx::look_for_replacements();
    read_wish();
    #[cfg(target_arch = "x86_64")]
    ashlar::malloc::when_up(drop_what_lies_apart);
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".weak ashlar_apart_code_start, ashlar_apart_code_end, ashlar_apart_tables_start, ashlar_apart_tables_end",
    ".hidden ashlar_apart_code_start, ashlar_apart_code_end, ashlar_apart_tables_start, ashlar_apart_tables_end",
);

/// Makes the pages of code and tables that lie apart non-resident, of which start-up used some, as the kernel frees its init memory. Who
/// needs one later has it read from the file again. Without a layout, as in a static library, there are none. What a debugger wrote into them, a breakpoint in start-up, is lost.
#[cfg(target_arch = "x86_64")]
fn drop_what_lies_apart() {
    let code = address_of!("ashlar_apart_code_start") as usize..address_of!("ashlar_apart_code_end") as usize;
    let tables = address_of!("ashlar_apart_tables_start") as usize..address_of!("ashlar_apart_tables_end") as usize;
    for range in [code, tables] {
        if range.start < range.end {
            // SAFETY: the linker laid nothing into these pages but code and constants, which nobody writes. They are pages of the file, and what
            // is dropped of those is read again. This function does not lie there. A refusal does no harm.
            unsafe { libc::madvise(range.start as *mut libc::c_void, range.len(), libc::MADV_DONTNEED) };
        }
    }
}

/// Where the table goes: standard error as it was at load, since many programs close theirs before the end. -1: nowhere.
static STATS_TO: AtomicI32 = AtomicI32::new(-1);
static STATS_AS_JSON: AtomicBool = AtomicBool::new(false);

fn read_wish() {
    // SAFETY: the name is NUL-terminated; in a set-user-ID program the result is null.
    let wanted = unsafe { secure_getenv(c"ASHLAR_STATS".as_ptr()) };
    if wanted.is_null() {
        return;
    }
    // SAFETY: a result that is not null is a NUL-terminated string.
    match unsafe { core::ffi::CStr::from_ptr(wanted) }.to_bytes() {
        b"json" => STATS_AS_JSON.store(true, Ordering::Relaxed),
        b"text" => {}
        _ => return to_stderr(b"ashlar: ASHLAR_STATS: expected text or json\n"),
    }
    // SAFETY: fcntl of this command takes integers only. Low numbers are left to the program.
    STATS_TO.store(unsafe { libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 100) }, Ordering::Relaxed);
}

extern "C" fn at_exit() {
    let fd = STATS_TO.swap(-1, Ordering::Relaxed);
    if fd >= 0 {
        figures::print(fd, STATS_AS_JSON.load(Ordering::Relaxed));
    }
}

// SAFETY: the section is an array of functions without arguments that the loader calls once, at load.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

// SAFETY: as above, at exit.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;
