//! How far `slob` searches, on heaps whose pages and free blocks are all known.

use core::ptr::NonNull;

use ashlar::{CacheArgs, Engine, KmemCache, Search};

const PAGES: u64 = 20;

fn cache_of(size: usize) -> KmemCache {
    let mut args = CacheArgs::DEFAULT;
    args.engine = Engine::from_id("slob");
    KmemCache::create("searched", size, &args).expect("memory")
}

fn take(cache: &KmemCache) -> NonNull<u8> {
    cache.alloc().expect("memory")
}

/// Runs `call`, and returns its result and what it adds to the search counts of the cache.
fn searched<R>(cache: &KmemCache, call: impl FnOnce() -> R) -> (R, Search) {
    let before = cache.info().counts.search;
    let result = call();
    let after = cache.info().counts.search;
    let search = Search {
        pages: after.pages - before.pages,
        walked: after.walked - before.walked,
        blocks: after.blocks - before.blocks,
        free_blocks: after.free_blocks - before.free_blocks,
        waits: after.waits - before.waits,
    };
    (result, search)
}

#[test]
fn every_page_and_free_block_that_is_looked_at_is_counted() {
    // Two of these leave 1088 bytes of a page.
    let cache = cache_of(1504);
    let (objects, search) = searched(&cache, || (0..2 * PAGES).map(|_| take(&cache)).collect::<Vec<_>>());
    // The first object of each pair passes all existing pages and gets a new one. The second fits
    // on that new page.
    let passed = PAGES * (PAGES - 1) / 2;
    assert_eq!(search, Search { pages: passed + PAGES, walked: PAGES, blocks: PAGES, ..Search::default() });

    // Each page now has a hole of 1504 bytes in front and another of 1088 behind. The sum suffices
    // for an object of 1600 bytes, but no single block does.
    let firsts = objects.iter().step_by(2);
    let (holes, search) = searched(&cache, || {
        // SAFETY: live objects of the cache, freed once.
        firsts.map(|&object| unsafe { cache.free(object) }).count()
    });
    assert_eq!((holes as u64, search), (PAGES, Search::default()), "frees of first objects need no search");
    let larger = cache_of(1600);
    let (object, search) = searched(&larger, || take(&larger));
    assert_eq!(search, Search { pages: PAGES, walked: PAGES, blocks: 2 * PAGES, ..Search::default() });

    // A search starts at the page where the last one succeeded, and passes it if it is too full.
    let ((), search) = searched(&cache, || {
        let (one, other) = (take(&cache), take(&cache));
        // SAFETY: as above.
        unsafe {
            cache.free(one);
            cache.free(other);
        }
    });
    assert_eq!(
        search,
        Search { pages: 3, walked: 2, blocks: 2, ..Search::default() },
        "first search: the new page; second: that page and one more"
    );

    // The last object of a page: the page goes back before its blocks are walked.
    // SAFETY: as above, each once.
    let (_, search) = searched(&cache, || objects.iter().skip(1).step_by(2).map(|&o| unsafe { cache.free(o) }).count());
    assert_eq!(search, Search::default());
    // SAFETY: as above.
    unsafe { larger.free(object) };

    // Freeing an object behind a hole walks past that hole. The page is new.
    let smaller = cache_of(1000);
    let [first, second, third] = [take(&smaller), take(&smaller), take(&smaller)];
    // SAFETY: as above.
    unsafe { smaller.free(first) };
    // SAFETY: as above.
    let ((), search) = searched(&smaller, || unsafe { smaller.free(third) });
    assert_eq!(search, Search { free_blocks: 1, ..Search::default() });
    // SAFETY: as above.
    unsafe { smaller.free(second) };
    for cache in [cache, larger, smaller] {
        cache.destroy().map_err(|(_, error)| error).expect("empty");
    }
}
