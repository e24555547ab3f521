//! What another CPU was given: malloc's `free` keeps it apart from what this CPU hands out next.
#![cfg(feature = "os")]

mod common;

use core::ptr::NonNull;
use std::collections::{HashMap, HashSet};

use ashlar::{ArenaSource, CacheArgs, KmemCache, Mode};
use common::{child, cpus, of_cache, pin, tell};

const LINE: usize = 64;

/// Two CPUs of different sides that this process may use.
fn two_sides() -> Option<(usize, usize)> {
    let cpus = cpus();
    let of = |side: usize| cpus.iter().copied().find(|cpu| cpu % 2 == side);
    Some((of(0)?, of(1)?))
}

/// Two neighbours in one cache line go to two CPUs, which free them and allocate: neither gets the
/// other's line.
#[test]
fn neighbours_handed_to_two_cpus_are_not_used_again_side_by_side() {
    let Some((one, other)) = two_sides() else {
        eprintln!("SKIPPED: this process may not use CPUs of both sides");
        return;
    };
    let outcome = child("neighbours_handed_to_two_cpus_are_not_used_again_side_by_side", "sides", &[], || {
        assert!(pin(one));
        let pair: Vec<usize> = (0..64).map(|_| ashlar::malloc::malloc(16) as usize).collect();
        tell("mode", ashlar::mode());
        let at = pair.windows(2).find(|w| w[0] / LINE == w[1] / LINE).expect("neighbours share lines");
        let (kept, given) = (at[0], at[1]);
        let on_other = std::thread::spawn(move || {
            assert!(pin(other));
            // SAFETY: live; the only free.
            unsafe { ashlar::malloc::free(given as *mut u8) };
            let mut lines = HashSet::new();
            for _ in 0..300 {
                let block = ashlar::malloc::malloc(16);
                lines.insert(block as usize / LINE);
                // SAFETY: live, freed once.
                unsafe { ashlar::malloc::free(block) };
            }
            lines
        });
        let lines = on_other.join().expect("no panic");
        if ashlar::mode() == Mode::Rseq {
            assert!(!lines.contains(&(kept / LINE)), "the line of {kept:#x} was handed out again");
        }
        assert!(lines.len() < 8, "the CPU's own objects are used again and again: {} lines", lines.len());
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// An object of the own side is the next that is handed out: it is hot.
#[test]
fn an_object_of_the_own_side_is_used_again_at_once() {
    let outcome = child("an_object_of_the_own_side_is_used_again_at_once", "own", &[], || {
        assert!(cpus().iter().any(|&cpu| pin(cpu)));
        let again = (0..1000).filter(|_| {
            let block = ashlar::malloc::malloc(100);
            // SAFETY: live, freed once.
            unsafe { ashlar::malloc::free(block) };
            let next = ashlar::malloc::malloc(100);
            // SAFETY: live, freed once.
            unsafe { ashlar::malloc::free(next) };
            next == block
        });
        // An interrupt in the middle of a section may cost a few.
        let again = again.count();
        assert!(ashlar::mode() != Mode::Rseq || again > 900, "{again} of 1000");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// Objects of other CPUs wait on the spare sheaf; when memory has ended they are handed out like
/// any other.
#[test]
fn what_waits_on_the_spare_is_had_when_memory_ends() {
    const BYTES: usize = 1 << 20;
    const WAITING: usize = 5;
    let outcome = child("what_waits_on_the_spare_is_had_when_memory_ends", "spare", &[], || {
        // An arena has sheaves for CPU 0 alone.
        if !pin(0) {
            return println!("CPU 0 is not ours: nothing can wait on its spare");
        }
        let memory = NonNull::new(vec![0u8; BYTES].leak().as_mut_ptr()).expect("not null");
        // SAFETY: leaked, zeroed memory with no other user.
        let source = Box::leak(Box::new(unsafe { ArenaSource::new(memory, BYTES) }));
        assert_eq!(ashlar::start_on(source), Ok(true));
        let cache = KmemCache::create("waiting", 256, &CacheArgs::default()).expect("a cache");
        let all: Vec<NonNull<u8>> = core::iter::from_fn(|| cache.alloc()).collect();
        assert!(all.len() > 1000, "{} objects of {BYTES} bytes", all.len());
        for object in &all[..WAITING] {
            // SAFETY: live, freed once.
            unsafe { ashlar::testing::free_remote(&cache, object.as_ptr()) };
        }
        assert!(ashlar::testing::cpu_pop(&cache).is_null(), "the main sheaf is empty: they wait on the spare");
        let flushes = cache.info().slow.sheaf_flush;
        let again: HashSet<_> = (0..WAITING).filter_map(|_| cache.alloc()).collect();
        assert_eq!(cache.info().slow.sheaf_flush, flushes, "nothing had to be drained for them");
        assert!(cache.alloc().is_none(), "memory has ended");
        assert_eq!(again, all[..WAITING].iter().copied().collect(), "every waiting object, and no other");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// Objects in the sheaves of a cache of malloc.
fn cached(name: &str) -> usize {
    of_cache(name, |info| info.usage.cached)
}

/// The words of malloc's slots lie differently on CPUs of different sides. Whatever goes by them
/// besides `malloc` and `free` finds main and spare on each: `kfree`, bulks, and drains by the
/// gate, by the lock, and by visits.
#[test]
fn slots_of_both_sides_are_filled_and_drained_alike() {
    let test = "slots_of_both_sides_are_filled_and_drained_alike";
    for (role, options) in [("gate", ""), ("visits", ""), ("lock", "percpu=lock")] {
        let outcome = child(test, role, &[("ASHLAR_OPTIONS", options)], || {
            ashlar::testing::fail_fence(role == "visits");
            for round in 0..20 {
                for cpu in cpus() {
                    assert!(pin(cpu));
                    let live: Vec<*mut u8> = (0..200).map(|_| ashlar::malloc::malloc(512)).collect();
                    let distinct: HashSet<_> = live.iter().collect();
                    assert!(distinct.len() == live.len() && !live.contains(&core::ptr::null_mut()));
                    let (one_by_one, rest) = live.split_at(50);
                    // SAFETY: live, each freed once, by one way or another.
                    unsafe {
                        one_by_one.iter().for_each(|&at| ashlar::kfree(at));
                        ashlar::kfree_bulk(&rest[..50]);
                        rest[50..].iter().for_each(|&at| ashlar::malloc::free(at));
                    }
                }
                let before = cached("malloc-512");
                assert!(before >= 4, "round {round}: {before} objects in sheaves");
                ashlar::reap();
                assert_eq!(cached("malloc-512"), 0, "round {round}: of {before}");
            }
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

/// What a CPU of one node frees of the other node's memory is returned to its slab and is on no
/// sheaf, though it is of the other side too.
#[test]
fn memory_of_another_node_waits_on_no_sheaf() {
    let Some((one, other)) = two_sides() else {
        eprintln!("SKIPPED: this process may not use CPUs of both sides");
        return;
    };
    let outcome = child("memory_of_another_node_waits_on_no_sheaf", "nodes", &[("ASHLAR_OPTIONS", "nodes=2")], || {
        let allocate = |cpu: usize| -> *mut u8 {
            assert!(pin(cpu));
            ashlar::malloc::malloc(2000)
        };
        let (of_one, of_other) = (allocate(one), allocate(other));
        assert_ne!(ashlar::node_of(of_one), ashlar::node_of(of_other), "the two CPUs are on different nodes");
        let before = cached("malloc-2048");
        // SAFETY: live, freed once.
        unsafe { ashlar::malloc::free(of_one) };
        assert_eq!(cached("malloc-2048"), before);
        // SAFETY: live, freed once.
        unsafe { ashlar::malloc::free(of_other) };
        assert_eq!(cached("malloc-2048"), before + 1, "the CPU's own stays with it");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// What one CPU allocates and another frees goes back by whole sheaves, several at a time, also
/// where its order is half lost.
#[test]
fn objects_for_another_cpu_go_back_by_the_barn_in_pieces_too() {
    let Some((one, other)) = two_sides() else {
        eprintln!("SKIPPED: this process may not use CPUs of both sides");
        return;
    };
    let options = [("ASHLAR_OPTIONS", "reaper=off")];
    let outcome = child("objects_for_another_cpu_go_back_by_the_barn_in_pieces_too", "robbed", &options, || {
        const OBJECTS: usize = 20_000;
        let barn = || of_cache("malloc-64", |info| info.barn);
        let freed_in_pieces_of_five = |cpu: usize| {
            assert!(pin(one));
            let objects: Vec<usize> = (0..OBJECTS).map(|_| ashlar::malloc::malloc(64) as usize).collect();
            let before = barn();
            assert!(pin(cpu));
            // Five neighbours here, five there.
            let half = OBJECTS / 2;
            for (low, high) in objects[..half].chunks(5).zip(objects[half..].chunks(5)) {
                for &object in low.iter().chain(high) {
                    // SAFETY: live, freed once.
                    unsafe { ashlar::malloc::free(object as *mut u8) };
                }
            }
            let after = barn();
            (after.put - before.put, after.put_fail - before.put_fail)
        };
        let (kept, sent_home) = freed_in_pieces_of_five(other);
        assert!(kept > 60 && sent_home == 0, "for another CPU: {kept} sheaves in the barn, {sent_home} sent home");
        let before = barn();
        let (kept, sent_home) = freed_in_pieces_of_five(one);
        assert!(kept < 10 && sent_home > 60, "for this CPU: {kept} sheaves in the barn, {sent_home} sent home");
        let (got, robbed) = (barn().get - before.get, barn().robbed - before.robbed);
        assert!(got > 60 && robbed == 0, "{got} sheaves taken, {robbed} robbed: they lie where they are needed");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// What one CPU frees for another is handed out there from the last one on, in a row across the
/// ends of sheaves.
#[test]
fn objects_for_another_cpu_come_back_in_a_row() {
    let Some((one, other)) = two_sides() else {
        eprintln!("SKIPPED: this process may not use CPUs of both sides");
        return;
    };
    let options = [("ASHLAR_OPTIONS", "reaper=off")];
    let outcome = child("objects_for_another_cpu_come_back_in_a_row", "row", &options, || {
        const SHEAVES: usize = 20;
        let get = || ashlar::malloc::malloc(64) as usize;
        assert!(pin(one));
        let objects: Vec<usize> = (0..SHEAVES * 254 + 100).map(|_| get()).collect();
        assert!(pin(other));
        // SAFETY: live, each freed once.
        objects.iter().for_each(|&at| unsafe { ashlar::malloc::free(at as *mut u8) });
        assert!(pin(one));
        let places: HashMap<usize, usize> = objects.iter().enumerate().map(|(place, &at)| (at, place)).collect();
        let again: Vec<usize> = (0..objects.len()).filter_map(|_| places.get(&get()).copied()).collect();
        let in_a_row = again.windows(2).filter(|pair| pair[0] == pair[1] + 1).count();
        if ashlar::mode() == Mode::Rseq {
            assert!(again.len() > (SHEAVES - 1) * 254, "{} came back", again.len());
            assert!(again.len() - in_a_row < SHEAVES / 4, "{in_a_row} of {} in a row", again.len());
        }
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// What one CPU frees for another goes back written, the first line of each object of this size, so
/// that it is in no other CPU's cache.
#[test]
fn objects_for_another_cpu_go_back_written() {
    let Some((one, other)) = two_sides() else {
        eprintln!("SKIPPED: this process may not use CPUs of both sides");
        return;
    };
    let options = [("ASHLAR_OPTIONS", "reaper=off")];
    let outcome = child("objects_for_another_cpu_go_back_written", "written", &options, || {
        const OBJECTS: usize = 640;
        const MARK: usize = 0x5555_aaaa;
        let stored = || of_cache("malloc-1024", |info| info.barn.put);
        assert!(pin(one));
        let objects: Vec<*mut [usize; LINE / 8]> = (0..OBJECTS).map(|_| ashlar::malloc::malloc(1024).cast()).collect();
        let lines = |object: *mut [usize; LINE / 8]| {
            (0..1024 / LINE).map(move |line| object.wrapping_add(line).cast::<usize>())
        };
        // Sheaves that went to the barn, and objects whose first line was written.
        let freed_on = |cpu: usize, objects: &[*mut [usize; LINE / 8]]| {
            assert!(pin(cpu));
            let before = stored();
            for &object in objects {
                // SAFETY: live; freed once.
                unsafe {
                    lines(object).for_each(|line| line.write(MARK));
                    ashlar::malloc::free(object.cast());
                }
            }
            // SAFETY: no thread allocates meanwhile and no slab is given back, so it is mapped
            // memory that no thread writes.
            let is_marked = |line: *mut usize| unsafe { line.read_volatile() } == MARK;
            let written = objects.iter().filter(|&&object| lines(object).take(1).all(|line| !is_marked(line))).count();
            let touched = objects.iter().filter(|&&object| lines(object).any(|line| !is_marked(line))).count();
            assert_eq!(touched, written, "a later line alone");
            let rest = objects.iter().flat_map(|&object| lines(object).skip(1));
            assert!(rest.clone().all(is_marked), "a later line was written");
            (stored() - before, written)
        };
        let (for_other, for_self) = objects.split_at(OBJECTS / 2);
        let others = freed_on(other, for_other);
        let own = freed_on(one, for_self);
        assert_eq!(of_cache("malloc-1024", |info| info.sheaf_capacity), 126, "most objects of a sheaf of this class");
        if ashlar::mode() == Mode::Rseq {
            // The last few wait in the slots.
            assert!((8..=10).contains(&others.0) && others.1 >= 256, "for another CPU: {others:?} of 10 and 320");
            assert!((18..=21).contains(&own.0) && own.1 == 0, "for this CPU: {own:?} of 21 and 0");
        }
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// Two CPUs that free at random and allocate again do not come to share pages, and so cache lines
/// of the object map. One thread works on both by turns, so that neither seems idle.
#[test]
fn cpus_refill_from_slabs_of_their_own() {
    let Some((one, other)) = two_sides() else {
        eprintln!("SKIPPED: this process may not use CPUs of both sides");
        return;
    };
    let outcome = child("cpus_refill_from_slabs_of_their_own", "own", &[], || {
        const OBJECTS: usize = 4000;
        const TURNS: usize = 4000;
        const STEPS: usize = 50;
        let mut random = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = |below: usize| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            (random >> 32) as usize % below
        };
        let mut held = [vec![0usize; OBJECTS], vec![0usize; OBJECTS]];
        for turn in 0..TURNS {
            for (cpu, objects) in [one, other].into_iter().zip(&mut held) {
                assert!(pin(cpu));
                for step in 0..STEPS {
                    // The first turns fill all places.
                    let at = turn * STEPS + step;
                    let place = if at < OBJECTS { at } else { next(OBJECTS) };
                    let new = ashlar::malloc::malloc(8 + next(992)) as usize;
                    // SAFETY: null, or live and freed once: its place is overwritten.
                    unsafe { ashlar::malloc::free(core::mem::replace(&mut objects[place], new) as *mut u8) };
                }
            }
        }
        let [of_one, of_other] =
            held.map(|held| held.into_iter().map(|at| at / ashlar::PAGE_SIZE).collect::<HashSet<usize>>());
        let shared = of_one.intersection(&of_other).count();
        assert!(shared * 5 < of_one.len(), "{shared} of {} pages are shared", of_one.len());
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// Two CPUs whose shares of a class change, as at the start of a program, do not share its pages
/// for ever. One thread works on both by turns, so that neither seems idle.
#[test]
fn cpus_do_not_share_pages_for_ever_after_an_uneven_start() {
    let Some((one, other)) = two_sides() else {
        eprintln!("SKIPPED: this process may not use CPUs of both sides");
        return;
    };
    let options = [("ASHLAR_OPTIONS", "reaper=off")];
    let outcome = child("cpus_do_not_share_pages_for_ever_after_an_uneven_start", "uneven", &options, || {
        const ROUNDS: usize = 30;
        const TURNS: usize = 100;
        let mut shared = 0;
        for round in 0..ROUNDS {
            let steps = if round == 0 { [150, 50] } else { [100, 100] };
            let mut held = [Vec::new(), Vec::new()];
            let mut by_turns = |work: fn(&mut Vec<usize>, usize)| {
                for _ in 0..TURNS {
                    for (place, cpu) in [one, other].into_iter().enumerate() {
                        assert!(pin(cpu));
                        work(&mut held[place], steps[place]);
                    }
                }
                held.clone().map(|held| held.into_iter().map(|at| at / ashlar::PAGE_SIZE).collect::<HashSet<usize>>())
            };
            let [of_one, of_other] =
                by_turns(|held, steps| held.extend((0..steps).map(|_| ashlar::malloc::malloc(64) as usize)));
            shared = of_one.intersection(&of_other).count() * 100 / of_one.len();
            // SAFETY: live, freed once: by the CPU that allocated it.
            by_turns(|held, steps| held.drain(..steps).for_each(|at| unsafe { ashlar::malloc::free(at as *mut u8) }));
        }
        assert!(shared < 20, "{shared} % of the pages are shared after {ROUNDS} rounds");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}

/// What a CPU that allocates no longer has left in its slabs is used by others.
#[test]
fn slabs_of_an_idle_cpu_are_used_up() {
    let Some((one, other)) = two_sides() else {
        eprintln!("SKIPPED: this process may not use CPUs of both sides");
        return;
    };
    let options = [("ASHLAR_OPTIONS", "reaper=off")];
    let outcome = child("slabs_of_an_idle_cpu_are_used_up", "idle", &options, || {
        const OBJECTS: usize = 20_000;
        let slabs = || of_cache("malloc-512", |info| info.usage.slabs);
        assert!(pin(one));
        let objects: Vec<*mut u8> = (0..OBJECTS).map(|_| ashlar::malloc::malloc(512)).collect();
        // SAFETY: live, freed once.
        objects.iter().step_by(5).for_each(|&object| unsafe { ashlar::malloc::free(object) });
        ashlar::reap();
        let before = slabs();
        assert!(pin(other));
        assert!((0..OBJECTS / 5).all(|_| !ashlar::malloc::malloc(512).is_null()));
        let more = slabs() - before;
        assert!(more < before / 10, "{more} more slabs than {before}, a fifth of which was free");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}
