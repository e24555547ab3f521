//! Merging: the kernel's rules for which caches share slabs, and the properties and end of an
//! alias. Tests run one at a time, because the caches of another test could merge with theirs.

use core::alloc::Layout;
use core::ptr::NonNull;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ashlar::{AliasInfo, Cache, CacheArgs, Constructor, DestroyError, Engine, KmemCache};
use proptest::prelude::*;

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const DEFAULT: CacheArgs = CacheArgs::DEFAULT;

unsafe extern "C" fn build(object: *mut u8) {
    // SAFETY: objects have at least one byte.
    unsafe { object.write(1) };
}

/// Writes 1 to the start of an object.
// SAFETY: it writes one byte.
const BUILD: Constructor = unsafe { Constructor::new(Layout::new::<u8>(), build) };

fn create(name: &str, size: usize, args: &CacheArgs) -> KmemCache {
    KmemCache::create(name, size, args).expect("a cache")
}

fn destroy(cache: KmemCache) {
    cache.destroy().map_err(|(_, error)| error).expect("no object is left");
}

fn aliases() -> Vec<(String, String, usize)> {
    let mut list = Vec::new();
    ashlar::for_each_alias(|alias: &AliasInfo| {
        list.push((alias.name().to_owned(), alias.cache().to_owned(), alias.object_size));
    });
    list
}

/// The properties of a cache that the rules use.
#[derive(Clone, Copy, Debug)]
struct Kind {
    size: usize,
    align: usize,
    hwcache_align: bool,
    group: u8,
    engine: Engine,
    /// The number of the reason why it never merges; 0 for none.
    reason: usize,
}

/// Returns arguments with the given reason against merging.
fn never(reason: usize) -> CacheArgs {
    match reason {
        1 => DEFAULT.ctor(BUILD),
        2 => DEFAULT.no_merge(true),
        3 => DEFAULT.sheaf_capacity(16),
        4 => DEFAULT.min_partial(3),
        5 => DEFAULT.min_order(1),
        6 => DEFAULT.max_order(2),
        7 => DEFAULT.cpu_partial(9),
        8 => DEFAULT.remote_node_defrag_ratio(9),
        _ => DEFAULT,
    }
}
const REASONS: usize = 8;

impl Kind {
    fn args(&self) -> CacheArgs {
        never(self.reason)
            .align(self.align)
            .hwcache_align(self.hwcache_align)
            .merge_group(self.group)
            .engine(self.engine)
    }

    /// Returns the alignment by the rules: the cache line, halved while two objects fit; at least
    /// 8.
    fn real_align(&self) -> usize {
        let mut line = 64;
        while self.size <= line / 2 {
            line /= 2;
        }
        self.align.max(if self.hwcache_align { line } else { 0 }).max(8)
    }

    /// Returns ALIGN(ALIGN(size, 8), align).
    fn rounded(&self) -> usize {
        self.size.next_multiple_of(8).next_multiple_of(self.real_align())
    }

    /// Returns whether the rules merge a new cache into `old`, the only other cache.
    fn merges_into(&self, old: &Kind) -> bool {
        let stride = old.rounded();
        let (size, align) = (self.rounded(), self.real_align());
        self.engine == old.engine
            && self.reason == 0
            && old.reason == 0
            && self.group == old.group
            && size <= stride
            && stride.is_multiple_of(align)
            && stride - size < size_of::<usize>()
            && (self.engine != Engine::Slab || (align <= old.real_align() && old.real_align().is_multiple_of(align)))
    }
}

fn engines() -> impl Strategy<Value = Engine> {
    let merging: Vec<Engine> = Engine::ALL
        .iter()
        .copied()
        .filter(|engine| !matches!(engine.id(), "slab24" | "slob" | "slob-seg" | "debug"))
        .collect();
    prop::sample::select(merging)
}

fn kinds() -> impl Strategy<Value = (Kind, Kind)> {
    let size = prop_oneof![1usize..300, Just(64), Just(128), Just(192), Just(256), 1000usize..9000];
    let near = prop_oneof![6 => -12isize..=12, 1 => -200isize..200];
    let align = prop::sample::select(vec![0usize, 0, 0, 8, 16, 32, 64, 128, 512]);
    let reason = || prop_oneof![8 => Just(0), 1 => 1..=REASONS];
    let group = || prop_oneof![6 => Just(0u8), 1 => Just(3u8)];
    let one = (size, align.clone(), any::<bool>(), group(), engines(), reason());
    // Mostly the engine of the first, because caches of two engines never merge.
    let other = (near, align, any::<bool>(), group(), prop::option::weighted(0.1, engines()), reason());
    (one, other).prop_map(|((size, align, hwcache_align, group, engine, reason), other)| {
        let first = Kind { size, align, hwcache_align, group, engine, reason };
        let second = Kind {
            size: size.saturating_add_signed(other.0).max(1),
            align: other.1,
            hwcache_align: other.2,
            group: other.3,
            engine: other.4.unwrap_or(engine),
            reason: other.5,
        };
        (first, second)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, max_shrink_iters: 0, ..ProptestConfig::default() })]

    /// Two caches share slabs exactly if the rules say so, in every engine. Aliases and reference
    /// counts agree with that.
    #[test]
    fn caches_are_merged_by_the_rules((first, second) in kinds()) {
        let _alone = alone();
        let one = create("first", first.size, &first.args());
        let two = create("second", second.size, &second.args());
        let merged = second.merges_into(&first);
        prop_assert_eq!(one.shares_slabs_with(&two), merged);
        prop_assert_eq!((one.name(), two.name()), ("first", "second"));
        let expected = if merged { vec![("second".to_owned(), "first".to_owned(), second.size)] } else { Vec::new() };
        prop_assert_eq!(aliases(), expected);
        let of_engine = first.engine.id() == "slob-cache";
        if merged && !of_engine {
            prop_assert_eq!((one.info().refcount, two.info().refcount), (2, 2));
            prop_assert_eq!(one.object_size(), first.size.max(second.size));
            prop_assert_eq!(two.object_size(), one.object_size());
        } else {
            prop_assert_eq!((one.info().refcount, two.info().refcount), (1, 1));
            prop_assert_eq!((one.object_size(), two.object_size()), (first.size, second.size));
        }
        // Objects of both caches have the requested size and alignment.
        let (a, b) = (one.alloc().expect("memory"), two.alloc().expect("memory"));
        prop_assert!(a.as_ptr().addr().is_multiple_of(first.real_align()));
        prop_assert!(b.as_ptr().addr().is_multiple_of(second.real_align()));
        // SAFETY: fresh objects of these sizes, each freed once, to the cache that it is from.
        unsafe {
            a.as_ptr().write_bytes(1, first.size);
            b.as_ptr().write_bytes(2, second.size);
            prop_assert!((0..first.size).all(|at| a.as_ptr().add(at).read() == 1), "objects overlap");
            one.free(a);
            two.free(b);
        }
        destroy(one);
        destroy(two);
        prop_assert_eq!(aliases(), Vec::new());
    }
}

/// Checks the rules one by one. Each row names what distinguishes the second cache.
#[test]
fn each_rule_decides() {
    let _alone = alone();
    let kind = |size, align| Kind { size, align, hwcache_align: false, group: 0, engine: Engine::Sheaves, reason: 0 };
    let slab = |kind| Kind { engine: Engine::Slab, ..kind };
    let rows = [
        ("the same", kind(100, 0), kind(100, 0), true),
        ("one byte less", kind(104, 0), kind(97, 0), true),
        ("a word less", kind(104, 0), kind(96, 0), false),
        ("larger", kind(104, 0), kind(105, 0), false),
        ("aligned, and the stride is a multiple", kind(192, 0), kind(190, 64), true),
        ("aligned, and the stride is not a multiple", kind(104, 0), kind(104, 16), false),
        ("aligned, in slabs with colours", slab(kind(192, 0)), slab(kind(190, 64)), false),
        ("less aligned, in slabs with colours", slab(kind(192, 64)), slab(kind(190, 16)), true),
        ("other group", kind(100, 0), Kind { group: 1, ..kind(100, 0) }, false),
        ("other engine", kind(100, 0), slab(kind(100, 0)), false),
    ];
    for (what, first, second, merged) in rows {
        assert_eq!(second.merges_into(&first), merged, "the test's own rules: {what}");
        let (one, two) = (create("one", first.size, &first.args()), create("two", second.size, &second.args()));
        assert_eq!(one.shares_slabs_with(&two), merged, "{what}");
        destroy(two);
        destroy(one);
    }
    for reason in 1..=REASONS {
        for (first, second) in [(reason, 0), (0, reason), (reason, reason)] {
            let args = |reason| Kind { reason, ..kind(100, 0) }.args();
            let (one, two) = (create("one", 100, &args(first)), create("two", 100, &args(second)));
            assert!(!one.shares_slabs_with(&two), "{:?} and {:?}", args(first), args(second));
            destroy(one);
            destroy(two);
        }
    }
}

/// kmalloc's caches are never merged with those of the program.
#[test]
fn the_library_s_own_caches_take_no_part() {
    let _alone = alone();
    // Starts kmalloc.
    assert_ne!(ashlar::mode(), ashlar::Mode::Down);
    let args = DEFAULT.align(64);
    let cache = create("as-kmalloc", 64, &args);
    let mut kmalloc = None;
    ashlar::for_each_cache(|info| {
        if info.name() == "kmalloc-64" {
            kmalloc = Some((info.stride, info.align, info.refcount));
        }
    });
    assert_eq!(kmalloc, Some((64, 64, 1)));
    assert_eq!((cache.info().stride, cache.info().align, cache.info().refcount), (64, 64, 1));
    assert_eq!(aliases(), []);
    destroy(cache);
}

/// Checks that a name lasts as long as its handle, and slabs as long as any handle of them.
#[test]
fn references_are_counted() {
    let _alone = alone();
    let root = create("root", 500, &DEFAULT);
    let rest: Vec<KmemCache> = (0..9).map(|i| create(&format!("alias-{i}"), 497 + i % 7, &DEFAULT)).collect();
    assert_eq!(root.info().refcount, 10);
    assert_eq!(root.object_size(), 503);
    let named = rest[4].info();
    assert_eq!((named.name(), named.refcount), ("alias-4", 10));
    let mut seen = Vec::new();
    ashlar::for_each_cache(|info| seen.push(info.name().to_owned()));
    seen.retain(|name| name == "root" || name.starts_with("alias"));
    assert_eq!(seen, ["root"], "listed once");
    // Allocated through one alias, freed through another after the first has ended.
    let object = rest[3].alloc().expect("memory");
    let mut rest: BTreeMap<usize, KmemCache> = rest.into_iter().enumerate().collect();
    for gone in [8, 0, 4] {
        destroy(rest.remove(&gone).expect("it was created"));
        let mut names: Vec<String> = aliases().into_iter().map(|(name, ..)| name).collect();
        names.sort();
        assert_eq!(names, rest.keys().map(|i| format!("alias-{i}")).collect::<Vec<_>>());
    }
    // The live object prevents nothing, because it may be of any of the aliases.
    destroy(root);
    assert!(aliases().iter().all(|(_, cache, _)| cache == "root"), "the slabs keep their first name");
    let late = create("late", 500, &DEFAULT);
    assert!(late.shares_slabs_with(&rest[&7]));
    while rest.len() > 1 {
        destroy(rest.pop_first().expect("more than one").1);
    }
    destroy(late);
    let last = rest.pop_first().expect("one").1;
    assert_eq!(last.info().refcount, 1);
    let (last, error) = last.destroy().expect_err("an object is in use");
    assert_eq!((error, last.name()), (DestroyError::LiveObjects(1), "alias-7"));
    // SAFETY: allocated above from the same slabs, freed once.
    unsafe { last.free(object) };
    destroy(last);
    assert_eq!(aliases(), []);
    let fresh = create("fresh", 500, &DEFAULT);
    assert_eq!((fresh.info().refcount, fresh.object_size()), (1, 500), "nothing of the old cache is left");
    destroy(fresh);
}

/// Checks that boxes drop their values, although caches of other types use the same slabs.
#[test]
fn typed_caches_merge_and_drop() {
    let _alone = alone();
    let counted = std::rc::Rc::new(());
    let one = Cache::<(std::rc::Rc<()>, u64)>::new("typed-one").expect("a cache");
    let two = Cache::<[u64; 2]>::new("typed-two").expect("a cache");
    assert!(one.as_raw().shares_slabs_with(two.as_raw()));
    {
        let boxes: Vec<_> = (0..100).map(|i| one.alloc((counted.clone(), i)).expect("memory")).collect();
        let words: Vec<_> = (0..100).map(|i| two.alloc([i, !i]).expect("memory")).collect();
        assert_eq!(std::rc::Rc::strong_count(&counted), 101);
        assert!(boxes.iter().zip(&words).all(|(a, b)| a.1 == b[0] && b[1] == !b[0]));
    }
    assert_eq!(std::rc::Rc::strong_count(&counted), 1);
    two.destroy().map_err(|(_, error)| error).expect("an alias");
    one.destroy().map_err(|(_, error)| error).expect("no value is left");
}

/// Threads create, use and destroy caches that merge. Objects never overlap, and no cache is left.
#[test]
fn aliases_come_and_go_under_load() {
    let _alone = alone();
    for &engine in Engine::ALL {
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                scope.spawn(move || {
                    let args = DEFAULT.engine(engine);
                    for round in 0..100 {
                        let cache = create("coming", 72 - (thread + round) % 8, &args);
                        let objects: Vec<NonNull<u8>> = (0..20).map(|_| cache.alloc().expect("memory")).collect();
                        let mark = (thread * 100 + round) as u64;
                        // SAFETY: fresh objects of at least 65 bytes, each freed once.
                        unsafe {
                            objects.iter().for_each(|object| object.cast::<u64>().write(mark));
                            std::thread::yield_now();
                            for object in objects {
                                assert_eq!(object.cast::<u64>().read(), mark, "{}", engine.id());
                                cache.free(object);
                            }
                        }
                        destroy(cache);
                    }
                });
            }
        });
        assert_eq!(aliases(), [], "{}", engine.id());
        ashlar::for_each_cache(|info| assert_ne!(info.name(), "coming", "{}", engine.id()));
    }
}
