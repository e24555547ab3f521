//! The stages of SLUB, and the switches that each sets. No mechanism here.

use crate::base::units::{LARGEST_CLASS, PAGE_SIZE};
use crate::slab::OrderRule;

/// A stage in the history of SLUB with CPU slabs. docs/engines.md says which kernel mechanism each
/// stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stage {
    /// Linux 2.6.24-rc1: interrupts are off (here: a lock of the CPU) around every operation.
    Plain,
    /// The same, with `cmpxchg_local` emulated under that lock.
    Emulated,
    /// 2007, patched: `cmpxchg_local` (here: a restartable sequence) in the fast path.
    Plus,
    /// The same with slabs of up to 8 pages and at least 20 objects.
    PlusOrder,
    /// Linux 2.6.37, end of 2010: interrupts are off (here: a lock of the CPU) around every
    /// operation.
    Y2010,
    /// The same with the patches of December 2010: a lockless fast path and partially lockless
    /// frees to other slabs.
    Y2010Partly,
    /// Frees to other slabs than the CPU's without a lock, as every kernel since 2011 has them.
    Lockless,
    /// 2015: partial slabs on CPUs, and bulk operations with detached freelists.
    Bulk,
}

/// What protects the CPU slab's freelist on the fast path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fast {
    /// The CPU's lock, for the whole operation.
    Lock,
    /// The CPU lock, only for a compare and exchange in the middle of the operation.
    Emulated,
    /// A restartable sequence.
    Rseq,
}

/// What protects a slab that is not the CPU's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slow {
    /// slab_lock, released by an atomic instruction.
    SlabLock,
    /// slab_lock, released by a plain store.
    SlabLockPlainUnlock,
    /// A free is one compare-and-swap of the freelist and a racy decrement. Everything else is done
    /// under slab_lock.
    Partly,
    /// One compare-and-swap of the state word.
    Lockless,
}

/// The switches of a stage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Switches {
    pub(crate) fast: Fast,
    pub(crate) slow: Slow,
    /// A slab emptied by a free stays if its node has few empty slabs; else it is always discarded.
    pub(crate) keeps_empty: bool,
    /// A slow allocation takes the CPU lock and slab_lock as often as the kernel does.
    pub(crate) exact: bool,
    /// CPUs keep partial slabs.
    pub(crate) cpu_partial: bool,
    /// Bulk operations take and give whole freelists.
    pub(crate) bulk: bool,
}

const PLAIN: Switches = Switches {
    fast: Fast::Lock,
    slow: Slow::SlabLock,
    keeps_empty: false,
    exact: false,
    cpu_partial: false,
    bulk: false,
};
const PLUS: Switches = Switches { fast: Fast::Rseq, slow: Slow::SlabLockPlainUnlock, ..PLAIN };
const Y2010: Switches = Switches { slow: Slow::SlabLockPlainUnlock, exact: true, ..PLAIN };
const LOCKLESS: Switches = Switches { slow: Slow::Lockless, ..PLUS };

impl Switches {
    /// Whether a CPU lock is taken in every mode: on the fast path, or around slab_lock.
    pub(crate) const fn takes_cpu_locks(&self) -> bool {
        !matches!((self.fast, self.slow), (Fast::Rseq, Slow::Lockless))
    }

    pub(crate) const fn lockless(&self) -> bool {
        matches!(self.slow, Slow::Lockless)
    }

    /// Whether a free to another slab than the CPU's begins with the CPU lock.
    pub(crate) const fn frees_by_lock(&self) -> bool {
        matches!(self.slow, Slow::SlabLock | Slow::SlabLockPlainUnlock)
    }
}

#[place(cold)]
impl Stage {
    pub(crate) const fn switches(self) -> Switches {
        match self {
            Stage::Plain => PLAIN,
            Stage::Emulated => Switches { fast: Fast::Emulated, ..PLAIN },
            Stage::Plus | Stage::PlusOrder => PLUS,
            Stage::Y2010 => Y2010,
            Stage::Y2010Partly => Switches { fast: Fast::Rseq, slow: Slow::Partly, ..Y2010 },
            Stage::Lockless => LOCKLESS,
            Stage::Bulk => Switches { keeps_empty: true, cpu_partial: true, bulk: true, ..LOCKLESS },
        }
    }

    /// True for the stages of 2007.
    const fn is_2007(self) -> bool {
        matches!(self, Stage::Plain | Stage::Emulated | Stage::Plus | Stage::PlusOrder)
    }

    /// Largest size class that has a cache: half a page in 2007, two pages later.
    pub(crate) const fn max_class(self) -> usize {
        match self.is_2007() {
            true => PAGE_SIZE / 2,
            false if 2 * PAGE_SIZE < LARGEST_CLASS => 2 * PAGE_SIZE,
            false => LARGEST_CLASS,
        }
    }

    /// The order rule. `rule` is that of the process; values left at their defaults are replaced by
    /// those of the stage's kernel.
    pub(crate) const fn order_rule(self, rule: OrderRule) -> OrderRule {
        let (max_order, min_objects) = match self {
            Stage::PlusOrder => (3, 20),
            // `DEFAULT_MAX_ORDER` and `DEFAULT_MIN_OBJECTS` of 2.6.24.
            _ if self.is_2007() && PAGE_SIZE > 4096 => (2, 8),
            _ if self.is_2007() => (1, 4),
            _ => (OrderRule::DEFAULT.max_order, OrderRule::DEFAULT.min_objects),
        };
        OrderRule {
            min_order: rule.min_order,
            max_order: if rule.max_order != OrderRule::DEFAULT.max_order {
                rule.max_order
            } else if max_order < rule.min_order {
                rule.min_order
            } else {
                max_order
            },
            min_objects: if rule.min_objects == OrderRule::DEFAULT.min_objects {
                min_objects
            } else {
                rule.min_objects
            },
        }
    }

    /// Empty slabs that a node keeps by default: 2 in 2007, log2 of the size between 5 and 10 in
    /// 2010, by the rule of today later.
    pub(crate) fn min_partial(self, by_size: usize, stride: usize) -> usize {
        match self {
            _ if self.is_2007() => 2,
            Stage::Y2010 | Stage::Y2010Partly => (stride.ilog2() as usize).clamp(5, 10),
            _ => by_size,
        }
    }
}

/// Returns the number of free objects above which a CPU's partial slabs go to the node. The
/// kernel's numbers of 2015, when `cpu_partial` counted objects.
#[place(cold)]
pub(crate) const fn cpu_partial(stride: usize) -> usize {
    match stride {
        PAGE_SIZE.. => 2,
        1024.. => 6,
        256.. => 13,
        _ => 30,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_process_win_over_the_rule_of_the_stage() {
        let rule = OrderRule::DEFAULT;
        let (max_order, min_objects) = if PAGE_SIZE > 4096 { (2, 8) } else { (1, 4) };
        assert_eq!(Stage::Plain.order_rule(rule), OrderRule { min_order: 0, max_order, min_objects });
        assert_eq!(Stage::PlusOrder.order_rule(rule), OrderRule { min_order: 0, max_order: 3, min_objects: 20 });
        assert_eq!(Stage::Bulk.order_rule(rule), rule);
        let rule = OrderRule { min_order: 2, ..rule };
        assert_eq!(Stage::Plus.order_rule(rule), OrderRule { min_order: 2, max_order: 2, min_objects });
        let rule = OrderRule { min_order: 0, max_order: 5, min_objects: 9 };
        assert_eq!(Stage::Plus.order_rule(rule), rule);
    }

    /// The orders of 2.6.24 on IA64, whose objects of 4096 bytes are a quarter of a page.
    #[test]
    #[cfg(all(feature = "page-16k", not(feature = "page-64k")))]
    fn pages_of_16_kib_have_the_orders_of_2007() {
        assert_eq!([Stage::Plain, Stage::PlusOrder].map(Stage::max_class), [8192; 2]);
        let rule = Stage::Plain.order_rule(OrderRule::DEFAULT);
        for (size, order) in [(8, 0), (64, 0), (1024, 0), (2048, 0), (4096, 1), (8192, 2)] {
            assert_eq!(crate::slab::geometry::calculate_order(size, rule, 8).0, order, "size {size}");
        }
        assert_eq!([1024, 4096, 16_384].map(cpu_partial), [6, 6, 2]);
    }
}
