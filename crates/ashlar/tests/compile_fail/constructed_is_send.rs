//! What one thread leaves in an object, another may find there.
use ashlar::Constructed;

struct Thread(*const u8);

impl Constructed for Thread {
    fn construct() -> Self {
        Thread(core::ptr::null())
    }
}

fn main() {}
