//! The simulator of critical sections: runs the real machine code and preempts it at every single
//! instruction.
//!
//! A child process runs in the mode `emulate`, where only this test aborts sections. It executes an
//! operation one instruction at a time. At the k-th instruction it plays the kernel and the other
//! threads of the CPU. They allocate, free or drain, and then the thread continues at the section's
//! abort handler if it was inside a section. The test repeats this for every k that the operation
//! reaches, from every interesting state of the two sheaves. After each run every object must exist
//! exactly once: live, in a sheaf, or in a slab.
#![cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]

mod common;

use core::ptr::NonNull;
use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;

use ashlar::{CacheArgs, KmemCache};
use common::step::{SIGNATURE, Section, armed, preempt, stepped};
use common::{child, tell};

/// Sheaves of two objects, so that all states of two sheaves and a barn are a few operations apart.
const CAPACITY: usize = 2;
const SIZE: usize = 512;

/// A cache and its live objects.
struct World {
    cache: KmemCache,
    mine: Vec<*mut u8>,
    /// Objects of the other threads on this CPU.
    theirs: Vec<*mut u8>,
}

impl World {
    /// Makes a cache from which `taken` objects were allocated, `freed` of them freed, and then
    /// `again` allocated.
    fn new(state: State) -> World {
        let args = CacheArgs::DEFAULT.sheaf_capacity(CAPACITY);
        let cache = KmemCache::create("aborts", SIZE, &args).expect("a cache");
        let mut world = World { cache, mine: Vec::with_capacity(64), theirs: Vec::with_capacity(64) };
        for _ in 0..state.taken {
            world.alloc();
        }
        for _ in 0..state.freed {
            world.free();
        }
        for _ in 0..state.again {
            world.alloc();
        }
        for _ in 0..4 {
            world.theirs.push(world.mine.pop().expect("states begin with enough objects"));
        }
        world
    }

    fn alloc(&mut self) {
        self.mine.push(self.cache.alloc().expect("memory").as_ptr());
    }

    fn free(&mut self) {
        let object = self.mine.pop().and_then(NonNull::new).expect("an object");
        // SAFETY: live, freed once.
        unsafe { self.cache.free(object) };
    }

    /// Checks that every object of the cache exists once. The live ones are distinct, and their
    /// count is right. The other objects of the slabs can be allocated, each once. When all are
    /// freed, the slabs are complete.
    fn audit(self, what: &str) {
        let mut held: Vec<*mut u8> = self.mine;
        held.extend(&self.theirs);
        let mut seen: BTreeSet<usize> = BTreeSet::new();
        for &object in &held {
            assert!(seen.insert(object as usize), "{what}: {object:?} was handed out twice");
        }
        let usage = self.cache.info().usage;
        assert_eq!(usage.live, held.len(), "{what}: {usage:?}");
        // Allocate a few more, because a refill that finds one object too few opens a new slab.
        for _ in 0..usage.objects - usage.live + 2 * CAPACITY {
            let object = self.cache.alloc().expect("memory").as_ptr();
            assert!(seen.insert(object as usize), "{what}: {object:?} was free twice, or free and live");
            held.push(object);
        }
        assert_eq!(self.cache.info().usage.live, held.len(), "{what}: a free object was lost");
        // SAFETY: all are live, each once.
        unsafe { self.cache.free_bulk(&held) };
        self.cache.destroy().map_err(|(_, e)| e).unwrap_or_else(|e| panic!("{what}: {e}"));
    }
}

#[derive(Clone, Copy, Debug)]
struct State {
    taken: usize,
    freed: usize,
    again: usize,
}

/// States of (main sheaf, spare sheaf, barn), reached by the operations of a program.
const STATES: [State; 6] = [
    State { taken: 8, freed: 0, again: 0 },
    State { taken: 9, freed: 1, again: 0 },
    State { taken: 10, freed: 3, again: 0 },
    State { taken: 14, freed: 5, again: 0 },
    State { taken: 14, freed: 6, again: 2 },
    State { taken: 14, freed: 6, again: 4 },
];

type Operation = (&'static str, fn(&mut World));

/// The operations that are interrupted.
const OPERATIONS: [Operation; 6] = [
    ("alloc", |w| w.alloc()),
    ("free", |w| w.free()),
    ("alloc_bulk", |w| {
        let mut out = [core::ptr::null_mut(); 1];
        assert!(w.cache.alloc_bulk(&mut out));
        w.mine.extend(out);
    }),
    ("alloc_bulk of more than a sheaf", |w| {
        let mut out = [core::ptr::null_mut(); CAPACITY + 1];
        assert!(w.cache.alloc_bulk(&mut out));
        w.mine.extend(out);
    }),
    ("free_bulk", |w| {
        let objects = w.mine.split_off(w.mine.len() - 3);
        // SAFETY: live, each freed once.
        unsafe { w.cache.free_bulk(&objects) };
    }),
    ("free to the cache of the page", |w| {
        let object = w.mine.pop().expect("an object");
        // SAFETY: live, freed once.
        unsafe { ashlar::kfree(object) };
    }),
];

type Other = fn(&KmemCache, &mut Vec<*mut u8>);

/// Operations of other threads on the CPU while the thread is preempted. They may take any path,
/// because a thread inside a section holds no lock.
const OTHERS: [(&str, Other); 7] = [
    ("nothing", |_, _| {}),
    ("alloc", |cache, held| held.push(cache.alloc().expect("memory").as_ptr())),
    ("free", |cache, held| {
        let object = held.pop().and_then(NonNull::new).expect("an object");
        // SAFETY: live, freed once.
        unsafe { cache.free(object) };
    }),
    ("free and alloc", |cache, held| {
        // SAFETY: live, freed once.
        unsafe { cache.free(held.pop().and_then(NonNull::new).expect("an object")) };
        held.push(cache.alloc().expect("memory").as_ptr());
    }),
    ("many frees, many allocs", |cache, held| {
        // SAFETY: live, each freed once.
        held.drain(..).for_each(|object| unsafe { cache.free(NonNull::new(object).expect("not null")) });
        held.extend((0..2 * CAPACITY + 1).map(|_| cache.alloc().expect("memory").as_ptr()));
    }),
    // From an empty main sheaf, a full spare and a full sheaf in the barn, this returns to the same
    // empty main but to another spare. It catches a section that compares only one of the two
    // words.
    ("exchange of the spare alone", |cache, held| {
        held.extend((0..CAPACITY + 1).map(|_| cache.alloc().expect("memory").as_ptr()));
        for _ in 0..CAPACITY {
            // SAFETY: live, freed once.
            unsafe { cache.free(held.pop().and_then(NonNull::new).expect("an object")) };
        }
        held.push(cache.alloc().expect("memory").as_ptr());
    }),
    ("drain", |cache, _| {
        cache.shrink();
    }),
];

/// Runs `operation` in a fresh world and preempts it before the `k`-th instruction for which
/// `counts` is true. Returns false if the operation ended before.
fn run(
    state: State,
    operation: Operation,
    k: usize,
    counts: fn(u64) -> bool,
    others: &mut dyn FnMut(&KmemCache, &mut Vec<*mut u8>),
    what: &str,
) -> bool {
    let mut world = World::new(state);
    let mut theirs = core::mem::take(&mut world.theirs);
    // A second handle for the other threads, because the operation borrows the world.
    let cache = &raw const world.cache;
    let mut step = 0;
    let mut reached = false;
    stepped(
        &mut |trap| {
            if !counts(trap.rip()) {
                return;
            }
            if step == k {
                reached = true;
                // SAFETY: the cache is alive, and all its operations take it by shared reference.
                preempt(trap, || others(unsafe { &*cache }, &mut theirs));
                trap.stop();
            }
            step += 1;
        },
        || (operation.1)(&mut world),
    );
    world.theirs = theirs;
    world.audit(&format!("{what} at step {k} of {} from {state:?}", operation.0));
    reached
}

const EMULATE: [(&str, &str); 1] = [("ASHLAR_OPTIONS", "percpu=emulate,reaper=off")];

/// Preempts every operation at every step of each of its sections, from every state, by all others.
/// Returns how often.
fn abort_everywhere() -> usize {
    assert_eq!(ashlar::mode(), ashlar::Mode::Emulate);
    let mut aborts = 0;
    for state in STATES {
        for operation in OPERATIONS {
            for (name, mut others) in OTHERS {
                let inside = |rip| armed(rip).is_some();
                aborts += (0..).take_while(|&k| run(state, operation, k, inside, &mut others, name)).count();
            }
        }
    }
    aborts
}

#[test]
fn an_abort_at_any_step_of_a_section_loses_and_doubles_nothing() {
    let test = "an_abort_at_any_step_of_a_section_loses_and_doubles_nothing";
    let outcome = child(test, test, &EMULATE, || tell("aborts", abort_everywhere()));
    let aborts: usize = outcome.expect("the parent").succeeded().told("aborts").parse().expect("a number");
    println!("{aborts} aborts");
    // Each of the 36 pairs of state and operation has a section of at least five instructions.
    assert!(aborts > 36 * OTHERS.len() * 5, "only {aborts} aborts: were the sections found?");
}

/// The same for CPU slabs, whose freelists are linked through the objects. A slab has eight objects
/// here, so that the states lie before and after the end of a slab. Each stage with sections of its
/// own has a test, so that the tests run in parallel.
fn aborts_with_cpu_slabs(test: &str, engine: &str) {
    let options = format!("percpu=emulate,reaper=off,max_order=0,engine={engine}");
    let outcome = child(test, engine, &[("ASHLAR_OPTIONS", &options)], || {
        let cache = KmemCache::create("engine", SIZE, &CacheArgs::default()).expect("a cache");
        assert_eq!((cache.engine().id(), cache.info().objects_per_slab), (engine, 8));
        tell("aborts", abort_everywhere());
    });
    let Some(child) = outcome else { return };
    let aborts: usize = child.succeeded().told("aborts").parse().expect("a number");
    println!("{engine}: {aborts} aborts");
    assert!(aborts > 36 * OTHERS.len() * 5, "{engine}: only {aborts} aborts: were the sections found?");
}

#[test]
fn an_abort_at_any_step_of_a_section_of_slub_plus_loses_and_doubles_nothing() {
    aborts_with_cpu_slabs("an_abort_at_any_step_of_a_section_of_slub_plus_loses_and_doubles_nothing", "slub+");
}

#[test]
fn an_abort_at_any_step_of_a_section_of_slub_ll_loses_and_doubles_nothing() {
    aborts_with_cpu_slabs("an_abort_at_any_step_of_a_section_of_slub_ll_loses_and_doubles_nothing", "slub-ll");
}

#[test]
fn an_abort_at_any_step_of_a_section_of_slub_2010_ll_loses_and_doubles_nothing() {
    aborts_with_cpu_slabs(
        "an_abort_at_any_step_of_a_section_of_slub_2010_ll_loses_and_doubles_nothing",
        "slub-2010-ll",
    );
}

#[test]
fn an_abort_at_any_step_of_a_section_of_slub_bulk_loses_and_doubles_nothing() {
    aborts_with_cpu_slabs("an_abort_at_any_step_of_a_section_of_slub_bulk_loses_and_doubles_nothing", "slub-bulk");
}

/// Outside of sections, only x86-64 stops before each instruction.
#[test]
#[cfg(target_arch = "x86_64")]
fn preemption_anywhere_else_loses_and_doubles_nothing() {
    let test = "preemption_anywhere_else_loses_and_doubles_nothing";
    let outcome = child(test, test, &EMULATE, || {
        // Outside a section the thread may hold a lock. So the others use only this CPU's sheaf,
        // which needs none.
        let others: [(&str, Other); 2] = [
            ("pop", |cache, held| {
                held.extend(NonNull::new(ashlar::testing::cpu_pop(cache)).map(NonNull::as_ptr));
            }),
            ("push", |cache, held| {
                let object = held.pop().expect("an object");
                // SAFETY: live, and freed if the push succeeds.
                if !unsafe { ashlar::testing::cpu_push(cache, object) } {
                    held.push(object);
                }
            }),
        ];
        let mut preemptions = 0;
        // An operation has thousands of steps, so take every 17th of them, each time others.
        let mut offset = 0;
        for state in [STATES[0], STATES[2], STATES[5]] {
            for operation in [OPERATIONS[0], OPERATIONS[1], OPERATIONS[3], OPERATIONS[4]] {
                for (name, mut other) in others {
                    offset += 1;
                    let steps = (offset % 17..).step_by(17);
                    preemptions += steps.take_while(|&k| run(state, operation, k, |_| true, &mut other, name)).count();
                }
            }
        }
        tell("preemptions", preemptions);
    });
    let preemptions: usize = outcome.expect("the parent").succeeded().told("preemptions").parse().expect("a number");
    assert!(preemptions > 300, "only {preemptions} steps");
}

/// An entry point, applied to live objects.
type Entry = (&'static str, fn(&mut Vec<*mut u8>));

/// Entry points that share a cache.
struct Family {
    cache: &'static str,
    alloc: fn(usize) -> *mut u8,
    free: unsafe extern "C" fn(*mut u8),
    entries: &'static [Entry],
}

const FAMILIES: [Family; 2] = [
    Family {
        cache: "kmalloc-512",
        alloc: |size| ashlar::kmalloc(size),
        free: ashlar::kfree,
        entries: &[
            ("kmalloc", |held| held.push(ashlar::kmalloc(SIZE))),
            // SAFETY: live, freed once.
            ("kfree", |held| unsafe { ashlar::kfree(held.pop().expect("an object")) }),
            // SAFETY: live, freed once.
            ("kfree_sized", |held| unsafe { ashlar::kfree_sized(held.pop().expect("an object"), SIZE) }),
        ],
    },
    Family {
        cache: "malloc-512",
        alloc: |size| ashlar::malloc::malloc(size),
        free: ashlar::malloc::free,
        entries: &[
            ("malloc", |held| held.push(ashlar::malloc::malloc(SIZE))),
            // SAFETY: live, freed once.
            ("free", |held| unsafe { ashlar::malloc::free(held.pop().expect("an object")) }),
        ],
    },
];

impl Family {
    /// Returns the number of live objects of the cache, by its figures.
    fn live(&self) -> usize {
        let mut live = None;
        ashlar::for_each_cache(|cache| {
            if cache.name() == self.cache {
                live = Some(cache.usage.live);
            }
        });
        live.expect("the cache exists")
    }

    /// Aborts every entry point at every step of its section, and runs others on the CPU meanwhile.
    /// Returns how often.
    fn abort_everywhere(&self) -> usize {
        let nothing: Entry = ("nothing", |_| {});
        let reap: Entry = ("reap", |_| {
            ashlar::reap();
        });
        let others = [nothing, self.entries[0], self.entries[1], reap];
        let mut aborts = 0;
        for taken in [3, 8] {
            for freed in [0, 1, 2, taken - 2] {
                for (entry, other) in self.entries.iter().flat_map(|e| others.iter().map(move |o| (e, o))) {
                    aborts += (0..).take_while(|&k| self.abort(*entry, *other, taken, freed, k)).count();
                }
            }
        }
        aborts
    }

    /// Aborts `entry` at step `k` after `taken` allocations and `freed` frees. Returns false if
    /// there is no such step.
    fn abort(&self, entry: Entry, other: Entry, taken: usize, freed: usize, k: usize) -> bool {
        let mut mine: Vec<_> = (0..taken).map(|_| (self.alloc)(SIZE)).collect();
        (0..freed).for_each(|_| (self.entries[1].1)(&mut mine));
        let mut theirs = vec![(self.alloc)(SIZE)];
        let (mut step, mut reached) = (0, false);
        stepped(
            &mut |trap| {
                if armed(trap.rip()).is_none() {
                    return;
                }
                if step == k {
                    reached = true;
                    preempt(trap, || other.1(&mut theirs));
                    trap.stop();
                }
                step += 1;
            },
            || entry.1(&mut mine),
        );
        mine.append(&mut theirs);
        let distinct: BTreeSet<_> = mine.iter().collect();
        let what = format!("{} at step {k} of {} after {taken} - {freed}", other.0, entry.0);
        assert_eq!(distinct.len(), mine.len(), "{what}: an object was handed out twice");
        assert_eq!(self.live(), mine.len(), "{what}");
        // SAFETY: all are live, each once.
        mine.drain(..).for_each(|object| unsafe { (self.free)(object) });
        ashlar::reap();
        reached
    }
}

#[test]
fn aborts_in_the_entry_points_lose_and_double_nothing() {
    let test = "aborts_in_the_entry_points_lose_and_double_nothing";
    // With several nodes, frees have sections of their own.
    for nodes in ["", ",nodes=2"] {
        let options = format!("percpu=emulate,reaper=off,sheaf=2{nodes}");
        let env = [("ASHLAR_OPTIONS", options.as_str())];
        for family in &FAMILIES {
            let role = format!("{}{nodes}", family.cache);
            let outcome = child(test, &role, &env, || tell("aborts", family.abort_everywhere()));
            let Some(child) = outcome else { continue };
            let aborts: usize = child.succeeded().told("aborts").parse().expect("a number");
            println!("{role}: {aborts} aborts");
            assert!(aborts > 500, "{role}: only {aborts} aborts");
        }
    }
}

/// The object map has no entry to restore, so an abort must not try.
#[test]
fn an_abort_in_a_free_of_no_object_is_reported_like_any_other() {
    let test = "an_abort_in_a_free_of_no_object_is_reported_like_any_other";
    let mut steps = 0;
    for k in 0.. {
        let env = [("ASHLAR_OPTIONS", "percpu=emulate,reaper=off")];
        let outcome = child(test, &k.to_string(), &env, || {
            // An address in a part of the zone's first block that was never used.
            let wild = ashlar::malloc::malloc(SIZE).wrapping_add(1 << 20);
            let mut step = 0;
            stepped(
                &mut |trap| {
                    if armed(trap.rip()).is_some() {
                        step += 1;
                        if step > k {
                            tell("aborted at", k);
                            preempt(trap, || ());
                            trap.stop();
                        }
                    }
                },
                // SAFETY: violated on purpose; the free is what is tested.
                || unsafe { ashlar::malloc::free(wild) },
            );
        });
        let Some(child) = outcome else { continue };
        assert_eq!(child.status.signal(), Some(libc::SIGABRT), "at step {k}: {}", child.stderr);
        assert!(child.stderr.contains("): no object there"), "at step {k}: {}", child.stderr);
        if !child.stdout.contains("aborted at") {
            break;
        }
        steps += 1;
    }
    assert!(!common::is_parent() || steps > 5, "only {steps} steps");
}

// Symbols of the linker: the ends of the section that holds all descriptors.
unsafe extern "C" {
    static __start___rseq_cs: Section;
    static __stop___rseq_cs: Section;
}

#[test]
fn the_signature_stands_before_every_abort_handler() {
    let (start, stop) = (&raw const __start___rseq_cs, &raw const __stop___rseq_cs);
    let bytes = stop as usize - start as usize;
    assert_eq!(bytes % size_of::<Section>(), 0);
    // SAFETY: the section is an array of descriptors of 32 aligned bytes each, and it is read-only
    // after the start.
    let sections = unsafe { core::slice::from_raw_parts(start, bytes / size_of::<Section>()) };
    // Three entry points, six sections, and one of the self-test.
    assert!(sections.len() >= 10, "only {} descriptors", sections.len());
    for section in sections {
        assert_eq!((section.version, section.flags), (0, 0), "{section:?}");
        assert!(section.length > 0 && section.length < 200, "{section:?}");
        let abort = section.abort;
        assert!(abort.wrapping_sub(section.start) >= section.length, "the handler is inside its section: {section:?}");
        // SAFETY: the four bytes before an abort handler are code.
        let signature = unsafe { ((abort - 4) as *const u32).read_unaligned() };
        assert_eq!(signature, SIGNATURE, "{section:?}");
    }
}
