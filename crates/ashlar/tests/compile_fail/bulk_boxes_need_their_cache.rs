//! Boxes of a bulk call borrow the cache, as single ones do.
fn main() {
    let mut boxes = Vec::new();
    {
        let cache = ashlar::Cache::<u64>::new("gone").unwrap();
        cache.alloc_bulk(0..10, &mut boxes).unwrap();
    }
    println!("{}", boxes[0]);
}
