//! Collections of other crates in `Ashlar`, through allocator-api2's `Allocator`: hashbrown's map.

use std::collections::BTreeMap;

use ashlar::Ashlar;
use hashbrown::{DefaultHashBuilder, HashMap};
use proptest::prelude::*;

type Map<K, V> = HashMap<K, V, DefaultHashBuilder, Ashlar>;

/// Returns the live objects of all caches. The file has one test, so no other thread allocates.
fn live() -> usize {
    let mut live = 0;
    ashlar::for_each_cache(|info| live += info.usage.live);
    live
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, String),
    Remove(u16),
    Shrink,
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..600u16, "[a-z]{0,20}").prop_map(|(key, text)| Step::Insert(key, text)),
        3 => (0..600u16).prop_map(Step::Remove),
        1 => Just(Step::Shrink),
        1 => Just(Step::Clear),
    ]
}

/// Checks that a map in ashlar behaves as the standard library's, that its table lies in ashlar's
/// memory, and that dropping it frees every object.
fn same_as_the_standard_map(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let before = live();
    let mut map: Map<u16, String> = HashMap::with_hasher_in(DefaultHashBuilder::default(), Ashlar);
    let mut expected = BTreeMap::new();
    for step in steps {
        match step {
            Step::Insert(key, text) => {
                prop_assert_eq!(map.insert(key, text.clone()), expected.insert(key, text));
                let entry: *const u16 = map.get_key_value(&key).expect("just inserted").0;
                prop_assert!(ashlar::node_of(entry.cast()).is_some(), "{entry:p} is not in ashlar's memory");
            }
            Step::Remove(key) => prop_assert_eq!(map.remove(&key), expected.remove(&key)),
            Step::Shrink => map.shrink_to_fit(),
            Step::Clear => {
                map.clear();
                expected.clear();
            }
        }
        prop_assert_eq!(map.len(), expected.len());
        prop_assert_eq!(live() > before, map.capacity() > 0, "objects are in use exactly if the map has a table");
    }
    prop_assert!(expected.iter().all(|(key, text)| map.get(key) == Some(text)));
    drop(map);
    prop_assert_eq!(live(), before);
    Ok(())
}

#[test]
fn a_map_lives_in_ashlar() {
    proptest!(|(steps in proptest::collection::vec(step(), 0..200))| same_as_the_standard_map(steps)?);

    // Keys of size zero: the map still allocates a table.
    let mut units: Map<(), ()> = HashMap::new_in(Ashlar);
    assert_eq!((units.insert((), ()), units.insert((), ())), (None, Some(())));

    // A table larger than kmalloc's largest class, with values aligned to 64 bytes.
    #[repr(align(64))]
    struct Line(u64);
    let mut large: Map<u64, Line> = HashMap::new_in(Ashlar);
    (0..5000).for_each(|key| assert!(large.insert(key, Line(!key)).is_none()));
    assert!(large.iter().all(|(key, line)| line.0 == !key && (&raw const *line).addr() % 64 == 0));
}
