//! Sections as plain code, in a kernel: loads and stores between the platform's `enter` and
//! `leave`, without a locked instruction. See [`Platform`](crate::Platform).
//!
//! Nothing else runs on the CPU in a section, so only drains from other CPUs have to be kept away:
//! see [`CpuWord`].
#![allow(unsafe_code, reason = "raw per-CPU memory")]

use super::area::{AREA_SHIFT, NODE_OFFSET, PERCPU, STOPS_OFFSET, far_slot, side_order};
use super::cpu_word::CpuWord;
use super::sheaf::FULL_BIT;
use crate::base::sync::{Ordering, section};
use crate::base::units::CpuId;
use core::ptr::with_exposed_provenance_mut;

/// Returns the address of the area of a CPU.
#[inline(always)]
fn area_of(cpu: CpuId) -> usize {
    PERCPU.base.load(Ordering::Relaxed) + ((cpu.0 as usize) << AREA_SHIFT)
}

/// Returns the word of a CPU that has an area.
#[inline(always)]
pub(super) fn word(cpu: CpuId) -> &'static CpuWord {
    // SAFETY: the last word of slot 1 of every area is committed memory that is used as nothing
    // else. Zeros are an open CPU.
    unsafe { &*with_exposed_provenance_mut::<CpuWord>(area_of(cpu) + STOPS_OFFSET) }
}

/// Returns the number of the node of a CPU that has an area.
#[inline(always)]
pub(crate) fn node_of(cpu: CpuId) -> u8 {
    // SAFETY: this byte of every area is the number of the node, which start-up wrote.
    unsafe { with_exposed_provenance_mut::<u8>(area_of(cpu) + NODE_OFFSET).read() }
}

/// Runs `f` in a section, with this CPU, if the CPU's slots are open. `f` does not call the
/// allocator.
#[inline(always)]
pub(super) fn in_section<R>(f: impl FnOnce(CpuId) -> R) -> Option<R> {
    let platform = section::platform()?;
    // The number is one that has an area, by the contract of the platform.
    let cpu = CpuId(platform.enter());
    let result = if word(cpu).is_open() { Some(f(cpu)) } else { None };
    // SAFETY: the section was begun above, on this CPU.
    unsafe { platform.leave() };
    result
}

/// Runs `f` on this CPU and its slot at `offset`, in a section; `None` if the slots are not open.
#[inline(always)]
pub(super) fn with_slot<R>(offset: u16, f: impl FnOnce(CpuId, &mut [usize; 2]) -> R) -> Option<R> {
    in_section(|cpu| {
        let slot = PERCPU.slot(cpu, offset).cast::<[usize; 2]>();
        // SAFETY: nothing else runs on this CPU, and its word keeps drains away, so this section
        // has the slot for itself.
        f(cpu, unsafe { &mut *slot })
    })
}

/// Takes the two words of this CPU's slot and stores `empty` there, if this CPU is `cpu`.
pub(super) fn take_own(cpu: CpuId, offset: u16, empty: [usize; 2]) -> Option<[usize; 2]> {
    with_slot(offset, |here, slot| {
        (here == cpu).then(|| side_order(cpu, offset, core::mem::replace(slot, side_order(cpu, offset, empty))))
    })?
}

/// Takes the top object of the main sheaf of this CPU's slot at `offset`, which is not sided.
/// Returns 0 if the sheaf is empty or the slot is unavailable.
#[inline(always)]
pub(crate) fn pop(offset: u16) -> usize {
    in_section(|cpu| {
        let main = PERCPU.slot(cpu, offset);
        // SAFETY: the section has the slot for itself. Its main word is the top of a sheaf, whose
        // word there is an object or the sentinel.
        unsafe {
            let top = main.read();
            let object = with_exposed_provenance_mut::<usize>(top).read();
            if object != 0 {
                main.write(top + size_of::<usize>());
            }
            object
        }
    })
    .unwrap_or(0)
}

/// Puts an object on the main sheaf of this CPU's slot at `offset`, which is not sided, or of the
/// far slot of that one if `is_local` says that the object is of another node than the CPU. Returns
/// false if the sheaf is full, has the object on top, or is unavailable.
#[inline(always)]
pub(crate) fn push(offset: u16, object: usize, is_local: impl FnOnce(CpuId) -> bool) -> bool {
    in_section(|cpu| {
        if is_local(cpu) {
            // SAFETY: this is a section on the CPU.
            unsafe { push_here(cpu, offset, object) }
        } else {
            // SAFETY: as above.
            unsafe { push_far(cpu, offset, object) }
        }
    })
    .unwrap_or(false)
}

/// As [`push_here`], on the far slot.
///
/// # Safety
/// As for [`push_here`].
#[inline(never)]
unsafe fn push_far(cpu: CpuId, offset: u16, object: usize) -> bool {
    // SAFETY: the caller keeps the same contract.
    unsafe { push_here(cpu, far_slot(offset), object) }
}

/// Puts an object on the main sheaf of the slot of `cpu` at `offset`, unless it is full or has the
/// object on top.
///
/// # Safety
/// A section runs on this CPU, and its slots are open.
#[inline(always)]
unsafe fn push_here(cpu: CpuId, offset: u16, object: usize) -> bool {
    let main = PERCPU.slot(cpu, offset);
    // SAFETY: the section has the slot for itself. The word before a top belongs to the sheaf: it
    // is a free place, or the info word of a full sheaf.
    unsafe {
        let top = main.read();
        let place = with_exposed_provenance_mut::<usize>(top - size_of::<usize>());
        if place.read() & FULL_BIT != 0 || place.add(1).read() == object {
            return false;
        }
        place.write(object);
        main.write(place.addr());
        true
    }
}
