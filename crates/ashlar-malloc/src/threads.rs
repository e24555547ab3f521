//! `pthread_create`: the C library's, but the program's threads are counted.
//!
//! The background thread (see `ashlar::start_reaper`) may only be made by a call of the program
//! that makes a thread itself. So it is made behind the first thread of the program, and ends
//! before the last one is gone: a program that is single-threaded on the C library's malloc is so
//! on this one, and may `unshare`, drop capabilities and lock itself in. While there is no such
//! thread the program's calls give memory back.
//!
//! A thread counts from the call that makes it until its thread-specific data are destroyed. What
//! it runs is a few instructions ahead of the program's function, which they jump to: no frame of
//! ours is on its stack. Threads that the C library makes for itself (`timer_create`,
//! `thrd_create`, `aio_read`) are not counted.

use core::arch::{global_asm, naked_asm};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use ashlar::{CreateThread, ThreadEntry};
use libc::{pthread_attr_t, pthread_key_t, pthread_t};

use crate::fork_handlers;
use crate::thread_count::LIVE;
use ashlar::address_of;

// `__pthread_create` is there in static programs only: under the other name the linker finds this
// library's.
global_asm!(".weak __pthread_create, dlsym");

unsafe extern "C" {
    /// Makes threads by `__pthread_create`. The linker of a static program takes that from the C
    /// library because of this name.
    fn thrd_create();
}
#[used]
static TAKES_THE_REAL_ONE: unsafe extern "C" fn() = thrd_create;

/// The C library's `pthread_create`, once it was looked up.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

#[inline(never)]
fn real() -> Option<CreateThread> {
    let mut found = REAL.load(Ordering::Relaxed).cast_const();
    if found.is_null() {
        found = address_of!("__pthread_create");
        let dlsym = address_of!("dlsym");
        if found.is_null() && !dlsym.is_null() {
            // SAFETY: this is the C library's function of that name and type.
            let dlsym = unsafe {
                transmute::<*const c_void, unsafe extern "C" fn(*mut c_void, *const core::ffi::c_char) -> *const c_void>(
                    dlsym,
                )
            };
            // SAFETY: the name is NUL-terminated.
            found = unsafe { dlsym(libc::RTLD_NEXT, c"pthread_create".as_ptr()) };
        }
        REAL.store(found.cast_mut(), Ordering::Relaxed);
    }
    // SAFETY: null, or the C library's function of that type.
    unsafe { transmute::<*const c_void, Option<CreateThread>>(found) }
}

/// The key whose value tells that a thread is counted, plus one; 0 while there is none.
static KEY: AtomicUsize = AtomicUsize::new(0);

/// Makes the key, if there is none. Called at load, and by what makes threads before that.
pub(crate) fn prepare() {
    if KEY.load(Ordering::Acquire) != 0 {
        return;
    }
    let mut key: pthread_key_t = 0;
    // SAFETY: the key is writable; the destructor is a function of this library, which is never
    // unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_end)) } != 0 {
        return;
    }
    if KEY.compare_exchange(0, key as usize + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: made above, and known to nothing else.
        unsafe { libc::pthread_key_delete(key) };
    }
}

/// Sets this thread's value of the key; false where there is no key.
fn set_value(value: usize) -> bool {
    let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) else { return false };
    // SAFETY: the key exists for ever. The value is a number.
    unsafe { libc::pthread_setspecific(key as pthread_key_t, core::ptr::without_provenance(value)) == 0 }
}

/// The destructor of the key's values, in a thread that ends.
unsafe extern "C" fn at_end(value: *mut c_void) {
    // Destructors run in rounds: in the last one, so that those of the program are through.
    const LAST_ROUND: usize = 3;
    let round = value as usize;
    if round < LAST_ROUND && set_value(round + 1) {
        return;
    }
    ended();
}

/// A counted thread ends. The last one takes the background thread with it.
fn ended() {
    let live = LIVE.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |live| live.checked_sub(1));
    if live != Ok(1) {
        // Another one lives; or this thread forked and is all that the child has.
        return;
    }
    follow_count();
}

/// Starts the background thread or ends it, as the count of threads asks for. To be called after
/// each change between none and some. Threads that change the count at the same time do this at the
/// same time too: the last one to look finds the count as it stays.
fn follow_count() {
    loop {
        let some = LIVE.load(Ordering::SeqCst) != 0;
        if !some {
            ashlar::stop_reaper();
        } else if let Some(create) = real() {
            // Without it the program's calls do its work.
            // SAFETY: that is the C library's function.
            let _ = unsafe { ashlar::start_reaper_by(create) };
        }
        if (LIVE.load(Ordering::SeqCst) != 0) == some {
            return;
        }
    }
}

/// What a new thread is to run.
struct Start {
    entry: ThreadEntry,
    arg: *mut c_void,
}

/// The first thing that a counted thread does: tells what it is to run in `out`, and frees `start`.
unsafe extern "C" fn begin(start: *mut Start, out: *mut Start) {
    // SAFETY: `pthread_create` wrote it and gave it to this thread alone; `out` is on this thread's
    // stack.
    unsafe {
        out.write(start.read());
        ashlar::malloc::free(start.cast());
    }
    if !set_value(1) {
        // No memory for the value: nothing would tell of this thread's end.
        ended();
    }
}

/// The entry of a counted thread.
#[unsafe(naked)]
extern "C" fn entry(_start: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        "sub rsp, 24",
        ".cfi_adjust_cfa_offset 24",
        "mov rsi, rsp",
        "call {begin}",
        "mov rax, [rsp]",
        "mov rdi, [rsp + 8]",
        "add rsp, 24",
        ".cfi_adjust_cfa_offset -24",
        "jmp rax",
        ".cfi_endproc",
        begin = sym begin,
    )
}
const _: () = assert!(
    size_of::<Start>() == 16 && core::mem::offset_of!(Start, entry) == 0 && core::mem::offset_of!(Start, arg) == 8
);

/// `pthread_create(3)`.
///
/// # Safety
/// As the manual says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    start: ThreadEntry,
    arg: *mut c_void,
) -> c_int {
    let Some(create) = real() else { return libc::EAGAIN };
    fork_handlers::register();
    prepare();
    let place = ashlar::malloc::malloc(size_of::<Start>()).cast::<Start>();
    if place.is_null() || KEY.load(Ordering::Acquire) == 0 {
        // SAFETY: null, or allocated above; the caller's arguments are passed on. The thread is not
        // counted.
        unsafe {
            ashlar::malloc::free(place.cast());
            return create(thread, attr, start, arg);
        }
    }
    LIVE.fetch_add(1, Ordering::AcqRel);
    // SAFETY: memory for a `Start`, which the new thread takes over; the other arguments are the
    // caller's.
    let error = unsafe {
        place.write(Start { entry: start, arg });
        create(thread, attr, entry, place.cast())
    };
    if error != 0 {
        // SAFETY: no thread was made, so nothing else has it.
        unsafe { ashlar::malloc::free(place.cast()) };
        ended();
        return error;
    }
    // The new thread may be through by now.
    follow_count();
    0
}
