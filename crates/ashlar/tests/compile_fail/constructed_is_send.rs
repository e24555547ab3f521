//! `Constructed` requires `Send`: another thread may get the object that one thread freed.
use ashlar::Constructed;

struct Thread(*const u8);

impl Constructed for Thread {
    fn construct() -> Self {
        Thread(core::ptr::null())
    }
}

fn main() {}
