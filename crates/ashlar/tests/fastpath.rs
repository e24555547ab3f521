//! The fast paths as machine code: no lock, no atomic read-modify-write, no call, and an exact
//! number of instructions.
//!
//! `golden/fast-path.txt` holds the counts. Changing them changes the speed of every program:
//! measure first, then run with `ASHLAR_UPDATE_GOLDEN=1` and commit the file. `ci/callgrind.sh`
//! counts the same instructions with callgrind.
#![cfg(all(target_arch = "x86_64", not(debug_assertions)))]

mod common;
#[path = "common/count.rs"]
mod count;

use core::fmt::Write;
use core::hint::black_box;
use core::ptr::NonNull;

use ashlar::{CacheArgs, CacheRef, KmemCache};
use common::step::stepped;
use common::{child, tell};
use count::{about_as_golden, decode, executed_with_calls};
use iced_x86::{Code, FlowControl, Instruction, Mnemonic, OpKind};

/// Panics if a fast path must not contain the instruction.
fn is_harmless(instruction: &Instruction) {
    let memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    assert_ne!(instruction.code(), Code::INVALID, "not an instruction: {instruction}");
    assert!(!instruction.has_lock_prefix(), "a locked instruction: {instruction}");
    // xchg with memory locks the bus without a prefix.
    assert!(!(instruction.mnemonic() == Mnemonic::Xchg && memory), "an implicitly locked instruction: {instruction}");
    let flow = instruction.flow_control();
    let calls = matches!(flow, FlowControl::Call | FlowControl::IndirectCall | FlowControl::Interrupt);
    assert!(!calls, "a call: {instruction}");
    let fences = [Mnemonic::Mfence, Mnemonic::Lfence, Mnemonic::Sfence, Mnemonic::Syscall, Mnemonic::Cpuid];
    assert!(!fences.contains(&instruction.mnemonic()), "{instruction}");
}

/// Returns the instructions of a function from its start to its first `ret`.
fn until_return(start: u64) -> Vec<Instruction> {
    let mut at = start;
    let mut found = Vec::new();
    while found.len() < 100 {
        let instruction = decode(at);
        at = instruction.next_ip();
        found.push(instruction);
        match instruction.flow_control() {
            FlowControl::Return => return found,
            // No entry point jumps unconditionally on its fast path.
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => break,
            _ => {}
        }
    }
    panic!("no `ret` after {} instructions from {start:#x}", found.len());
}

#[test]
fn entry_points_have_no_lock_and_no_call_on_their_fast_path() {
    for (name, start) in [
        ("kmalloc", ashlar::kmalloc as *const () as u64),
        ("kfree", ashlar::kfree as *const () as u64),
        ("kfree_sized", ashlar::kfree_sized as *const () as u64),
        ("malloc", ashlar::malloc::malloc as *const () as u64),
        ("free", ashlar::malloc::free as *const () as u64),
    ] {
        let code = until_return(start);
        assert!(code.len() > 8, "{name} has only {} instructions: is it a wrapper?", code.len());
        code.iter().for_each(is_harmless);
        // Slow cases leave by a conditional jump, and a fast path never loops.
        for instruction in &code {
            let jump = instruction.flow_control() == FlowControl::ConditionalBranch;
            assert!(!jump || !(start..=instruction.ip()).contains(&instruction.near_branch_target()), "{instruction}");
        }
    }
}

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

/// Both in one function, as in a program with a short-lived object.
#[inline(never)]
fn inlined_pair(cache: &KmemCache) {
    if let Some(object) = cache.alloc() {
        // SAFETY: live, freed once.
        unsafe { cache.free(object) };
    }
}

/// Pairs in a loop around a borrowed cache, so that the compiler can keep values in registers.
#[inline(never)]
fn inlined_loop(cache: CacheRef<'_>, pairs: usize) {
    for _ in 0..pairs {
        if let Some(object) = cache.alloc() {
            // SAFETY: live, freed once.
            unsafe { cache.free(object) };
        }
    }
}

/// Returns the instructions that `operation` executes between the start of the function at `start`
/// and its return.
fn executed(start: u64, operation: impl FnOnce()) -> Vec<Instruction> {
    let mut seen = Vec::with_capacity(10_000);
    let mut inside = false;
    let mut depth_ends = false;
    stepped(
        &mut |trap| {
            inside |= trap.rip() == start && !depth_ends;
            if inside {
                seen.push(trap.rip());
                if decode(trap.rip()).flow_control() == FlowControl::Return {
                    inside = false;
                    depth_ends = true;
                    trap.stop();
                }
            }
        },
        operation,
    );
    seen.into_iter().map(decode).collect()
}

/// The limit of each figure, which an update of the golden file does not raise.
const MOST: usize = 50;
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/fast-path.txt");

#[test]
fn instructions_are_as_many_as_the_golden_file_says() {
    let test = "instructions_are_as_many_as_the_golden_file_says";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "percpu=emulate,reaper=off")], || {
        let cache = KmemCache::create("golden", 64, &CacheArgs::default()).expect("a cache");
        // Half fills the sheaves, so that nothing below takes a slow path.
        let warm: Vec<_> = (0..10).map(|_| (cache.alloc().expect("memory"), ashlar::kmalloc(64))).collect();
        // SAFETY: live, each freed once.
        warm.into_iter().for_each(|(a, b)| unsafe {
            cache.free(a);
            ashlar::kfree(b);
        });
        let count = |name: &str, start: u64, operation: &mut dyn FnMut()| {
            let code = executed(start, operation);
            code.iter().for_each(is_harmless);
            if std::env::var_os("ASHLAR_SHOW_CODE").is_some() {
                code.iter().for_each(|instruction| eprintln!("{name}: {instruction}"));
            }
            tell(name, code.len());
        };
        let mut at = core::ptr::null_mut();
        count("kmalloc", ashlar::kmalloc as *const () as u64, &mut || at = ashlar::kmalloc(black_box(64)));
        // SAFETY: live, freed once.
        count("kfree", ashlar::kfree as *const () as u64, &mut || unsafe { ashlar::kfree(at) });
        at = ashlar::kmalloc(64);
        let sized = ashlar::kfree_sized as *const () as u64;
        // SAFETY: live, freed once.
        count("kfree_sized", sized, &mut || unsafe { ashlar::kfree_sized(at, black_box(64)) });
        let (one, two) = (ashlar::malloc::malloc(64), ashlar::malloc::malloc(64));
        // SAFETY: live, each freed once.
        unsafe {
            ashlar::malloc::free(one);
            ashlar::malloc::free(two);
        }
        count("malloc", ashlar::malloc::malloc as *const () as u64, &mut || at = ashlar::malloc::malloc(black_box(64)));
        // SAFETY: live, freed once.
        count("free", ashlar::malloc::free as *const () as u64, &mut || unsafe { ashlar::malloc::free(at) });
        let mut object = None;
        count("cache alloc", inlined_alloc as *const () as u64, &mut || object = inlined_alloc(black_box(&cache)));
        let object = object.expect("memory");
        count("cache free", inlined_free as *const () as u64, &mut || inlined_free(black_box(&cache), object));
        count("cache pair", inlined_pair as *const () as u64, &mut || inlined_pair(black_box(&cache)));
        for (name, pairs) in [("one turn", 1), ("two turns", 2)] {
            let turns = black_box(pairs);
            count(name, inlined_loop as *const () as u64, &mut || inlined_loop(black_box(&cache).borrowed(), turns));
        }
    });
    let Some(child) = outcome else { return };
    let child = child.succeeded();
    let told = |name| child.told(name).parse::<usize>().expect("a number");
    // The `ret` of an inlined function belongs to the test, not to the allocator. Registers that
    // the function saves for its slow paths are counted, because a program pays for them, too.
    let figures = [
        ("kmalloc", told("kmalloc")),
        ("kfree", told("kfree")),
        ("kfree_sized", told("kfree_sized")),
        ("called pair: kmalloc, kfree", told("kmalloc") + told("kfree")),
        ("called pair: kmalloc, kfree_sized", told("kmalloc") + told("kfree_sized")),
        // The instructions beyond those of kmalloc maintain the object map; see the module
        // `object_map`.
        ("malloc", told("malloc")),
        ("free", told("free")),
        ("called pair: malloc, free", told("malloc") + told("free")),
        ("inlined KmemCache::alloc", told("cache alloc") - 1),
        ("inlined KmemCache::free", told("cache free") - 1),
        ("inlined pair: KmemCache::alloc, free", told("cache pair") - 1),
        ("inlined pair in a loop: CacheRef::alloc, free, and the loop", told("two turns") - told("one turn")),
    ];
    let mut text = String::new();
    for (name, instructions) in figures {
        writeln!(text, "{instructions:3} {name}").expect("a string");
    }
    for (name, instructions) in figures {
        assert!(instructions <= MOST, "{name}: {instructions} instructions\n{text}");
    }
    if std::env::var_os("ASHLAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(GOLDEN, &text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(GOLDEN).expect("the golden file is there");
    assert_eq!(text, golden, "the fast paths changed; if intended, run this test with ASHLAR_UPDATE_GOLDEN=1");
}

/// Machines whose frees must examine nodes: the counts of frees of the CPU's own objects.
const ON_NODES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/fast-path-nodes.txt");

#[test]
fn frees_on_several_nodes_take_as_many_instructions_as_the_golden_file_says() {
    let test = "frees_on_several_nodes_take_as_many_instructions_as_the_golden_file_says";
    // CPU 0 and another one are on two nodes, or one of the nodes has no CPUs.
    let machines = [("CPUs on two nodes", "0", "1-63"), ("a node of memory alone", "0-63", "")];
    let mut text = String::new();
    for (machine, first, second) in machines {
        let outcome = child(test, machine, &[("ASHLAR_OPTIONS", "percpu=emulate,reaper=off")], || {
            let described = common::machine::described("fastpath", &[(0, first), (1, second)]);
            ashlar::testing::describe_system(described.root());
            assert_eq!(ashlar::nodes(), 2);
            let cache = KmemCache::create("golden", 64, &CacheArgs::default()).expect("a cache");
            let take = || (cache.alloc().expect("memory"), ashlar::kmalloc(64), ashlar::malloc::malloc(64));
            // Half fills the sheaves, so that nothing below takes a path for full or empty ones.
            let warm: Vec<_> = (0..10).map(|_| take()).collect();
            for (a, b, c) in warm {
                // SAFETY: live, each freed once.
                unsafe {
                    cache.free(a);
                    ashlar::kfree(b);
                    ashlar::malloc::free(c);
                }
            }
            let count = |name: &str, start: u64, operation: &mut dyn FnMut()| {
                tell(name, executed_with_calls(start, operation));
            };
            let (a, b, c) = take();
            // SAFETY: live, freed once.
            count("kfree", ashlar::kfree as *const () as u64, &mut || unsafe { ashlar::kfree(b) });
            // SAFETY: live, freed once.
            count("free", ashlar::malloc::free as *const () as u64, &mut || unsafe { ashlar::malloc::free(c) });
            count("cache", inlined_free as *const () as u64, &mut || inlined_free(black_box(&cache), a));
            let (_, b, _) = take();
            let sized = ashlar::kfree_sized as *const () as u64;
            // SAFETY: live, freed once.
            count("kfree_sized", sized, &mut || unsafe { ashlar::kfree_sized(b, black_box(64)) });
        });
        let Some(child) = outcome else { continue };
        let child = child.succeeded();
        for (name, key) in
            [("kfree", "kfree"), ("kfree_sized", "kfree_sized"), ("free", "free"), ("KmemCache::free", "cache")]
        {
            writeln!(text, "{:>3} {name}: {machine}", child.told(key)).expect("a string");
        }
    }
    if !common::is_parent() {
        return;
    }
    if std::env::var_os("ASHLAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(ON_NODES, &text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(ON_NODES).expect("the golden file is there");
    assert_eq!(text, golden, "the fast paths changed; if intended, run this test with ASHLAR_UPDATE_GOLDEN=1");
}

/// The golden file with the counts of every engine.
const ENGINES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/engines.txt");

/// Counts the instructions of `kmalloc` and `kfree` on each engine's own fast path, and of a
/// `kfree` to a slab that is not the CPU's.
#[test]
fn engines_take_about_as_many_instructions_as_the_golden_file_says() {
    let test = "engines_take_about_as_many_instructions_as_the_golden_file_says";
    let mut text =
        String::from("kmalloc(64) and kfree by the engine's fast path; kfree to a slab that is not the CPU's\n");
    for engine in ashlar::Engine::ALL {
        let options = format!("percpu=emulate,reaper=off,engine={}", engine.id());
        let outcome = child(test, engine.id(), &[("ASHLAR_OPTIONS", &options)], || {
            // More objects than a slab holds, so that the first slab is no longer the CPU's. After
            // the frees, the last slab and the sheaf are partly full.
            let live: Vec<_> = (0..200).map(|_| ashlar::kmalloc(64)).collect();
            let (kmalloc, kfree) = (ashlar::kmalloc as *const () as u64, ashlar::kfree as *const () as u64);
            // SAFETY: live, each freed once.
            unsafe { live[190..].iter().for_each(|&at| ashlar::kfree(at)) };
            let mut at = core::ptr::null_mut();
            tell("kmalloc", executed_with_calls(kmalloc, || at = ashlar::kmalloc(black_box(64))));
            // SAFETY: live, freed once.
            tell("kfree", executed_with_calls(kfree, || unsafe { ashlar::kfree(at) }));
            // SAFETY: live, each freed once; the first makes the full slab a partial one.
            tell("far", executed_with_calls(kfree, || unsafe { ashlar::kfree(live[1]) }));
            // SAFETY: as above.
            tell("far", executed_with_calls(kfree, || unsafe { ashlar::kfree(live[2]) }));
        });
        let Some(child) = outcome else { continue };
        let child = child.succeeded();
        let far =
            child.stdout.lines().filter_map(|line| line.strip_prefix("far: ")).next_back().expect("told").to_owned();
        writeln!(text, "{:>10} {:>4} {:>4} {far:>4}", engine.id(), child.told("kmalloc"), child.told("kfree"))
            .expect("a string");
    }
    if !common::is_parent() {
        return;
    }
    about_as_golden(ENGINES, &text);
}
