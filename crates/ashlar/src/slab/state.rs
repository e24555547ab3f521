//! The slab's state in one 64-bit word.
//!
//! | bits | field | meaning |
//! |---|---|---|
//! | 0..16 | head | index of the first object of the freelist, 0xffff for an empty list |
//! | 16..31 | inuse | carved objects that are not on the freelist: allocated, or in a sheaf |
//! | 31..46 | carved | objects 0..carved have been handed out since the slab was fresh |
//! | 46 | frozen | on no list; see below |
//! | 47..64 | tag | incremented by every change; its top bit is the slab_lock, if slabs have one |
//!
//! The freelist holds `carved - inuse` objects. The other `objects - carved` have never been
//! touched ("lazy carving": a new slab costs no write to its objects). The slab is *full* when
//! `inuse == objects`, and *empty* when `inuse == 0`.
//!
//! A frozen slab is on no list, whatever its freelist holds. Frees push to it and are counted, and
//! nothing is allocated from it by other CPUs. It is either a CPU slab (engines with CPU slabs), or
//! it failed a check and stays in quarantine for ever.
//!
//! One compare-and-swap changes the word. The freelist is only pushed to or taken as a whole, so
//! the ABA problem of a pop cannot occur. The tag makes a change visible even if all other fields
//! return to their old values.

/// The slab's state word as a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlabState(pub(crate) u64);

pub(crate) use crate::base::units::NO_OBJECT;

const FIELD: u64 = 0x7fff;
const INUSE: u32 = 16;
const CARVED: u32 = 31;
const FROZEN: u64 = 1 << 46;
const TAG: u32 = 47;
/// The slab_lock of engines that lock slabs; its holder owns the word.
pub(crate) const SLAB_LOCK: u64 = 1 << 63;

impl core::fmt::Debug for SlabState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "head {:#x} inuse {} carved {} frozen {} tag {}",
            self.head(),
            self.inuse(),
            self.carved(),
            self.frozen(),
            self.0 >> TAG
        )
    }
}

impl SlabState {
    /// The state of a slab whose first `taken` objects have been carved and handed out.
    pub(crate) const fn carved_from_fresh(taken: u16) -> SlabState {
        SlabState(NO_OBJECT as u64 | (taken as u64) << INUSE | (taken as u64) << CARVED)
    }

    #[inline]
    pub(crate) const fn head(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    pub(crate) const fn inuse(self) -> u16 {
        (self.0 >> INUSE & FIELD) as u16
    }

    #[inline]
    pub(crate) const fn carved(self) -> u16 {
        (self.0 >> CARVED & FIELD) as u16
    }

    #[inline]
    pub(crate) const fn frozen(self) -> bool {
        self.0 & FROZEN != 0
    }

    /// Returns the number of objects on the freelist.
    #[inline]
    pub(crate) const fn linked(self) -> u16 {
        self.carved() - self.inuse()
    }

    #[inline]
    const fn with(self, head: u16, inuse: u16, carved: u16) -> SlabState {
        let tag = (self.0 >> TAG).wrapping_add(1) << TAG;
        SlabState(head as u64 | (inuse as u64) << INUSE | (carved as u64) << CARVED | self.0 & FROZEN | tag)
    }

    /// The state after a chain of `count` objects that starts at `head` was put in front of the
    /// freelist.
    #[inline]
    pub(crate) const fn pushed(self, head: u16, count: u16) -> SlabState {
        self.with(head, self.inuse() - count, self.carved())
    }

    /// The state after the first object of the freelist was taken; `next` is the next one.
    #[inline]
    pub(crate) const fn popped(self, next: u16) -> SlabState {
        self.with(next, self.inuse() + 1, self.carved())
    }

    /// The state after one more object was carved and handed out. The freelist is empty.
    #[inline]
    pub(crate) const fn carved_one(self) -> SlabState {
        self.with(NO_OBJECT, self.inuse() + 1, self.carved() + 1)
    }

    /// The state of a fresh slab, after all objects were freed: no object counts as carved.
    #[inline]
    pub(crate) const fn reset(self) -> SlabState {
        self.with(NO_OBJECT, 0, 0)
    }

    /// The state after the whole freelist was taken and `fresh` more objects were carved.
    #[inline]
    pub(crate) const fn taken(self, fresh: u16) -> SlabState {
        self.with(NO_OBJECT, self.carved() + fresh, self.carved() + fresh)
    }

    /// The same state, not frozen.
    #[inline]
    pub(crate) const fn thaw(self) -> SlabState {
        SlabState(self.0 & !FROZEN)
    }

    /// The same state without the slab_lock.
    #[inline]
    pub(crate) const fn unlocked(self) -> SlabState {
        SlabState(self.0 & !SLAB_LOCK)
    }

    /// The same state, frozen.
    #[inline]
    pub(crate) const fn freeze(self) -> SlabState {
        SlabState(self.0 | FROZEN)
    }
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn fields_are_independent(taken in 0u16..=32767, fresh in 0u16..100) {
            let s = SlabState::carved_from_fresh(taken);
            prop_assert_eq!((s.head(), s.inuse(), s.carved(), s.linked()), (NO_OBJECT, taken, taken, 0));
            if taken > 0 {
                let p = s.pushed(7, 1);
                prop_assert_eq!((p.head(), p.inuse(), p.carved(), p.linked()), (7, taken - 1, taken, 1));
                prop_assert_ne!(p.0 >> TAG, s.0 >> TAG);
                if taken < 32000 {
                    let t = p.taken(fresh);
                    prop_assert_eq!((t.head(), t.inuse(), t.carved()), (NO_OBJECT, taken + fresh, taken + fresh));
                }
                prop_assert_eq!(p.reset().carved(), 0);
                prop_assert!(p.freeze().frozen() && p.freeze().pushed(1, 1).frozen() || taken < 2);
            }
        }
    }

    #[test]
    fn the_tag_wraps_without_touching_other_fields() {
        let mut s = SlabState::carved_from_fresh(2);
        s = SlabState(s.0 | !0 << TAG).pushed(0, 1);
        assert_eq!((s.0 >> TAG, s.frozen(), s.carved(), s.inuse()), (0, false, 2, 1));
    }
}
