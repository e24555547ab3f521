//! A box cannot outlive its cache.
use ashlar::Cache;

fn main() {
    let cache = Cache::<u64>::new("numbers").unwrap();
    let number = cache.alloc(1).unwrap();
    drop(cache);
    println!("{}", *number);
}
