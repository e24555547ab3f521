//! `malloc` while calls or bytes are counted, for aarch64; see the module above.
#![allow(unsafe_code, reason = "naked functions")]

use crate::faces::malloc::entry::parts::{
    AREA_SHIFT, GATE, GRAIN, OBJECTS, PERCPU, RSEQ, SIZE_ENTRIES, SLOTS, STEP, TURN,
};
use crate::faces::malloc::slow::{malloc_called_from, malloc_uncounted};
use crate::percpu::area::BUDGET_OFFSET;
use crate::sizes::diversion::BY_CALLS;
use crate::sizes::malloc::{COUNTED, SLOT_OF_CODE_0};
use ashlar_macros::place;

/// `malloc` when the fast path found no object, or is closed because calls are counted.
#[unsafe(naked)]
pub extern "C" fn malloc_slow(size: usize) -> *mut u8 {
    core::arch::naked_asm!(
        ".cfi_startproc",
        crate::landing_pad!(),
        "adrp x9, {counted}",
        "ldr x9, [x9, :lo12:{counted}]",
        "cmp x0, x9",
        "b.hs 8f",
        "b {fast}",
        "8: b {slow}",
        ".cfi_endproc",
        counted = sym COUNTED,
        fast = sym malloc_counted,
        slow = sym malloc_uncounted,
    )
}

/// Passes on where the call of `malloc` returns to.
#[unsafe(naked)]
#[place(cold)]
extern "C" fn malloc_with_caller(size: usize) -> *mut u8 {
    core::arch::naked_asm!(
        ".cfi_startproc",
        "mov x1, x30",
        "b {slow}",
        ".cfi_endproc",
        slow = sym malloc_called_from,
    )
}

/// Defines a copy of the fast path with a count. `$first` stands before it, and `$count` subtracts
/// from the count.
macro_rules! counting {
    ($name:ident, [$($first:literal),*], $count:literal $(, $operand:ident = $value:path)*) => {
        #[unsafe(naked)]
        #[place(cold)]
        extern "C" fn $name(size: usize) -> *mut u8 {
            // The registers are those of `malloc_fast_path`. x8: area of the CPU. w12: the count.
            core::arch::naked_asm!(
                ".cfi_startproc",
                $($first,)*
                "add x10, x0, {step} - 1",
                "lsr x10, x10, {steps}",
                // As there: the addresses depend on the bound in x9.
                "eor x12, x9, x9",
                "adrp x14, {objects} + {slots}",
                "add x14, x14, x12",
                "adrp x11, {percpu}",
                "add x11, x11, :lo12:{percpu}",
                "add x11, x11, x12",
                "ldr x12, [x11, {rseq}]",
                "ldr x14, [x14, :lo12:{objects} + {slots}]",
                crate::section_open!("x9", "x13", "x12"),
                crate::section_cpu!("w9", "x13", "w12", "[x11, {gate}]", "8f"),
                "add x8, x14, x9, lsl {shift}",
                "add x9, x8, {size_entries}",
                "ldrb w15, [x9, x10]",
                "add x14, x8, x15, lsl #3",
                "ldr x9, [x14]",
                "ldr x13, [x9]",
                "cbz x13, 8f",
                "ldur w12, [x8, {budget}]",
                $count,
                "b.mi 8f",
                "stur w12, [x8, {budget}]",
                "add x9, x9, #8",
                "str x9, [x14]",
                crate::section_close!("{slow}"),
                "mov x0, x13",
                crate::enter_object!(),
                "ret",
                "8: b {slow}",
                ".cfi_endproc",
                step = const STEP,
                steps = const STEP.ilog2(),
                percpu = sym PERCPU,
                rseq = const RSEQ,
                gate = const GATE,
                shift = const AREA_SHIFT,
                objects = sym OBJECTS,
                slots = const SLOTS,
                size_entries = const SIZE_ENTRIES,
                budget = const BUDGET_OFFSET as isize - SLOT_OF_CODE_0 as isize,
                grain = const GRAIN,
                turn = const TURN,
                slow = sym malloc_with_caller,
                $($operand = sym $value,)*
            )
        }
    };
}

counting!(
    malloc_counted,
    ["adrp x16, {by_calls}", "ldr w16, [x16, :lo12:{by_calls}]", "cbz w16, 9f", "b {calls}", "9:"],
    "subs w12, w12, w0",
    by_calls = BY_CALLS,
    calls = malloc_counted_by_calls
);
counting!(malloc_counted_by_calls, [], "subs w12, w12, #1");
