//! The trait [`Platform`]: what the allocator asks of a kernel that it runs in.
#![allow(unsafe_code, reason = "declares an unsafe trait")]

/// A machine with several CPUs under a kernel, hypervisor or unikernel that has ashlar as its
/// allocator. Exists without the feature `os`; see docs/kernel.md for an example.
///
/// A *section* is the time between [`enter`](Platform::enter) and [`leave`](Platform::leave), in
/// which nothing else runs on this CPU. The allocator is in a section while it holds a lock or
/// works on its CPU's sheaves: for tens of instructions, and for as long as
/// [`PageSource`](crate::PageSource) takes where the zone grows. Constructors run outside. On the
/// fast paths a section has plain loads and stores, and no locked instruction.
///
/// | called from | may allocate and free |
/// |---|---|
/// | a thread, with interrupts on or off | yes |
/// | an interrupt handler, whatever it interrupted | yes |
/// | an NMI or machine check | no: it may have interrupted the holder of a lock |
/// | the boot CPU, before the others run | yes, after [`start_on_cpus`](crate::start_on_cpus) |
/// | a CPU that comes, from its first instruction with a number on | yes |
/// | a CPU that has gone | no; [`cpu_dead`](crate::cpu_dead) on another CPU empties its sheaves |
///
/// # Safety
/// Implementors guarantee:
/// * `this_cpu`, and what `enter` returns, is below `cpus`; in a section no other thread or
///   interrupt handler runs on this CPU, and the caller does not move to another;
/// * sections nest, and end in any order: as many calls of `leave` as of `enter` end them;
/// * `this_thread` is even, not 0, and another number for each thread that exists at the same time;
///   an interrupt handler has the number of the thread that it interrupts;
/// * `enter` and `leave` keep loads and stores of the program inside, against what else runs on
///   this CPU: inline assembly does unless it says `nomem`;
/// * `fence` returns true only after what it promises;
/// * the methods are called from any thread and handler, do not call the allocator, and do not
///   unwind.
pub unsafe trait Platform: Sync {
    /// Returns one more than the highest number that a CPU can have. Asked once, at the start. Each
    /// number costs 64 KiB of addresses, of which CPUs that never run touch one page.
    fn cpus(&self) -> u32;

    /// Returns the number of this CPU. Outside of a section the answer may be out of date on
    /// return.
    fn this_cpu(&self) -> u32;

    /// Returns the number of this thread, such as the address of its control block.
    fn this_thread(&self) -> usize;

    /// Begins a section, and returns the number of this CPU, which is that of the section until its
    /// end. Usually it turns interrupts off, and counts how deep sections nest on this CPU.
    fn enter(&self) -> u32;

    /// Ends a section.
    ///
    /// # Safety
    /// The caller has begun it, on this CPU, and has not ended it yet.
    unsafe fn leave(&self);

    /// Waits until every CPU that runs has been outside of all sections at some time since the
    /// call, and returns true then. What each CPU stored before that time is seen by the caller
    /// afterwards, and what the caller stored before the call is seen by the CPU after that time.
    ///
    /// Usually this sends an interrupt with an empty handler to all other CPUs that are online, and
    /// waits until each has counted it: Linux's `smp_call_function` of nothing. CPUs that do not
    /// run are left out; one that comes meanwhile is outside of sections.
    ///
    /// Returns false at once if it cannot wait: with interrupts off, because another CPU may wait
    /// for this one in the same way, or for a lock that the caller holds; and on a machine that
    /// has no such means, which is the default. Then each CPU empties its own sheaves, at its next
    /// call of the allocator or of [`poll`](crate::poll), and a drain is not complete on return.
    ///
    /// Called rarely: by a drain of all CPUs ([`reap`](crate::reap), shrink, destroy, a change of a
    /// tunable, and the last attempt before a request fails). The allocator holds no lock then,
    /// unless interrupts are off.
    fn fence(&self) -> bool {
        false
    }

    /// Returns the number of nodes, at most 64; more count as 64. Asked once, at the start.
    fn nodes(&self) -> u32 {
        1
    }

    /// Returns the node of a CPU. Numbers that are not below `nodes` count as node 0.
    fn node_of_cpu(&self, cpu: u32) -> u32 {
        let _ = cpu;
        0
    }

    /// Waits a moment, for a loop that waits for another CPU. Called outside of sections unless the
    /// caller of the allocator is in one.
    fn relax(&self) {
        core::hint::spin_loop();
    }

    /// Returns the time in milliseconds, by a clock that never goes back; `None` without one.
    ///
    /// With a clock, [`poll`](crate::poll) returns free pages to the
    /// [`PageSource`](crate::PageSource) after the decay time of the option `decay`, and what
    /// sheaves in store were not needed to their slabs. Without one, they stay until
    /// [`reap`](crate::reap).
    fn clock_ms(&self) -> Option<u64> {
        None
    }

    /// Prints a line about invalid use of the allocator, with its line feed. May be called in a
    /// section.
    fn print(&self, line: &str) {
        let _ = line;
    }

    /// Returns a number that attackers cannot guess, for the keys of free links. Asked a few times.
    fn random(&self) -> Option<u64> {
        None
    }
}
