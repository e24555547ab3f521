//! Situations that a malloc meets in real programs: early and late calls, libraries that come and
//! go, forks of all kinds, signals, crowds of threads on small stacks. Each a C program that says
//! "well", in both modes and on several engines.

mod common;

use common::{build, build_library, on_library, preloaded, text, well};

/// Both modes, and the engines whose locks and per-CPU state are their own.
const MODES: [&str; 6] = ["", "percpu=lock", "engine=slab", "engine=slab,nodes=2", "engine=slub", "engine=slub-bulk"];

#[track_caller]
fn in_all_modes(source: &str) {
    in_modes(source, &MODES);
}

#[track_caller]
fn in_modes(source: &str, modes: &[&str]) {
    let program = build("cc", source, &[]);
    for options in modes {
        well(&preloaded(&program, options), &format!("{source} under `{options}`"));
    }
}

#[test]
fn resolvers_constructors_destructors_and_threads_at_exit_allocate() {
    in_all_modes("c/early.c");
}

#[test]
fn threads_fork_and_children_fork_again() {
    in_all_modes("c/forks.c");
    in_modes(
        "c/forks.c",
        &["cache.malloc-*.sheaf_capacity=2,cache.malloc-6*.sheaf_capacity=0,cache.malloc-1*.min_order=4"],
    );
}

#[test]
fn children_of_vfork_allocate_in_the_memory_of_the_parent() {
    // It takes its time: one engine that locks its CPU is enough.
    in_modes("c/vforks.c", &MODES[..3]);
}

#[test]
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
fn children_of_vfork_allocate_whatever_the_size_of_the_registration() {
    // Kernel 6.2 and glibc 2.36; the same and glibc 2.40; kernel 7.0 and glibc 2.41; one to come;
    // one that cannot be known.
    for (bytes, told) in [(32, 32), (32, 20), (33, 33), (64, 64), (64, 20)] {
        let flags = [format!("-DBYTES={bytes}"), format!("-DTOLD={told}"), "-rdynamic".to_owned()];
        let program = build("cc", "c/vfork_sizes.c", &[&flags[0], &flags[1], &flags[2]]);
        let mut command = on_library(&program, "");
        let out = command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0").env("MODE_IS", "rseq").output();
        let out = out.expect("it runs");
        if out.status.code() == Some(common::NOT_HERE) {
            common::skipped(&format!("this kernel takes no rseq area of {bytes} bytes"));
            continue;
        }
        well(&out, &format!("{bytes} bytes, {told} told"));
    }
}

#[test]
fn a_thousand_threads_on_the_smallest_stacks_and_threads_that_move() {
    // Debug builds of the allocator use more stack.
    if cfg!(debug_assertions) {
        return common::skipped("a debug build");
    }
    in_all_modes("c/crowd.c");
}

#[test]
fn handlers_that_allocate_interrupt_the_fast_path_without_harm() {
    let program = build("cc", "c/signals.c", &[]);
    for options in ["reaper=off", "reaper=off,percpu=lock"] {
        well(&preloaded(&program, options), options);
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn handlers_that_jump_out_of_a_fast_path_lose_one_block_and_no_more() {
    let program = build("cc", "c/longjmps.c", &["-ldl"]);
    well(&preloaded(&program, ""), "rseq");
}

#[test]
fn libraries_that_allocate_come_and_go() {
    let program = build("cc", "c/loads.c", &["-ldl"]);
    let (c, cxx) = (build_library("cc", "c/plugin.c"), build_library("c++", "c/plugin.cc"));
    for options in ["", "percpu=lock"] {
        let out = on_library(&program, options).args([&c, &cxx]).output().expect("it runs");
        well(&out, options);
    }
}

#[test]
fn the_library_itself_comes_and_goes_beside_another_malloc() {
    let program = build("cc", "c/loads.c", &["-ldl"]);
    let plugin = build_library("cc", "c/plugin.c");
    let out = std::process::Command::new(&program).args([common::library(), plugin]).output().expect("it runs");
    well(&out, "dlopen");
}

/// Bytes of stack that one call may use: a quarter of the smallest thread stack (16 KiB) is left to
/// the thread's own frames.
const STACK_BOUND: usize = 12 << 10;
/// The same for the calls that programs make all the time.
const STACK_BOUND_OF_MALLOC: usize = 6 << 10;

#[test]
#[cfg(not(debug_assertions))]
fn no_call_uses_much_stack() {
    let program = build("cc", "c/stack.c", &[]);
    for options in ["", "percpu=lock", "sheaf=254", "nodes=2", "engine=slab", "engine=slub-bulk"] {
        let out = preloaded(&program, options);
        assert_eq!(out.status.code(), Some(0), "`{options}`: {}", text(&out.stderr));
        let told = text(&out.stdout);
        println!("under `{options}`: {}", told.replace('\n', ", "));
        for line in told.lines() {
            let (name, bytes) = line.split_once(' ').expect("a name and a number");
            let bytes: usize = bytes.parse().expect("a number");
            let bound = if matches!(name, "trim" | "stats" | "fork" | "mallinfo2") {
                STACK_BOUND
            } else {
                STACK_BOUND_OF_MALLOC
            };
            assert!(bytes < bound, "{name} uses {bytes} bytes of stack under `{options}`");
        }
        assert_eq!(told.lines().count(), 11, "{told}");
    }
}

#[test]
fn a_program_of_malloc_has_metadata_for_what_it_uses_and_no_caches_of_kmalloc() {
    let program = build("cc", "c/one.c", &[]);
    let out = on_library(&program, "").env("ASHLAR_STATS", "json").output().expect("it runs");
    let figures = text(&out.stderr);
    let metadata =
        figures.split("\"metadata_bytes\":").nth(1).and_then(|rest| rest.split(',').next()?.parse::<u64>().ok());
    // A cache with its barns for two CPUs takes about 1.5 KiB, the sheaf in use 2; kmalloc's
    // sixteen caches would take 18.
    assert!(metadata.is_some_and(|bytes| bytes < 16 << 10), "{figures}");
}
