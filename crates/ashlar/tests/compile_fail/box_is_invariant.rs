//! A box of a value that lives for ever takes no short borrow: the object would keep it.
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
