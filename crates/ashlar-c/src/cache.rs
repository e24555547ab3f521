//! `kmem_cache_*`: caches of objects of one size.

use core::alloc::Layout;
use core::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use core_ashlar::{CacheArgs, Constructor, CreateError, DestroyError, Engine, KmemCache, MAX_OBJECT_SIZE, Trace};
use libc::{EBUSY, EINVAL, ENOMEM};

use crate::flags::{
    __GFP_ZERO, CACHE_FLAGS, NEVER_MERGE, PLAIN, SLAB_HWCACHE_ALIGN, SLAB_NO_USER_FLAGS, SLAB_PANIC, allocate,
    debug_flags, gfp_t, merge_group, slab_flags_t,
};
use crate::report::{null, panic, set_errno, warn};

/// A cache: objects of one size with a name.
#[derive(Debug)]
pub struct kmem_cache {
    pub(crate) inner: KmemCache,
    pub(crate) has_ctor: bool,
}

/// The arguments of a cache beyond its name and size. All zeros, or a null pointer, select the
/// defaults. Options that the user sets for a cache of this name take precedence. New members are
/// added at the end; after the first release, only with a new SONAME. The library reads all members
/// that it was built with, so a program must be compiled with the library's header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct kmem_cache_args {
    /// Alignment of objects in bytes, a power of two up to 4096; 0 means 8.
    pub align: c_uint,
    /// Start of the part of an object that may be copied to user space. Checked, but not used,
    /// because nothing here copies to user space.
    pub useroffset: c_uint,
    /// Bytes of that part. A cache with one is not merged.
    pub usersize: c_uint,
    /// Called once for each object, when it is first carved from a slab. Objects must be freed in
    /// the state that it leaves. It must not allocate from its own cache.
    pub ctor: Option<unsafe extern "C" fn(*mut c_void)>,
    /// Objects in a sheaf, 1 to 254; 0: chosen by object size.
    pub sheaf_capacity: c_uint,
    /// The library's own: whether `min_partial` is used; otherwise it is chosen by object size.
    pub use_min_partial: bool,
    /// The library's own: whether `cpu_partial` is used; otherwise it is chosen by object size.
    pub use_cpu_partial: bool,
    /// The library's own: whether `min_order` is used, instead of the option of that name.
    pub use_min_order: bool,
    /// The library's own: whether `max_order` is used, instead of the option of that name.
    pub use_max_order: bool,
    /// Empty slabs that each node keeps, 0 to 1048576.
    pub min_partial: c_uint,
    /// The most free objects on the partial slabs of a CPU, 0 to 1048576, in the engine slub-bulk.
    pub cpu_partial: c_uint,
    /// Smallest order of slabs, 0 to 9: 2^order pages of 4 KiB.
    pub min_order: c_uint,
    /// Largest order of slabs, 0 to 9.
    pub max_order: c_uint,
    /// The library's own: id of the engine, as a string like the value of the option `engine`;
    /// null: the engine of the process.
    pub engine: *const c_char,
    /// The library's own: whether `remote_node_defrag_ratio` is used, instead of the option of that
    /// name.
    pub use_remote_node_defrag_ratio: bool,
    /// The percentage of refills that search the partial slabs of other nodes before a new slab is
    /// allocated, 0 to 100, in the engine ashlar and the stages of SLUB.
    pub remote_node_defrag_ratio: c_uint,
}

impl kmem_cache_args {
    const DEFAULT: kmem_cache_args = kmem_cache_args {
        align: 0,
        useroffset: 0,
        usersize: 0,
        ctor: None,
        sheaf_capacity: 0,
        use_min_partial: false,
        use_cpu_partial: false,
        use_min_order: false,
        use_max_order: false,
        min_partial: 0,
        cpu_partial: 0,
        min_order: 0,
        max_order: 0,
        engine: core::ptr::null(),
        use_remote_node_defrag_ratio: false,
        remote_node_defrag_ratio: 0,
    };
}

/// The reason why a cache was not created, as text.
enum Refusal {
    Name,
    Flags(slab_flags_t),
    Usercopy,
    Order(&'static str),
    Engine,
    Core(CreateError),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Name => f.write_str("name: expected a string in UTF-8"),
            Refusal::Flags(bits) => write!(f, "flags {bits:#x}: expected a combination of the SLAB_ bits of ashlar.h"),
            Refusal::Usercopy => f.write_str("useroffset and usersize: expected a part of the object"),
            Refusal::Order(name) => write!(f, "{name}: expected 0 to 9"),
            Refusal::Engine => write!(f, "expected {}", Engine::EXPECTED),
            Refusal::Core(error) => error.fmt(f),
        }
    }
}

fn order(name: &'static str, used: bool, value: c_uint) -> Result<Option<u8>, Refusal> {
    match (used, u8::try_from(value)) {
        (false, _) => Ok(None),
        (true, Ok(order @ 0..=9)) => Ok(Some(order)),
        _ => Err(Refusal::Order(name)),
    }
}

/// # Safety
/// `id` is null or a NUL-terminated string.
unsafe fn engine(id: *const c_char) -> Result<Option<Engine>, Refusal> {
    if id.is_null() {
        return Ok(None);
    }
    // SAFETY: a string, by the caller's promise.
    let id = unsafe { CStr::from_ptr(id) }.to_str().ok();
    id.and_then(Engine::from_id).map(Some).ok_or(Refusal::Engine)
}

fn translate(size: usize, args: &kmem_cache_args, flags: slab_flags_t) -> Result<CacheArgs, Refusal> {
    if flags & !CACHE_FLAGS != 0 {
        return Err(Refusal::Flags(flags & !CACHE_FLAGS));
    }
    let end = u64::from(args.useroffset) + u64::from(args.usersize);
    if end > size as u64 || (args.usersize == 0 && args.useroffset != 0) {
        return Err(Refusal::Usercopy);
    }
    let ratio = args.remote_node_defrag_ratio as usize;
    let object = Layout::from_size_align(size, 1).map_err(|_| Refusal::Core(CreateError::Size))?;
    type Theirs = unsafe extern "C" fn(*mut c_void);
    type Ours = unsafe extern "C" fn(*mut u8);
    let mut made = CacheArgs::DEFAULT
        .align(args.align as usize)
        .hwcache_align(flags & SLAB_HWCACHE_ALIGN != 0)
        .no_merge(flags & NEVER_MERGE != 0 || args.usersize != 0)
        .debug(debug_flags(flags))
        .no_user_debug(flags & SLAB_NO_USER_FLAGS != 0)
        .merge_group(merge_group(flags));
    // SAFETY: the two types differ only in the pointee of their argument, a thin pointer, so the
    // ABI is the same. The caller of `kmem_cache_create` promised a constructor for objects of this
    // size.
    made.ctor = args.ctor.map(|ctor| unsafe { Constructor::new(object, core::mem::transmute::<Theirs, Ours>(ctor)) });
    made.cpu_partial = args.use_cpu_partial.then_some(args.cpu_partial as usize);
    made.remote_node_defrag_ratio = args.use_remote_node_defrag_ratio.then_some(ratio);
    made.sheaf_capacity = (args.sheaf_capacity != 0).then_some(args.sheaf_capacity as usize);
    made.min_partial = args.use_min_partial.then_some(args.min_partial as usize);
    made.min_order = order("min_order", args.use_min_order, args.min_order)?;
    made.max_order = order("max_order", args.use_max_order, args.max_order)?;
    // SAFETY: null or a string: the promise of `kmem_cache_create`.
    made.engine = unsafe { engine(args.engine) }?;
    Ok(made)
}

fn create(name: Option<&CStr>, size: usize, args: &kmem_cache_args, flags: slab_flags_t) -> Result<KmemCache, Refusal> {
    let name = name.and_then(|name| name.to_str().ok()).ok_or(Refusal::Name)?;
    let args = translate(size, args, flags)?;
    KmemCache::create(name, size, &args).map_err(Refusal::Core)
}

/// Creates a cache named `name` (up to 47 bytes, copied) for objects of `object_size` bytes, 1 byte
/// to 2 MiB. `args` may be null. The cache may share the slabs of another one with similar objects;
/// see SLAB_NO_MERGE.
///
/// Returns NULL with errno EINVAL for a bad argument, which a line on standard error names, or with
/// ENOMEM. With SLAB_PANIC the program ends instead.
///
/// # Safety
/// `name` is null or a string, `args` null or readable; the constructor is one for objects of this
/// size, which any thread may call and which does not unwind, and the engine null or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_create(
    name: *const c_char,
    object_size: c_uint,
    args: *const kmem_cache_args,
    flags: slab_flags_t,
) -> *mut kmem_cache {
    // SAFETY: null or a string, by the caller's promise.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) });
    // SAFETY: null or readable, by the caller's promise.
    let args = unsafe { args.as_ref() }.copied().unwrap_or(kmem_cache_args::DEFAULT);
    let shown = name.and_then(|name| name.to_str().ok()).unwrap_or("?");
    let refusal = match create(name, object_size as usize, &args, flags) {
        Ok(inner) => {
            let handle = core_ashlar::kmalloc(size_of::<kmem_cache>()).cast::<kmem_cache>();
            if !handle.is_null() {
                // SAFETY: the memory is fresh and of this size. kmalloc aligns to 8, which suffices
                // for pointers.
                unsafe { handle.write(kmem_cache { inner, has_ctor: args.ctor.is_some() }) };
                return handle;
            }
            // The cache has no objects, and no other thread has its handle.
            let _ = inner.destroy();
            Refusal::Core(CreateError::OutOfMemory)
        }
        Err(refusal) => refusal,
    };
    if flags & SLAB_PANIC != 0 {
        panic(format_args!("kmem_cache_create({shown}): {refusal}; SLAB_PANIC is set"));
    }
    warn(format_args!("kmem_cache_create({shown}): {refusal}"));
    let no_memory = matches!(refusal, Refusal::Core(CreateError::OutOfMemory | CreateError::TooManyCaches));
    set_errno(if no_memory { ENOMEM } else { EINVAL });
    core::ptr::null_mut()
}

/// Destroys a cache; does nothing for a null pointer. If caches were merged, only this one's name
/// is removed, and destroying the last one destroys the shared cache. While objects are in use, the
/// cache is kept, a line on standard error reports it, and errno is EBUSY.
///
/// # Safety
/// `s` is null or a cache that no thread uses any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_destroy(s: *mut kmem_cache) {
    if s.is_null() {
        return;
    }
    // SAFETY: `s` is a live cache that no other thread uses; or it was destroyed, and is still kept
    // by `bury`.
    let inner = unsafe { &mut (*s).inner };
    match inner.destroy_in_place() {
        Ok(()) => bury(s),
        Err(error) => {
            if !matches!(error, DestroyError::LiveObjects(_)) {
                warn(format_args!("kmem_cache_destroy({}): {error}", inner.name()));
            }
            set_errno(EBUSY);
        }
    }
}

/// The handles of the caches that were destroyed last. They are kept for some time, so that a use
/// of one is reported.
static BURIED: [AtomicPtr<kmem_cache>; 16] = [const { AtomicPtr::new(core::ptr::null_mut()) }; 16];
/// The number of handles that were ever put there.
static BURIALS: AtomicUsize = AtomicUsize::new(0);

/// Keeps the handle of a destroyed cache in place of the oldest one, which is freed.
fn bury(handle: *mut kmem_cache) {
    if BURIED.iter().any(|place| place.load(Ordering::Relaxed) == handle) {
        return;
    }
    let place = &BURIED[BURIALS.fetch_add(1, Ordering::Relaxed) % BURIED.len()];
    let oldest = place.swap(handle, Ordering::AcqRel);
    // SAFETY: null, or a handle from kmalloc that the program gave up; only this swap returned it.
    unsafe { core_ashlar::kfree(oldest.cast()) };
}

/// Reports and returns false if the flags ask for zeroed objects of a cache with a constructor.
pub(crate) fn may_zero(cache: &kmem_cache, flags: gfp_t, function: &str) -> bool {
    let may = flags & __GFP_ZERO == 0 || !cache.has_ctor;
    if !may {
        warn(format_args!("{function}({}): __GFP_ZERO: expected a cache without constructor", cache.inner.name()));
    }
    may
}

#[cold]
#[inline(never)]
fn alloc_slow(cache: &kmem_cache, flags: gfp_t, function: &str) -> *mut c_void {
    if !may_zero(cache, flags, function) {
        return null(EINVAL);
    }
    allocate(function, flags, |zero| {
        let object = if zero { cache.inner.zalloc() } else { cache.inner.alloc() };
        object.map_or(core::ptr::null_mut(), NonNull::as_ptr)
    })
}

/// Allocates one object. It holds the contents of its last use, or the state that the constructor
/// left. Returns NULL with errno ENOMEM without memory, EINVAL for bad flags.
///
/// # Safety
/// `s` is a live cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_alloc(s: *mut kmem_cache, flags: gfp_t) -> *mut c_void {
    // SAFETY: by the caller's promise.
    let cache = unsafe { &*s };
    if flags & !PLAIN == 0
        && let Some(object) = cache.inner.alloc()
    {
        return object.as_ptr().cast();
    }
    alloc_slow(cache, flags, "kmem_cache_alloc")
}

/// Allocates one object with all bytes zero. Returns NULL with errno EINVAL for a cache with a
/// constructor.
///
/// # Safety
/// `s` is a live cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_zalloc(s: *mut kmem_cache, flags: gfp_t) -> *mut c_void {
    // SAFETY: by the caller's promise.
    alloc_slow(unsafe { &*s }, flags | __GFP_ZERO, "kmem_cache_zalloc")
}

/// Frees an object; does nothing for a null pointer.
///
/// # Safety
/// `s` is a live cache. `object` is null, or was allocated from it, was not freed since, and no
/// thread uses it any more. If the cache has a constructor, the object is in constructed state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_free(s: *mut kmem_cache, object: *mut c_void) {
    if let Some(object) = NonNull::new(object.cast::<u8>()) {
        // SAFETY: by the caller's promise.
        unsafe { (*s).inner.free_checked(object) };
    }
}

/// Returns the caller's array of `count` pointers; `None` for a null array.
///
/// # Safety
/// `p` is null, or points to `count` pointers that no other thread uses for as long as the result
/// lives.
unsafe fn pointers<'a>(p: *mut *mut c_void, count: usize) -> Option<&'a mut [*mut u8]> {
    // SAFETY: by the caller's promise; thin pointers to any type have the same layout.
    NonNull::new(p.cast::<*mut u8>()).map(|p| unsafe { core::slice::from_raw_parts_mut(p.as_ptr(), count) })
}

/// Fills `p` with `size` objects, or with none. Returns `size`, or 0 with errno ENOMEM, or EINVAL
/// for bad flags, a null array, or a size above INT_MAX.
///
/// # Safety
/// `s` is a live cache; `p` has room for `size` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_alloc_bulk(
    s: *mut kmem_cache,
    flags: gfp_t,
    size: usize,
    p: *mut *mut c_void,
) -> c_int {
    // SAFETY: by the caller's promise.
    let (cache, out) = unsafe { (&*s, pointers(p, size)) };
    let (Some(out), Ok(count)) = (out, c_int::try_from(size)) else {
        set_errno(EINVAL);
        return 0;
    };
    if flags & !PLAIN == 0 && cache.inner.alloc_bulk(out) {
        return count;
    }
    if !may_zero(cache, flags, "kmem_cache_alloc_bulk") {
        set_errno(EINVAL);
        return 0;
    }
    let first = allocate("kmem_cache_alloc_bulk", flags, |zero| {
        if !cache.inner.alloc_bulk(out) {
            return core::ptr::null_mut();
        }
        if zero {
            for object in out.iter() {
                // SAFETY: the object is fresh and has that many bytes.
                unsafe { object.write_bytes(0, cache.inner.object_size()) };
            }
        }
        out.as_mut_ptr().cast()
    });
    if first.is_null() { 0 } else { count }
}

/// Frees `size` objects. With a null cache, they may be of any caches, as for kfree_bulk.
///
/// # Safety
/// As for kmem_cache_free, for each object. No object occurs twice, and none is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_free_bulk(s: *mut kmem_cache, size: usize, p: *mut *mut c_void) {
    // SAFETY: by the caller's promise.
    unsafe {
        match (s.as_ref(), pointers(p, size)) {
            (Some(cache), Some(objects)) => cache.inner.free_bulk(objects),
            (None, Some(objects)) => core_ashlar::kfree_bulk(objects),
            (_, None) => {}
        }
    }
}

/// Checks every slab and every object of a debugged cache, and reports what is wrong on standard
/// error, in the kernel's form. Returns the number of defects that were reported and of repairs
/// that were made; -1 with errno EINVAL for a cache without debug flags.
///
/// # Safety
/// `s` is a live cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn validate_slab_cache(s: *mut kmem_cache) -> c_long {
    // SAFETY: a live cache, by the caller's promise.
    let cache = unsafe { &*s };
    match cache.inner.validate() {
        Some(errors) => errors as c_long,
        None => {
            set_errno(EINVAL);
            -1
        }
    }
}

/// Frames of a call stack in `struct ashlar_trace`.
pub const ASHLAR_TRACE_FRAMES: usize = 16;

/// The objects of a cache that were allocated, or freed, by one call stack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ashlar_trace {
    /// Objects.
    pub count: usize,
    /// Milliseconds since it happened: the least of all objects, the sum, the largest.
    pub age_min: u64,
    /// See age_min.
    pub age_sum: u64,
    /// See age_min.
    pub age_max: u64,
    /// The least number of a thread, as the system counts threads.
    pub thread_min: c_uint,
    /// The largest.
    pub thread_max: c_uint,
    /// The CPUs, a bit for each of the first 64.
    pub cpus: u64,
    /// The number of frames.
    pub depth: usize,
    /// Return addresses, innermost first.
    pub frames: [*const c_void; ASHLAR_TRACE_FRAMES],
}

type EachTrace = Option<unsafe extern "C" fn(*const ashlar_trace, *mut c_void)>;

/// Calls `each` for what `traces` tells, and returns what a C function of it returns.
fn each_trace(
    each: EachTrace,
    arg: *mut c_void,
    traces: impl FnOnce(&mut dyn FnMut(&Trace)) -> Option<usize>,
) -> c_long {
    let told = traces(&mut |trace| {
        let mut frames = [core::ptr::null(); ASHLAR_TRACE_FRAMES];
        for (place, &frame) in frames.iter_mut().zip(trace.frames()) {
            *place = core::ptr::without_provenance(frame);
        }
        let told = ashlar_trace {
            count: trace.count,
            age_min: trace.age_min,
            age_sum: trace.age_sum,
            age_max: trace.age_max,
            thread_min: trace.thread_min,
            thread_max: trace.thread_max,
            cpus: trace.cpus,
            depth: trace.frames().len().min(ASHLAR_TRACE_FRAMES),
            frames,
        };
        if let Some(each) = each {
            // SAFETY: the callers' promise.
            unsafe { each(&raw const told, arg) };
        }
    });
    match told {
        Some(stacks) => stacks as c_long,
        None => {
            set_errno(EINVAL);
            -1
        }
    }
}

/// Calls `each` with `arg` for every call stack that allocated objects which are in use, the most
/// frequent first. Returns the number of stacks; -1 with errno EINVAL for a cache without
/// SLAB_STORE_USER. `each` may allocate and free, and may be NULL.
///
/// # Safety
/// `s` is a live cache; `each` may be called with `arg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_alloc_traces(
    s: *mut kmem_cache,
    each: Option<unsafe extern "C" fn(*const ashlar_trace, *mut c_void)>,
    arg: *mut c_void,
) -> c_long {
    // SAFETY: a live cache, by the caller's promise.
    let cache = unsafe { &*s };
    each_trace(each, arg, |one| cache.inner.alloc_traces(one))
}

/// As ashlar_alloc_traces, for the call stacks that freed objects which are free now.
///
/// # Safety
/// As for ashlar_alloc_traces.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ashlar_free_traces(
    s: *mut kmem_cache,
    each: Option<unsafe extern "C" fn(*const ashlar_trace, *mut c_void)>,
    arg: *mut c_void,
) -> c_long {
    // SAFETY: a live cache, by the caller's promise.
    let cache = unsafe { &*s };
    each_trace(each, arg, |one| cache.inner.free_traces(one))
}

/// Prints on standard error what an address is, whose, and, in a cache with SLAB_STORE_USER, who
/// allocated and who freed it. The address may be any, also one inside an object. Returns whether
/// it is memory of this library.
#[unsafe(no_mangle)]
pub extern "C" fn kmem_dump_obj(object: *mut c_void) -> bool {
    core_ashlar::dump_obj(object.cast())
}

/// Returns free slabs to the page allocator of the library. Returns 0 if no slab is left, else 1.
///
/// # Safety
/// `s` is a live cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_shrink(s: *mut kmem_cache) -> c_int {
    // SAFETY: by the caller's promise.
    c_int::from(!unsafe { &*s }.inner.shrink())
}

/// Returns the usable bytes of an object. For merged caches, this is the largest requested size.
///
/// # Safety
/// `s` is a live cache.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn kmem_cache_size(s: *mut kmem_cache) -> c_uint {
    // SAFETY: by the caller's promise.
    unsafe { &*s }.inner.object_size() as c_uint
}

const _: () = assert!(MAX_OBJECT_SIZE <= c_uint::MAX as usize, "sizes of objects are told as unsigned int");
const _: () = assert!(align_of::<kmem_cache>() <= 8, "kmalloc aligns handles to 8");
