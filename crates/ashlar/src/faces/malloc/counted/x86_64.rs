//! `malloc` while calls or bytes are counted, for x86-64; see the module above.
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
        "cmp rdi, [rip + {counted}]",
        "jb {fast}",
        "jmp {slow}",
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
        "mov rsi, [rsp]",
        "jmp {slow}",
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
            // The registers are those of `malloc_fast_path`. r8: the count.
            core::arch::naked_asm!(
                ".cfi_startproc",
                $($first,)*
                "lea esi, [rdi + {step} - 1]",
                "shr esi, {steps}",
                "mov rdx, [rip + {percpu} + {rseq}]",
                crate::percpu::sections::section_open!("rcx", "rdx"),
                crate::percpu::sections::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
                "shl rcx, {shift}",
                "add rcx, [rip + {objects} + {slots}]",
                "movzx esi, byte ptr [rcx + rsi + {size_entries}]",
                "mov rax, [rcx + rsi*8]",
                "mov rax, [rax]",
                "test rax, rax",
                "jz {slow}",
                "mov r8d, [rcx + {budget}]",
                $count,
                "js {slow}",
                "mov [rcx + {budget}], r8d",
                "add qword ptr [rcx + rsi*8], 8",
                crate::percpu::sections::section_close!("{slow}"),
                crate::enter_object!(),
                "ret",
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
    ["cmp dword ptr [rip + {by_calls}], 0", "jne {calls}"],
    "sub r8d, edi",
    by_calls = BY_CALLS,
    calls = malloc_counted_by_calls
);
counting!(malloc_counted_by_calls, [], "sub r8d, 1");
