//! What is the library's own: options, counters, mode, version.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write;

use core_ashlar::{CacheInfo, MAX_NAME, Mode, OptionError, ReaperError, Tunable, TuneError};
use libc::{EBUSY, EINVAL, ENOMEM};

use crate::cache::kmem_cache;
use crate::report::{Line, warn};

/// Bytes of a cache's name in `struct ashlar_cache_info`, with its end.
pub const ASHLAR_NAME_SIZE: usize = 48;
const _: () = assert!(ASHLAR_NAME_SIZE == MAX_NAME + 1);
/// Bytes of an engine's id in `struct ashlar_cache_info`, with its end.
pub const ASHLAR_ENGINE_SIZE: usize = 16;

/// What a cache looks like at one moment. Sums over all nodes; exact while no thread allocates or
/// frees.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ashlar_cache_info {
    /// Name, as a string.
    pub name: [c_char; ASHLAR_NAME_SIZE],
    /// Id of the engine, as a string.
    pub engine: [c_char; ASHLAR_ENGINE_SIZE],
    /// Caches that share these slabs and figures; more than 1 where caches were merged.
    /// ashlar_for_each_alias tells their names.
    pub refcount: usize,
    /// Bytes that the user may use.
    pub object_size: usize,
    /// Bytes from one object to the next.
    pub stride: usize,
    /// Alignment of objects in bytes.
    pub align: usize,
    /// Objects in a slab.
    pub objects_per_slab: usize,
    /// Order of a slab: 2^order pages of 4 KiB.
    pub order: usize,
    /// Objects in a sheaf; 0: no sheaves.
    pub sheaf_capacity: usize,
    /// Full sheaves that each barn may hold.
    pub barn_limit: usize,
    /// Empty slabs that each node keeps.
    pub min_partial: usize,
    /// Slabs in existence.
    pub slabs: usize,
    /// Objects that those slabs can hold.
    pub objects: usize,
    /// Objects allocated and not freed, those in prefilled sheaves among them.
    pub live: usize,
    /// Free objects in the sheaves of CPUs and barns.
    pub cached: usize,
    /// Bytes of slab space.
    pub bytes: usize,
    /// Slabs on partial lists.
    pub partial: usize,
    /// Full sheaves taken out of barns, since the cache was created; as all that follow.
    pub barn_get: u64,
    /// Times that a full sheaf was wanted and a barn had none.
    pub barn_get_fail: u64,
    /// Full sheaves put into barns.
    pub barn_put: u64,
    /// Full sheaves that a barn had no room for.
    pub barn_put_fail: u64,
    /// Sheaves that one CPU took out of the barn of another.
    pub barn_robbed: u64,
    /// Refills from slabs.
    pub sheaf_refill: u64,
    /// Flushes to slabs.
    pub sheaf_flush: u64,
    /// Slabs made.
    pub alloc_slab: u64,
    /// Slabs given back.
    pub free_slab: u64,
    /// Slabs of a smaller order than wanted, where pages were short.
    pub order_fallback: u64,
}

/// `text` as a C string, cut if need be.
fn string<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (to, from) in out[..N - 1].iter_mut().zip(text.bytes()) {
        *to = from as c_char;
    }
    out
}

fn translate(info: &CacheInfo) -> ashlar_cache_info {
    ashlar_cache_info {
        name: string(info.name()),
        engine: string(info.engine.id()),
        refcount: info.refcount,
        object_size: info.object_size,
        stride: info.stride,
        align: info.align,
        objects_per_slab: info.objects_per_slab,
        order: usize::from(info.order),
        sheaf_capacity: info.sheaf_capacity,
        barn_limit: info.barn_limit,
        min_partial: info.min_partial,
        slabs: info.usage.slabs,
        objects: info.usage.objects,
        live: info.usage.live,
        cached: info.usage.cached,
        bytes: info.usage.bytes,
        partial: info.usage.partial,
        barn_get: info.barn.get,
        barn_get_fail: info.barn.get_fail,
        barn_put: info.barn.put,
        barn_put_fail: info.barn.put_fail,
        barn_robbed: info.barn.robbed,
        sheaf_refill: info.slow.sheaf_refill,
        sheaf_flush: info.slow.sheaf_flush,
        alloc_slab: info.slow.alloc_slab,
        free_slab: info.slow.free_slab,
        order_fallback: info.slow.order_fallback,
    }
}

/// Shape, tunables and figures of a cache.
///
/// # Safety
/// `s` is a live cache; `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_cache_info(s: *const kmem_cache, info: *mut ashlar_cache_info) {
    // SAFETY: by the caller's promise.
    unsafe { info.write(translate(&(*s).inner.info())) };
}

/// Why a tunable could not be told or set, in words; the result for C.
fn refuse(function: &str, cache: &kmem_cache, why: core::fmt::Arguments<'_>, errno: c_int) -> c_int {
    warn(format_args!("{function}({}): {why}", cache.inner.name()));
    -errno
}

/// # Safety
/// `name` is null or a string.
unsafe fn tunable(name: *const c_char) -> Option<Tunable> {
    // SAFETY: a string where it is not null, by the caller's promise.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    name.and_then(|name| name.to_str().ok()).and_then(Tunable::from_name)
}

const TUNABLES: &str =
    "name: expected cpu_partial, min_partial, sheaf_capacity, remote_node_defrag_ratio, limit, batchcount or shared";

/// Changes a tunable of a cache, also while threads use it: cpu_partial, min_partial,
/// sheaf_capacity, remote_node_defrag_ratio, limit, batchcount or shared; for all names of merged
/// caches. Returns 0; -EINVAL, after a line on standard error that names the tunable and what was
/// expected, for an unknown name, a value out of range, or an engine that has no such thing;
/// -ENOMEM. Nothing has changed then.
///
/// # Safety
/// `s` is a live cache, `name` null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_set_tunable(s: *mut kmem_cache, name: *const c_char, value: usize) -> c_int {
    // SAFETY: by the caller's promise.
    let (cache, which) = unsafe { (&*s, tunable(name)) };
    let Some(which) = which else { return refuse("ashlar_set_tunable", cache, format_args!("{TUNABLES}"), EINVAL) };
    match cache.inner.set_tunable(which, value) {
        Ok(()) => 0,
        Err(error) => {
            let errno = if error == TuneError::OutOfMemory { ENOMEM } else { EINVAL };
            refuse("ashlar_set_tunable", cache, format_args!("{error}"), errno)
        }
    }
}

/// Writes a tunable of a cache to `value`. Returns 0; -EINVAL for an unknown name, after a line on
/// standard error, and, without one, where the cache's engine has no such thing.
///
/// # Safety
/// `s` is a live cache, `name` null or a string; `value` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_tunable(s: *const kmem_cache, name: *const c_char, value: *mut usize) -> c_int {
    // SAFETY: by the caller's promise.
    let (cache, which) = unsafe { (&*s, tunable(name)) };
    let Some(which) = which else { return refuse("ashlar_tunable", cache, format_args!("{TUNABLES}"), EINVAL) };
    match cache.inner.tunable(which) {
        Some(now) => {
            // SAFETY: by the caller's promise.
            unsafe { value.write(now) };
            0
        }
        None => -EINVAL,
    }
}

/// Calls `each` for every cache, those of kmalloc among them, with `arg`. It may allocate, and
/// create and destroy caches.
///
/// # Safety
/// `each` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_for_each_cache(
    each: Option<unsafe extern "C" fn(*const ashlar_cache_info, *mut c_void)>,
    arg: *mut c_void,
) {
    let Some(each) = each else { return };
    core_ashlar::for_each_cache(|info| {
        let info = translate(info);
        // SAFETY: by the caller's promise.
        unsafe { each(&raw const info, arg) };
    });
}

/// A cache without slabs of its own: one that was merged, or whose engine lets caches share pages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ashlar_alias_info {
    /// Its name, as a string.
    pub name: [c_char; ASHLAR_NAME_SIZE],
    /// Name of the cache whose slabs serve it.
    pub cache: [c_char; ASHLAR_NAME_SIZE],
    /// Bytes of an object that were asked for under this name.
    pub object_size: usize,
}

/// Calls `each` for every cache without slabs of its own, with `arg`: who was merged with whom. It
/// may allocate, and create and destroy caches.
///
/// # Safety
/// `each` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_for_each_alias(
    each: Option<unsafe extern "C" fn(*const ashlar_alias_info, *mut c_void)>,
    arg: *mut c_void,
) {
    let Some(each) = each else { return };
    core_ashlar::for_each_alias(|alias| {
        let alias = ashlar_alias_info {
            name: string(alias.name()),
            cache: string(alias.cache()),
            object_size: alias.object_size,
        };
        // SAFETY: by the caller's promise.
        unsafe { each(&raw const alias, arg) };
    });
}

/// Brings every cached object back to its slab and gives all free memory back to the system, at
/// once. Returns the number of 4 KiB pages given back.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_reap() -> usize {
    core_ashlar::reap()
}

/// Starts the background thread, which gives free memory back to the system while the program
/// sleeps. Without it the calls of the program do that work. Returns 0, also if the thread runs
/// already; -EPERM if the option reaper allows no thread; -EAGAIN if the system refused it. The
/// thread is lost in the child of a fork.
///
/// To be called where threads may be made: not from a signal handler, and not under a lock that
/// malloc may need.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_start_reaper() -> c_int {
    match core_ashlar::start_reaper() {
        Ok(()) => 0,
        Err(ReaperError::Off) => -libc::EPERM,
        Err(_) => -libc::EAGAIN,
    }
}

/// Ends the background thread, if there is one, and returns when it is gone.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_stop_reaper() {
    core_ashlar::stop_reaper();
}

/// How the fast paths are protected in this process: "rseq" or "lock" ("emulate" if the option
/// percpu asks for it, "down" if the allocator could not start). Starts the allocator.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_mode() -> *const c_char {
    let name = match core_ashlar::mode() {
        Mode::Rseq => c"rseq",
        Mode::Lock => c"lock",
        Mode::Emulate => c"emulate",
        // Down; the type is open for modes to come, which this crate would learn of.
        _ => c"down",
    };
    name.as_ptr()
}

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"?",
};

/// The version of the library, as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Tells what is wrong with an option, cut to `size` bytes.
unsafe fn tell(error: OptionError<'_>, message: *mut c_char, size: usize) {
    if message.is_null() || size == 0 {
        return;
    }
    let mut line = Line::new();
    // A line never fails: what is too long is cut off.
    let _ = write!(line, "{error}");
    let len = line.bytes().len().min(size - 1);
    // SAFETY: the callers promise `size` writable bytes; the end fits too.
    unsafe {
        message.copy_from_nonoverlapping(line.bytes().as_ptr().cast(), len);
        message.add(len).write(0);
    }
}

unsafe fn with_text(
    text: *const c_char,
    message: *mut c_char,
    size: usize,
    apply: impl FnOnce(&str) -> Result<(), OptionError<'_>>,
) -> c_int {
    const NO_TEXT: OptionError<'static> = OptionError { part: "", expected: "options as key=value in UTF-8" };
    // SAFETY: null or a string, by the callers' promise.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }).and_then(|text| text.to_str().ok());
    let error = match text.ok_or(NO_TEXT).and_then(apply) {
        Ok(()) => return 0,
        Err(error) => error,
    };
    // SAFETY: by the callers' promise.
    unsafe { tell(error, message, size) };
    if error.expected == OptionError::TOO_LATE { -EBUSY } else { -EINVAL }
}

/// Sets options before the first allocation, as "key=value,key=value": the grammar of the
/// environment variable ASHLAR_OPTIONS, which is read after and wins; percpu=emulate is for that
/// variable alone. Returns 0; -EINVAL if a part is no option (the others are set); -EBUSY if the
/// allocator has started. What is wrong is told in `message`, a buffer of `size` bytes, or null.
///
/// # Safety
/// `text` is a string, `message` null or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_configure(text: *const c_char, message: *mut c_char, size: usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { with_text(text, message, size, core_ashlar::configure) }
}

/// Whether `text` is good for ashlar_configure, without setting anything: 0, or -EINVAL and a
/// message.
///
/// # Safety
/// As for ashlar_configure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_check_options(text: *const c_char, message: *mut c_char, size: usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { with_text(text, message, size, core_ashlar::check_options) }
}
