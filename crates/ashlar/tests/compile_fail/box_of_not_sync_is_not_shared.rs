//! Threads share a box only if its value is `Sync`.
use ashlar::Cache;
use std::cell::Cell;

fn moves<T: Send>(_: T) {}

fn main() {
    let cache = Cache::<Cell<u32>>::new("cells").unwrap();
    let cell = cache.alloc(Cell::new(1)).unwrap();
    moves(&cell);
}
