//! No box outlives its cache, which ends when it drops.
use ashlar::Cache;

fn main() {
    let cache = Cache::<u64>::new("numbers").unwrap();
    let number = cache.alloc(1).unwrap();
    drop(cache);
    println!("{}", *number);
}
