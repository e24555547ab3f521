//! The library's own functions: options, counters, heap profile, mode, version.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt::Write;

use core_ashlar::profile::{self, ProfileError};
use core_ashlar::{CacheInfo, MAX_NAME, Mode, OptionError, ReaperError, Tunable, TuneError};
use libc::{EBUSY, EINVAL, ENOMEM};

use crate::cache::kmem_cache;
use crate::report::{Line, warn};

/// Bytes of a cache's name in `struct ashlar_cache_info`, with its end.
pub const ASHLAR_NAME_SIZE: usize = 48;
const _: () = assert!(ASHLAR_NAME_SIZE == MAX_NAME + 1);
/// Bytes of an engine's id in `struct ashlar_cache_info`, with its end.
pub const ASHLAR_ENGINE_SIZE: usize = 16;

/// The state of a cache at one moment, summed over all nodes. It is exact while no thread allocates
/// or frees.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ashlar_cache_info {
    /// Name, as a string.
    pub name: [c_char; ASHLAR_NAME_SIZE],
    /// Id of the engine, as a string.
    pub engine: [c_char; ASHLAR_ENGINE_SIZE],
    /// Caches that share these slabs and figures; more than 1 if caches were merged.
    /// ashlar_for_each_alias lists their names.
    pub refcount: usize,
    /// Usable bytes of an object.
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
    /// Objects allocated and not freed, including those in prefilled sheaves.
    pub live: usize,
    /// Free objects in the sheaves of CPUs and barns.
    pub cached: usize,
    /// Bytes of slab space.
    pub bytes: usize,
    /// Slabs on partial lists.
    pub partial: usize,
    /// Full sheaves taken out of barns. This counter and all that follow count from the creation of
    /// the cache.
    pub barn_get: u64,
    /// Times that a CPU needed a full sheaf and the barn had none.
    pub barn_get_fail: u64,
    /// Full sheaves put into barns.
    pub barn_put: u64,
    /// Full sheaves that a barn could not hold.
    pub barn_put_fail: u64,
    /// Sheaves that one CPU took out of the barn of another.
    pub barn_robbed: u64,
    /// Refills from slabs.
    pub sheaf_refill: u64,
    /// Flushes to slabs.
    pub sheaf_flush: u64,
    /// Slabs allocated.
    pub alloc_slab: u64,
    /// Slabs freed.
    pub free_slab: u64,
    /// Slabs of a smaller order than usual, because pages were short.
    pub order_fallback: u64,
    /// Objects freed that another CPU or node had allocated; of CPUs only in malloc's caches.
    pub remote_free: u64,
    /// Times that a lock of the cache had to be waited for.
    pub lock_waits: u64,
}

/// Returns `text` as a C string, truncated if needed.
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
        remote_free: info.slow.remote_free,
        lock_waits: info.counts.lock_waits,
    }
}

/// Writes the shape, tunables and figures of a cache to `info`.
///
/// # Safety
/// `s` is a live cache; `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_cache_info(s: *const kmem_cache, info: *mut ashlar_cache_info) {
    // SAFETY: by the caller's promise.
    unsafe { info.write(translate(&(*s).inner.info())) };
}

/// Reports why a tunable was not read or set. Returns the result for C.
fn refuse(function: &str, cache: &kmem_cache, why: core::fmt::Arguments<'_>, errno: c_int) -> c_int {
    warn(format_args!("{function}({}): {why}", cache.inner.name()));
    -errno
}

/// # Safety
/// `name` is null or a string.
unsafe fn tunable(name: *const c_char) -> Option<Tunable> {
    // SAFETY: a non-null `name` is a NUL-terminated string, by the caller's promise.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    name.and_then(|name| name.to_str().ok()).and_then(Tunable::from_name)
}

const TUNABLES: &str =
    "name: expected cpu_partial, min_partial, sheaf_capacity, remote_node_defrag_ratio, limit, batchcount or shared";

/// Changes a tunable of a cache, also while threads use the cache: cpu_partial, min_partial,
/// sheaf_capacity, remote_node_defrag_ratio, limit, batchcount or shared. It applies to all names
/// of merged caches. Returns 0 on success. Returns -EINVAL for an unknown name, a value out of
/// range, or an engine without this tunable, after a line on standard error that names the tunable
/// and the expected values. Returns -ENOMEM without memory. After an error, nothing has changed.
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

/// Writes a tunable of a cache to `value`. Returns 0 on success. Returns -EINVAL for an unknown
/// name, after a line on standard error, and for an engine without this tunable, silently.
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

/// Calls `each` with `arg` for every cache, including those of kmalloc. `each` may allocate, and
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

/// A cache without slabs of its own, because it was merged or its engine lets caches share pages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ashlar_alias_info {
    /// Its name, as a string.
    pub name: [c_char; ASHLAR_NAME_SIZE],
    /// Name of the cache whose slabs serve it.
    pub cache: [c_char; ASHLAR_NAME_SIZE],
    /// The object size that this cache was created with.
    pub object_size: usize,
}

/// Calls `each` with `arg` for every cache without slabs of its own, which shows the merged caches.
/// `each` may allocate, and create and destroy caches.
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

/// Returns all cached objects to their slabs and all free memory to the system, at once. Returns
/// the number of 4 KiB pages released.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_reap() -> usize {
    core_ashlar::reap()
}

/// Starts the background thread, which returns free memory to the system while the program sleeps.
/// Without it, the calls of the program do that work. Returns 0 if the thread runs, -EPERM if the
/// option reaper allows no thread, -EAGAIN if the system refused it. The child of a fork has no
/// such thread.
///
/// Must not be called from a signal handler, nor under a lock that malloc may take, because it
/// creates a thread.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_start_reaper() -> c_int {
    match core_ashlar::start_reaper() {
        Ok(()) => 0,
        Err(ReaperError::Off) => -libc::EPERM,
        Err(_) => -libc::EAGAIN,
    }
}

/// Ends the background thread, if there is one. Returns when it has ended.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_stop_reaper() {
    core_ashlar::stop_reaper();
}

/// Returns the protection of the fast paths in this process: "rseq" or "lock" ("emulate" if the
/// option percpu has that value, "down" if the allocator could not start). Starts the allocator.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_mode() -> *const c_char {
    let name = match core_ashlar::mode() {
        Mode::Rseq => c"rseq",
        Mode::Lock => c"lock",
        Mode::Emulate => c"emulate",
        // The mode is down. The type is non-exhaustive, and this crate is changed together with it.
        _ => c"down",
    };
    name.as_ptr()
}

/// Prints the figures of this process to the file descriptor `fd`: the table of all caches, the
/// largest first, or one line of JSON. Returns 0, or a negative errno of a write that failed. Does
/// not allocate. Must not be called in a signal handler.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_stats_print(fd: c_int, json: bool) -> c_int {
    match core_ashlar::print_stats(fd, json) {
        Ok(()) => 0,
        Err(error) => -error,
    }
}

/// Starts a heap profile: a sample about each `rate` bytes, 1 to 16 MiB, with its backtrace; with
/// 1, each object. Objects of kmalloc and of the program's caches are sampled. A profile that runs
/// starts anew. While it runs, these caches have no sheaves. Returns 0, -EINVAL for a bad rate,
/// -ENOTSUP for an engine other than ashlar or without libgcc_s.so.1, -ENOMEM. Loads that library,
/// so it must not be called in a signal handler or under a lock that dlopen takes.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_profile_start(rate: usize) -> c_int {
    match profile::start(rate) {
        Ok(()) => 0,
        Err(ProfileError::Rate) => -EINVAL,
        Err(ProfileError::Engine | ProfileError::Unwinder) => -libc::ENOTSUP,
        Err(_) => -ENOMEM,
    }
}

/// Stops the heap profile. What was sampled stays. Frees of samples are still noticed, but for
/// those by kmem_cache_free and kmem_cache_free_bulk.
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_profile_stop() {
    profile::stop();
}

/// Writes the heap profile to a file, for `ashlar profile FILE`. `path` has the number of the
/// process in place of %p, and % in place of %%. Returns 0, or a negative errno: -EIO also if no
/// profile was started, -EINVAL for a null pointer.
///
/// # Safety
/// `path` is null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_profile_dump(path: *const c_char) -> c_int {
    if path.is_null() {
        return -EINVAL;
    }
    // SAFETY: by the caller's promise.
    profile::dump_to(unsafe { CStr::from_ptr(path) }.to_bytes()).map_or_else(|error| -error, |()| 0)
}

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"?",
};

/// Returns the version of the library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn ashlar_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Writes the description of an option error to `message`, truncated to `size` bytes.
unsafe fn tell(error: OptionError<'_>, message: *mut c_char, size: usize) {
    if message.is_null() || size == 0 {
        return;
    }
    let mut line = Line::new();
    // A line never fails: what is too long is cut off.
    let _ = write!(line, "{error}");
    let len = line.bytes().len().min(size - 1);
    // SAFETY: the callers promise `size` writable bytes, and the terminating zero fits, too.
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
    // SAFETY: `text` is null or a NUL-terminated string, by the callers' promise.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }).and_then(|text| text.to_str().ok());
    let error = match text.ok_or(NO_TEXT).and_then(apply) {
        Ok(()) => return 0,
        Err(error) => error,
    };
    // SAFETY: by the callers' promise.
    unsafe { tell(error, message, size) };
    if error.expected == OptionError::TOO_LATE { -EBUSY } else { -EINVAL }
}

/// Sets options before the first allocation, as "key=value,key=value". That is the grammar of the
/// environment variable ASHLAR_OPTIONS, which is read later and takes precedence. percpu=emulate is
/// accepted only in that variable. Returns 0 on success, -EINVAL if a part is not an option (the
/// others are set), -EBUSY if the allocator has started. `message` receives the description of an
/// error; it is a buffer of `size` bytes, or null.
///
/// # Safety
/// `text` is a string, `message` null or writable for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_configure(text: *const c_char, message: *mut c_char, size: usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { with_text(text, message, size, core_ashlar::configure) }
}

/// Checks `text` for ashlar_configure, and sets nothing. Returns 0, or -EINVAL and a message.
///
/// # Safety
/// As for ashlar_configure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_check_options(text: *const c_char, message: *mut c_char, size: usize) -> c_int {
    // SAFETY: by the caller's promise.
    unsafe { with_text(text, message, size, core_ashlar::check_options) }
}
