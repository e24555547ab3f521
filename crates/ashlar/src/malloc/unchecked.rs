//! The fast paths without the checks of misuse: a build of the lab (`lab/peers/build.sh ashlar-unchecked`) that says what they cost.
//!
//! `malloc` writes no entry of the object map, and `free` finds the slot as `kfree` does, by the class word of the page. So a double
//! free or a pointer into an object is not seen, nor are sides (see [`super::entry`]). Nothing of this is in a library that is installed.
#![allow(unsafe_code, reason = "naked functions")]

/// The body of `malloc`; see [`super::entry`].
#[doc(hidden)]
#[macro_export]
macro_rules! malloc_fast_path {
    ($slow:path) => {
        // rdi: size. rsi: code of the class. rdx: offset of the rseq area. rcx: scratch, then area of the CPU. rax: object.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "cmp rdi, [rip + {limit}]",
            "jae {slow}",
            "lea rcx, [rip + {codes}]",
            "movzx esi, byte ptr [rcx + rdi]",
            "mov rdx, [rip + {percpu} + {rseq}]",
            $crate::section_open!("rcx", "rdx"),
            $crate::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "shl rcx, {shift}",
            "add rcx, [rip + {objects} + {slots}]",
            "mov rax, [rcx + rsi*8]",
            "mov rax, [rax]",
            "test rax, rax",
            "jz {slow}",
            "add qword ptr [rcx + rsi*8], 8",
            $crate::section_close!("{slow}"),
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            limit = sym $crate::malloc::parts::LIMIT,
            codes = sym $crate::malloc::parts::SIZE_CODE,
            percpu = sym $crate::malloc::parts::PERCPU,
            rseq = const $crate::malloc::parts::RSEQ,
            gate = const $crate::malloc::parts::GATE,
            shift = const $crate::malloc::parts::AREA_SHIFT,
            objects = sym $crate::malloc::parts::OBJECTS,
            slots = const $crate::malloc::parts::SLOTS,
            slow = sym $slow,
        )
    };
}

/// The body of `free`; the text is that of `kfree`.
#[doc(hidden)]
#[macro_export]
macro_rules! free_fast_path {
    () => {
        // rdi: object. rax: page, then top. r8: slot of CPU 0. rdx: offset of the rseq area. rcx: CPU offset.
        core::arch::naked_asm!(
            ".cfi_startproc",
            "mov rax, rdi",
            "sub rax, [rip + {memmap} + {zone}]",
            "shr rax, 12",
            "cmp rax, [rip + {memmap} + {pages}]",
            "jae {slow}",
            "mov rcx, [rip + {memmap} + {class}]",
            "movzx r8d, word ptr [rcx + rax*4]",
            "add r8, [rip + {percpu} + {base}]",
            "mov rdx, [rip + {percpu} + {rseq}]",
            $crate::section_open!("rcx", "rdx"),
            $crate::section_cpu!("ecx", "rdx", "dword ptr [rip + {percpu} + {gate}]", "{slow}"),
            "shl rcx, {shift}",
            "mov rax, [r8 + rcx]",
            "test eax, {full}",
            "jz {slow}",
            "mov [rax - 8], rdi",
            "sub qword ptr [r8 + rcx], 8",
            $crate::section_close!("{slow}"),
            "ret",
            ".cfi_endproc",
            ".p2align 6",
            memmap = sym $crate::malloc::parts::MEMMAP,
            zone = const $crate::malloc::parts::MEMMAP_ZONE,
            pages = const $crate::malloc::parts::FAST_PAGES,
            class = const $crate::malloc::parts::CLASS,
            percpu = sym $crate::malloc::parts::PERCPU,
            base = const $crate::malloc::parts::BASE,
            rseq = const $crate::malloc::parts::RSEQ,
            gate = const $crate::malloc::parts::GATE,
            shift = const $crate::malloc::parts::AREA_SHIFT,
            full = const $crate::malloc::parts::FULL_MASK,
            slow = sym $crate::malloc::parts::free_slow,
        )
    };
}
