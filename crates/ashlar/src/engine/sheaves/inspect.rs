//! Checks of frees that cost the fast paths nothing or next to nothing.
//!
//! Objects of tracked caches are looked up in the object map before they come here. Others go on
//! the CPU's sheaf, and nothing else is looked at. What is wrong shows
//! * at once, if the object is the one that was freed last: the fast paths compare it with the top
//!   of the sheaf, which their store has in the cache anyway;
//! * when a sheaf is full: every 64th is looked through, the first one of a CPU too;
//! * when objects return to their slabs: each is looked up there.
#![allow(unsafe_code, reason = "reads a sheaf")]

use super::barn::Barn;
use crate::engine::RawCache;
use crate::percpu::View;
use crate::percpu::sheaf::Sheaf;
use ashlar_macros::place;

/// One in this many full sheaves is looked through.
const EVERY: usize = 64;
/// Words of a table with a bit for each value of a hash. With so many, a sheaf of 254 objects has
/// about four pairs with one value, which are then compared.
const WORDS: usize = 128;

/// Returns whether `object` is the top entry of one of this CPU's sheaves, that is, free already.
///
/// A correct free is never taken for a second one. The freeing thread alone has the object, since
/// before it reads the view. So the object is in no sheaf then, and nothing puts it into one.
#[inline]
pub(super) fn is_on_top(view: &View, object: usize) -> bool {
    // SAFETY: a top points to a word of a sheaf, and sheaves are never unmapped. Another thread may
    // write it meanwhile: a stale word is no such object either.
    [view.main, view.spare].iter().any(|&top| unsafe { (top as *const usize).read_volatile() } == object)
}

/// Returns whether a full sheaf, which the calling thread owns, has nothing but objects of its
/// cache, each once. Most sheaves are not looked through: see [`EVERY`].
#[place(background)]
#[inline(never)]
pub(super) fn is_sound(cache: &RawCache, barn: &Barn, full: &Sheaf) -> bool {
    barn.frees() % EVERY != 1
        || full.objects().iter().all(|&object| cache.slabs.locate(object).is_ok()) && is_set(full.objects())
}

/// Returns whether no object occurs twice.
#[place(background)]
fn is_set(objects: &[usize]) -> bool {
    let mut seen = [0u64; WORDS];
    objects.iter().enumerate().all(|(at, &object)| {
        let hash = (object as u64 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - (64 * WORDS).ilog2());
        let (word, bit) = (&mut seen[hash as usize / 64], 1 << (hash % 64));
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new || !objects[..at].contains(&object)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn objects_are_a_set_unless_one_occurs_twice(first in 0usize..1000, count in 2usize..255, pair in any::<[u8; 2]>()) {
            let mut objects: std::vec::Vec<usize> = (first..first + count).map(|at| at * 48).collect();
            prop_assert!(is_set(&objects));
            let [one, other] = pair.map(|at| usize::from(at) % count);
            objects[one] = objects[other];
            prop_assert_eq!(is_set(&objects), one == other);
        }
    }
}
