//! Keeps the shared object that this crate is linked into from being unloaded. There is nothing to
//! do in a program.

use core::ffi::{c_char, c_int, c_void};

use crate::address_of;

// In a program linked statically to the C library, `dlsym` is missing, so the reference is weak.
// `dlopen` is looked up by name, because linkers warn of a reference to it. `_DYNAMIC` is hidden,
// so that it resolves to this object's own.
core::arch::global_asm!(".weak dlsym, _DYNAMIC", ".hidden _DYNAMIC");

/// An entry of the dynamic section (`Elf64_Dyn`).
#[repr(C)]
struct Entry {
    tag: isize,
    value: usize,
}

/// glibc's value.
const RTLD_NODELETE: c_int = 0x1000;
const DT_NULL: isize = 0;
/// Present in programs, absent from libraries.
const DT_DEBUG: isize = 21;
const DT_FLAGS_1: isize = 0x6fff_fffb;
const DF_1_NODELETE: usize = 8;
const DF_1_PIE: usize = 0x0800_0000;

/// Returns whether the object may be unloaded: it is not a program, and it was not linked with `-z
/// nodelete`.
fn may_be_unloaded() -> bool {
    let mut entry = address_of!("_DYNAMIC").cast::<Entry>();
    if entry.is_null() {
        return false;
    }
    loop {
        // SAFETY: the dynamic section is an array of entries, mapped as long as this code is. Its
        // last entry has the tag DT_NULL, and the loop stops there.
        let &Entry { tag, value } = unsafe { &*entry };
        match tag {
            DT_NULL => return true,
            DT_DEBUG => return false,
            DT_FLAGS_1 if value & (DF_1_NODELETE | DF_1_PIE) != 0 => return false,
            _ => {}
        }
        // SAFETY: the entry is not DT_NULL, so another one follows.
        entry = unsafe { entry.add(1) };
    }
}

/// The loader's name of the object that contains `address`.
struct Search {
    address: usize,
    name: *const c_char,
}

#[place(cold)]
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, search: *mut c_void) -> c_int {
    // SAFETY: the loader passes a valid description, and the pointer that `stay_loaded` gave it. No
    // other reference to that `Search` exists during the call.
    let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
    for at in 0..usize::from(info.dlpi_phnum) {
        // SAFETY: `dlpi_phdr` points to `dlpi_phnum` headers.
        let header = unsafe { &*info.dlpi_phdr.add(at) };
        let start = (info.dlpi_addr as usize).wrapping_add(header.p_vaddr as usize);
        if header.p_type == libc::PT_LOAD && search.address.wrapping_sub(start) < header.p_memsz as usize {
            search.name = info.dlpi_name;
            return 1;
        }
    }
    0
}

/// Keeps the library that contains this code loaded until the process ends; does nothing in a
/// program. The caller must run while the loader loads the library, because the loader's lock is
/// taken here.
#[cold]
#[place(cold)]
pub(crate) fn stay_loaded() {
    let dlsym = address_of!("dlsym");
    if dlsym.is_null() || !may_be_unloaded() {
        return;
    }
    let mut search = Search { address: stay_loaded as *const () as usize, name: core::ptr::null() };
    // SAFETY: `look` has the required type, and casts the pointer back to a `Search`.
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
    // SAFETY: the name is the loader's own string, which lives as long as the library is loaded.
    unsafe { dlopen(search.name, libc::RTLD_LAZY | libc::RTLD_NOLOAD | RTLD_NODELETE) };
}
