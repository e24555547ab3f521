//! Machines with several nodes, described as Linux describes them: nodes without CPUs, and node
//! numbers with gaps.
#![cfg(feature = "os")]

mod common;

use core::ptr::NonNull;
use std::collections::HashSet;
use std::os::unix::process::ExitStatusExt;

use ashlar::{CacheArgs, KmemCache, NodeId};
use common::machine::described;
use common::{child, cpus, pin, tell};

const MODES: [&str; 2] = ["reaper=off", "reaper=off,percpu=lock"];

/// Sheaves hold objects of the CPU's node only, also where another node has memory but no CPUs.
#[test]
fn memory_of_a_node_without_cpus_waits_on_no_sheaf() {
    let test = "memory_of_a_node_without_cpus_waits_on_no_sheaf";
    for options in MODES {
        let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            let all = cpus().into_iter().max().expect("a CPU");
            let machine = described(test, &[(0, &format!("0-{all}")), (1, "")]);
            ashlar::testing::describe_system(machine.root());
            assert_eq!(ashlar::nodes(), 2);
            let near = |object: *mut u8| ashlar::node_of(object) == Some(NodeId(0));
            let cache = KmemCache::create("far", 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
            for _ in 0..100 {
                let far = [ashlar::kmalloc_on(64, NodeId(1)), ashlar::kmalloc_on(64, NodeId(1))];
                let of_cache = cache.alloc_on(NodeId(1)).expect("memory");
                assert!(far.iter().all(|&object| !near(object)) && !near(of_cache.as_ptr()));
                // SAFETY: live, each freed once.
                unsafe {
                    ashlar::kfree(far[0]);
                    ashlar::kfree_sized(far[1], 64);
                    cache.free(of_cache);
                }
                let (object, other) = (ashlar::kmalloc(64), cache.alloc().expect("memory"));
                assert!(near(object) && near(other.as_ptr()), "memory of the far node is handed out again");
                // SAFETY: live, each freed once.
                unsafe {
                    ashlar::kfree(object);
                    cache.free(other);
                }
            }
            let block = ashlar::malloc::malloc(64);
            assert!(near(block));
            // SAFETY: live, freed once.
            unsafe { ashlar::malloc::free(block) };
            assert_eq!(ashlar::malloc::malloc(64), block, "the CPU's own is on its sheaf");
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

/// Nodes 0 and 8 are the first and the second. Each CPU gets memory of its own, and what it frees
/// of the other's returns there.
#[test]
fn nodes_with_gaps_in_their_numbers_are_told_apart() {
    let test = "nodes_with_gaps_in_their_numbers_are_told_apart";
    let cpus = cpus();
    let &[one, other, ..] = cpus.as_slice() else {
        eprintln!("SKIPPED: this process may use one CPU only");
        return;
    };
    for options in MODES {
        let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            let machine = described(test, &[(0, &one.to_string()), (8, &other.to_string())]);
            ashlar::testing::describe_system(machine.root());
            assert_eq!(ashlar::nodes(), 2);
            let allocated = |cpu: usize| {
                assert!(pin(cpu));
                let objects = (0..100).flat_map(|_| [ashlar::kmalloc(64), ashlar::malloc::malloc(64)]);
                objects.map(|object| object as usize).collect::<Vec<_>>()
            };
            let of = |objects: &[usize]| {
                objects
                    .iter()
                    .map(|&object| ashlar::node_of(object as *const u8).map(|node| node.0))
                    .collect::<HashSet<_>>()
            };
            let (near, far) = (allocated(one), allocated(other));
            assert_eq!(of(&near), HashSet::from([Some(0)]));
            assert_eq!(of(&far), HashSet::from([Some(1)]));
            // The thread is on `other`: half of it is of its own node.
            for (index, &object) in near.iter().chain(&far).enumerate() {
                let free: unsafe extern "C" fn(*mut u8) =
                    if index % 2 == 0 { ashlar::kfree } else { ashlar::malloc::free };
                // SAFETY: live, freed once, by the function of its family.
                unsafe { free(object as *mut u8) };
            }
            for (cpu, node) in [(other, 1), (one, 0)] {
                assert_eq!(of(&allocated(cpu)), HashSet::from([Some(node)]), "CPU {cpu}");
            }
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

/// Caches of every engine live beside the default engine, whose frees compare nodes.
#[test]
fn caches_of_other_engines_keep_their_slots_to_themselves() {
    let test = "caches_of_other_engines_keep_their_slots_to_themselves";
    for options in ["nodes=2", "nodes=2,percpu=lock"] {
        let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            for &engine in ashlar::Engine::ALL {
                let args = CacheArgs::DEFAULT.no_merge(true).engine(engine);
                let cache = KmemCache::create("beside", 64, &args).expect("a cache");
                assert_eq!(cache.engine(), engine);
                for round in 0..20u64 {
                    let live: Vec<_> = (0..500).map(|_| cache.alloc().expect("memory").as_ptr()).collect();
                    let token = |index: usize| round << 32 | index as u64;
                    for (index, &object) in live.iter().enumerate() {
                        // SAFETY: fresh, of 64 bytes.
                        unsafe { common::fill(object, 64, token(index)) };
                    }
                    for (index, &object) in live.iter().enumerate() {
                        // SAFETY: live, filled above, freed once.
                        unsafe {
                            common::check(object, 64, 64, token(index));
                            cache.free(NonNull::new(object).expect("not null"));
                        }
                    }
                }
                assert_eq!(cache.info().usage.live, 0, "{}", engine.id());
                cache.destroy().map_err(|(_, error)| error).expect("empty");
            }
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

/// A double free on another node, one object at a time, is found as on a single node.
#[test]
fn a_double_free_of_another_nodes_object_is_reported() {
    let test = "a_double_free_of_another_nodes_object_is_reported";
    let options = [("ASHLAR_OPTIONS", "reaper=off,nodes=2")];
    let outcome = child(test, test, &options, || {
        let here = ashlar::node_of(ashlar::kmalloc(64)).expect("of the zone");
        let far = ashlar::kmalloc_on(64, NodeId(1 - here.0));
        assert_ne!(ashlar::node_of(far), Some(here));
        tell("address", format_args!("{far:p}"));
        // SAFETY: the second free breaks the contract, and ends the process with a report.
        unsafe {
            ashlar::kfree(far);
            ashlar::kfree(far);
        }
    });
    if let Some(child) = outcome {
        assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{:?}", child.status);
        let line = format!("ashlar: cache kmalloc-64: object {} was freed twice\n", child.told("address"));
        assert_eq!(child.stderr, line);
    }
}
