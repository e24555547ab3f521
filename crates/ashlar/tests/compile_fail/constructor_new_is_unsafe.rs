//! Only unsafe code can promise what a constructor writes.
use ashlar::Constructor;
use std::alloc::Layout;

unsafe extern "C" fn overrun(object: *mut u8) {
    // SAFETY: none.
    unsafe { object.write_bytes(0xff, 4096) };
}

fn main() {
    let _ = Constructor::new(Layout::new::<u64>(), overrun);
}
