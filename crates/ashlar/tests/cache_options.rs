//! Options of single caches (`cache.NAME.KEY=VALUE`). They apply to the caches of that name,
//! including kmalloc's and malloc's, and to no others. They override the program's arguments. An
//! option that a cache cannot have is reported and ignored.

mod common;

use ashlar::{CacheArgs, CacheInfo, Engine, KmemCache, Tunable};
use common::child;

const DEFAULT: CacheArgs = CacheArgs::DEFAULT;

fn create(name: &str, args: &CacheArgs) -> KmemCache {
    KmemCache::create(name, 200, args).expect("a cache")
}

/// Returns the figures of one of the library's own caches.
fn info(name: &str) -> CacheInfo {
    let mut found = None;
    ashlar::for_each_cache(|info| {
        if info.name() == name {
            found = Some(*info);
        }
    });
    found.unwrap_or_else(|| panic!("no cache {name}"))
}

fn aliases() -> Vec<String> {
    let mut names = Vec::new();
    ashlar::for_each_alias(|alias| names.push(format!("{} in {}", alias.name(), alias.cache())));
    names
}

/// Runs `body` in a child with these options, and returns the allocator's lines on standard error.
#[track_caller]
fn under(test: &str, options: &str, body: impl FnOnce()) -> String {
    let role = format!("{test} {options}");
    child(test, &role, &[("ASHLAR_OPTIONS", options)], body).map_or(String::new(), |outcome| outcome.succeeded().stderr)
}

/// Returns the allocator's lines on standard error.
fn said(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.starts_with("ashlar: ")).collect()
}

#[test]
fn caches_have_the_options_of_their_name_and_the_librarys_own_do_too() {
    let options = "sheaf=20,cache.kmalloc-64.sheaf_capacity=7,cache.kmalloc-64.min_order=2,cache.kmalloc-1*.min_partial=1,\
                   cache.malloc-64.sheaf_capacity=0,cache.malloc-2*.max_order=9,cache.malloc-28672.min_objects=40,\
                   cache.net.core skb.sheaf_capacity=9,cache.net.*.min_partial=77,cache.net.core skb.remote_node_defrag_ratio=35";
    let stderr = under("caches_have_the_options_of_their_name_and_the_librarys_own_do_too", options, || {
        // The options have been read once, so the program may change its environment.
        ashlar::mode();
        // SAFETY: one thread.
        unsafe { std::env::set_var("ASHLAR_OPTIONS", "cache.late.min_partial=3") };
        let memory = [ashlar::kmalloc(60), ashlar::malloc::malloc(60), ashlar::malloc::malloc(28 << 10)];
        assert!(memory.iter().all(|at| !at.is_null()));
        let shape = |name| (info(name).sheaf_capacity, info(name).order);
        assert_eq!((shape("kmalloc-64"), shape("kmalloc-32")), ((7, 2), (20, 0)));
        assert_eq!(shape("malloc-64"), (0, 0));
        assert_eq!(shape("malloc-28672").1, 9, "40 objects of 28 KiB: 1.1 MiB");
        assert_eq!(["kmalloc-1k", "kmalloc-16", "kmalloc-2k"].map(|name| info(name).min_partial), [1, 1, 5]);

        let tuned = create("net.core skb", &DEFAULT);
        let values = [Tunable::SheafCapacity, Tunable::MinPartial, Tunable::RemoteNodeDefragRatio];
        assert_eq!(values.map(|which| tuned.tunable(which)), [Some(9), Some(77), Some(35)]);
        let late = create("late", &DEFAULT);
        assert_eq!(values.map(|which| late.tunable(which)), [Some(20), Some(5), Some(0)]);
        // A cache with options can still be tuned.
        tuned.set_tunable(Tunable::SheafCapacity, 30).expect("in range");
        assert_eq!(tuned.info().sheaf_capacity, 30);
        // SAFETY: allocated above, freed once, by the right functions.
        unsafe {
            ashlar::kfree(memory[0]);
            ashlar::malloc::free(memory[1]);
            ashlar::malloc::free(memory[2]);
        }
    });
    assert_eq!(said(&stderr), [""; 0]);
}

#[test]
fn the_user_wins_over_the_program_and_the_environment_over_the_call() {
    let options = "cache.a.min_partial=8,cache.a.sheaf_capacity=11,cache.b.max_order=0,cache.c.min_order=4,\
                   cache.d.engine=slab,cache.d.limit=30,cache.d.shared=2,cache.e.engine=slub-bulk,cache.e.cpu_partial=99";
    let stderr = under("the_user_wins_over_the_program_and_the_environment_over_the_call", options, || {
        let text = "cache.a.min_partial=2,cache.a.remote_node_defrag_ratio=9,cache.d.batchcount=6,min_partial=1";
        ashlar::configure(text).expect("good, and early enough");
        let a = DEFAULT.min_partial(3).sheaf_capacity(40);
        let a = create("a", &a);
        let values = [Tunable::MinPartial, Tunable::SheafCapacity, Tunable::RemoteNodeDefragRatio];
        assert_eq!(values.map(|which| a.tunable(which)), [Some(8), Some(11), Some(9)]);
        assert_eq!(create("other", &DEFAULT).tunable(Tunable::MinPartial), Some(1));
        // The other limit of orders is adapted, for the program's and the process's options.
        let b = DEFAULT.min_order(2);
        assert_eq!((create("b", &b).info().order, create("unnamed", &b).info().order), (0, 2));
        let c = DEFAULT.max_order(1);
        assert_eq!(create("c", &c).info().order, 4);
        // An invalid argument of the program stays an error, whatever the options are.
        let wrong = DEFAULT.min_partial(1 << 21);
        assert!(KmemCache::create("a", 200, &wrong).is_err());

        let d = create("d", &DEFAULT.engine(Engine::Sheaves));
        assert_eq!(d.info().engine.id(), "slab");
        let values = [Tunable::Limit, Tunable::BatchCount, Tunable::Shared];
        assert_eq!(values.map(|which| d.tunable(which)), [Some(30), Some(6), Some(2)]);
        let e = create("e", &DEFAULT);
        assert_eq!((e.info().engine.id(), e.tunable(Tunable::CpuPartial)), ("slub-bulk", Some(99)));
    });
    assert_eq!(said(&stderr), [""; 0]);
}

#[test]
fn a_cache_with_options_shares_its_slabs_with_none() {
    let options = "cache.tuned.min_partial=8,cache.lonely.nomerge,cache.lonely-2.merge=off,cache.ordered.max_order=2,\
                   cache.small.min_objects=3";
    let body = || {
        for name in ["one", "tuned", "lonely", "lonely-2", "ordered", "small", "two"] {
            create(name, &DEFAULT);
        }
        assert_eq!(aliases(), ["two in one"]);
    };
    assert_eq!(said(&under("a_cache_with_options_shares_its_slabs_with_none", options, body)), [""; 0]);
    let none = || {
        create("one", &DEFAULT);
        create("two", &DEFAULT);
        assert_eq!(aliases(), [""; 0]);
    };
    for options in ["nomerge", "merge=off", "cache.*.nomerge"] {
        assert_eq!(said(&under("a_cache_with_options_shares_its_slabs_with_none", options, none)), [""; 0]);
    }
}

#[test]
fn what_a_cache_cannot_have_is_said_once_and_changes_nothing() {
    let options = "cache.*.limit=9,cache.kmalloc-64.engine=slab,cache.queue.sheaf_capacity=5,cache.queue.min_objects=9,\
                   cache.blocks.max_order=3,cache.blocks.nomerge";
    let stderr = under("what_a_cache_cannot_have_is_said_once_and_changes_nothing", options, || {
        ashlar::mode();
        assert_eq!(info("kmalloc-64").engine, Engine::Sheaves);
        for _ in 0..2 {
            create("one", &DEFAULT);
            let queue = create("queue", &DEFAULT.engine(Engine::Slab));
            assert_eq!(queue.tunable(Tunable::Limit), Some(9));
            create("blocks", &DEFAULT.engine(Engine::Slob));
        }
        assert_eq!(aliases(), ["one in one"], "options that are left out keep nobody from merging");
    });
    let lines: Vec<&str> = said(&stderr);
    let expected = [
        "ashlar: option `cache.*` for cache kmalloc-8: limit, batchcount and shared: expected a cache of the engine slab or slab24",
        "ashlar: option `cache.kmalloc-64` for cache kmalloc-64: engine: expected a cache of the program: \
         those of kmalloc and malloc have that of the process",
        "ashlar: option `cache.queue` for cache queue: sheaf_capacity: expected a cache of the engine ashlar",
        "ashlar: option `cache.queue` for cache queue: min_objects: expected a cache of another engine than slab, slab24, slob and slob-seg",
        "ashlar: option `cache.blocks` for cache blocks: min_order and max_order: expected a cache of another engine than slob and slob-seg",
        "ashlar: option `cache.blocks` for cache blocks: nomerge: expected a cache of another engine than slob and slob-seg",
    ];
    if common::is_parent() {
        assert_eq!(lines, expected);
    }
}

#[test]
fn a_bad_option_is_named_at_the_start_and_the_others_hold() {
    let many = vec!["cache.x.min_partial=1"; 64].join(",");
    for (bad, names) in [
        ("cache.x.colour=1", "one of the keys engine"),
        ("cache.x.limit=9999", "limit=1 to 8192"),
        ("cache.limit=9", "cache.NAME.KEY=VALUE"),
        (&*format!("{many},cache.x.min_partial=4"), "at most 64 options of single caches"),
    ] {
        let options = format!("cache.good.min_partial=6,{bad}");
        let stderr = under("a_bad_option_is_named_at_the_start_and_the_others_hold", &options, || {
            assert_eq!(create("good", &DEFAULT).tunable(Tunable::MinPartial), Some(6));
        });
        let lines = said(&stderr);
        if common::is_parent() {
            let last = bad.rsplit(',').next().expect("a part");
            assert!(lines.iter().all(|line| line.contains("ASHLAR_OPTIONS: option `cache.")), "{lines:?}");
            let told = lines.last().expect("a line");
            assert!(told.contains(&format!("`{last}`")) && told.contains(names), "{told}");
        }
        let refused = ashlar::check_options(&options).expect_err("as at the start");
        assert!(refused.to_string().contains(names), "{refused}");
    }
}

#[test]
fn kmalloc_and_malloc_work_with_any_options_for_their_caches_in_every_engine() {
    let test = "kmalloc_and_malloc_work_with_any_options_for_their_caches_in_every_engine";
    let tuned = [
        "cache.*.min_order=2,cache.*.min_partial=0,cache.*.sheaf_capacity=0",
        "cache.kmalloc-6*.sheaf_capacity=3,cache.malloc-*.sheaf_capacity=2",
        "cache.kmalloc-*.max_order=0,cache.malloc-1*.max_order=9,cache.malloc-*.sheaf_capacity=1",
        "cache.*.limit=1,cache.*.shared=0,cache.*.min_objects=100,cache.kmalloc-*.cpu_partial=0",
    ];
    for engine in Engine::ALL {
        for own in tuned {
            ashlar::check_options(own).expect("good options");
            let options = format!("engine={},{own}", engine.id());
            under(test, &options, || {
                let mut held = Vec::new();
                for round in 0..3u64 {
                    for size in (1..40_000usize).step_by(611) {
                        let both = [ashlar::kmalloc(size), ashlar::malloc::malloc(size)];
                        for (at, token) in both.into_iter().zip([round, !round]) {
                            assert!(!at.is_null());
                            // SAFETY: fresh memory of `size` bytes.
                            unsafe { common::fill(at, size, token ^ size as u64) };
                        }
                        held.push((both, size, round));
                    }
                    for (both, size, round) in held.split_off(held.len() / 2) {
                        for (at, token) in both.into_iter().zip([round, !round]) {
                            // SAFETY: live, and written above.
                            unsafe { common::check(at, size, size, token ^ size as u64) };
                        }
                        // SAFETY: live, freed once, each by its own function.
                        unsafe {
                            ashlar::kfree(both[0]);
                            ashlar::malloc::free(both[1]);
                        }
                    }
                }
            });
        }
    }
}
