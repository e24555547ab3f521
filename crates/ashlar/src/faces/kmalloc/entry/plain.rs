//! The entry points of kmalloc where no critical section in assembly serves them. In a kernel they
//! have fast paths, by plain code in a section of the [`Platform`](crate::Platform); elsewhere
//! every call takes the slow path.

use crate::faces::kmalloc::{kfree_slow, kmalloc_called_from, kmalloc_direct};
use crate::sizes::kmalloc::is_direct;
#[cfg(not(feature = "os"))]
use crate::{
    base::sync::Ordering,
    base::units::{CpuId, PageIndex},
    pages::memmap::MEMMAP,
    percpu::plain,
    sizes::kmalloc::{self, LIMIT, SIZED_FREE_LIMIT},
};

/// Memory of at least `size` bytes; see `x86_64`.
pub extern "C" fn kmalloc(size: usize) -> *mut u8 {
    #[cfg(not(feature = "os"))]
    if size < LIMIT.load(Ordering::Acquire) {
        let object = plain::pop(kmalloc::small_slot(size));
        if object != 0 {
            return core::ptr::with_exposed_provenance_mut(object);
        }
    }
    kmalloc_slow(size)
}

/// [`kmalloc`] when the fast path found no object. Nothing says where the call returns to.
#[cfg_attr(not(feature = "os"), inline(never))]
fn kmalloc_slow(size: usize) -> *mut u8 {
    if is_direct(size) { kmalloc_direct(size) } else { kmalloc_called_from(size, 0) }
}

/// Gives an object back; see `x86_64`.
///
/// # Safety
/// `ptr` was allocated here, was not freed since, and no thread uses it any more.
pub unsafe extern "C" fn kfree(ptr: *mut u8) {
    #[cfg(not(feature = "os"))]
    if let Some(page) = MEMMAP.page_of(ptr as usize) {
        // Pages whose objects no fast path may take lead to slot 0, which is always full.
        if plain::push(MEMMAP.class_of(page).slot(), ptr as usize, |cpu| is_local(page, cpu)) {
            return;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { kfree_slow(ptr) };
}

/// As [`kfree`], told the size.
///
/// # Safety
/// As for [`kfree`]; `size` is what [`kmalloc`] was given for this object.
pub unsafe extern "C" fn kfree_sized(ptr: *mut u8, size: usize) {
    #[cfg(not(feature = "os"))]
    if size < SIZED_FREE_LIMIT.load(Ordering::Acquire) && plain::push(kmalloc::small_slot(size), ptr as usize, |_| true)
    {
        return;
    }
    let _ = size;
    // SAFETY: the caller's promise.
    unsafe { kfree(ptr) };
}

/// Whether the sheaves of `cpu` may have the objects of `page`: those of its own node.
#[cfg(not(feature = "os"))]
#[inline]
fn is_local(page: PageIndex, cpu: CpuId) -> bool {
    MEMMAP.node_of_block(page) == plain::node_of(cpu)
}

/// As `is_local`, of an object. Always true on machines with one node.
#[cfg(not(feature = "os"))]
#[inline]
pub(crate) fn has_local(object: usize, cpu: CpuId) -> bool {
    MEMMAP.has_one_node() || MEMMAP.page_of(object).is_some_and(|page| is_local(page, cpu))
}
