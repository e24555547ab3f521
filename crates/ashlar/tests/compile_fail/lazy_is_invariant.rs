//! A lazy cache of `'static` values cannot pass for one of values that borrow for a shorter time: a
//! constructed object would keep the borrow.
use ashlar::{Constructed, LazyCache};

struct Note<'a>(&'a str);

impl Constructed for Note<'_> {
    fn construct() -> Self {
        Note("")
    }
}

fn shorten<'a, 'b>(long: &'a LazyCache<Note<'static>>) -> &'a LazyCache<Note<'b>> {
    long
}

fn main() {
    let notes = LazyCache::<Note<'static>>::constructed("notes");
    {
        let text = String::from("short");
        shorten(&notes).get().unwrap().0 = &text;
    }
    println!("{}", notes.get().unwrap().0);
}
