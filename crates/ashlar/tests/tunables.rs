//! Tunables: changed while threads hammer the cache, no object is lost and none handed out twice,
//! and afterwards the new limit holds; what is out of range is refused by name.

mod common;

use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::HashSet;
use std::sync::Mutex;

use ashlar::{CacheArgs, CreateError, Engine, KmemCache, Tunable, TuneError};
use common::{Rng, child};

const SIZE: usize = 200;
const THREADS: u64 = 8;

fn create(engine: Engine) -> KmemCache {
    KmemCache::create("tuned", SIZE, &CacheArgs::DEFAULT.engine(engine).no_merge(true)).expect("a cache")
}

/// The owner of each address: an object that is handed out twice is seen at once.
struct Owners([Mutex<HashSet<usize>>; 16]);

impl Owners {
    fn of(&self, object: NonNull<u8>) -> &Mutex<HashSet<usize>> {
        &self.0[object.as_ptr().addr() / SIZE % self.0.len()]
    }

    fn take(&self, object: NonNull<u8>) {
        assert!(self.of(object).lock().unwrap().insert(object.as_ptr().addr()), "handed out twice: {object:?}");
    }

    fn give(&self, object: NonNull<u8>) {
        assert!(self.of(object).lock().unwrap().remove(&object.as_ptr().addr()), "nobody had {object:?}");
    }
}

/// Allocates and frees, one by one and in bulk, until told to stop.
fn hammer(cache: &KmemCache, owners: &Owners, seed: u64, stop: &AtomicBool) {
    let mut rng = Rng::new(seed);
    let mut mine: Vec<NonNull<u8>> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let before = mine.len();
        if rng.below(4) == 0 {
            let mut bulk = [core::ptr::null_mut(); 40];
            assert!(cache.alloc_bulk(&mut bulk));
            mine.extend(bulk.iter().map(|&object| NonNull::new(object).expect("filled")));
        } else {
            mine.extend((0..rng.below(60)).map(|_| cache.alloc().expect("memory")));
        }
        for &object in &mine[before..] {
            owners.take(object);
            // SAFETY: a fresh object of `SIZE` bytes.
            unsafe { common::fill(object.as_ptr(), SIZE, seed) };
        }
        while mine.len() > 300 || (!mine.is_empty() && rng.below(40) != 0) {
            let object = mine.swap_remove(rng.below(mine.len()));
            owners.give(object);
            // SAFETY: live, and freed once by this thread.
            unsafe {
                common::check(object.as_ptr(), SIZE, SIZE, seed);
                cache.free(object);
            }
        }
    }
    for object in mine {
        owners.give(object);
        // SAFETY: as above.
        unsafe { cache.free(object) };
    }
}

/// Values to go through, small and large, in range.
fn values(which: Tunable) -> &'static [usize] {
    match which {
        Tunable::CpuPartial => &[0, 1, 500, 13],
        Tunable::MinPartial => &[0, 50, 3],
        Tunable::SheafCapacity => &[1, 254, 0, 60, 7],
        Tunable::RemoteNodeDefragRatio => &[0, 100, 35],
        Tunable::Limit => &[1, 8192, 30],
        Tunable::BatchCount => &[1, 20, 5],
        _ => &[0, 64, 3],
    }
}

fn tuned_under_load() {
    for &engine in Engine::ALL {
        let has: Vec<Tunable> = Tunable::ALL.into_iter().filter(|which| which.is_of(engine)).collect();
        if has.is_empty() {
            continue;
        }
        let cache = create(engine);
        let owners = Owners(core::array::from_fn(|_| Mutex::default()));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (cache, owners, stop) = (&cache, &owners, &stop);
                scope.spawn(move || hammer(cache, owners, thread + 1, stop));
            }
            let mut rng = Rng::new(99);
            for _ in 0..120 {
                let which = has[rng.below(has.len())];
                let value = values(which)[rng.below(values(which).len())];
                // The one dependency: a batch may not be larger than the limit.
                if which == Tunable::BatchCount && value > cache.tunable(Tunable::Limit).expect("slab has it") {
                    continue;
                }
                cache.set_tunable(which, value).expect("in range");
                assert_eq!(cache.tunable(which), Some(value));
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        assert!(owners.0.iter().all(|part| part.lock().unwrap().is_empty()));
        assert_eq!(cache.info().usage.live, 0, "{}: objects were lost", engine.id());
        limits_hold(&cache);
        assert!(cache.shrink(), "{}: {:?}", engine.id(), cache.info().usage);
        cache.destroy().map_err(|(_, error)| error).expect("empty");
    }
}

/// Allocates and frees on this CPU alone; then what stays is what the limits say.
fn limits_hold(cache: &KmemCache) {
    let cpu = common::cpus()[0];
    common::pin(cpu);
    let nodes = ashlar::nodes();
    let churn = |count: usize| {
        let objects: Vec<_> = (0..count).map(|_| cache.alloc().expect("memory")).collect();
        // SAFETY: live, each freed once.
        objects.into_iter().for_each(|object| unsafe { cache.free(object) });
        cache.info()
    };
    let set = |which, value| cache.set_tunable(which, value).expect("in range");
    let per_slab = cache.info().objects_per_slab;
    if cache.tunable(Tunable::SheafCapacity).is_some() {
        for capacity in [254, 1, 9] {
            set(Tunable::SheafCapacity, capacity);
            assert_eq!(cache.info().usage.cached, 0, "sheaves of the old capacity are gone");
            // Objects that fit the two sheaves of a CPU are all cached after; more go to slabs
            // where there is no barn.
            let before = cache.info().slow.sheaf_refill;
            let live: Vec<_> = (0..4 * capacity).map(|_| cache.alloc().expect("memory")).collect();
            assert_eq!(cache.info().slow.sheaf_refill - before, 4, "a refill is a sheaf of {capacity}");
            // SAFETY: live, each freed once.
            live.into_iter().for_each(|object| unsafe { cache.free(object) });
            assert_eq!(cache.info().usage.live, 0);
        }
        set(Tunable::SheafCapacity, 0);
        assert_eq!(churn(500).usage.cached, 0, "no sheaves");
    }
    if cache.tunable(Tunable::CpuPartial).is_some() {
        // With one node, all that is free on CPUs is the CPU's slab and its partial slabs.
        for objects in [0, 40, 400] {
            set(Tunable::CpuPartial, objects);
            let cached = churn(3000).usage.cached;
            // Counted when a slab comes: the last one may be free by now, and there is the CPU's
            // own.
            let slabs = objects / per_slab.min(objects.max(1)) + 2;
            assert!(cached <= slabs.max(objects + 2) * per_slab, "cpu_partial {objects}: {cached} free on CPUs");
            assert!(objects != 0 || cached <= per_slab, "no partial slabs: {cached} free on CPUs");
        }
    }
    if cache.tunable(Tunable::MinPartial).is_some() && !cache.engine().id().starts_with("slub") {
        for slabs in [20, 2, 0] {
            set(Tunable::MinPartial, slabs);
            let usage = churn(30 * per_slab).usage;
            assert!(usage.slabs <= (slabs + 1) * nodes, "min_partial {slabs}: {usage:?}");
            assert!(slabs < 20 || usage.slabs >= 20, "min_partial {slabs}: {usage:?}");
        }
    }
    if cache.tunable(Tunable::Limit).is_some() {
        for (limit, batchcount, shared) in [(100, 50, 2), (4, 2, 1), (1, 1, 0)] {
            set(Tunable::Limit, limit);
            set(Tunable::BatchCount, batchcount);
            set(Tunable::Shared, shared);
            let aliens = if nodes > 1 { 12 * nodes * nodes } else { 0 };
            let cached = churn(2000).usage.cached;
            let cpus = common::cpus().len();
            assert!(cached <= limit * cpus + batchcount * shared * nodes + aliens, "{limit}: {cached} objects cached");
        }
    }
}

macro_rules! in_modes {
    ($($name:ident: $options:literal, $body:expr;)*) => {
        $(#[test] fn $name() {
            if let Some(child) = child(stringify!($name), "run", &[("ASHLAR_OPTIONS", $options)], $body) {
                child.succeeded();
            }
        })*
    };
}

in_modes! {
    changed_under_load_by_rseq: "", tuned_under_load;
    changed_under_load_by_locks: "percpu=lock", tuned_under_load;
    changed_under_load_on_four_nodes: "nodes=4", tuned_under_load;
    values_out_of_range_are_refused_by_name: "", refused;
    options_are_defaults: "limit=9,batchcount=30,shared=2,remote_node_defrag_ratio=40,cpu_partial=77,min_partial=6",
        defaults;
    partial_slabs_of_other_nodes_are_taken_by_the_ratio: "nodes=2,sheaf=0,min_partial=0", ratio;
}

fn refused() {
    for &engine in Engine::ALL {
        let cache = create(engine);
        for which in Tunable::ALL {
            let before = cache.tunable(which);
            let (low, high) = which.range();
            let mut wrong = vec![high + 1, usize::MAX];
            wrong.extend(low.checked_sub(1));
            for value in wrong {
                let error = cache.set_tunable(which, value).expect_err("out of range");
                let says = error.to_string();
                assert!(says.contains(which.name()), "{says}");
                if which.is_of(engine) {
                    assert_eq!((error, says.as_str()), (TuneError::Range(which.expected()), which.expected()));
                } else {
                    assert!(matches!(error, TuneError::Engine(_)) && before.is_none(), "{}: {says}", engine.id());
                    assert!(says.contains("engine"), "{says}");
                }
            }
            assert_eq!(cache.tunable(which), before);
        }
        cache.destroy().map_err(|(_, error)| error).expect("empty");
    }
    let args = CacheArgs::DEFAULT;
    for (args, which) in [
        (args.min_partial((1 << 20) + 1), Tunable::MinPartial),
        (args.cpu_partial((1 << 20) + 1), Tunable::CpuPartial),
        (args.remote_node_defrag_ratio(101), Tunable::RemoteNodeDefragRatio),
    ] {
        let error = KmemCache::create("refused", SIZE, &args).expect_err("out of range");
        assert_eq!(error, CreateError::Option(which.expected()));
    }
    // Below what moves at a time: that follows.
    let slab = create(Engine::Slab);
    slab.set_tunable(Tunable::Limit, 2).expect("in range");
    assert_eq!(slab.tunable(Tunable::BatchCount), Some(2));
    assert_eq!(slab.set_tunable(Tunable::BatchCount, 3), Err(TuneError::Range(Tunable::BatchCount.expected())));
    slab.destroy().map_err(|(_, error)| error).expect("empty");
}

fn defaults() {
    let value = |engine: &str, which| {
        let cache = create(Engine::from_id(engine).expect("an engine"));
        let value = cache.tunable(which);
        cache.destroy().map_err(|(_, error)| error).expect("empty");
        value
    };
    // A batch is at most the limit.
    assert_eq!(value("slab", Tunable::Limit), Some(9));
    assert_eq!(value("slab", Tunable::BatchCount), Some(9));
    assert_eq!(value("slab", Tunable::Shared), Some(2));
    assert_eq!(value("slub-bulk", Tunable::CpuPartial), Some(77));
    assert_eq!(value("ashlar", Tunable::CpuPartial), None);
    assert_eq!(value("ashlar", Tunable::RemoteNodeDefragRatio), Some(40));
    assert_eq!(value("slub", Tunable::MinPartial), Some(6));
    let args = CacheArgs::DEFAULT.cpu_partial(256).min_partial(9);
    let mut args = args;
    args.engine = Engine::from_id("slub-bulk");
    let cache = KmemCache::create("seed", 256, &args).expect("a cache");
    assert_eq!((cache.tunable(Tunable::CpuPartial), cache.tunable(Tunable::MinPartial)), (Some(256), Some(9)));
    cache.destroy().map_err(|(_, error)| error).expect("empty");
}

/// With half-used slabs on the other node: of many allocations that find none on their own, as many
/// as the ratio says look there.
fn ratio() {
    for engine in ["ashlar", "slub-ll"] {
        let cache = create(Engine::from_id(engine).expect("an engine"));
        let per_slab = cache.info().objects_per_slab;
        common::pin(common::cpus()[0]);
        for (ratio, looks) in [(0, false), (100, true)] {
            cache.set_tunable(Tunable::RemoteNodeDefragRatio, ratio).expect("in range");
            let far: Vec<_> = (0..4 * per_slab).map(|_| cache.alloc_on(ashlar::NodeId(1)).expect("memory")).collect();
            let far2: Vec<_> = (0..4 * per_slab).map(|_| cache.alloc_on(ashlar::NodeId(0)).expect("memory")).collect();
            let nodes = [&far, &far2].map(|list| ashlar::node_of(list[0].as_ptr()));
            assert_ne!(nodes[0], nodes[1], "{engine}");
            // Whichever is the other node: three of its four slabs are half free.
            let here = cache.alloc().and_then(|object| {
                let node = ashlar::node_of(object.as_ptr());
                // SAFETY: live, freed once.
                unsafe { cache.free(object) };
                node
            });
            let (other, own) = if nodes[0] == here { (far2, far) } else { (far, far2) };
            let slabs = cache.info().usage.slabs;
            let (keep, free): (Vec<_>, Vec<_>) = other.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
            // SAFETY: live, each freed once.
            free.iter().for_each(|(_, object)| unsafe { cache.free(*object) });
            let more: Vec<_> = (0..3 * per_slab).map(|_| cache.alloc().expect("memory")).collect();
            let far_away = more.iter().filter(|object| ashlar::node_of(object.as_ptr()) != here).count();
            assert_eq!(far_away > 0, looks, "{engine}, ratio {ratio}: {far_away} from there, {slabs} slabs before");
            for object in more.into_iter().chain(keep.into_iter().map(|(_, object)| object)).chain(own) {
                // SAFETY: live, each freed once.
                unsafe { cache.free(object) };
            }
            cache.shrink();
        }
        cache.destroy().map_err(|(_, error)| error).expect("empty");
    }
}
