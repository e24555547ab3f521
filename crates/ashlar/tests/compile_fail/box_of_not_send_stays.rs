//! A box moves to another thread only if its value is `Send`.
use ashlar::Cache;
use std::rc::Rc;

fn main() {
    let cache = Cache::<Rc<u32>>::new("counts").unwrap();
    let count = cache.alloc(Rc::new(1)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || drop(count));
    });
}
