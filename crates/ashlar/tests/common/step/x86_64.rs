//! Single steps on x86-64, by the processor's trap flag.

use core::arch::asm;
use core::cell::UnsafeCell;

use super::Hook;

/// The trap flag in RFLAGS.
const TRAP_FLAG: i64 = 0x100;

/// The state of the thread between two instructions.
pub(crate) struct Trap<'a> {
    registers: &'a mut [libc::greg_t; 23],
}

impl Trap<'_> {
    /// Returns the address of the next instruction.
    pub(crate) fn rip(&self) -> u64 {
        self.registers[libc::REG_RIP as usize] as u64
    }

    /// Makes the instruction at `to` the next one.
    pub(crate) fn jump(&mut self, to: u64) {
        self.registers[libc::REG_RIP as usize] = to as i64;
    }

    /// Ends the single steps; the rest of the operation runs at full speed.
    pub(crate) fn stop(&mut self) {
        self.registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
    }
}

struct Current(UnsafeCell<Option<Hook<'static>>>);
// SAFETY: only the thread that single-steps, and the handler that runs on it, access the hook.
unsafe impl Sync for Current {}
static CURRENT: Current = Current(UnsafeCell::new(None));

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid ucontext to a handler with SA_SIGINFO, and no other code
    // refers to it.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // SAFETY: `stepped` stored the hook before it set the trap flag, and its frame is below this
    // one on the same stack. The trap flag is off in the handler, so the hook is not entered twice.
    if let Some(hook) = unsafe { &mut *CURRENT.0.get() } {
        hook(&mut Trap { registers: &mut context.uc_mcontext.gregs });
    }
}

/// Runs `operation` with `hook` before each instruction, except the first few, which are this
/// function's own.
pub(crate) fn stepped<R>(hook: Hook<'_>, operation: impl FnOnce() -> R) -> R {
    // SAFETY: a zeroed sigaction is valid, and the handler has the signature that SA_SIGINFO
    // requires.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut()), 0);
    }
    // SAFETY: the hook outlives its use, because this function removes it again before it returns.
    unsafe { *CURRENT.0.get() = Some(core::mem::transmute::<Hook<'_>, Hook<'static>>(hook)) };
    // SAFETY: sets only the trap flag; the stack is as before.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    let result = operation();
    // SAFETY: clears only the trap flag; the stack is as before.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
    // SAFETY: there are no more traps, so no handler accesses the hook.
    unsafe { *CURRENT.0.get() = None };
    result
}
