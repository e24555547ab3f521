//! The instructions of each step of the engines of history: what a call takes beside its fast path.
//!
//! `golden/*-steps.txt` holds the counts, and docs/engines.md sets them beside the steps of the
//! kernels. With `ASHLAR_UPDATE_GOLDEN=1` the files are written.
#![cfg(all(target_arch = "x86_64", not(debug_assertions)))]

mod common;
#[path = "common/count.rs"]
mod count;

use core::fmt::Write;
use core::hint::black_box;
use core::ptr::NonNull;

use ashlar::{CacheArgs, KmemCache};
use common::{child, cpus, pin, tell};
use count::{about_as_golden, executed_with_calls};

/// A program's function around an inlined allocation.
#[inline(never)]
fn inlined_alloc(cache: &KmemCache) -> Option<NonNull<u8>> {
    cache.alloc()
}

/// A program's function around an inlined free.
#[inline(never)]
fn inlined_free(cache: &KmemCache, object: NonNull<u8>) {
    // SAFETY: callers give live objects of the cache, each once.
    unsafe { cache.free(object) };
}

/// The golden file with the counts of the steps of SLAB.
const SLAB_STEPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/slab-steps.txt");

/// Counts the instructions of each step of both editions of SLAB, with one node and with four.
#[test]
fn steps_of_slab_take_about_as_many_instructions_as_the_golden_file_says() {
    let test = "steps_of_slab_take_about_as_many_instructions_as_the_golden_file_says";
    let mut text = String::from(
        "64 bytes, by engine and nodes: kmalloc and kfree on the array; a refill of 60 from slabs; a flush of 60 to slabs; \
         a kmalloc that makes a slab\n",
    );
    for (engine, nodes) in [("slab", 1), ("slab24", 1), ("slab", 4), ("slab24", 4)] {
        let options =
            format!("percpu=emulate,reaper=off,engine={engine},nodes={nodes},shared=0,limit=120,batchcount=60");
        let outcome = child(test, &options, &[("ASHLAR_OPTIONS", &options)], || {
            assert!(pin(cpus()[0]), "a thread may run on its CPU");
            let (kmalloc, kfree) = (ashlar::kmalloc as *const () as u64, ashlar::kfree as *const () as u64);
            // The counts of allocations and frees, sorted. Three slabs have so many objects, and a
            // node keeps as many, so none is given back. The array is full once, and empty once.
            let counts = || {
                let mut at = [core::ptr::null_mut(); 170];
                let mut allocs: Vec<_> = at
                    .iter_mut()
                    .map(|at| executed_with_calls(kmalloc, || *at = ashlar::kmalloc(black_box(64))))
                    .collect();
                // SAFETY: live, each freed once.
                let free = |at: *mut u8| executed_with_calls(kfree, || unsafe { ashlar::kfree(at) });
                let mut frees: Vec<_> = at.into_iter().map(free).collect();
                allocs.sort_unstable();
                frees.sort_unstable();
                (allocs, frees)
            };
            let ((first, frees), (again, _)) = (counts(), counts());
            // The first slab of all is dearer than others.
            let (pair, refill, flush, slab) = ((again[0], frees[0]), again[169], frees[169], first[168]);
            tell("steps", format_args!("{:>4} {:>4} {refill:>5} {flush:>5} {slab:>5}", pair.0, pair.1));
        });
        let Some(child) = outcome else { continue };
        writeln!(text, "{engine:>6} {nodes} {}", child.succeeded().told("steps")).expect("a string");
    }
    if common::is_parent() {
        about_as_golden(SLAB_STEPS, &text);
    }
}

/// The golden file with the counts of the steps of SLUB of 2010.
const SLUB_STEPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/slub-steps.txt");

/// Counts the instructions of each step of SLUB of 2010, before and after the patches.
#[test]
fn steps_of_slub_take_about_as_many_instructions_as_the_golden_file_says() {
    const OBJECTS: usize = 64;
    let test = "steps_of_slub_take_about_as_many_instructions_as_the_golden_file_says";
    let mut text = String::from(
        "64 bytes, by engine: kmalloc and kfree on the CPU slab; kfree to a full slab, to a partial one, and of the last \
         object; a kmalloc that takes a partial slab, and one that makes a slab\n",
    );
    for engine in ["slub-2010", "slub-2010-ll"] {
        let options = format!("percpu=emulate,reaper=off,engine={engine},min_objects=20");
        let outcome = child(test, engine, &[("ASHLAR_OPTIONS", &options)], || {
            assert!(pin(cpus()[0]), "a thread may run on its CPU");
            let (kmalloc, kfree) = (ashlar::kmalloc as *const () as u64, ashlar::kfree as *const () as u64);
            let alloc = |at: &mut *mut u8| executed_with_calls(kmalloc, || *at = ashlar::kmalloc(black_box(64)));
            // SAFETY: live, each freed once.
            let free = |at: *mut u8| executed_with_calls(kfree, || unsafe { ashlar::kfree(at) });
            // Four slabs of a page each; the last is the CPU's, with one free object.
            let mut at = [core::ptr::null_mut(); 4 * OBJECTS - 1];
            let allocs: Vec<_> = at.iter_mut().map(alloc).collect();
            let (fast, slab) = (allocs[1], allocs[2 * OBJECTS]);
            let frees: Vec<_> = at[..OBJECTS].iter().map(|&at| free(at)).collect();
            let own = free(at[4 * OBJECTS - 2]);
            // A partial slab, which the CPU takes when its own is used up.
            free(at[OBJECTS]);
            let mut more = [core::ptr::null_mut(); 3];
            let allocs: Vec<_> = more.iter_mut().map(alloc).collect();
            assert_eq!(more[2], at[OBJECTS], "the object of the partial slab");
            let (full, partial, last, taken) = (frees[0], frees[1], frees[OBJECTS - 1], allocs[2]);
            tell("steps", format_args!("{fast:>4} {own:>4} {full:>5} {partial:>5} {last:>5} {taken:>5} {slab:>5}"));
        });
        let Some(child) = outcome else { continue };
        writeln!(text, "{engine:>12} {}", child.succeeded().told("steps")).expect("a string");
    }
    if common::is_parent() {
        about_as_golden(SLUB_STEPS, &text);
    }
}

/// A program's function around a bulk free.
#[inline(never)]
fn called_bulk(cache: &KmemCache, objects: &[*mut u8]) {
    // SAFETY: callers give live objects of the cache, each once.
    unsafe { cache.free_bulk(objects) };
}

/// The golden file with the counts of the steps of SLUB of 2015.
const SLUB_BULK_STEPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/slub-bulk-steps.txt");

/// Counts the instructions of what SLUB of 2015 has in addition: partial slabs on CPUs, and
/// detached freelists.
#[test]
fn steps_of_slub_bulk_take_about_as_many_instructions_as_the_golden_file_says() {
    /// Objects of 512 bytes in a slab of a page.
    const OBJECTS: usize = 8;
    let test = "steps_of_slub_bulk_take_about_as_many_instructions_as_the_golden_file_says";
    let options = "percpu=emulate,reaper=off,engine=slub-bulk,max_order=0,cpu_partial=6,min_partial=0";
    let outcome = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
        assert!(pin(cpus()[0]), "a thread may run on its CPU");
        let cache = KmemCache::create("steps", 512, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        let at: Vec<_> = (0..20 * OBJECTS).map(|_| cache.alloc().expect("memory")).collect();
        let (start, end) = (inlined_free as *const () as u64, called_bulk as *const () as u64);
        let free = |object| executed_with_calls(start, || inlined_free(black_box(&cache), object));
        let bulk = |objects: &[NonNull<u8>]| {
            let objects: Vec<_> = objects.iter().map(|object| object.as_ptr()).collect();
            executed_with_calls(end, || called_bulk(black_box(&cache), black_box(&objects)))
        };
        let start = inlined_alloc as *const () as u64;
        let alloc = || {
            executed_with_calls(start, || {
                inlined_alloc(black_box(&cache)).expect("memory");
            })
        };
        // Eight full slabs become the CPU's; the eighth sends seven to the node.
        let frees: Vec<_> = (0..8).map(|slab| free(at[slab * OBJECTS])).collect();
        // The CPU's slab is used up: its partial slab comes first, then four of the node's.
        let allocs = [alloc(), alloc()];
        // Six objects of a partial slab, and three of each of two in turn.
        let one = bulk(&at[8 * OBJECTS..][..6]);
        let two: Vec<_> = (0..6).map(|i| at[(9 + i % 2) * OBJECTS + i / 2]).collect();
        let two = bulk(&two);
        let (put, drained, [own, several]) = (frees[1], frees[7], allocs);
        tell("steps", format_args!("{put:>4} {drained:>5} {own:>5} {several:>5} {one:>5} {two:>5}"));
    });
    let Some(child) = outcome else { return };
    let text = format!(
        "512 bytes, slub-bulk: a free that makes a full slab the CPU's, and one that sends seven to the node; an \
         allocation that takes one of the CPU's, and one that takes four of the node's; a bulk free of six objects of a \
         slab, and of three of each of two in turn\n{}\n",
        child.succeeded().told("steps")
    );
    about_as_golden(SLUB_BULK_STEPS, &text);
}

/// The golden file with the counts of the steps of SLOB and its successors.
const SLOB_STEPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/slob-steps.txt");

/// Counts the instructions of each step of SLOB and of the lists of one size that followed it.
#[test]
fn steps_of_slob_take_about_as_many_instructions_as_the_golden_file_says() {
    /// Objects of 56 bytes in a page: with 8 in front of them in SLOB, of the class 64 elsewhere.
    const OBJECTS: usize = 64;
    let test = "steps_of_slob_take_about_as_many_instructions_as_the_golden_file_says";
    let mut text = String::from(
        "56 bytes, by engine: kmalloc from the first page, and one that opens a page; kfree to a full page, to a partial \
         one, and of the last object; of slob: what a kmalloc adds for each page that it passes, and for each free block \
         that it looks at\n",
    );
    for engine in ["slob", "slob-seg", "slob-cache"] {
        let options = format!("percpu=emulate,reaper=off,engine={engine}");
        let outcome = child(test, engine, &[("ASHLAR_OPTIONS", &options)], || {
            assert!(pin(cpus()[0]), "a thread may run on its CPU");
            let (kmalloc, kfree) = (ashlar::kmalloc as *const () as u64, ashlar::kfree as *const () as u64);
            let alloc = |size: usize| ashlar::kmalloc(black_box(size));
            let counted = |size: usize| {
                let mut at = core::ptr::null_mut();
                let count = executed_with_calls(kmalloc, || at = alloc(size));
                (at, count)
            };
            // SAFETY: live, each freed once.
            let free = |at: *mut u8| executed_with_calls(kfree, || unsafe { ashlar::kfree(at) });
            // SAFETY: as above.
            let give = |at: *mut u8| unsafe { ashlar::kfree(at) };
            let page = |at: *mut u8| at as usize / ashlar::PAGE_SIZE;
            // Twelve full pages, of which none is on a list.
            let mut at: Vec<_> = (0..2 * OBJECTS).map(|_| alloc(56)).collect();
            let [(of_opened, opened), (of_first, first)] = [counted(56), counted(56)];
            at.extend([of_opened, of_first]);
            at.extend((at.len()..12 * OBJECTS).map(|_| alloc(56)));
            let pages: Vec<_> = at.chunks(OBJECTS).map(|objects| page(objects[0])).collect();
            assert!(at.iter().zip(0..).all(|(&at, number)| page(at) == pages[number / OBJECTS]), "full pages");
            // The last page of a list would stay.
            give(at[0]);
            let (full, partial) = (free(at[OBJECTS]), free(at[OBJECTS + 1]));
            at[OBJECTS + 2..2 * OBJECTS - 1].iter().for_each(|&at| give(at));
            let last = free(at[2 * OBJECTS - 1]);
            let steps = format!("{first:>4} {opened:>5} {full:>5} {partial:>5} {last:>5}");
            if engine != "slob" {
                tell("steps", format_args!("{steps}     -     -"));
                return;
            }
            assert_eq!(page(alloc(56)), pages[0], "the page with room");
            // Ten pages with room for 16 bytes, and none with more.
            for page_of in 2..12 {
                give(at[page_of * OBJECTS + 5]);
                assert_eq!(page(alloc(40)), pages[page_of], "where room is");
            }
            let (of_new, passed) = counted(56);
            assert!(!pages.contains(&page(of_new)) || page(of_new) == pages[1], "another page");
            (1..OBJECTS).for_each(|_| assert_eq!(page(alloc(56)), page(of_new)));
            // One more, with ten free blocks of 32 bytes.
            let small: Vec<_> = (0..2 * OBJECTS).map(|_| alloc(24)).collect();
            assert!(small.iter().all(|&at| page(at) == page(small[0])), "one page");
            (0..10).for_each(|hole| give(small[2 * hole + 1]));
            let (of_new, walked) = counted(56);
            assert_ne!(page(of_new), page(small[0]), "in vain");
            let (pass, block) = ((passed - opened) / 10, (walked - passed) / 10);
            tell("steps", format_args!("{steps} {pass:>5} {block:>5}"));
        });
        let Some(child) = outcome else { continue };
        writeln!(text, "{engine:>10} {}", child.succeeded().told("steps")).expect("a string");
    }
    if common::is_parent() {
        about_as_golden(SLOB_STEPS, &text);
    }
}
