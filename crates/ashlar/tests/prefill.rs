//! Prefilled sheaves: reserved objects are available even without memory, and the rest is returned.

mod common;

use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::BTreeSet;

use ashlar::{CacheArgs, Constructor, KmemCache, NodeId};
use common::{Rng, child};
use proptest::prelude::*;

/// No merging, because objects of other caches would be counted, too.
const ALONE: CacheArgs = CacheArgs::DEFAULT.no_merge(true);

/// Allocates all memory, in ever smaller pieces.
fn exhaust() -> Vec<NonNull<u8>> {
    // Allocated in advance, from the C library.
    let mut all = Vec::with_capacity(1 << 22);
    for size in [1 << 20, 70_000, 4096, 512, 64, 8] {
        while let Some(object) = NonNull::new(ashlar::kmalloc(size)) {
            all.push(object);
            assert!(all.len() < all.capacity(), "the arena has more objects than expected");
        }
    }
    all
}

/// On an arena of 6 MiB, for many sizes of objects and reserves: a reserve serves all its objects
/// after memory has run out.
#[test]
fn a_reserve_lasts_when_memory_has_ended() {
    let child = child("a_reserve_lasts_when_memory_has_ended", "run", &[], || {
        let bytes = 6 << 20;
        let memory = NonNull::new(vec![0u8; bytes].leak().as_mut_ptr()).expect("not null");
        // SAFETY: the memory is leaked, so it lives as long as the process, and is used for nothing
        // else.
        let arena: &'static ashlar::ArenaSource =
            Box::leak(Box::new(unsafe { ashlar::ArenaSource::new(memory, bytes) }));
        ashlar::start_on(arena).expect("nothing was allocated before");
        let mut rng = Rng::new(7);
        for round in 0..12 {
            let size = 8 + rng.below(1000);
            let cache = KmemCache::create("reserve", size, &ALONE).expect("memory for a cache");
            let first = 1 + rng.below(300);
            let wanted = first + rng.below(300);
            let mut reserve = cache.prefill_sheaf(first).expect("memory for a reserve");
            reserve.refill(wanted).expect("memory for more");
            let all = exhaust();
            assert_eq!(cache.prefill_sheaf(5000).map(|_| ()), Err(ashlar::AllocError));
            assert_eq!(reserve.refill(wanted + 5000), Err(ashlar::AllocError));
            assert_eq!(reserve.len(), wanted, "a refill that failed changed the reserve");
            let mut had = BTreeSet::new();
            for _ in 0..wanted {
                let object = reserve.alloc().expect("a reserved object");
                // SAFETY: an object of `size` bytes that only this thread uses.
                unsafe { object.as_ptr().write_bytes(round as u8, size) };
                assert!(had.insert(object), "an object was handed out twice");
            }
            assert_eq!(reserve.alloc(), None);
            drop(reserve);
            for object in had {
                // SAFETY: allocated above, freed once.
                unsafe { cache.free(object) };
            }
            for object in all {
                // SAFETY: as above.
                unsafe { ashlar::kfree(object.as_ptr()) };
            }
            cache.destroy().map_err(|(_, error)| error).expect("every object is freed");
        }
    });
    if let Some(child) = child {
        child.succeeded();
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc,
    Free,
    Refill(usize),
    Return,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Alloc),
        2 => Just(Step::Free),
        1 => (0usize..700).prop_map(Step::Refill),
        1 => Just(Step::Return),
    ]
}

proptest! {
    /// In any sequence of operations, a reserve holds as many objects as it reports, never hands an
    /// object out twice, and counts as live.
    #[test]
    fn a_reserve_agrees_with_a_set(first in 0usize..300, steps in proptest::collection::vec(step(), 0..60)) {
        let cache = KmemCache::create("model", 40, &ALONE).expect("memory");
        let mut reserve = cache.prefill_sheaf(first).expect("memory");
        let (mut len, mut live) = (first, Vec::new());
        for step in steps {
            match step {
                Step::Alloc => {
                    let object = reserve.alloc();
                    prop_assert_eq!(object.is_some(), len > 0);
                    if let Some(object) = object {
                        len -= 1;
                        prop_assert!(!live.contains(&object));
                        live.push(object);
                    }
                }
                Step::Free => {
                    if let Some(object) = live.pop() {
                        // SAFETY: allocated above, freed once.
                        unsafe { cache.free(object) };
                    }
                }
                Step::Refill(size) => {
                    reserve.refill(size).expect("memory");
                    len = len.max(size);
                }
                Step::Return => {
                    drop(reserve);
                    reserve = cache.prefill_sheaf(3).expect("memory");
                    len = 3;
                }
            }
            prop_assert_eq!(reserve.len(), len);
            prop_assert_eq!(reserve.is_empty(), len == 0);
            prop_assert_eq!(cache.info().usage.live, len + live.len());
        }
        drop(reserve);
        for object in live {
            // SAFETY: allocated above, freed once.
            unsafe { cache.free(object) };
        }
        prop_assert!(cache.destroy().is_ok());
    }
}

#[test]
fn a_reserve_of_constructed_objects_is_constructed() {
    unsafe extern "C" fn construct(object: *mut u8) {
        // SAFETY: an object of 24 bytes.
        unsafe { object.write_bytes(0x77, 24) };
    }
    // SAFETY: it writes 24 bytes.
    let ctor = unsafe { Constructor::new(Layout::new::<[u8; 24]>(), construct) };
    let args = CacheArgs::DEFAULT.ctor(ctor);
    let cache = KmemCache::create("constructed reserve", 24, &args).expect("memory");
    for _ in 0..3 {
        let mut reserve = cache.prefill_sheaf(500).expect("memory");
        for _ in 0..300 {
            let object = reserve.alloc().expect("a reserved object");
            // SAFETY: 24 bytes that the constructor wrote.
            assert_eq!(unsafe { object.cast::<[u8; 24]>().read() }, [0x77; 24]);
            // SAFETY: allocated above, still constructed.
            unsafe { cache.free(object) };
        }
    }
    cache.destroy().map_err(|(_, error)| error).expect("every object is freed");
}

#[test]
fn a_reserve_may_be_used_and_returned_by_another_thread() {
    let cache = KmemCache::create("moved reserve", 64, &ALONE).expect("memory");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let reserve = cache.prefill_sheaf(100).expect("memory");
            let cache = &cache;
            scope.spawn(move || {
                let mut reserve = reserve;
                let object = reserve.alloc().expect("a reserved object");
                // SAFETY: allocated just above.
                unsafe { cache.free(object) };
            });
        }
    });
    cache.destroy().map_err(|(_, error)| error).expect("every object is freed");
}

/// With four fake nodes, memory is of the requested node, whatever node the thread runs on.
#[test]
fn memory_is_of_the_node_that_was_asked_for() {
    let env = [("ASHLAR_OPTIONS", "nodes=4")];
    let child = child("memory_is_of_the_node_that_was_asked_for", "run", &env, || {
        assert_eq!(ashlar::nodes(), 4);
        let cache = KmemCache::create("nodes", 100, &ALONE).expect("memory");
        for node in (0..4).map(NodeId) {
            let object = cache.alloc_on(node).expect("memory");
            assert_eq!(ashlar::node_of(object.as_ptr()), Some(node));
            // SAFETY: allocated just above.
            unsafe { cache.free(object) };
            for size in [1, 64, 8192, 60_000, 1 << 20] {
                let object = ashlar::kmalloc_on(size, node);
                assert_eq!(ashlar::node_of(object), Some(node), "{size} bytes");
                // SAFETY: allocated just above.
                unsafe { ashlar::kfree(object) };
            }
        }
        // A node that does not exist is ignored.
        assert!(cache.alloc_on(NodeId(9)).map(|object| unsafe_free(&cache, object)).is_some());
        assert_eq!(ashlar::kmalloc_on(0, NodeId(1)), ashlar::ZERO_SIZE_PTR);
        assert!(cache.destroy().is_ok());
    });
    if let Some(child) = child {
        child.succeeded();
    }
}

fn unsafe_free(cache: &KmemCache, object: NonNull<u8>) {
    // SAFETY: the caller just allocated it from this cache.
    unsafe { cache.free(object) };
}
