//! A cache of `'static` values cannot take values with a shorter borrow.
use ashlar::{Cache, Constructed};

struct Note<'a>(&'a str);

impl Constructed for Note<'_> {
    fn construct() -> Self {
        Note("")
    }
}

fn main() {
    let cache = Cache::<Note<'static>>::constructed("notes").unwrap();
    {
        let text = String::from("short");
        let shorter: &Cache<Note<'_>> = &cache;
        shorter.get().unwrap().0 = &text;
    }
    println!("{}", cache.get().unwrap().0);
}
