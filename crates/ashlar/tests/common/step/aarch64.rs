//! Steps through critical sections on aarch64. A program cannot have itself stopped after each
//! instruction there, so breakpoints are put into its code: at the start of each section, and when
//! one starts, at all of its instructions.

use core::arch::asm;
use core::cell::UnsafeCell;
use core::ops::Range;

use super::{Hook, Section};

/// The instruction `brk #0`.
const BREAKPOINT: u32 = 0xd420_0000;

// Symbols of the linker: the ends of the section that holds all descriptors.
unsafe extern "C" {
    static __start___rseq_cs: Section;
    static __stop___rseq_cs: Section;
}

/// An instruction of a section.
struct Place {
    address: u64,
    instruction: u32,
}

#[derive(Default)]
struct Steps {
    /// The instructions of all sections.
    places: Vec<Place>,
    /// Which of them each section has.
    sections: Vec<Range<usize>>,
    hook: Option<Hook<'static>>,
    /// Those without a breakpoint, because they run now.
    running: Range<usize>,
}

struct Current(UnsafeCell<Option<Steps>>);
// SAFETY: only the thread that steps, and the handler that runs on it, access the steps.
unsafe impl Sync for Current {}
static CURRENT: Current = Current(UnsafeCell::new(None));

/// The state of the thread before an instruction of a section.
pub(crate) struct Trap<'a> {
    pc: &'a mut u64,
    steps: &'a Steps,
    stopped: &'a mut bool,
}

impl Trap<'_> {
    /// Returns the address of the next instruction.
    pub(crate) fn rip(&self) -> u64 {
        *self.pc
    }

    /// Makes the instruction at `to` the next one.
    pub(crate) fn jump(&mut self, to: u64) {
        *self.pc = to;
    }

    /// Ends the steps; the rest of the operation runs at full speed.
    pub(crate) fn stop(&mut self) {
        *self.stopped = true;
        self.steps.remove_breakpoints(0..self.steps.places.len());
    }
}

impl Steps {
    /// Finds all sections, and makes their code writable.
    fn new() -> Steps {
        let mut steps = Steps::default();
        let (mut at, end) = (&raw const __start___rseq_cs, &raw const __stop___rseq_cs);
        while at < end {
            // SAFETY: the linker put an array of descriptors there.
            let section = unsafe { *at };
            let first = steps.places.len();
            steps.places.extend((section.start..section.start + section.length).step_by(4).map(|address| Place {
                address,
                // SAFETY: an instruction of this program.
                instruction: unsafe { (address as *const u32).read() },
            }));
            steps.sections.push(first..steps.places.len());
            // SAFETY: at most the end of the array.
            at = unsafe { at.add(1) };
        }
        // SAFETY: sysconf has no preconditions.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
        for place in &steps.places {
            let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            let start = (place.address & !(page - 1)) as *mut libc::c_void;
            // SAFETY: code of this program, which stays as it is but for the breakpoints.
            assert_eq!(unsafe { libc::mprotect(start, page as usize, all) }, 0);
        }
        steps
    }

    fn put_breakpoints(&self, places: Range<usize>) {
        self.places[places].iter().for_each(|place| write(place.address, BREAKPOINT));
    }

    fn remove_breakpoints(&self, places: Range<usize>) {
        self.places[places].iter().for_each(|place| write(place.address, place.instruction));
    }

    fn put_breakpoints_at_starts(&self) {
        self.sections.iter().for_each(|section| self.put_breakpoints(section.start..section.start + 1));
    }

    /// Returns which instructions run now, from this one on. Nothing may stop between the two of an
    /// exclusive access, or the second one would fail for ever.
    fn next(&self, place: usize) -> Range<usize> {
        const EXCLUSIVE: u32 = 0x3fc0_0000;
        const LOAD: u32 = 0x0840_0000;
        const STORE: u32 = 0x0800_0000;
        if self.places[place].instruction & EXCLUSIVE != LOAD {
            return place..place + 1;
        }
        let is_store = |place: &Place| place.instruction & EXCLUSIVE == STORE;
        let rest = &self.places[place..];
        place..place + 1 + rest.iter().position(is_store).expect("the store of an exclusive access")
    }
}

/// Replaces an instruction by another one.
fn write(address: u64, instruction: u32) {
    // SAFETY: the page was made writable, and only this thread runs the code.
    unsafe {
        if (address as *const u32).read_volatile() == instruction {
            return;
        }
        (address as *mut u32).write_volatile(instruction);
        asm!("dc cvau, {0}", "dsb ish", "ic ivau, {0}", "dsb ish", "isb", in(reg) address, options(nostack));
    }
}

extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid ucontext to a handler with SA_SIGINFO, and no other code
    // refers to it.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    // SAFETY: `stepped` stored the steps before it set a breakpoint, and its frame is below this
    // one on the same stack. No section runs in the handler before the breakpoints are removed.
    let Some(steps) = (unsafe { &mut *CURRENT.0.get() }) else { return };
    let pc = context.uc_mcontext.pc;
    let place = steps.places.iter().position(|place| place.address == pc).expect("a breakpoint of ours");
    steps.put_breakpoints(steps.running.clone());
    if let Some(section) = steps.sections.iter().find(|section| section.start == place) {
        steps.put_breakpoints(section.clone());
    }
    let hook = steps.hook.take().expect("a hook");
    let mut stopped = false;
    hook(&mut Trap { pc: &mut context.uc_mcontext.pc, steps, stopped: &mut stopped });
    steps.running = 0..0;
    if !stopped {
        steps.running = steps.next(place);
        steps.remove_breakpoints(steps.running.clone());
    }
    steps.hook = Some(hook);
}

/// Runs `operation` with `hook` before each instruction of a critical section.
pub(crate) fn stepped<R>(hook: Hook<'_>, operation: impl FnOnce() -> R) -> R {
    // SAFETY: a zeroed sigaction is valid, and the handler has the signature that SA_SIGINFO
    // requires.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_trap as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut()), 0);
    }
    // SAFETY: no breakpoint is set, so no handler accesses the steps. The hook outlives its use,
    // because this function removes it again before it returns.
    unsafe {
        let steps = (*CURRENT.0.get()).get_or_insert_with(Steps::new);
        steps.hook = Some(core::mem::transmute::<Hook<'_>, Hook<'static>>(hook));
        steps.running = 0..0;
        steps.put_breakpoints_at_starts();
    }
    let result = operation();
    // SAFETY: the handler does not run any more once the breakpoints are removed.
    unsafe {
        if let Some(steps) = &mut *CURRENT.0.get() {
            steps.remove_breakpoints(0..steps.places.len());
            steps.hook = None;
        }
    }
    result
}
