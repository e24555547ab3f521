//! The two copies of a bound: threads open derived forms while another thread raises the bound.

use std::sync::Arc;

use super::{explore, race};
use crate::base::sync::Bound;

/// In the end both copies are equal, whichever thread is last.
#[test]
fn both_copies_are_equal_once_derived_forms_are_open() {
    explore(|| {
        let bound = Arc::new(Bound::new());
        bound.raise(1);
        let (raised, opened) = (bound.clone(), bound.clone());
        let raise = move || {
            raised.raise(2);
            raised.raise(3);
        };
        race(raise, move || opened.open_derived(), || bound.open_derived());
        assert_eq!((bound.get(), bound.derived()), (3, 3));
    });
}
