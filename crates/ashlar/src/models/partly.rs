//! The partially lockless frees of 2010: the count of objects in use is racy, so a slab may be
//! found empty late, but never too early and never twice.

use std::sync::Arc;
use std::vec;

use super::bench::{Bench, Object};
use super::{explore, race};
use crate::base::units::PageIndex;
use crate::engine::history::slub::slabs::Protection;

const PARTLY: Protection = Protection::Partly;
const PAGE: PageIndex = PageIndex(0);

fn full<const N: usize>() -> (Arc<Bench>, [Object; N]) {
    let (bench, mut slabs) = Bench::full(1, N as u16, 0, false);
    (bench, slabs.remove(0).try_into().unwrap())
}

/// The slab is discarded, and no thread wrote to its page head afterwards; or it is on the list.
fn discarded_or_listed(bench: &Bench) {
    bench.audit();
    if bench.is_discarded(PAGE) {
        bench.audit_reused(PAGE);
        assert!(bench.listed().is_empty());
    } else {
        assert_eq!(bench.listed(), [PAGE]);
    }
}

/// The first free makes the slab partial and the second empties it, in either order of what follows
/// the compare-and-swap. The kernel's patch adds the slab to the list twice here, or adds it after
/// its pages were returned.
#[test]
fn a_full_slab_is_emptied_by_two_frees_and_is_listed_or_discarded_once() {
    explore(|| {
        let (bench, [first, second]) = full::<2>();
        let one = bench.clone();
        race(move || one.free_by(PARTLY, vec![first]), || (), || bench.free_by(PARTLY, vec![second]));
        discarded_or_listed(&bench);
    });
}

/// The same where the slab is on the list already, so that only the count decides.
#[test]
fn a_partial_slab_is_emptied_by_two_frees_and_is_discarded_at_most_once() {
    explore(|| {
        let (bench, [first, second, third]) = full::<3>();
        bench.free_by(PARTLY, vec![first]);
        let one = bench.clone();
        race(move || one.free_by(PARTLY, vec![second]), || (), || bench.free_by(PARTLY, vec![third]));
        discarded_or_listed(&bench);
    });
}

/// A CPU takes the slab while its last object is freed, and frees what it took. A free that found
/// the count at 0 goes on when the slab may be discarded already.
#[test]
fn a_free_that_goes_on_after_the_slab_was_discarded_leaves_its_page_head_alone() {
    explore(|| {
        let (bench, [first, second]) = full::<2>();
        bench.free_by(PARTLY, vec![first]);
        let one = bench.clone();
        let taker = move || {
            let Some((page, objects)) = one.freeze(PARTLY) else { return };
            one.thaw(PARTLY, page, vec![]);
            for object in objects {
                one.free_by(PARTLY, vec![object]);
            }
        };
        race(taker, || (), || bench.free_by(PARTLY, vec![second]));
        discarded_or_listed(&bench);
    });
}

/// A free with a stale count goes on after a CPU has taken the slab and has set the count. The
/// count reaches 0 with an object in use, and the slab is not discarded.
#[test]
fn a_count_that_is_too_low_does_not_discard_a_slab_in_use() {
    explore(|| {
        let (bench, [first, second, _kept]) = full::<3>();
        bench.free_by(PARTLY, vec![first]);
        let one = bench.clone();
        let taker = move || {
            let (page, objects) = one.freeze(PARTLY).expect("a slab on the list");
            one.thaw(PARTLY, page, vec![]);
            for object in objects {
                one.free_by(PARTLY, vec![object]);
            }
        };
        race(taker, || (), || bench.free_by(PARTLY, vec![second]));
        assert!(!bench.is_discarded(PAGE));
        bench.audit();
    });
}

/// Shrinking takes empty slabs under list_lock alone.
#[test]
fn a_slab_emptied_beside_shrink_is_discarded_at_most_once() {
    explore(|| {
        let (bench, [first, second]) = full::<2>();
        bench.free_by(PARTLY, vec![first]);
        let one = bench.clone();
        race(move || one.free_by(PARTLY, vec![second]), || (), || bench.trim());
        bench.audit();
        assert!(bench.is_discarded(PAGE) || bench.listed() == [PAGE]);
    });
}
