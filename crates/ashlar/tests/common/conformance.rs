//! The conformance suite for every mode: the properties that a program relies on, however the
//! allocator protects its sheaves.

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use std::sync::mpsc;

use ashlar::{Ashlar, Cache, CacheArgs, Constructor, CreateError, DestroyError, KmemCache};

use super::{Rng, check, cpus, fill, pin};

/// Largest object. Without an operating system a larger one would need its own mapping.
const LARGEST: usize = if cfg!(feature = "os") { 1 << 30 } else { 32 << 20 };

/// Runs the whole suite.
pub(crate) fn run() {
    every_size_keeps_its_bytes();
    zeroed_memory_is_zero_after_use();
    array_overflow_is_refused();
    realloc_keeps_the_common_bytes();
    bulk_is_all_distinct();
    constructed_objects_stay_constructed();
    bad_caches_are_refused();
    destroy_refuses_live_objects();
    typed_boxes_drop_their_values();
    layouts_are_honoured();
    objects_cross_threads_and_cpus();
    super::model::quick(6);
}

/// Returns the engine of the process, which a cache that does not choose one gets.
pub(crate) fn engine() -> &'static str {
    let cache = KmemCache::create("conform-engine", 64, &CacheArgs::default()).expect("cache");
    let id = cache.engine().id();
    cache.destroy().map_err(|(_, e)| e).expect("empty");
    id
}

fn every_size_keeps_its_bytes() {
    for size in (1..130).chain([192, 193, 1000, 1024, 4096, 8191, 8192, 8193, 100_000, 5 << 20, 33 << 20]) {
        if size > LARGEST {
            continue;
        }
        let count = if size > 9000 { 3 } else { 300 };
        let live: Vec<*mut u8> = (0..count).map(|_| ashlar::kmalloc(size)).collect();
        for (i, &at) in live.iter().enumerate() {
            assert!(!at.is_null());
            // SAFETY: `size` fresh bytes.
            unsafe { fill(at, size, i as u64) };
        }
        for (i, &at) in live.iter().enumerate() {
            // SAFETY: live, and freed once.
            unsafe {
                check(at, size, size, i as u64);
                assert!(ashlar::ksize(at) >= size);
                ashlar::kfree(at);
            }
        }
    }
    assert_eq!(ashlar::kmalloc(0), ashlar::ZERO_SIZE_PTR);
    assert!(ashlar::kmalloc(usize::MAX).is_null());
    // SAFETY: both are ignored by contract.
    unsafe {
        ashlar::kfree(ashlar::ZERO_SIZE_PTR);
        ashlar::kfree(core::ptr::null_mut());
        ashlar::kfree_sized(ashlar::ZERO_SIZE_PTR, 0);
        assert_eq!(ashlar::ksize(core::ptr::null()), 0);
    }
}

fn zeroed_memory_is_zero_after_use() {
    for size in [8, 100, 8192, 50_000, 3 << 20] {
        for _ in 0..3 {
            let at = ashlar::kzalloc(size);
            assert!(!at.is_null());
            // SAFETY: `size` initialised bytes, live until freed.
            unsafe {
                assert!(core::slice::from_raw_parts(at, size).iter().all(|&b| b == 0), "size {size}");
                at.write_bytes(0xff, size);
                ashlar::kfree(at);
            }
        }
    }
}

fn array_overflow_is_refused() {
    assert!(ashlar::kmalloc_array(usize::MAX / 2, 3).is_null());
    assert!(ashlar::kcalloc(1 << 33, 1 << 33).is_null());
    let at = ashlar::kcalloc(10, 30);
    // SAFETY: 300 initialised bytes, freed once.
    unsafe {
        assert!(core::slice::from_raw_parts(at, 300).iter().all(|&b| b == 0));
        ashlar::kfree(at);
    }
}

fn realloc_keeps_the_common_bytes() {
    // SAFETY: each pointer is the latest of its object; null allocates.
    unsafe {
        let mut at = ashlar::krealloc(core::ptr::null_mut(), 5);
        let mut size = 5;
        fill(at, size, 77);
        for next in [8, 9, 64, 300, 8192, 8193, 1 << 20, 33 << 20, 50 << 20, 40 << 20, 3 << 20, 100, 7] {
            if next > LARGEST {
                continue;
            }
            let kept = size.min(next);
            at = ashlar::krealloc(at, next);
            assert!(!at.is_null());
            check(at, kept, size, 77);
            assert!(ashlar::ksize(at) >= next);
            fill(at, next, 77);
            size = next;
        }
        assert_eq!(ashlar::krealloc(at, 0), ashlar::ZERO_SIZE_PTR);
    }
}

fn bulk_is_all_distinct() {
    let cache = KmemCache::create("conform-bulk", 48, &CacheArgs::default()).expect("cache");
    for count in [0, 1, 7, 254, 255, 1000, 10_000] {
        let mut out = vec![core::ptr::null_mut(); count];
        assert!(cache.alloc_bulk(&mut out));
        let mut sorted = out.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), count, "an object was handed out twice");
        assert_eq!(cache.info().usage.live, count);
        let (some, rest) = out.split_at(count / 3);
        // SAFETY: allocated above, each freed once.
        unsafe {
            some.iter().for_each(|&at| cache.free(NonNull::new(at).expect("not null")));
            cache.free_bulk(rest);
        }
        assert_eq!(cache.info().usage.live, 0);
    }
    let mut mixed: Vec<*mut u8> = (0..2000).map(|i| ashlar::kmalloc(1 + i * 7 % 9000)).collect();
    mixed.push(ashlar::ZERO_SIZE_PTR);
    // SAFETY: all live, each once; the zero-size pointer is ignored.
    unsafe { ashlar::kfree_bulk(&mixed) };
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

fn constructed_objects_stay_constructed() {
    unsafe extern "C" fn build(object: *mut u8) {
        // SAFETY: objects of the only cache with this constructor have 24 bytes, aligned to 8.
        unsafe { object.cast::<[u64; 3]>().write([1, 2, 3]) };
    }
    // SAFETY: the function writes 24 bytes, aligned to 8.
    let ctor = unsafe { Constructor::new(Layout::new::<[u64; 3]>(), build) };
    let args = CacheArgs::DEFAULT.ctor(ctor);
    for (size, align) in [(16, 0), (23, 8), (23, 4096)] {
        let refused = KmemCache::create("conform-ctor", size, &args.align(align));
        assert!(matches!(refused, Err(CreateError::Option(_))), "a constructor of 24 bytes for objects of {size}");
    }
    let cache = KmemCache::create("conform-ctor", 24, &args).expect("cache");
    for _ in 0..3 {
        let live: Vec<_> = (0..5000).map(|_| cache.alloc().expect("memory").cast::<[u64; 3]>()).collect();
        for object in live {
            // SAFETY: live and constructed; freed once, still constructed.
            unsafe {
                assert_eq!(object.read(), [1, 2, 3]);
                object.write([4, 5, 6]);
                object.write([1, 2, 3]);
                cache.free(object.cast());
            }
        }
        cache.shrink();
    }
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

fn bad_caches_are_refused() {
    let create = |name: &str, size, args: &CacheArgs| KmemCache::create(name, size, args).map(|_| ());
    let default = CacheArgs::default();
    assert_eq!(create("", 8, &default), Err(CreateError::Name));
    assert_eq!(create("line\nfeed", 8, &default), Err(CreateError::Name));
    assert_eq!(create(&"x".repeat(48), 8, &default), Err(CreateError::Name));
    assert_eq!(create("zero", 0, &default), Err(CreateError::Size));
    assert_eq!(create("large", (2 << 20) + 1, &default), Err(CreateError::Size));
    assert_eq!(create("odd", 8, &default.align(24)), Err(CreateError::Align));
    for args in [
        default.sheaf_capacity(0),
        default.sheaf_capacity(255),
        default.max_order(10),
        default.min_order(4).max_order(3),
    ] {
        assert!(matches!(create("option", 8, &args), Err(CreateError::Option(_))), "{args:?}");
    }
}

fn destroy_refuses_live_objects() {
    let cache = KmemCache::create("conform-live", 80, &CacheArgs::default()).expect("cache");
    let object = cache.alloc().expect("memory");
    // SAFETY: 80 fresh bytes.
    unsafe { fill(object.as_ptr(), 80, 5) };
    let (cache, error) = cache.destroy().expect_err("an object is live");
    assert_eq!(error, DestroyError::LiveObjects(1));
    let other = cache.alloc().expect("the cache still works");
    assert_ne!(other, object);
    // SAFETY: both are live and freed once.
    unsafe {
        check(object.as_ptr(), 80, 80, 5);
        cache.free(object);
        cache.free(other);
    }
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

fn typed_boxes_drop_their_values() {
    use std::sync::Arc;
    let cache = Cache::<(Arc<u32>, [u8; 50])>::new("conform-typed").expect("cache");
    let shared = Arc::new(7);
    let boxes: Vec<_> = (0..100).map(|_| cache.alloc((shared.clone(), [1; 50])).expect("memory")).collect();
    assert_eq!(Arc::strong_count(&shared), 101);
    assert!(boxes.iter().all(|b| *b.0 == 7 && b.1 == [1; 50]));
    drop(boxes);
    assert_eq!(Arc::strong_count(&shared), 1);
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}

fn layouts_are_honoured() {
    let mut rng = Rng::new(3);
    for _ in 0..2000 {
        let layout = Layout::from_size_align(1 + rng.below(20_000), 1 << rng.below(14)).expect("layout");
        let more = 1 + rng.below(40_000);
        // SAFETY: the layout is not empty, and the block is freed with the layout that it has at
        // the time.
        unsafe {
            let at = if rng.below(2) == 0 { Ashlar.alloc(layout) } else { Ashlar.alloc_zeroed(layout) };
            assert!((at as usize).is_multiple_of(layout.align()) && !at.is_null());
            fill(at, layout.size(), 9);
            let to = Ashlar.realloc(at, layout, more);
            assert!((to as usize).is_multiple_of(layout.align()) && !to.is_null());
            check(to, layout.size().min(more), layout.size(), 9);
            Ashlar.dealloc(to, Layout::from_size_align(more, layout.align()).expect("layout"));
        }
    }
}

/// An address that is sent to another thread.
struct Sent(*mut u8, u64);
// SAFETY: the sender passes the object on and no longer uses it.
unsafe impl Send for Sent {}

fn objects_cross_threads_and_cpus() {
    let cache = KmemCache::create("conform-cross", 72, &CacheArgs::default()).expect("cache");
    let cpus = cpus();
    let (into, out) = mpsc::sync_channel::<Sent>(1000);
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let (into, cache, cpus) = (into.clone(), &cache, &cpus);
            scope.spawn(move || {
                pin(cpus[thread as usize % cpus.len()]);
                for i in 0..20_000u64 {
                    let token = thread << 32 | i;
                    let at = cache.alloc().expect("memory").as_ptr();
                    // SAFETY: 72 fresh bytes.
                    unsafe { fill(at, 72, token) };
                    into.send(Sent(at, token)).expect("receiver");
                }
            });
        }
        drop(into);
        let (cache, cpus) = (&cache, &cpus);
        scope.spawn(move || {
            for (i, Sent(at, token)) in out.into_iter().enumerate() {
                if i % 500 == 0 {
                    pin(cpus[i / 500 % cpus.len()]);
                }
                // SAFETY: the sender passed the object to this thread, which frees it once.
                unsafe {
                    check(at, 72, 72, token);
                    cache.free(NonNull::new(at).expect("not null"));
                }
            }
        });
    });
    assert_eq!(cache.info().usage.live, 0);
    assert!(cache.shrink(), "an empty cache keeps no slab");
    assert_eq!(cache.info().usage, ashlar::Usage::default());
    cache.destroy().map_err(|(_, e)| e).expect("empty");
}
