//! The engine `slab24` from near: what SLAB of 2.6.24 has and that of 6.1 has not. What both have
//! is in tests/slab.rs.

mod common;

use core::ptr::NonNull;
use std::collections::BTreeMap;

use ashlar::{CacheArgs, Engine, IndexArray, KmemCache, QueueInfo, QueueTunables};
use common::{Rng, check, child, cpus, fill, pin, tell};

const ARGS: CacheArgs = CacheArgs::DEFAULT.engine(Engine::Slab24).no_merge(true);
/// Each free reaches its slab after one more.
const SHORT: QueueTunables = QueueTunables { limit: 1, batchcount: 1, shared: 0 };

fn create(name: &str, size: usize, args: CacheArgs) -> KmemCache {
    KmemCache::create(name, size, &args).expect("a cache")
}

fn queues(cache: &KmemCache) -> QueueInfo {
    cache.info().queues.expect("a cache of SLAB has queues")
}

fn alloc(cache: &KmemCache, count: usize) -> Vec<NonNull<u8>> {
    (0..count).map(|_| cache.alloc().expect("memory")).collect()
}

fn free(cache: &KmemCache, objects: impl IntoIterator<Item = NonNull<u8>>) {
    // SAFETY: live, each freed once: the callers pass them on.
    objects.into_iter().for_each(|object| unsafe { cache.free(object) });
}

fn end(cache: KmemCache) {
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

/// Sorts objects by their slab, of one page.
fn by_page(objects: Vec<NonNull<u8>>) -> Vec<Vec<NonNull<u8>>> {
    let mut pages = BTreeMap::<usize, Vec<NonNull<u8>>>::new();
    for object in objects {
        pages.entry(object.as_ptr() as usize & !(ashlar::PAGE_SIZE - 1)).or_default().push(object);
    }
    pages.into_values().collect()
}

#[test]
fn size_classes_begin_at_32_and_have_no_96() {
    let test = "size_classes_begin_at_32_and_have_no_96";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "engine=slab24")], || {
        for (size, class) in [
            (1, 32),
            (8, 32),
            (9, 32),
            (32, 32),
            (33, 64),
            (65, 128),
            (96, 128),
            (97, 128),
            (129, 192),
            (193, 256),
            (4097, 8192),
            (8193, 16_384),
            (65_536, 65_536),
            (65_537, 65_536 + ashlar::PAGE_SIZE),
        ] {
            // Only kernels with pages of 4 KiB have the class of 32.
            let class = if ashlar::PAGE_SIZE > 4096 { class.max(64) } else { class };
            let object = ashlar::kmalloc(size);
            assert_eq!(ashlar::kmalloc_size_roundup(size), class, "size {size}");
            // SAFETY: live, and freed once.
            unsafe {
                assert_eq!(ashlar::ksize(object), class, "size {size}");
                ashlar::kfree(object);
            }
        }
        let mut names = String::new();
        ashlar::for_each_cache(|info| names += &format!("{} ", info.name()));
        tell("names", names);
    });
    let Some(child) = outcome else { return };
    let child = child.succeeded();
    let names: Vec<_> =
        child.told("names").split_whitespace().filter_map(|name| name.strip_prefix("kmalloc-")).collect();
    let expected = ["32", "64", "128", "192", "256", "512", "1k", "2k", "4k", "8k", "16k", "32k", "64k"];
    // Only kernels with pages of 4 KiB have the first.
    assert_eq!(names, expected[usize::from(ashlar::PAGE_SIZE > 4096)..]);
}

#[test]
#[cfg_attr(any(feature = "page-16k", feature = "page-64k"), ignore = "a table for pages of 4 KiB")]
fn descriptors_lie_off_the_slab_from_an_eighth_of_a_page_on() {
    for (size, per_slab, array) in [
        (8, 337, IndexArray::ChainOnSlab),
        (64, 59, IndexArray::ChainOnSlab),
        (504, 7, IndexArray::ChainOnSlab),
        (512, 8, IndexArray::ChainOffSlab),
        (4096, 1, IndexArray::ChainOffSlab),
        (65_536, 1, IndexArray::ChainOffSlab),
    ] {
        let cache = create("slab24-places", size, ARGS);
        assert_eq!((cache.info().objects_per_slab, queues(&cache).array), (per_slab, array), "size {size}");
        let mut rng = Rng::new(size as u64);
        let mut live: Vec<NonNull<u8>> = Vec::new();
        for round in 0..if size > 4096 { 500 } else { 20_000u64 } {
            if live.is_empty() || rng.below(100) < if round / 2000 % 2 == 0 { 60 } else { 40 } {
                let object = cache.alloc().expect("memory");
                // SAFETY: `size` bytes of ours.
                unsafe { fill(object.as_ptr(), size, object.as_ptr() as u64) };
                live.push(object);
            } else {
                let object = live.swap_remove(rng.below(live.len()));
                // SAFETY: live, and freed once.
                unsafe {
                    check(object.as_ptr(), size, size, object.as_ptr() as u64);
                    cache.free(object);
                }
            }
        }
        assert_eq!(cache.info().usage.live, live.len());
        // SAFETY: live.
        live.iter().for_each(|o| unsafe { check(o.as_ptr(), size, size, o.as_ptr() as u64) });
        free(&cache, live);
        end(cache);
    }
}

/// Later kernels give back the oldest free slabs as soon as a node has more free objects than its
/// limit.
#[test]
fn above_the_limit_the_slab_goes_that_a_free_empties() {
    let cache = create("slab24-limit", 64, ARGS);
    cache.set_queue_tunables(&SHORT).expect("in range");
    assert!(pin(cpus()[0]), "a thread may run on its CPU");
    let slab = cache.info().objects_per_slab;
    let mut pages = by_page(alloc(&cache, slab * 4));
    assert_eq!((pages.len(), cache.info().usage.slabs), (4, 4));
    let limit = queues(&cache).free_limit;
    assert!((slab..slab + slab).contains(&limit), "a slab and a batch for each CPU: {limit}");
    free(&cache, pages.remove(0));
    let mut rest = pages.remove(0);
    // The array keeps one object. One slab is free, and the next one has free objects above the
    // limit.
    free(&cache, rest.drain(..slab - 9));
    assert_eq!((queues(&cache).free_slabs, cache.info().usage.slabs), (1, 4));
    free(&cache, rest);
    free(&cache, pages[0].drain(..1));
    assert_eq!((queues(&cache).free_slabs, cache.info().usage.slabs), (1, 3), "the second slab, and not the first");
    pages.into_iter().for_each(|page| free(&cache, page));
    end(cache);
}

/// A refill in vain, one for the colour, one to enter the slab, and the refill again. Later kernels
/// take the objects while they enter the slab.
#[test]
fn a_new_slab_takes_list_lock_four_times() {
    assert!(pin(cpus()[0]), "a thread may run on its CPU");
    // A zone that grows would take a lock too, as it looks for memory in the caches first.
    let room = ashlar::kmalloc(16 << 20);
    // SAFETY: live, and freed once.
    unsafe { ashlar::kfree(room) };
    for (engine, locks) in [(Engine::Slab24, 4), (Engine::Slab, 3)] {
        let cache = create("slab24-grow", 2 * ashlar::PAGE_SIZE, ARGS.engine(engine));
        free(&cache, alloc(&cache, 1));
        cache.shrink();
        let before = cache.info().counts.list_locks;
        let looks = cache.info().counts.list_locks - before;
        let live = alloc(&cache, 100);
        let taken = cache.info().counts.list_locks - before - 2 * looks;
        assert_eq!(taken, locks * 100, "{engine:?}");
        free(&cache, live);
        end(cache);
    }
}

/// With several nodes a free reads the number of the node from the slab's descriptor, at its byte
/// 40. With one it does not, since 2.6.22.
#[test]
fn frees_read_the_node_from_the_descriptor() {
    let test = "frees_read_the_node_from_the_descriptor";
    for (nodes, reads) in [(1, false), (2, true), (4, true)] {
        for mode in ["rseq", "lock"] {
            let options = format!("on_error=quarantine,reaper=off,nodes={nodes},percpu={mode}");
            let outcome = child(test, &options, &[("ASHLAR_OPTIONS", &options)], || {
                let cache = create("slab24-node", 64, ARGS);
                let live = alloc(&cache, 20);
                let slab = live[0].as_ptr().map_addr(|address| address & !(ashlar::PAGE_SIZE - 1));
                tell("slab", format_args!("{slab:p}"));
                // SAFETY: violated on purpose: the descriptor is the engine's.
                let node = unsafe { slab.add(40).cast::<u32>().replace(7) };
                assert_eq!(Some(node as u8), ashlar::node_of(slab).map(|node| node.0));
                free(&cache, [live[0]]);
                // SAFETY: as it was.
                unsafe { slab.add(40).cast::<u32>().write(node) };
                free(&cache, live.into_iter().skip(1));
                end(cache);
            });
            let Some(child) = outcome else { continue };
            let child = child.succeeded();
            let slab = child.told("slab");
            let line = format!("ashlar: cache slab24-node: freelist of the slab at {slab} is corrupt\n");
            assert_eq!(child.stderr, if reads { &*line } else { "" }, "{options}");
        }
    }
}

/// The entry of an object in use says so.
#[test]
fn double_frees_are_reported_when_they_reach_the_slab() {
    let test = "double_frees_are_reported_when_they_reach_the_slab";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "on_error=quarantine,reaper=off,nodes=1")], || {
        let cache = create("slab24-twice", 8, ARGS);
        let live = alloc(&cache, 300);
        tell("object", format_args!("{:p}", live[0]));
        free(&cache, live[..250].iter().copied());
        cache.shrink();
        free(&cache, [live[0]]);
        cache.shrink();
        assert_eq!(cache.info().usage.live, 50);
        free(&cache, live.into_iter().skip(250));
        end(cache);
    });
    let Some(child) = outcome else { return };
    let child = child.succeeded();
    assert!(child.stderr.contains("slab24-twice") && child.stderr.contains(child.told("object")), "{}", child.stderr);
}

/// An overflow out of the slab before reaches the chain first.
#[test]
fn a_write_to_the_chain_is_reported_and_not_followed() {
    let test = "a_write_to_the_chain_is_reported_and_not_followed";
    let outcome = child(test, test, &[("ASHLAR_OPTIONS", "on_error=quarantine,reaper=off,nodes=1")], || {
        let cache = create("slab24-written", 64, ARGS);
        cache.set_queue_tunables(&SHORT).expect("in range");
        let live = alloc(&cache, 10);
        let slab = live[0].as_ptr().map_addr(|address| address & !(ashlar::PAGE_SIZE - 1));
        tell("slab", format_args!("{slab:p}"));
        // SAFETY: violated on purpose: the descriptor is the engine's. Only free objects are there.
        unsafe { slab.add(36).write_bytes(0x41, 12) };
        let more = alloc(&cache, 200);
        let other = |object: &NonNull<u8>| object.as_ptr() as usize & !(ashlar::PAGE_SIZE - 1) != slab as usize;
        assert!(more.iter().all(other), "the slab stays as it is");
        free(&cache, live);
        free(&cache, more);
        cache.shrink();
        assert!(alloc(&cache, 200).iter().all(other));
    });
    let Some(child) = outcome else { return };
    let child = child.succeeded();
    let slab = child.told("slab");
    let line = format!("ashlar: cache slab24-written: freelist of the slab at {slab} is corrupt\n");
    assert_eq!(child.stderr, line);
}
