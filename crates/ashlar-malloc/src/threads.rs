//! `pthread_create`: calls the C library's, and counts the program's threads.
//!
//! The background thread (see `ashlar::start_reaper`) may be created only by a call of the program
//! that creates a thread itself. So it is created with the program's first thread, and ends before
//! the last one is gone. A program that is single-threaded on the C library's malloc stays so on
//! this one, and may `unshare`, drop capabilities and install seccomp filters. Without the
//! background thread, the program's calls return memory to the system.
//!
//! A thread counts from the call that creates it until its thread-specific data are destroyed. It
//! starts with a few instructions that jump to the program's function, so no frame of this library
//! is on its stack. Threads that the C library creates by itself (`timer_create`, `thrd_create`,
//! `aio_read`) are not counted.

use core::arch::{global_asm, naked_asm};
use core::ffi::{c_int, c_void};
use core::mem::transmute;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use ashlar::{CreateThread, ThreadEntry};
use libc::{pthread_attr_t, pthread_key_t, pthread_t};

use crate::fork_handlers;
use crate::thread_count::LIVE;
use ashlar::address_of;

// `__pthread_create` exists only in static programs, where `pthread_create` is this library's
// function.
global_asm!(".weak __pthread_create, dlsym");

unsafe extern "C" {
    /// Calls `__pthread_create` in the C library. The linker of a static program includes that
    /// function because of this name.
    fn thrd_create();
}
#[used]
static TAKES_THE_REAL_ONE: unsafe extern "C" fn() = thrd_create;

/// The C library's `pthread_create`; null before the first look-up.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

#[inline(never)]
fn real() -> Option<CreateThread> {
    let mut found = REAL.load(Ordering::Relaxed).cast_const();
    if found.is_null() {
        found = address_of!("__pthread_create");
        let dlsym = address_of!("dlsym");
        if found.is_null() && !dlsym.is_null() {
            // SAFETY: the symbol is the C library's function of that name and type.
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
    // SAFETY: the pointer is null or the C library's function of that type.
    unsafe { transmute::<*const c_void, Option<CreateThread>>(found) }
}

/// The key whose value marks a counted thread, plus one; 0 while there is no key.
static KEY: AtomicUsize = AtomicUsize::new(0);

/// Creates the key if there is none. Called at load, or by the first `pthread_create` before that.
pub(crate) fn prepare() {
    if KEY.load(Ordering::Acquire) != 0 {
        return;
    }
    let mut key: pthread_key_t = 0;
    // SAFETY: the key is writable, and the destructor is a function of this library, which is never
    // unloaded.
    if unsafe { libc::pthread_key_create(&mut key, Some(at_end)) } != 0 {
        return;
    }
    if KEY.compare_exchange(0, key as usize + 1, Ordering::AcqRel, Ordering::Relaxed).is_err() {
        // SAFETY: this call created the key and has not published it.
        unsafe { libc::pthread_key_delete(key) };
    }
}

/// Sets this thread's value of the key. Returns false if there is no key.
fn set_value(value: usize) -> bool {
    let Some(key) = KEY.load(Ordering::Acquire).checked_sub(1) else { return false };
    // SAFETY: the key is never deleted, and the value is a number that is never dereferenced.
    unsafe { libc::pthread_setspecific(key as pthread_key_t, core::ptr::without_provenance(value)) == 0 }
}

/// The destructor of the key's values; runs in a thread that ends.
unsafe extern "C" fn at_end(value: *mut c_void) {
    // Destructors run in rounds. This one acts in the last round, after the program's destructors.
    const LAST_ROUND: usize = 3;
    let round = value as usize;
    if round < LAST_ROUND && set_value(round + 1) {
        return;
    }
    ended();
}

/// Handles the end of a counted thread. The last one ends the background thread.
fn ended() {
    let live = LIVE.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |live| live.checked_sub(1));
    if live != Ok(1) {
        // Other threads are alive, or this thread forked and is the only one of the child.
        return;
    }
    follow_count();
}

/// Starts or ends the background thread, depending on the count of threads. Must be called after
/// each change between zero and nonzero.
#[inline(never)]
fn follow_count() {
    if let Some(create) = real() {
        // SAFETY: `create` is the C library's function.
        unsafe { ashlar::reaper_follows(|| LIVE.load(Ordering::Acquire) != 0, create) };
    }
}

/// The function that a new thread runs, and its argument.
struct Start {
    entry: ThreadEntry,
    arg: *mut c_void,
}

/// The first call of a counted thread: copies its function and argument to `out`, and frees
/// `start`.
unsafe extern "C" fn begin(start: *mut Start, out: *mut Start) {
    // SAFETY: `pthread_create` wrote `start` for this thread only, and `out` is on this thread's
    // stack.
    unsafe {
        out.write(start.read());
        ashlar::malloc::free(start.cast());
    }
    if !set_value(1) {
        // Without a value the destructor does not run, so this thread is not counted.
        ended();
    }
}

/// The entry of a counted thread.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
extern "C" fn entry(_start: *mut c_void) -> *mut c_void {
    naked_asm!(
        ".cfi_startproc",
        ashlar::landing_pad!(),
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "add x1, sp, #16",
        "bl {begin}",
        "ldp x16, x0, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_def_cfa_offset 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "br x16",
        ".cfi_endproc",
        begin = sym begin,
    )
}

/// The entry of a counted thread.
#[cfg(target_arch = "x86_64")]
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

/// Creates the program's first thread where the background thread may have the last place under a
/// limit: that place is the program's.
///
/// # Safety
/// As for `pthread_create`. The new thread takes over `place`.
#[cold]
#[inline(never)]
#[place(cold)]
unsafe fn create_first(
    create: CreateThread,
    thread: *mut pthread_t,
    attr: *const pthread_attr_t,
    place: *mut Start,
) -> c_int {
    ashlar::stop_reaper();
    // SAFETY: passed on.
    let error = unsafe { create(thread, attr, entry, place.cast()) };
    follow_count();
    error
}

/// `pthread_create(3)`.
///
/// # Safety
/// As for `pthread_create` of the C library.
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
        // SAFETY: `place` is null or was allocated above, and the caller's arguments are passed
        // unchanged. The thread is not counted.
        unsafe {
            ashlar::malloc::free(place.cast());
            return create(thread, attr, start, arg);
        }
    }
    LIVE.fetch_add(1, Ordering::AcqRel);
    // Before the program's thread, which would keep the CPU from the background thread, and this
    // call waits until that has begun.
    follow_count();
    // SAFETY: `place` is memory for a `Start`, which the new thread takes over. The other arguments
    // are the caller's.
    let mut error = unsafe {
        place.write(Start { entry: start, arg });
        create(thread, attr, entry, place.cast())
    };
    if error == libc::EAGAIN && LIVE.load(Ordering::Acquire) == 1 {
        // SAFETY: as above; the first call created no thread.
        error = unsafe { create_first(create, thread, attr, place) };
    }
    if error != 0 {
        // SAFETY: no thread was created, so no other thread has the memory.
        unsafe { ashlar::malloc::free(place.cast()) };
        ended();
        return error;
    }
    0
}
