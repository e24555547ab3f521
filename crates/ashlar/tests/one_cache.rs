//! Creating a cache creates no other. The test has its own file, because no other test may run in
//! its process.

use ashlar::{CacheArgs, KmemCache};

fn names() -> Vec<String> {
    let mut names = Vec::new();
    ashlar::for_each_cache(|info| names.push(info.name().to_owned()));
    names
}

#[test]
fn a_cache_comes_alone_and_kmalloc_brings_its_own() {
    let cache = KmemCache::create("alone", 100, &CacheArgs::default()).expect("a cache");
    let [one, other] = [0; 2].map(|_| cache.alloc().expect("memory"));
    // SAFETY: allocated just above, and not used again.
    unsafe { cache.free(one) };
    // `kfree` accepts objects of any cache, and creates no cache for that.
    // SAFETY: as above.
    unsafe { ashlar::kfree(other.as_ptr()) };
    assert_eq!(names(), ["alone"]);
    assert_eq!(cache.info().usage.live, 0);
    let buffer = ashlar::kmalloc(100);
    assert!(!buffer.is_null());
    assert!(names().iter().any(|name| name == "kmalloc-128"), "{:?}", names());
    // SAFETY: allocated just above, and not used again.
    unsafe { ashlar::kfree(buffer) };
    cache.destroy().expect("no object is left");
}
