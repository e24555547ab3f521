//! A box of a `'static` value cannot take a shorter borrow, which the object would keep.
use ashlar::{Cache, CacheBox, Constructed};

struct Note<'a>(&'a str);

impl Constructed for Note<'_> {
    fn construct() -> Self {
        Note("")
    }
}

fn shorten<'a, 'b>(long: CacheBox<'a, Note<'static>>) -> CacheBox<'a, Note<'b>> {
    long
}

fn main() {
    let cache = Cache::<Note<'static>>::constructed("notes").unwrap();
    {
        let text = String::from("short");
        shorten(cache.get().unwrap()).0 = &text;
    }
    println!("{}", cache.get().unwrap().0);
}
