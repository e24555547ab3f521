//! The allocators we compare with, each through the functions its users call.

use crate::kit::machine;
use crate::systems::traits::Calls;

/// Declares a system of two foreign functions. The contract of the block: the functions are an
/// allocator's malloc (safe to call with any size, null on failure) and the matching free.
macro_rules! calls {
    ($(#[$doc:meta])* $name:ident, |$size:ident| $alloc:expr, |$object:ident, $known:ident| $free:expr $(, $($more:tt)*)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) struct $name;

        impl Calls for $name {
            #[inline(always)]
            fn alloc($size: usize) -> *mut u8 {
                // SAFETY: an allocator's malloc may be called with any size; threads and process
                // were initialised first, by `process_start` and `thread_start`, where the
                // allocator asks for it.
                unsafe { $alloc }.cast()
            }

            #[inline(always)]
            unsafe fn free($object: *mut u8, $known: usize) {
                let $object = $object.cast();
                // SAFETY: by the contract of this function the object is live and came from `alloc`
                // above with this very size, and the function called is the free that belongs to
                // that malloc.
                unsafe { $free };
            }

            $($($more)*)?
        }
    };
}

calls!(
    /// The C library's malloc.
    Glibc, |size| libc::malloc(size), |object, _size| libc::free(object),
    const SHRINK: Option<&'static str> = if cfg!(target_env = "gnu") { Some("malloc_trim(0)") } else { None };

    fn shrink() {
        #[cfg(target_env = "gnu")]
        // SAFETY: takes no pointer; gives free memory of malloc back to the system.
        unsafe {
            libc::malloc_trim(0)
        };
    }
);

#[cfg(feature = "peer-mimalloc")]
calls!(
    /// mimalloc.
    Mimalloc, |size| libmimalloc_sys::mi_malloc(size), |object, _size| libmimalloc_sys::mi_free(object),
    const SHRINK: Option<&'static str> = Some("mi_collect(true)");

    fn shrink() {
        // SAFETY: takes no pointer; collects what this thread and the process have no use for.
        unsafe { libmimalloc_sys::mi_collect(true) }
    }
);

#[cfg(feature = "peer-mimalloc")]
calls!(
    /// mimalloc, free told the size.
    MimallocSized, |size| libmimalloc_sys::mi_malloc(size), |object, size| libmimalloc_sys::mi_free_size(object, size)
);

#[cfg(feature = "peer-jemalloc")]
calls!(
    /// jemalloc.
    Jemalloc, |size| tikv_jemalloc_sys::malloc(size), |object, _size| tikv_jemalloc_sys::free(object),
    const SHRINK: Option<&'static str> = Some("mallctl thread.tcache.flush, arena.4096.purge");

    fn shrink() {
        // 4096 stands for all arenas.
        for name in [c"thread.tcache.flush", c"arena.4096.purge"] {
            let none = core::ptr::null_mut();
            // SAFETY: `name` ends with a zero byte; these entries of the tree are read and written
            // with nothing.
            unsafe { tikv_jemalloc_sys::mallctl(name.as_ptr(), none, none.cast(), none, 0) };
        }
    }
);

#[cfg(feature = "peer-jemalloc")]
calls!(
    /// jemalloc, free told the size, as its Rust users' global allocator does.
    JemallocSized, |size| tikv_jemalloc_sys::malloc(size), |object, size| tikv_jemalloc_sys::sdallocx(object, size, 0)
);

#[cfg(feature = "peer-snmalloc")]
calls!(
    /// snmalloc's C interface.
    Snmalloc, |size| snmalloc_sys::sn_malloc(size), |object, _size| snmalloc_sys::sn_free(object)
);

/// What the Rust interface of snmalloc is given beside the size: that of a machine word, the least
/// kmalloc promises.
#[cfg(feature = "peer-snmalloc")]
const WORD: usize = align_of::<u64>();

#[cfg(feature = "peer-snmalloc")]
calls!(
    /// snmalloc's Rust interface, free told the size.
    SnmallocSized, |size| snmalloc_sys::sn_rust_alloc(WORD, size), |object, size| snmalloc_sys::sn_rust_dealloc(object, WORD, size)
);

#[cfg(feature = "peer-rpmalloc")]
calls!(
    /// rpmalloc; it asks for an initialisation of the process and of each thread.
    Rpmalloc, |size| rpmalloc_sys::rpmalloc(size), |object, _size| rpmalloc_sys::rpfree(object),
    fn process_start() -> Result<(), String> {
        // SAFETY: called once, on the first thread, before any other function of the library.
        match unsafe { rpmalloc_sys::rpmalloc_initialize() } {
            0 => Ok(()),
            code => Err(format!("rpmalloc_initialize returned {code}")),
        }
    }

    fn thread_start() {
        // SAFETY: the process is initialised, and this thread has not used the library before.
        unsafe { rpmalloc_sys::rpmalloc_thread_initialize() }
    }

    const SHRINK: Option<&'static str> = Some("rpmalloc_thread_collect()");

    fn shrink() {
        // SAFETY: takes no pointer; this thread is initialised, as each that allocates.
        unsafe { rpmalloc_sys::rpmalloc_thread_collect() }
    }
);

/// The crate declares only the aligned functions; these are the C library's own malloc and free
/// under the prefix that keeps them apart from the system's.
#[cfg(feature = "peer-tcmalloc")]
mod tcmalloc {
    use core::ffi::c_void;

    // The library is linked because of the crate; without this line the linker would not see it.
    use libtcmalloc_sys as _;

    unsafe extern "C" {
        pub(crate) fn TCMallocInternalMalloc(size: usize) -> *mut c_void;
        pub(crate) fn TCMallocInternalFree(object: *mut c_void);
        pub(crate) fn TCMallocInternalFreeSized(object: *mut c_void, size: usize);
        fn MallocExtension_Internal_GetPerCpuCachesActive() -> bool;
        fn MallocExtension_Internal_ReleaseMemoryToSystem(bytes: usize) -> usize;
    }

    /// Gives all free pages back to the system.
    pub(crate) fn release() {
        // SAFETY: takes no pointer.
        unsafe { MallocExtension_Internal_ReleaseMemoryToSystem(usize::MAX) };
    }

    /// Which caches are in force in this process.
    pub(crate) fn mode() -> String {
        // The mode is decided by the first allocation.
        // SAFETY: malloc and the matching free, on an object that no other code has seen.
        unsafe { TCMallocInternalFree(TCMallocInternalMalloc(8)) };
        // SAFETY: takes nothing, reads a flag of the initialised library.
        match unsafe { MallocExtension_Internal_GetPerCpuCachesActive() } {
            true => "per-CPU caches".to_owned(),
            false => "per-thread caches".to_owned(),
        }
    }
}

#[cfg(feature = "peer-tcmalloc")]
calls!(
    /// tcmalloc; its mode depends on who registered rseq.
    Tcmalloc, |size| tcmalloc::TCMallocInternalMalloc(size), |object, _size| tcmalloc::TCMallocInternalFree(object),
    fn note() -> String {
        tcmalloc::mode()
    }

    const SHRINK: Option<&'static str> = Some("MallocExtension::ReleaseMemoryToSystem");

    fn shrink() {
        tcmalloc::release();
    }
);

#[cfg(feature = "peer-tcmalloc")]
calls!(
    /// tcmalloc, free told the size.
    TcmallocSized, |size| tcmalloc::TCMallocInternalMalloc(size), |object, size| tcmalloc::TCMallocInternalFreeSized(object, size),
    fn note() -> String {
        tcmalloc::mode()
    }
);

/// Version of the peer behind a system id.
pub(crate) fn version(id: &str) -> String {
    match id.split('-').next().unwrap_or(id) {
        "glibc" => machine::glibc(),
        "mimalloc" => mimalloc_version(),
        "jemalloc" => jemalloc_version(),
        "snmalloc" => format!("crate {}", env!("ASHLAR_SNMALLOC")),
        "rpmalloc" => format!("crate {}", env!("ASHLAR_RPMALLOC")),
        "tcmalloc" => format!("crate {}", env!("ASHLAR_TCMALLOC")),
        _ => "unknown".to_owned(),
    }
}

#[cfg(feature = "peer-mimalloc")]
fn mimalloc_version() -> String {
    // SAFETY: takes nothing, returns a constant.
    let version = unsafe { libmimalloc_sys::mi_version() };
    format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
}

#[cfg(not(feature = "peer-mimalloc"))]
fn mimalloc_version() -> String {
    "not in this build".to_owned()
}

/// Reads a value of jemalloc's control tree.
///
/// # Safety
/// `T` is the type that jemalloc's manual gives for `name`, and every bit pattern jemalloc may
/// write is a `T`.
#[cfg(feature = "peer-jemalloc")]
unsafe fn mallctl<T: Copy>(name: &core::ffi::CStr, initial: T) -> Option<T> {
    let mut value = initial;
    let mut length = size_of::<T>();
    // SAFETY: `name` ends with a zero byte; `value` has room for `length` bytes, is of the type
    // jemalloc writes by the contract of this function, and nothing is written to the tree (null,
    // 0).
    let rc = unsafe {
        tikv_jemalloc_sys::mallctl(name.as_ptr(), (&raw mut value).cast(), &raw mut length, core::ptr::null_mut(), 0)
    };
    (rc == 0 && length == size_of::<T>()).then_some(value)
}

#[cfg(feature = "peer-jemalloc")]
fn jemalloc_version() -> String {
    // SAFETY: the manual gives `const char *` for "version".
    let version = unsafe { mallctl::<*const core::ffi::c_char>(c"version", core::ptr::null()) };
    let Some(text) = version.filter(|text| !text.is_null()) else {
        return "unknown".to_owned();
    };
    // SAFETY: jemalloc returns a constant string that ends with a zero byte.
    let text = unsafe { core::ffi::CStr::from_ptr(text) }.to_string_lossy();
    // The rest is the commit.
    text.split('-').next().unwrap_or(&text).to_owned()
}

#[cfg(not(feature = "peer-jemalloc"))]
fn jemalloc_version() -> String {
    "not in this build".to_owned()
}

/// Whether the library says that it was built with its assertions. Only jemalloc can be asked.
pub(crate) fn told_debug(id: &str) -> Option<bool> {
    #[cfg(feature = "peer-jemalloc")]
    if id.starts_with("jemalloc") {
        // SAFETY: the manual gives `bool` for "config.debug"; read as a byte, of which every
        // pattern is a value.
        return unsafe { mallctl::<u8>(c"config.debug", 0) }.map(|debug| debug != 0);
    }
    let _ = id;
    None
}
