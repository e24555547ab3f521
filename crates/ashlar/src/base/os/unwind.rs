//! Backtraces of the calling thread, by the unwinder of the C compiler's library.
//!
//! The library is loaded when a profile starts, by a call of the program or at load: never in an
//! allocation. After that, [`capture`] takes no lock where the C library finds unwind tables
//! without one (glibc from 2.35 on). It may be called again from inside, by an unwinder that
//! allocates; such a call returns no frames.

use core::ffi::{c_char, c_int, c_void};

use crate::base::sync::{AtomicUsize, Ordering, thread_id};

/// What became of a backtrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Extent {
    /// It reaches the first function of the thread, or as far as unwind tables do.
    Whole,
    /// There was no room for all frames.
    Truncated,
    /// The allocation was made inside of another backtrace of the same thread.
    Nested,
}

/// `_Unwind_Backtrace`.
type Backtrace = unsafe extern "C" fn(OnFrame, *mut c_void) -> c_int;
type OnFrame = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
/// `_Unwind_GetIP`.
type GetAddress = unsafe extern "C" fn(*mut c_void) -> usize;

/// The addresses of the two functions; 0 until they are loaded.
static BACKTRACE: AtomicUsize = AtomicUsize::new(0);
static GET_ADDRESS: AtomicUsize = AtomicUsize::new(0);

/// The threads that make a backtrace at this moment; 0 marks a free place.
static UNWINDING: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// `_URC_NO_REASON` and `_URC_NORMAL_STOP`.
const NEXT: c_int = 0;
const STOP: c_int = 4;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
core::arch::global_asm!(
    ".weak dlsym, __libc_single_threaded, _DYNAMIC, __ehdr_start",
    ".hidden _DYNAMIC, __ehdr_start"
);

/// Returns whether the unwinder is loaded.
#[place(cold)]
pub(crate) fn has_unwinder() -> bool {
    BACKTRACE.load(Ordering::Acquire) != 0
}

/// Returns whether the C library says that the process has one thread. Where it does not say, the
/// answer is no.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[place(cold)]
pub(crate) fn has_one_thread() -> bool {
    let byte = crate::address_of!("__libc_single_threaded").cast::<u8>();
    // SAFETY: a byte of the C library, which is never unmapped. Volatile, because the C library
    // writes it.
    !byte.is_null() && unsafe { byte.read_volatile() } != 0
}
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[place(cold)]
pub(crate) fn has_one_thread() -> bool {
    false
}

/// Returns whether the code at `address` is of the C library, of the loader, or of this library, or
/// may be, because the system does not say.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[place(cold)]
#[inline(never)]
pub(crate) fn is_of_c_library(address: usize) -> bool {
    // Under their names of before and after glibc 2.34.
    const THEIRS: [&str; 9] =
        ["libc.", "libc-", "ld-", "ld.", "libpthread", "libdl", "libresolv", "libnss_", "libashlar"];
    let file = super::maps::file_of(address);
    file.is_none_or(|file| THEIRS.iter().any(|name| file.name().starts_with(name)))
}

/// Loads the unwinder. Returns false if there is none, as in a static program.
#[place(cold)]
#[inline(never)]
pub(crate) fn load() -> bool {
    if BACKTRACE.load(Ordering::Acquire) != 0 {
        return true;
    }
    let [backtrace, get_address] = find();
    if backtrace == 0 || get_address == 0 {
        return false;
    }
    GET_ADDRESS.store(get_address, Ordering::Release);
    BACKTRACE.store(backtrace, Ordering::Release);
    // The first backtrace may prepare tables, and allocate for them.
    capture(&mut [0; 4]);
    true
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[place(cold)]
fn find() -> [usize; 2] {
    let find = crate::address_of!("dlsym");
    if find.is_null() {
        return [0; 2];
    }
    // SAFETY: the two are the functions of POSIX, under their names. The strings end in NUL.
    unsafe {
        let find: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = core::mem::transmute(find);
        // The C library's, also where this library has a `dlopen` of its own.
        let open = find(libc::RTLD_NEXT, c"dlopen".as_ptr());
        if open.is_null() {
            return [0; 2];
        }
        let open: unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void = core::mem::transmute(open);
        let library = open(c"libgcc_s.so.1".as_ptr(), libc::RTLD_NOW);
        if library.is_null() {
            return [0; 2];
        }
        let address = |name: &core::ffi::CStr| find(library, name.as_ptr()) as usize;
        [address(c"_Unwind_Backtrace"), address(c"_Unwind_GetIP")]
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn find() -> [usize; 2] {
    [0; 2]
}

/// What a backtrace fills.
struct Frames<'a> {
    frames: &'a mut [usize],
    count: usize,
    get_address: GetAddress,
    truncated: bool,
}

#[place(cold)]
unsafe extern "C" fn on_frame(context: *mut c_void, frames: *mut c_void) -> c_int {
    // SAFETY: `capture` passes its `Frames`, which live until the backtrace is done, and nothing
    // else refers to them meanwhile.
    let frames = unsafe { &mut *frames.cast::<Frames<'_>>() };
    // SAFETY: the unwinder passes its own context.
    let address = unsafe { (frames.get_address)(context) };
    if address == 0 {
        return STOP;
    }
    match frames.frames.get_mut(frames.count) {
        Some(place) => *place = address,
        None => {
            frames.truncated = true;
            return STOP;
        }
    }
    frames.count += 1;
    NEXT
}

/// Writes the return addresses of the calling thread to `frames`, innermost first. Returns their
/// number.
#[place(cold)]
#[inline(never)]
pub(crate) fn capture(frames: &mut [usize]) -> (usize, Extent) {
    let (backtrace, get_address) = (BACKTRACE.load(Ordering::Acquire), GET_ADDRESS.load(Ordering::Acquire));
    if backtrace == 0 {
        return (0, Extent::Whole);
    }
    let me = thread_id();
    if UNWINDING.iter().any(|place| place.load(Ordering::Relaxed) == me) {
        return (0, Extent::Nested);
    }
    let free = |place: &&AtomicUsize| place.compare_exchange(0, me, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let Some(place) = UNWINDING.iter().find(free) else { return (0, Extent::Truncated) };
    // SAFETY: `load` stored the addresses of these functions.
    let (backtrace, get_address) = unsafe {
        (core::mem::transmute::<usize, Backtrace>(backtrace), core::mem::transmute::<usize, GetAddress>(get_address))
    };
    let mut state = Frames { frames, count: 0, get_address, truncated: false };
    // SAFETY: the state lives until the call returns.
    unsafe { backtrace(on_frame, (&raw mut state).cast()) };
    place.store(0, Ordering::Relaxed);
    (state.count, if state.truncated { Extent::Truncated } else { Extent::Whole })
}

/// Most leading frames that are taken for the allocator's own.
const OWN_FRAMES: usize = 16;

/// As [`capture`], without the leading frames of this library. In a program that contains this
/// crate the two cannot be told apart, and all frames are there.
#[place(cold)]
#[inline(never)]
pub(crate) fn capture_of_program(frames: &mut [usize]) -> usize {
    let mut all = [0; 2 * OWN_FRAMES];
    let wanted = (OWN_FRAMES + frames.len()).min(all.len());
    let (count, _) = capture(&mut all[..wanted]);
    let own = own_code();
    let first = all[..count].iter().position(|frame| !own.contains(frame)).unwrap_or(0);
    let taken = (count - first).min(frames.len());
    frames[..taken].copy_from_slice(&all[first..first + taken]);
    taken
}

/// Returns the addresses of the code of the library that contains this function; none in a program.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[place(cold)]
fn own_code() -> core::ops::Range<usize> {
    const PAGE: usize = 4096;
    // The dynamic section lies in the first segment of data, behind all code.
    let (start, end) = (crate::address_of!("__ehdr_start") as usize, crate::address_of!("_DYNAMIC") as usize);
    // SAFETY: getauxval has no preconditions.
    let program = unsafe { libc::getauxval(libc::AT_PHDR) } as usize;
    if end == 0 || program & !(PAGE - 1) == start { 0..0 } else { start..end }
}
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[place(cold)]
fn own_code() -> core::ops::Range<usize> {
    0..0
}

/// Forgets the threads that do not exist in the child.
#[place(background)]
pub(crate) fn after_fork_in_child() {
    let me = thread_id();
    for place in &UNWINDING {
        if place.load(Ordering::Relaxed) != me {
            place.store(0, Ordering::Relaxed);
        }
    }
}
