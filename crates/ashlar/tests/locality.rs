//! Locality: objects allocated one after the other lie side by side, in whatever order those before
//! them were freed.

mod common;

use core::ptr::NonNull;

use ashlar::{CacheArgs, KmemCache};
use common::{child, cpus, of_cache, pin};

const SIZE: usize = 64;
const OBJECTS: usize = 20_000;
const PAGE: usize = ashlar::PAGE_SIZE;

/// A shuffle that is the same in every run.
fn shuffle(objects: &mut [*mut u8]) {
    let mut seed = 1u64;
    for last in (1..objects.len()).rev() {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        objects.swap(last, (seed >> 33) as usize % (last + 1));
    }
}

/// How many of the objects lie in another page than the one before.
fn changes_of_page(objects: &[*mut u8]) -> usize {
    objects.windows(2).filter(|pair| pair[0] as usize / PAGE != pair[1] as usize / PAGE).count()
}

/// How many of the objects lie before the one before, in the same page.
fn steps_back(objects: &[*mut u8]) -> usize {
    objects.windows(2).filter(|pair| pair[0] as usize / PAGE == pair[1] as usize / PAGE && pair[0] > pair[1]).count()
}

fn allocate(cache: &KmemCache) -> Vec<*mut u8> {
    (0..OBJECTS).map(|_| cache.alloc().map(NonNull::as_ptr).expect("memory")).collect()
}

fn free(cache: &KmemCache, objects: &[*mut u8]) {
    for &object in objects {
        // SAFETY: live, and freed once: the caller passes it on.
        unsafe { cache.free(NonNull::new(object).expect("an object")) };
    }
}

/// Runs `body` with a cache, on the first of the CPUs that it is told of.
fn in_each_mode(test: &str, body: fn(&KmemCache, &[usize])) {
    for percpu in ["auto", "lock"] {
        let options = format!("percpu={percpu},reaper=off");
        let outcome = child(test, &format!("{test} {percpu}"), &[("ASHLAR_OPTIONS", &options)], || {
            let cpus = cpus();
            pin(cpus[0]);
            let args = CacheArgs::DEFAULT.no_merge(true);
            body(&KmemCache::create("locality", SIZE, &args).expect("a cache"), &cpus);
        });
        if let Some(child) = outcome {
            child.succeeded();
        }
    }
}

#[test]
fn order_comes_back_after_frees_in_any_order() {
    in_each_mode("order_comes_back_after_frees_in_any_order", |cache, _| {
        let in_order = OBJECTS * SIZE / PAGE;
        // On the CPU's two sheaves and in the barn objects stay as they were freed.
        let scattered = 6 * cache.info().sheaf_capacity;
        let mut objects = allocate(cache);
        for round in 0..5 {
            let found = changes_of_page(&objects);
            let most = 2 * in_order + scattered;
            assert!(found <= most, "round {round}: {found} changes of page, {in_order} in perfect order");
            let back = steps_back(&objects);
            assert!(back <= scattered, "round {round}: {back} objects lie before the one before");
            shuffle(&mut objects);
            assert!(changes_of_page(&objects) > OBJECTS * 9 / 10, "the frees of this test are in no order");
            free(cache, &objects);
            objects = allocate(cache);
        }
        free(cache, &objects);
    });
}

#[test]
fn neighbours_go_through_the_barn_without_a_visit_to_their_slabs() {
    in_each_mode("neighbours_go_through_the_barn_without_a_visit_to_their_slabs", |cache, _| {
        let objects = allocate(cache);
        free(cache, &objects);
        let looks = cache.info().counts.list_locks;
        let before = cache.info();
        for round in 0..3 {
            let mut objects = allocate(cache);
            if round == 1 {
                objects.reverse();
            }
            free(cache, &objects);
        }
        let after = cache.info();
        assert!(after.barn.put > before.barn.put + 100, "{:?}", after.barn);
        assert_eq!(after.barn.put_fail, before.barn.put_fail);
        // `info` itself takes the list_locks, each time equally often.
        assert_eq!(after.counts.list_locks - before.counts.list_locks, before.counts.list_locks - looks);
    });
}

/// What a program frees and allocates again at once is hot wherever it lies: the barn holds some of
/// it.
#[test]
fn a_few_scattered_sheaves_stay_in_the_barn() {
    in_each_mode("a_few_scattered_sheaves_stay_in_the_barn", |cache, _| {
        let mut objects = allocate(cache);
        shuffle(&mut objects);
        let few = objects.split_off(OBJECTS - 4 * cache.info().sheaf_capacity);
        free(cache, &few);
        assert_eq!(cache.info().barn.put_fail, 0);
        free(cache, &objects);
        assert!(cache.info().barn.put_fail > 0);
    });
}

#[test]
fn a_cpu_that_opens_a_slab_begins_with_it_and_not_with_the_rest_of_anothers() {
    if cpus().len() < 2 {
        eprintln!("SKIPPED: one CPU");
        return;
    }
    in_each_mode("a_cpu_that_opens_a_slab_begins_with_it_and_not_with_the_rest_of_anothers", |_, cpus| {
        // A slab of 256, of which a sheaf takes 254.
        let args = CacheArgs::DEFAULT.no_merge(true);
        let cache = KmemCache::create("rest", 16, &args).expect("a cache");
        let one = cache.alloc().expect("memory");
        pin(cpus[1]);
        let others: Vec<_> = (0..254).map(|_| cache.alloc().expect("memory")).collect();
        let page = |object: NonNull<u8>| object.addr().get() / PAGE;
        let (fresh, rest) = others.split_at(252);
        assert!(fresh.iter().all(|&other| page(other) != page(one)), "begins with its own slab");
        assert!(rest.iter().all(|&other| page(other) == page(one)), "ends with the rest");
    });
}

/// A class of malloc with one object in use has one slab, and a large one is filled by whole
/// sheaves nevertheless.
#[test]
fn malloc_takes_few_slabs_for_few_objects_and_whole_sheaves_for_many() {
    let outcome = child("malloc_takes_few_slabs_for_few_objects_and_whole_sheaves_for_many", "share", &[], || {
        let first = ashlar::malloc::malloc(128);
        assert!(!first.is_null());
        let slabs = of_cache("malloc-128", |info| info.usage.slabs);
        assert!(slabs <= cpus().len(), "{slabs} slabs for an object");
        let held: Vec<*mut u8> = (0..OBJECTS).map(|_| ashlar::malloc::malloc(128)).collect();
        assert!(held.iter().all(|object| !object.is_null()));
        let refills = of_cache("malloc-128", |info| info.slow.sheaf_refill) as usize;
        // 79 sheaves of 254, and some more on the way up.
        assert!((79..160).contains(&refills), "{refills} refills for {OBJECTS} objects");
    });
    if let Some(child) = outcome {
        child.succeeded();
    }
}
