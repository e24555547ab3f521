//! Safe functions, called with any argument and at any time: none may cause undefined behaviour.
//! Functions whose callers have duties are unsafe; `compile_fail.rs` tests the types.

mod common;

use core::ptr::NonNull;

use ashlar::{CacheArgs, Engine, KmemCache, NodeId};
use common::{Rng, check, child, fill};
use proptest::prelude::*;

#[test]
fn looks_before_the_start_find_nothing() {
    let test = "looks_before_the_start_find_nothing";
    for (which, options) in ["", "nodes=4", "percpu=lock"].into_iter().enumerate() {
        let outcome = child(test, &format!("{test} {which}"), &[("ASHLAR_OPTIONS", options)], || {
            assert_eq!(ashlar::node_of(test.as_ptr()), None);
            ashlar::for_each_cache(|_| panic!("there is no cache yet"));
            ashlar::for_each_alias(|_| panic!("there is no cache yet"));
            assert_eq!((ashlar::direct_bytes(), ashlar::metadata_bytes()), (0, 0));
            let _ = (ashlar::zone_stats(), ashlar::total_counts(), ashlar::kmalloc_size_roundup(100));
            ashlar::reap();
            ashlar::stop_reaper();
            // SAFETY: null is ignored.
            unsafe { ashlar::kfree(core::ptr::null_mut()) };
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

#[test]
fn any_address_has_a_node_or_none() {
    let test = "any_address_has_a_node_or_none";
    for options in ["", "nodes=4"] {
        let outcome = child(test, &format!("{test} {options}"), &[("ASHLAR_OPTIONS", options)], || {
            let memory = ashlar::kmalloc(100);
            assert!(ashlar::node_of(memory).is_some());
            let mut rng = Rng::new(5);
            for round in 0..1_000_000 {
                // Addresses at every distance from the zone, near and far.
                let distance = rng.next() >> (round % 64);
                for address in [memory.wrapping_add(distance as usize), memory.wrapping_sub(distance as usize)] {
                    if let Some(node) = ashlar::node_of(address) {
                        assert!(usize::from(node.0) < ashlar::nodes());
                    }
                }
            }
            // SAFETY: allocated above, and not used again.
            unsafe { ashlar::kfree(memory) };
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

#[test]
fn sizes_that_cannot_be_are_refused() {
    let cache = KmemCache::create("refused", 64, &CacheArgs::default()).expect("a cache");
    for size in [usize::MAX, usize::MAX - 7, usize::MAX / 8, usize::MAX / 8 - 2, 1 << 60, isize::MAX as usize] {
        assert!(cache.prefill_sheaf(size).is_err(), "{size:#x}");
        for memory in [ashlar::kmalloc(size), ashlar::kzalloc(size), ashlar::kmalloc_on(size, NodeId(255))] {
            assert!(memory.is_null(), "{size:#x}");
        }
        for align in [0, 1, 3, 16, 4096, 1 << 21, 1 << 40, 1 << 63, usize::MAX] {
            assert!(ashlar::kmalloc_aligned(size, align).is_null(), "{size:#x}, {align:#x}");
        }
        assert!(ashlar::kmalloc_array(size, 16).is_null() && ashlar::kcalloc(16, size).is_null());
        let _ = ashlar::kmalloc_size_roundup(size);
    }
    assert!(cache.alloc_bulk(&mut []));
    let object = cache.alloc_on(NodeId(255)).expect("a node that does not exist is ignored");
    // SAFETY: allocated just above, and not used again.
    unsafe { cache.free(object) };
    cache.destroy().map_err(|(_, error)| error).expect("empty");
}

#[test]
fn sections_without_protection_are_not_for_the_program_to_choose() {
    let test = "sections_without_protection_are_not_for_the_program_to_choose";
    let outcome = child(test, test, &[], || {
        let error = ashlar::configure("sheaf=9,percpu=emulate").expect_err("safe code must not choose emulate");
        assert_eq!(error.to_string(), "option `percpu=emulate`: expected in ASHLAR_OPTIONS only");
        assert_ne!(ashlar::mode(), ashlar::Mode::Emulate);
        let cache = KmemCache::create("nine", 64, &CacheArgs::default()).expect("a cache");
        assert_eq!(cache.info().sheaf_capacity, 9, "the other options are applied");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// Generates one of `limits`, a small number, or any number.
fn number(limits: &'static [usize]) -> impl Strategy<Value = usize> {
    prop_oneof![8 => proptest::sample::select(limits), 1 => any::<usize>(), 3 => 0usize..300]
}

fn args() -> impl Strategy<Value = CacheArgs> {
    let tunables = proptest::array::uniform4(proptest::option::weighted(0.2, number(&[1, 254, 255, 100, 1 << 20])));
    let orders = proptest::array::uniform2(proptest::option::weighted(0.2, 0u8..12));
    let align = number(&[0, 1, 8, 16, 64, 128, 2048, 4096, 8192]);
    let flags = (any::<bool>(), any::<bool>(), any::<u8>(), proptest::sample::select(Engine::ALL.to_vec()));
    (align, tunables, orders, flags).prop_map(|(align, tunables, orders, flags)| {
        let mut args = CacheArgs::DEFAULT
            .align(align)
            .hwcache_align(flags.0)
            .engine(flags.3)
            .no_merge(flags.1)
            .merge_group(flags.2);
        args.sheaf_capacity = tunables[0];
        args.min_partial = tunables[1];
        args.cpu_partial = tunables[2];
        args.remote_node_defrag_ratio = tunables[3];
        args.min_order = orders[0];
        args.max_order = orders[1];
        args
    })
}

proptest! {
    /// Either the arguments are refused, or the cache serves objects of the requested size and
    /// alignment.
    #[test]
    fn any_arguments_are_refused_or_served(size in number(&[1, 7, 8, 4095, 4096, 8192, 65_536, 2 << 20, (2 << 20) + 1]), args in args()) {
        if let Ok(cache) = KmemCache::create("any", size, &args) {
            let most = if size > 100_000 { 3 } else { 40 };
            let objects: Vec<NonNull<u8>> = (0..most).filter_map(|_| cache.alloc()).collect();
            for (token, object) in objects.iter().enumerate() {
                prop_assert!(object.as_ptr().addr().is_multiple_of(args.align.max(8)), "{object:?}");
                // SAFETY: `size` bytes that were just allocated.
                unsafe { fill(object.as_ptr(), size, token as u64) };
            }
            for (token, object) in objects.into_iter().enumerate() {
                // SAFETY: live, freed once.
                unsafe {
                    check(object.as_ptr(), size, size, token as u64);
                    cache.free(object);
                }
            }
            cache.destroy().map_err(|(_, error)| error).expect("empty");
        }
    }
}
