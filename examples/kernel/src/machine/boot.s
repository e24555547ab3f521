# From the loader, and from the start-up interrupt of the other CPUs, to Rust in long mode.

# The loader enters here, in 32 bits without paging. EBX holds the address of its start info.
.section .boot, "ax"
.code32
.global pvh_start
pvh_start:
    cli
    cld
    # Four directories of 512 pages of 2 MiB map the first 4 GiB to themselves.
    movl $boot_directories, %edi
    movl $0x83, %eax
    movl $2048, %ecx
1:  movl %eax, (%edi)
    movl $0, 4(%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 1b
    movl $boot_directories + 3, %eax
    movl $boot_pointers, %edi
    movl $4, %ecx
2:  movl %eax, (%edi)
    addl $0x1000, %eax
    addl $8, %edi
    loop 2b
    movl $boot_pointers + 3, boot_map

# Both kinds of CPU: EBX is 0 for all but the first.
enter_long_mode:
    movl %cr4, %eax
    orl $0x20, %eax
    movl %eax, %cr4
    movl $boot_map, %eax
    movl %eax, %cr3
    movl $0xc0000080, %ecx
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl %cr0, %eax
    andl $0x9fffffff, %eax
    orl $0x80010001, %eax
    movl %eax, %cr0
    lgdt boot_gdt_pointer
    ljmp $0x08, $in_long_mode

.code64
in_long_mode:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    xorl %ebp, %ebp
    testl %ebx, %ebx
    jz 3f
    leaq boot_stack_end(%rip), %rsp
    movl %ebx, %edi
    call first_cpu
    ud2
3:  movq next_stack(%rip), %rsp
    movl next_number(%rip), %edi
    call other_cpu
    ud2

# Copied to 0x8000, where the start-up interrupt begins, in 16 bits.
.global start_up_code, start_up_end
.code16
start_up_code:
    cli
    cld
    xorw %ax, %ax
    movw %ax, %ds
    lgdtl 0x8000 + start_up_gdt - start_up_code
    movl %cr0, %eax
    orl $1, %eax
    movl %eax, %cr0
    ljmpl $0x18, $0x8000 + start_up_32 - start_up_code
.code32
start_up_32:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    xorl %ebx, %ebx
    movl $enter_long_mode, %eax
    jmp *%eax
.balign 4
start_up_gdt:
    .word boot_gdt_end - boot_gdt - 1
    .long boot_gdt
start_up_end:

.section .data.boot, "aw"
.balign 8
boot_gdt:
    .quad 0
    .quad 0x00af9b000000ffff
    .quad 0x00cf93000000ffff
    .quad 0x00cf9b000000ffff
boot_gdt_end:
boot_gdt_pointer:
    .word boot_gdt_end - boot_gdt - 1
    .quad boot_gdt
.balign 8
.global next_stack, next_number
next_stack:
    .quad 0
next_number:
    .long 0

.section .bss.boot, "aw", @nobits
.balign 4096
.global boot_map
boot_map:
    .skip 4096
boot_pointers:
    .skip 4096
boot_directories:
    .skip 4 * 4096
    .skip 65536
boot_stack_end:
.code64
