//! The object that this crate is linked into: the program, or a library that may be unloaded.

use core::ffi::{c_char, c_int, c_void};

use crate::address_of;

// Where the C library is linked statically, there is no loader to call; `dlopen` itself is not
// named, because linkers warn of it. `_DYNAMIC` is the object's own.
core::arch::global_asm!(".weak dlsym, _DYNAMIC", ".hidden _DYNAMIC");

/// An entry of the dynamic section.
#[repr(C)]
struct Entry {
    tag: isize,
    value: usize,
}

/// glibc's.
const RTLD_NODELETE: c_int = 0x1000;
const DT_NULL: isize = 0;
/// Programs have this entry, libraries do not.
const DT_DEBUG: isize = 21;
const DT_FLAGS_1: isize = 0x6fff_fffb;
const DF_1_NODELETE: usize = 8;
const DF_1_PIE: usize = 0x0800_0000;

/// Whether the object may be unloaded: it is no program, and was not linked with `-z nodelete`.
fn may_be_unloaded() -> bool {
    let mut entry = address_of!("_DYNAMIC").cast::<Entry>();
    if entry.is_null() {
        return false;
    }
    loop {
        // SAFETY: the section is an array of entries, mapped as long as this code is; the last has
        // the tag DT_NULL, and the pointer does not go beyond it.
        let &Entry { tag, value } = unsafe { &*entry };
        match tag {
            DT_NULL => return true,
            DT_DEBUG => return false,
            DT_FLAGS_1 if value & (DF_1_NODELETE | DF_1_PIE) != 0 => return false,
            _ => {}
        }
        // SAFETY: as above.
        entry = unsafe { entry.add(1) };
    }
}

/// The name by which the loader knows the object that `address` lies in.
struct Search {
    address: usize,
    name: *const c_char,
}

#[place(cold)]
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and the pointer that it was given below, to a
    // value that no other reference exists to meanwhile.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    for at in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: the headers are an array of that many.
        let header = unsafe { &*info.dlpi_phdr.add(at) };
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        if header.p_type == libc::PT_LOAD && search.address.wrapping_sub(start) < header.p_memsz as usize {
            search.name = info.dlpi_name;
            return 1;
        }
    }
    0
}

/// Keeps the library that this code is in loaded until the process ends. Nothing to do in a
/// program. To be called while the library is being loaded: the loader's lock is taken.
#[cold]
#[place(cold)]
pub(crate) fn stay_loaded() {
    let dlsym = address_of!("dlsym");
    if dlsym.is_null() || !may_be_unloaded() {
        return;
    }
    let mut search = Search { address: stay_loaded as *const () as usize, name: core::ptr::null() };
    // SAFETY: `look` has the type that is asked for, and takes the pointer to be of a `Search`.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    // SAFETY: the symbol is the C library's function of this type.
    let dlsym = unsafe {
        core::mem::transmute::<*const c_void, unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void>(dlsym)
    };
    // SAFETY: the name is NUL-terminated.
    let dlopen = unsafe { dlsym(libc::RTLD_DEFAULT, c"dlopen".as_ptr()) };
    if search.name.is_null() || dlopen.is_null() {
        return;
    }
    // SAFETY: the symbol is the C library's function of this type.
    let dlopen = unsafe {
        core::mem::transmute::<*mut c_void, unsafe extern "C" fn(*const c_char, c_int) -> *mut c_void>(dlopen)
    };
    // SAFETY: the name is the loader's own string, and stays while the library is there.
    unsafe { dlopen(search.name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | RTLD_NODELETE) };
}
