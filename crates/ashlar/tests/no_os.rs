//! The allocator on a small arena, in one process, without an operating system under it.
//! `ci/miri.sh` runs this file under Miri, which finds what is undefined; `ci/features.sh` runs it
//! as it is.
#![cfg(not(feature = "os"))]

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::NonNull;
use std::sync::Once;

use ashlar::{ArenaSource, Ashlar, Cache, CacheArgs, Constructed, Constructor, Engine, KmemCache};

const ARENA: usize = 16 << 20;

/// Starts the allocator on an arena that is never given back.
fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let memory = NonNull::from(vec![0u8; ARENA].leak()).cast();
        // SAFETY: leaked, zeroed memory with no other user.
        let source = Box::leak(Box::new(unsafe { ArenaSource::new(memory, ARENA) }));
        assert_eq!(ashlar::start_on(source), Ok(true));
    });
}

/// Writes `size` bytes, and reads them.
///
/// # Safety
/// The object has `size` bytes.
unsafe fn use_up(object: NonNull<u8>, size: usize, byte: u8) {
    // SAFETY: the caller's promise; the bytes are written before they are read.
    let bytes = unsafe {
        object.as_ptr().write_bytes(byte, size);
        core::slice::from_raw_parts(object.as_ptr(), size)
    };
    assert!(bytes.iter().all(|&b| b == byte));
}

#[test]
fn caches_of_every_engine() {
    start();
    for engine in Engine::ALL.iter().copied() {
        let args = CacheArgs::DEFAULT.engine(engine);
        let cache = KmemCache::create(engine.id(), 40, &args).expect("a cache");
        let objects: Vec<_> = (0..30).map(|_| cache.alloc().expect("memory")).collect();
        for (i, &object) in objects.iter().enumerate() {
            // SAFETY: 40 bytes that were just allocated.
            unsafe { use_up(object, 40, i as u8) };
        }
        // SAFETY: live, freed once.
        objects.into_iter().for_each(|object| unsafe { cache.free(object) });
        let mut bulk = [core::ptr::null_mut(); 20];
        assert!(cache.alloc_bulk(&mut bulk));
        for &object in &bulk {
            // SAFETY: 40 bytes that were just allocated.
            unsafe { use_up(NonNull::new(object).expect("not null"), 40, 1) };
        }
        // SAFETY: live, freed once.
        unsafe { cache.free_bulk(&bulk) };
        let mut reserve = cache.prefill_sheaf(10).expect("memory");
        let object = reserve.alloc().expect("there are ten");
        // SAFETY: 40 bytes that were just allocated, freed once.
        unsafe {
            use_up(object, 40, 2);
            cache.free(object);
        }
        drop(reserve);
        assert_eq!(cache.info().usage.live, 0);
        cache.destroy().map_err(|(_, error)| error).expect("empty");
    }
}

struct Count(u64, [u8; 20]);

impl Constructed for Count {
    fn construct() -> Self {
        Count(7, [7; 20])
    }
}

#[test]
fn typed_caches() {
    start();
    let strings = Cache::<String>::new("strings").expect("a cache");
    let mut first = strings.alloc("first".to_string()).expect("memory");
    first.push_str(" and more");
    let second = strings.alloc("second".to_string()).expect("memory");
    drop(first);
    assert_eq!(*second, "second");
    drop(second);
    let counts = Cache::<Count>::constructed("counts").expect("a cache");
    for _ in 0..20 {
        let mut boxes: Vec<_> = (0..5).map(|_| counts.get().expect("memory")).collect();
        boxes.iter_mut().for_each(|b| b.0 += 1);
        assert!(boxes.iter().all(|b| b.0 > 7 && b.1 == [7; 20]));
    }
    let nothing = Cache::<()>::new("nothing").expect("a cache");
    assert_eq!(*nothing.alloc(()).expect("memory"), ());
    let raw = nothing.alloc(()).expect("memory").into_raw();
    // SAFETY: given up by its box, and given back once.
    unsafe { nothing.free_uninit(raw.cast()) };
}

#[test]
fn constructors() {
    unsafe extern "C" fn build(object: *mut u8) {
        // SAFETY: objects of the only cache with this constructor have 24 bytes, aligned to 8.
        unsafe { object.cast::<[u64; 3]>().write([1, 2, 3]) };
    }
    start();
    // SAFETY: it writes 24 bytes, aligned to 8.
    let ctor = unsafe { Constructor::new(Layout::new::<[u64; 3]>(), build) };
    let cache = KmemCache::create("built", 24, &CacheArgs::DEFAULT.ctor(ctor)).expect("a cache");
    let object = cache.alloc().expect("memory");
    // SAFETY: a constructed object, freed once.
    unsafe {
        assert_eq!(object.cast::<[u64; 3]>().read(), [1, 2, 3]);
        cache.free(object);
    }
    cache.destroy().map_err(|(_, error)| error).expect("empty");
}

#[test]
fn kmalloc_and_the_global_allocator() {
    start();
    let sizes: &[usize] = if cfg!(miri) { &[1, 100, 9000] } else { &[1, 8, 100, 4000, 9000] };
    for &size in sizes {
        let memory = NonNull::new(ashlar::kzalloc(size)).expect("memory");
        // SAFETY: `size` bytes of ours; each pointer is the latest of its object.
        unsafe {
            assert!(core::slice::from_raw_parts(memory.as_ptr(), size).iter().all(|&b| b == 0));
            use_up(memory, size, 3);
            let more = NonNull::new(ashlar::krealloc(memory.as_ptr(), size * 3)).expect("memory");
            assert_eq!(more.as_ptr().add(size - 1).read(), 3);
            use_up(more, size * 3, 4);
            ashlar::kfree(more.as_ptr());
            let layout = Layout::from_size_align(size, 64).expect("a layout");
            let at = NonNull::new(Ashlar.alloc_zeroed(layout)).expect("memory");
            use_up(at, size, 5);
            let to = NonNull::new(Ashlar.realloc(at.as_ptr(), layout, size + 50)).expect("memory");
            use_up(to, size + 50, 6);
            Ashlar.dealloc(to.as_ptr(), Layout::from_size_align(size + 50, 64).expect("a layout"));
        }
    }
    let many: Vec<_> = (1..20).map(|i| ashlar::kmalloc(i * 30)).collect();
    // SAFETY: live, freed once.
    unsafe { ashlar::kfree_bulk(&many) };
    ashlar::reap();
}
