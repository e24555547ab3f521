//! The shadow model: drives caches and kmalloc by a random list of operations, and keeps a map of
//! the expected state.
//!
//! After every operation the model has the address, the size and the pattern of each live object.
//! So it finds overlap, lost bytes and wrong alignment at once, and a wrong count of live objects
//! at the next check.

use core::alloc::Layout;
use std::collections::BTreeMap;

use ashlar::{CacheArgs, Constructor, DestroyError, KmemCache};
use proptest::prelude::*;

use super::{check, fill};

/// One operation.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Alloc(usize),
    Zalloc(usize),
    AllocBulk(usize, usize),
    /// Frees the n-th of the live objects, however it was allocated.
    Free(usize),
    /// Frees the given number of objects of a cache.
    FreeBulk(usize, usize),
    Shrink(usize),
    /// Tries to destroy the cache, which must fail and change nothing if objects are live.
    Destroy(usize),
    Kmalloc(usize),
    Kzalloc(usize),
    KmallocArray(usize, usize),
    KmallocAligned(usize, u32),
    Krealloc(usize, usize),
    /// Frees the given number of kmalloc objects of any size in one call.
    KfreeBulk(usize),
    Reap,
}

fn size() -> impl Strategy<Value = usize> {
    // Without an operating system none above 32 MiB.
    let largest = if cfg!(feature = "os") { (30usize << 20)..(40 << 20) } else { (20 << 20)..(30 << 20) };
    prop_oneof![
        20 => 1usize..300,
        10 => 1usize..5000,
        4 => 4000usize..9000,
        3 => 8193usize..200_000,
        1 => (2usize << 20)..(6 << 20),
        1 => largest,
    ]
}

/// Any operation, the common ones more often.
pub(crate) fn op() -> impl Strategy<Value = Op> {
    let which = 0usize..SHAPES.len();
    prop_oneof![
        20 => which.clone().prop_map(Op::Alloc),
        4 => which.clone().prop_map(Op::Zalloc),
        8 => (which.clone(), 0usize..600).prop_map(|(c, n)| Op::AllocBulk(c, n)),
        40 => any::<usize>().prop_map(Op::Free),
        8 => (which.clone(), 0usize..600).prop_map(|(c, n)| Op::FreeBulk(c, n)),
        2 => which.clone().prop_map(Op::Shrink),
        2 => which.prop_map(Op::Destroy),
        20 => size().prop_map(Op::Kmalloc),
        6 => size().prop_map(Op::Kzalloc),
        3 => (0usize..50, 0usize..200).prop_map(|(n, s)| Op::KmallocArray(n, s)),
        5 => (size(), 0u32..=21).prop_map(|(s, a)| Op::KmallocAligned(s, a)),
        8 => (any::<usize>(), size()).prop_map(|(p, s)| Op::Krealloc(p, s)),
        3 => (0usize..100).prop_map(Op::KfreeBulk),
        1 => Just(Op::Reap),
    ]
}

/// The value of every byte of an object of a constructed cache while it is free.
const BUILT: u8 = 0xc7;
const BUILT_SIZE: usize = 40;

unsafe extern "C" fn build(object: *mut u8) {
    // SAFETY: the only cache with this constructor has objects of this size.
    unsafe { object.write_bytes(BUILT, BUILT_SIZE) };
}

/// The constructor of the constructed cache.
// SAFETY: it writes as many bytes as the layout has.
const BUILD: Constructor = unsafe { Constructor::new(Layout::new::<[u8; BUILT_SIZE]>(), build) };

/// The largest order: slabs of a block of the zone.
const BLOCK_ORDER: u8 = ((2 << 20) / ashlar::PAGE_SIZE).ilog2() as u8;
/// Object size and arguments of each cache.
const SHAPES: [(usize, CacheArgs); 9] = [
    (64, DEFAULT),
    (1, DEFAULT),
    (13, DEFAULT),
    (BUILT_SIZE, DEFAULT.ctor(BUILD)),
    (100, DEFAULT.align(256)),
    (700, DEFAULT.hwcache_align(true)),
    (3000, DEFAULT.sheaf_capacity(1).min_partial(0)),
    (8, DEFAULT.sheaf_capacity(3).min_order(0).max_order(0)),
    (20_000, DEFAULT.align(4096).min_order(5).max_order(BLOCK_ORDER)),
];
/// Merging is off, because the model does not count the objects of other caches.
const DEFAULT: CacheArgs = CacheArgs::DEFAULT.no_merge(true);

struct Object {
    size: usize,
    token: u64,
    /// Index of the cache; `None` for kmalloc.
    cache: Option<usize>,
    /// Whether its size was passed to kmalloc, so that `kfree_sized` may be called with it.
    sized: bool,
}

struct Model {
    caches: Vec<Option<KmemCache>>,
    live: BTreeMap<usize, Object>,
    next_token: u64,
}

fn create(which: usize) -> KmemCache {
    let (size, args) = SHAPES[which];
    KmemCache::create(&format!("model-{which}"), size, &args).expect("a cache")
}

impl Model {
    fn cache(&self, which: usize) -> &KmemCache {
        self.caches[which].as_ref().expect("caches exist between operations")
    }

    /// Adds a fresh object to the model. Its bytes must overlap no live object, and be aligned and
    /// large enough.
    fn born(&mut self, at: *mut u8, size: usize, align: usize, cache: Option<usize>) {
        assert!(!at.is_null(), "out of memory for {size} bytes");
        let start = at as usize;
        assert!(start.is_multiple_of(align), "{start:#x} is no multiple of {align}, size {size}");
        if let Some((&below, object)) = self.live.range(..=start).next_back() {
            assert!(below + object.size <= start, "{start:#x} lies in a live object of {} bytes", object.size);
        }
        if let Some((&above, _)) = self.live.range(start..).next() {
            assert!(start + size <= above, "the object at {start:#x} runs into a live one");
        }
        if cache.is_none() {
            // SAFETY: just allocated by kmalloc.
            assert!(unsafe { ashlar::ksize(at) } >= size, "ksize is less than the {size} asked for");
        }
        self.next_token = self.next_token.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let token = self.next_token;
        // SAFETY: `size` bytes that were just allocated.
        unsafe { fill(at, size, token) };
        self.live.insert(start, Object { size, token, cache, sized: false });
    }

    /// Removes an object from the model and checks its bytes; the caller frees it.
    fn dies(&mut self, start: usize) -> (*mut u8, Object) {
        let object = self.live.remove(&start).expect("live");
        let at = start as *mut u8;
        // SAFETY: live until the caller frees it.
        unsafe {
            check(at, object.size, object.size, object.token);
            if object.cache.is_some_and(|c| SHAPES[c].1.ctor.is_some()) {
                build(at);
            }
        }
        (at, object)
    }

    fn pick(&self, n: usize) -> Option<usize> {
        let index = n.checked_rem(self.live.len())?;
        self.live.keys().nth(index).copied()
    }

    fn some(&self, cache: Option<usize>, n: usize) -> Vec<usize> {
        self.live.iter().filter(|(_, o)| o.cache == cache).map(|(&at, _)| at).step_by(3).take(n).collect()
    }

    fn new_of_cache(&mut self, which: usize, at: *mut u8) {
        let (size, args) = SHAPES[which];
        assert!(!at.is_null());
        if args.ctor.is_some() {
            for i in 0..size {
                // SAFETY: just allocated, `size` bytes.
                assert_eq!(unsafe { at.add(i).read() }, BUILT, "byte {i} of a constructed object");
            }
        }
        let align = self.cache(which).info().align.max(args.align).max(8);
        self.born(at, size, align, Some(which));
    }

    fn all_zero(at: *mut u8, size: usize) {
        // SAFETY: just allocated with at least `size` bytes, which are initialised.
        let bytes = unsafe { core::slice::from_raw_parts(at, size) };
        assert!(bytes.iter().all(|&b| b == 0), "zeroed memory of {size} bytes is not zero");
    }

    fn free(&mut self, start: usize) {
        let (at, object) = self.dies(start);
        // SAFETY: the object was live and is no longer in the model.
        unsafe {
            match object.cache {
                Some(which) => self.cache(which).free(core::ptr::NonNull::new(at).expect("not null")),
                None if object.sized && object.token & 1 == 0 => ashlar::kfree_sized(at, object.size),
                None => ashlar::kfree(at),
            }
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Alloc(which) => {
                let at = self.cache(which).alloc().expect("memory").as_ptr();
                self.new_of_cache(which, at);
            }
            Op::Zalloc(which) => {
                if SHAPES[which].1.ctor.is_none() {
                    let at = self.cache(which).zalloc().expect("memory").as_ptr();
                    Self::all_zero(at, SHAPES[which].0);
                    self.new_of_cache(which, at);
                }
            }
            Op::AllocBulk(which, n) => {
                let mut out = vec![core::ptr::null_mut(); n];
                assert!(self.cache(which).alloc_bulk(&mut out), "out of memory");
                out.into_iter().for_each(|at| self.new_of_cache(which, at));
            }
            Op::Free(n) => {
                if let Some(start) = self.pick(n) {
                    self.free(start);
                }
            }
            Op::FreeBulk(which, n) => {
                let some = self.some(Some(which), n);
                let objects: Vec<*mut u8> = some.into_iter().map(|start| self.dies(start).0).collect();
                // SAFETY: all were live, each once, and are no longer in the model.
                unsafe { self.cache(which).free_bulk(&objects) };
            }
            Op::Shrink(which) => {
                let none = !self.live.values().any(|o| o.cache == Some(which));
                assert_eq!(self.cache(which).shrink(), none, "an empty cache shrinks to no slab, and no other does");
            }
            Op::Destroy(which) => self.destroy(which),
            Op::Kmalloc(size) => {
                let at = ashlar::kmalloc(size);
                self.born(at, size, natural(size), None);
                self.live.get_mut(&(at as usize)).expect("just born").sized = true;
            }
            Op::Kzalloc(size) => {
                let at = ashlar::kzalloc(size);
                Self::all_zero(at, size);
                self.born(at, size, natural(size), None);
            }
            Op::KmallocArray(n, size) => {
                let at = ashlar::kmalloc_array(n, size);
                if n * size == 0 {
                    assert_eq!(at, ashlar::ZERO_SIZE_PTR);
                } else {
                    self.born(at, n * size, 8, None);
                }
            }
            Op::KmallocAligned(size, align) => {
                let align = 1usize << align;
                self.born(ashlar::kmalloc_aligned(size, align), size, align, None);
            }
            Op::Krealloc(n, size) => self.krealloc(n, size),
            Op::KfreeBulk(n) => {
                let some = self.some(None, n);
                let mut objects: Vec<*mut u8> = some.into_iter().map(|start| self.dies(start).0).collect();
                objects.push(core::ptr::null_mut());
                // SAFETY: all were live, each once, and are no longer in the model; null is
                // skipped.
                unsafe { ashlar::kfree_bulk(&objects) };
            }
            Op::Reap => {
                ashlar::reap();
            }
        }
    }

    fn krealloc(&mut self, n: usize, size: usize) {
        let Some(start) = self.pick(n).filter(|start| self.live[start].cache.is_none()) else { return };
        let old = self.live.remove(&start).expect("live");
        // SAFETY: the object is live, and only its new address is used from now on.
        let at = unsafe { ashlar::krealloc(start as *mut u8, size) };
        assert!(!at.is_null());
        let kept = old.size.min(size);
        // SAFETY: at least `size` bytes were just allocated.
        unsafe { check(at, kept, old.size, old.token) };
        self.born(at, size, 8, None);
    }

    fn destroy(&mut self, which: usize) {
        let live = self.live.values().filter(|o| o.cache == Some(which)).count();
        let cache = self.caches[which].take().expect("caches exist between operations");
        self.caches[which] = Some(match cache.destroy() {
            Ok(()) => {
                assert_eq!(live, 0, "a cache with live objects was destroyed");
                create(which)
            }
            Err((cache, error)) => {
                assert!(live > 0, "an empty cache was not destroyed: {error}");
                assert_eq!(error, DestroyError::LiveObjects(live));
                cache
            }
        });
    }

    fn counts_are_exact(&self) {
        for (which, cache) in self.caches.iter().enumerate() {
            let live = self.live.values().filter(|o| o.cache == Some(which)).count();
            let usage = cache.as_ref().expect("a cache").info().usage;
            assert_eq!(usage.live, live, "cache {which}: {usage:?}");
        }
    }
}

/// Returns the alignment that kmalloc guarantees: powers of two are naturally aligned, up to a
/// page.
fn natural(size: usize) -> usize {
    if size.is_power_of_two() { size.clamp(8, ashlar::PAGE_SIZE) } else { 8 }
}

/// Runs one list of operations on fresh caches, frees everything, and destroys the caches.
pub(crate) fn run(ops: &[Op]) {
    let caches = (0..SHAPES.len()).map(|which| Some(create(which))).collect();
    let mut model = Model { caches, live: BTreeMap::new(), next_token: ops.len() as u64 };
    for (step, op) in ops.iter().enumerate() {
        model.apply(op);
        if step % 16 == 0 {
            model.counts_are_exact();
        }
    }
    model.counts_are_exact();
    while let Some((&start, _)) = model.live.iter().next() {
        model.free(start);
    }
    model.counts_are_exact();
    for cache in model.caches.into_iter().flatten() {
        cache.destroy().map_err(|(_, error)| error).expect("an empty cache can be destroyed");
    }
}

/// Runs a few long random lists in a fixed order: the part of the model that every mode runs.
pub(crate) fn quick(cases: u32) {
    let config = proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() };
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(proptest::test_runner::RngAlgorithm::ChaCha),
    );
    let ops = proptest::collection::vec(op(), 1..300);
    let outcome = runner.run(&ops, |ops| {
        run(&ops);
        Ok(())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}
