//! A box moves to another thread only if its value is `Send`.
use ashlar::Cache;
use std::rc::Rc;

fn moves<T: Send>(_: T) {}

fn main() {
    let cache = Cache::<Rc<u32>>::new("counts").unwrap();
    moves(cache.alloc(Rc::new(1)).unwrap());
}
