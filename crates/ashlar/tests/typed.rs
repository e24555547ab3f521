//! `Cache<T>`: values of one type, constructed objects, and the end of a cache. Most tests run in a
//! child for every engine, with rseq where it is available and with locks.

mod common;

use core::sync::atomic::{AtomicUsize, Ordering};
use std::os::unix::process::ExitStatusExt;
use std::sync::{Arc, Barrier, OnceLock};

use ashlar::{Cache, CacheArgs, CacheBox, Constructed, Engine, LazyCache, MAX_CACHES};
use common::{Child, child};

/// Runs `body` in a child for every engine, in each protection, and passes the result to `judge`.
fn each(test: &str, body: fn(), judge: impl Fn(Child)) {
    for engine in Engine::ALL {
        for percpu in ["auto", "auto,nodes=4", "lock"] {
            let options = format!("engine={},percpu={percpu}", engine.id());
            if let Some(child) = child(test, &options, &[("ASHLAR_OPTIONS", &options)], body) {
                judge(child);
            }
        }
    }
}

/// Asserts that the child succeeded and reported nothing.
fn quiet(child: Child) {
    assert_eq!(child.succeeded().stderr, "");
}

/// A type whose `construct` uses the allocator in every permitted way.
struct Busy {
    number: u64,
    text: [u8; 40],
}

static BUSY: OnceLock<Cache<Busy>> = OnceLock::new();
static CONSTRUCTED: AtomicUsize = AtomicUsize::new(0);

impl Constructed for Busy {
    fn construct() -> Self {
        // The first three calls allocate another object of the same cache.
        if CONSTRUCTED.fetch_add(1, Ordering::Relaxed) < 3 {
            let cache = BUSY.get().expect("the cache was made before");
            let other = cache.get().expect("memory");
            assert_eq!((other.number, other.text), (7, [9; 40]));
            // Creates and drops another cache, and calls kmalloc and the reaper.
            let strings = Cache::<String>::new("strings").expect("a cache");
            drop(strings.alloc("text".repeat(1000)).expect("memory"));
            drop(strings);
            let memory = ashlar::kmalloc(5000);
            // SAFETY: allocated just above, and not used again.
            unsafe { ashlar::kfree(memory) };
            ashlar::reap();
        }
        Busy { number: 7, text: [9; 40] }
    }
}

#[test]
fn construct_may_use_the_allocator_and_its_own_cache() {
    let body = || {
        BUSY.set(Cache::constructed("busy").expect("a cache")).unwrap_or_else(|_| panic!("only this sets it"));
        let cache = BUSY.get().expect("set");
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let boxes: Vec<_> = (0..300).map(|_| cache.get().expect("memory")).collect();
                        assert!(boxes.iter().all(|b| b.number == 7 && b.text == [9; 40]));
                    }
                });
            }
        });
        assert_eq!(cache.info().usage.live, 0);
    };
    each("construct_may_use_the_allocator_and_its_own_cache", body, quiet);
}

struct Endless(u64);

static ENDLESS: OnceLock<Cache<Endless>> = OnceLock::new();

impl Constructed for Endless {
    fn construct() -> Self {
        Endless(ENDLESS.get().expect("made before").get().expect("memory").0)
    }
}

#[test]
fn construct_without_end_is_reported() {
    let body = || {
        ENDLESS.set(Cache::constructed("endless").expect("a cache")).unwrap_or_else(|_| panic!("only this sets it"));
        // A thread with a stack of the default size.
        let got = std::thread::spawn(|| ENDLESS.get().expect("set").get().is_ok()).join();
        panic!("the recursion ended: {got:?}");
    };
    each("construct_without_end_is_reported", body, |child| {
        let line = "ashlar: construct() of typed::Endless calls itself without end, through its own cache\n";
        assert_eq!((child.stderr.as_str(), child.status.signal()), (line, Some(libc::SIGABRT)));
    });
}

/// Panics when it drops.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        // Skips the panic hook, which would write to stderr.
        std::panic::resume_unwind(Box::new("bang"));
    }
}

#[test]
fn a_panic_in_drop_loses_no_memory() {
    let body = || {
        let cache = Cache::<(Bomb, [u64; 9])>::new("bombs").expect("a cache");
        for _ in 0..1000 {
            let bomb = cache.alloc((Bomb, [1; 9])).unwrap_or_else(|_| panic!("memory"));
            assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| drop(bomb))).is_err());
        }
        assert_eq!(cache.info().usage.live, 0);
    };
    each("a_panic_in_drop_loses_no_memory", body, quiet);
}

#[test]
fn objects_keep_what_was_left_in_them() {
    struct Counter(u64);
    impl Constructed for Counter {
        fn construct() -> Self {
            Counter(1000)
        }
    }
    let body = || {
        let cache = Cache::<Counter>::constructed("counters").expect("a cache");
        let mut most = 0;
        for _ in 0..10_000 {
            let mut counter = cache.get().expect("memory");
            assert!((1000..1000 + 10_000).contains(&counter.0));
            counter.0 += 1;
            most = most.max(counter.0);
        }
        // Every round gets the same object, except from engines that construct at each allocation.
        let engine = cache.as_raw().engine().id();
        assert_eq!(most > 1001, !engine.starts_with("slob"), "{most}");
    };
    each("objects_keep_what_was_left_in_them", body, quiet);
}

/// Returns the names of all caches and aliases, sorted.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    ashlar::for_each_cache(|info| names.push(info.name().to_string()));
    ashlar::for_each_alias(|info| names.push(info.name().to_string()));
    names.sort();
    names
}

struct Twenty([u64; 20]);

impl Constructed for Twenty {
    fn construct() -> Self {
        Twenty([20; 20])
    }
}

#[test]
fn caches_that_drop_are_gone() {
    const ROUNDS: usize = 10_000;
    const { assert!(ROUNDS > 2 * MAX_CACHES) };
    let body = || {
        let alone = CacheArgs::DEFAULT.no_merge(true);
        let mut after_warm_up = (Vec::new(), 0, 0);
        for round in 0..ROUNDS {
            let name = format!("round-{round}");
            if round % 2 == 0 {
                let cache = Cache::<[u64; 20]>::with_args(&name, &alone).expect("a cache");
                let boxes: Vec<_> = (0..50).map(|i| cache.alloc([i; 20]).expect("memory")).collect();
                assert!(boxes.iter().enumerate().all(|(i, b)| **b == [i as u64; 20]));
            } else {
                let cache = Cache::<Twenty>::constructed(&name).expect("a cache");
                let boxes: Vec<_> = (0..50).map(|_| cache.get().expect("memory")).collect();
                assert!(boxes.iter().all(|b| b.0 == [20; 20]));
            }
            // After this warm-up nothing may grow.
            if round == 100 {
                after_warm_up = (names(), ashlar::metadata_bytes(), pages());
            }
        }
        let (names_then, metadata, pages_then) = after_warm_up;
        assert_eq!(names(), names_then);
        assert!(!names_then.iter().any(|name| name.starts_with("round-")));
        assert!(ashlar::metadata_bytes() <= metadata + (64 << 10), "{metadata} to {}", ashlar::metadata_bytes());
        assert!(pages() <= pages_then + 64, "{pages_then} to {}", pages());
    };
    each("caches_that_drop_are_gone", body, quiet);
}

/// Returns the number of pages of the zone in use.
fn pages() -> usize {
    let stats = ashlar::zone_stats();
    stats.committed - stats.free
}

#[test]
fn the_last_of_several_threads_ends_the_cache() {
    let body = || {
        for round in 0..200 {
            let cache = Arc::new(Cache::<Twenty>::constructed("shared").expect("a cache"));
            let start = Arc::new(Barrier::new(4));
            let threads: Vec<_> = (0..3)
                .map(|thread| {
                    let (cache, start) = (cache.clone(), start.clone());
                    std::thread::spawn(move || {
                        let boxes: Vec<_> = (0..100).map(|_| cache.get().expect("memory")).collect();
                        start.wait();
                        // The main thread drops its handle about now, while boxes are in use here.
                        if round % 3 == thread {
                            std::thread::yield_now();
                        }
                        assert!(boxes.iter().all(|b| b.0 == [20; 20]));
                    })
                })
                .collect();
            start.wait();
            drop(cache);
            threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
            assert!(!names().contains(&"shared".to_string()), "round {round}");
        }
    };
    each("the_last_of_several_threads_ends_the_cache", body, quiet);
}

#[test]
fn boxes_move_between_threads_and_go_back_from_there() {
    let body = || {
        let cache = Cache::<Vec<u64>>::new("moved").expect("a cache");
        std::thread::scope(|scope| {
            let (into, out) = std::sync::mpsc::sync_channel(100);
            let cache = &cache;
            scope.spawn(move || {
                for i in 0..10_000 {
                    into.send(cache.alloc(vec![i; 3]).expect("memory")).expect("a receiver");
                }
            });
            scope.spawn(move || out.iter().enumerate().for_each(|(i, b)| assert_eq!(**b, [i as u64; 3])));
        });
        drop(cache);
        assert!(!names().contains(&"moved".to_string()));
    };
    each("boxes_move_between_threads_and_go_back_from_there", body, quiet);
}

#[test]
fn a_forgotten_box_keeps_the_cache() {
    let body = || {
        let args = CacheArgs::DEFAULT.no_merge(true);
        let cache = Cache::<[u64; 20]>::with_args("kept", &args).expect("a cache");
        let raw = cache.alloc([5; 20]).expect("memory").into_raw();
        core::mem::forget(cache.alloc([6; 20]).expect("memory"));
        drop(cache);
        // SAFETY: the object was never freed, so its cache stays.
        assert_eq!(unsafe { raw.read() }, [5; 20]);
        assert!(names().contains(&"kept".to_string()));
    };
    each("a_forgotten_box_keeps_the_cache", body, |child| {
        let line = "ashlar: cache kept: destroyed while 2 objects are in use: it stays\n";
        let stderr = child.succeeded().stderr;
        // A debugged cache also lists the objects.
        match stderr.split_once("====") {
            None => assert_eq!(stderr, line),
            Some((first, list)) => assert!(first == line && list.matches("Object 0x").count() == 2, "{stderr}"),
        }
    });
}

#[test]
fn merged_caches_end_one_by_one() {
    let body = || {
        let [one, two] = ["merged-one", "merged-two"].map(|name| Cache::<[u32; 33]>::new(name).expect("a cache"));
        let kept = two.alloc([2; 33]).expect("memory");
        drop(one);
        assert_eq!(*kept, [2; 33]);
        assert!(names().iter().any(|name| name.starts_with("merged-two")));
        drop(kept);
        drop(two);
        assert!(!names().iter().any(|name| name.starts_with("merged-")));
    };
    each("merged_caches_end_one_by_one", body, quiet);
}

#[test]
fn a_cache_may_die_after_what_its_values_borrowed() {
    let cache = Cache::<&str>::new("borrows").expect("a cache");
    let text = String::from("declared after the cache, so it drops first");
    let borrow = cache.alloc(&text).expect("memory");
    assert_eq!(borrow.len(), text.len());
}

/// A value that counts its instances in `EXISTING`.
#[derive(Debug)]
struct Counted(usize);

static EXISTING: AtomicUsize = AtomicUsize::new(0);

impl Counted {
    fn new(value: usize) -> Counted {
        EXISTING.fetch_add(1, Ordering::Relaxed);
        Counted(value)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        EXISTING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the number of live objects of a cache, and of existing values.
fn alive(cache: &Cache<Counted>) -> (usize, usize) {
    (cache.info().usage.live, EXISTING.load(Ordering::Relaxed))
}

#[test]
fn bulk_makes_a_box_for_each_value() {
    let body = || {
        let args = CacheArgs::DEFAULT.no_merge(true);
        let cache = Cache::<Counted>::with_args("counted", &args).expect("a cache");
        for count in (0..100).chain([1000, 5000]) {
            let mut boxes = Vec::new();
            if count % 2 == 0 {
                cache.alloc_bulk((0..count).map(Counted::new), &mut boxes).expect("memory");
            } else {
                // An iterator that does not report its length.
                cache
                    .alloc_bulk((0..).map_while(|i| (i < count).then(|| Counted::new(i))), &mut boxes)
                    .expect("memory");
            }
            assert!(boxes.iter().map(|one| one.0).eq(0..count));
            assert_eq!(alive(&cache), (count, count));
            cache.free_bulk(boxes.drain(count / 2..));
            assert_eq!(alive(&cache), (count / 2, count / 2));
            drop(boxes);
            assert_eq!(alive(&cache), (0, 0));
        }
        let four = cache.alloc_array([1, 2, 3, 4].map(Counted::new)).expect("memory");
        assert_eq!((four.each_ref().map(|one| one.0), alive(&cache)), ([1, 2, 3, 4], (4, 4)));
        cache.free_bulk(four);
        let many = cache.alloc_array(core::array::from_fn::<_, 300, _>(Counted::new)).expect("memory");
        assert!(many.iter().map(|one| one.0).eq(0..300));
        drop(many);
        assert_eq!((cache.alloc_array([]).expect("nothing").len(), alive(&cache)), (0, (0, 0)));
    };
    each("bulk_makes_a_box_for_each_value", body, quiet);
}

/// A collection that takes at most the given number of boxes.
struct UpTo<'c>(usize, Vec<CacheBox<'c, Counted>>);

impl<'c> Extend<CacheBox<'c, Counted>> for UpTo<'c> {
    fn extend<I: IntoIterator<Item = CacheBox<'c, Counted>>>(&mut self, boxes: I) {
        let room = self.0 - self.1.len();
        self.1.extend(boxes.into_iter().take(room));
    }
}

#[test]
fn bulk_loses_nothing_to_panics_and_picky_collections() {
    let body = || {
        let args = CacheArgs::DEFAULT.no_merge(true);
        let cache = Cache::<Counted>::with_args("counted", &args).expect("a cache");
        // The iterator panics in the middle of a chunk: the boxes made before are in the
        // collection.
        let mut boxes = Vec::new();
        let made = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| {
            let values =
                (0..100).map(|i| if i == 70 { std::panic::resume_unwind(Box::new("bang")) } else { Counted::new(i) });
            cache.alloc_bulk(values, &mut boxes)
        }));
        assert!(made.is_err());
        assert_eq!((boxes.len(), alive(&cache)), (70, (70, 70)));
        cache.free_bulk(boxes);
        assert_eq!(alive(&cache), (0, 0));

        // The collection stops early: other values stay in the iterator, other objects are freed.
        for room in [0, 1, 31, 32, 33, 64, 99] {
            let mut picky = UpTo(room, Vec::new());
            let mut values = (0..100).map(Counted::new);
            cache.alloc_bulk(values.by_ref(), &mut picky).expect("memory");
            assert_eq!((picky.1.len(), alive(&cache)), (room, (room, room)));
            assert_eq!(values.len(), 100 - room);
        }

        // A value panics in `drop`: its object is freed all the same.
        let bombs = Cache::<(Bomb, [u64; 9])>::with_args("bombs", &args).expect("a cache");
        let mut boxes = Vec::new();
        bombs.alloc_bulk((0..3).map(|i| (Bomb, [i; 9])), &mut boxes).expect("memory");
        for left in [2, 1, 0] {
            let one = boxes.pop();
            assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| bombs.free_bulk(one))).is_err());
            assert_eq!(bombs.info().usage.live, left);
        }
    };
    each("bulk_loses_nothing_to_panics_and_picky_collections", body, quiet);
}

#[test]
fn bulk_returns_each_box_to_its_own_cache() {
    let body = || {
        let args = CacheArgs::DEFAULT.no_merge(true);
        let [one, two] = ["one", "two"].map(|name| Cache::<Counted>::with_args(name, &args).expect("a cache"));
        let mut boxes = Vec::new();
        for i in 0..500 {
            boxes.push(if i % 3 == 0 { &one } else { &two }.alloc(Counted::new(i)).expect("memory"));
        }
        one.free_bulk(boxes);
        assert_eq!((alive(&one), alive(&two)), ((0, 0), (0, 0)));
    };
    each("bulk_returns_each_box_to_its_own_cache", body, quiet);
}

#[test]
fn bulk_hands_out_constructed_objects() {
    let body = || {
        let cache = Cache::<Twenty>::constructed("twenty").expect("a cache");
        let mut boxes = Vec::new();
        for count in [0, 1, 31, 32, 33, 1000] {
            cache.get_bulk(count, &mut boxes).expect("memory");
            assert_eq!((boxes.len(), cache.info().usage.live), (count, count));
            assert!(boxes.iter().all(|one| one.0 == [20; 20]));
            cache.free_bulk(boxes.drain(..));
            assert_eq!(cache.info().usage.live, 0);
        }
        // Without a constructor of the cache, `get_bulk` constructs each object, as `get` does.
        let plain = Cache::<Twenty>::new("plain").expect("a cache");
        let mut boxes = Vec::new();
        plain.get_bulk(100, &mut boxes).expect("memory");
        assert!(boxes.len() == 100 && boxes.iter().all(|one| one.0 == [20; 20]));
    };
    each("bulk_hands_out_constructed_objects", body, quiet);
}

#[test]
#[expect(clippy::mutable_key_type, reason = "the order of boxes is that of their values")]
fn a_box_shows_and_compares_as_its_value() {
    let cache = Cache::<String>::new("shown").expect("a cache");
    let [mut one, two] = cache.alloc_array(["one", "two"].map(String::from)).expect("memory");
    assert_eq!((format!("{one}-{two:>5}"), format!("{one:?}")), ("one-  two".into(), "\"one\"".into()));
    assert_eq!(format!("{one:p}"), format!("{:p}", &raw const *one));
    assert!(one < two && one != two && one.cmp(&two).is_lt());
    let by_name = std::collections::BTreeMap::from([(cache.alloc("key".into()).expect("memory"), 5)]);
    assert_eq!(by_name.get(&String::from("key")), Some(&5));
    AsMut::<String>::as_mut(&mut one).push('!');
    assert_eq!(AsRef::<String>::as_ref(&one), "one!");
    let set = std::collections::HashSet::from([one, two]);
    assert!(set.contains(&String::from("one!")) && !set.contains(&String::from("one")));
}

static TWENTIES: LazyCache<Twenty> = LazyCache::constructed("lazy-twenties");
static TEXTS: LazyCache<String> = LazyCache::with_args("lazy-texts", CacheArgs::DEFAULT.no_merge(true));

#[test]
fn a_static_cache_is_created_by_its_first_use() {
    let body = || {
        assert!(format!("{TEXTS:?}").contains("created: false"));
        assert!(!names().contains(&"lazy-texts".to_string()));
        let start = Barrier::new(4);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    for round in 0..200 {
                        let text = TEXTS.alloc(format!("{thread} {round}")).expect("memory");
                        let twenty = TWENTIES.get().expect("memory");
                        assert!(**text == format!("{thread} {round}") && twenty.0 == [20; 20]);
                    }
                });
            }
        });
        // All threads used the same cache, whichever thread created it.
        let lazy: Vec<String> = names().into_iter().filter(|name| name.starts_with("lazy-")).collect();
        assert_eq!(lazy, ["lazy-texts", "lazy-twenties"]);
        assert!(core::ptr::eq(TEXTS.cache().expect("there"), TEXTS.cache().expect("there")));
        assert_eq!(TEXTS.cache().expect("there").info().usage.live, 0);
    };
    each("a_static_cache_is_created_by_its_first_use", body, quiet);
}

#[test]
fn a_lazy_cache_that_drops_is_gone() {
    let body = || {
        drop(LazyCache::<[u64; 20]>::new("lazy"));
        assert!(!names().contains(&"lazy".to_string()));
        for _ in 0..100 {
            let lazy = LazyCache::<[u64; 20]>::new("lazy");
            assert_eq!(*lazy.alloc([7; 20]).expect("memory"), [7; 20]);
            drop(lazy);
            assert!(!names().iter().any(|name| name.starts_with("lazy")));
        }
        // If the cache cannot be created, `alloc` returns the value, and `cache` returns the
        // reason.
        let nameless = LazyCache::<u64>::new("");
        assert_eq!(nameless.alloc(5).err(), Some(5));
        assert_eq!(nameless.cache().err(), Some(ashlar::CreateError::Name));
    };
    each("a_lazy_cache_that_drops_is_gone", body, quiet);
}
