//! Checks of objects: the kernel's `check_object` and `check_bytes_and_report`.

use super::flags::DebugFlags;
use super::object::{Mark, POISON_END, POISON_FREE, POISON_INUSE, RED_ACTIVE, RED_INACTIVE, Slot};
use super::report;
use crate::pages::memmap::MEMMAP;
use crate::slab::state::NO_OBJECT;
use ashlar_macros::place;

impl Slot {
    /// Checks bytes that must all be `value`. Reports and restores those that are not. Returns
    /// whether all were.
    #[place(cold)]
    fn check_bytes(&self, what: &str, address: usize, value: u8, bytes: usize) -> bool {
        let range = address..address + bytes;
        let wrong = |&at: &usize| self.byte(at) != value;
        let Some(first) = range.clone().find(wrong) else { return true };
        let last = range.clone().rev().find(wrong).unwrap_or(first);
        report::overwritten(self, what, first..last, value);
        self.fill(address, value, bytes);
        report::restored(self, what, range, value);
        false
    }

    /// Checks an object that must be in use (`live`) or free, and all that lies around it. Returns
    /// whether all is as it should be.
    #[place(cold)]
    pub(super) fn check(&self, live: bool) -> bool {
        let layout = &self.layout;
        let red = if live { RED_ACTIVE } else { RED_INACTIVE };
        let mut good = true;
        if self.flags.has(DebugFlags::RED_ZONE) {
            good &= self.check_bytes("Left Redzone", self.at - layout.left, red, layout.left);
            good &= self.check_bytes("Right Redzone", self.at + layout.size, red, layout.link - layout.size);
            let used = self.requested();
            if live && used < layout.size {
                good &= self.check_bytes("Requested size Redzone", self.at + used, red, layout.size - used);
            }
        }
        if self.is_poisoned() && !live {
            good &= self.check_bytes("Poison", self.at, POISON_FREE, layout.size - 1);
            good &= self.check_bytes("End Poison", self.at + layout.size - 1, POISON_END, 1);
        }
        if self.flags.has(DebugFlags::POISON) || self.flags.has(DebugFlags::RED_ZONE) {
            good &=
                self.check_bytes("Object padding", self.at + layout.padding, POISON_INUSE, layout.end - layout.padding);
        }
        if self.mark() == Mark::Bad {
            report::object(self, "Object state overwritten");
            self.set_mark(if live { Mark::Live(layout.size) } else { Mark::Free });
            report::fixed(self.cache, self.state, format_args!("Object state restored at {:#x}", self.at));
            good = false;
        }
        good
    }

    /// Checks a free object that is about to be allocated, its link included.
    #[place(cold)]
    pub(super) fn check_before_alloc(&self) -> bool {
        if !self.check(false) {
            return false;
        }
        if self.mark() != Mark::Free {
            report::object(self, "Freelist holds an object in use");
            return false;
        }
        true
    }

    /// Returns the next free object; a corrupt link is reported and ends the freelist.
    #[place(cold)]
    pub(super) fn checked_link(&self) -> u16 {
        match self.link(MEMMAP.head(self.page).objects()) {
            Ok(next) => next,
            Err(_) => {
                report::object(self, "Freechain corrupt");
                self.set_link(NO_OBJECT);
                NO_OBJECT
            }
        }
    }
}
