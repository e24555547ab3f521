//! Only unsafe code can promise what a constructor writes.
use ashlar::{CacheArgs, Constructor, KmemCache};

unsafe extern "C" fn overrun(object: *mut u8) {
    // SAFETY: none.
    unsafe { object.write_bytes(0xff, 4096) };
}

fn main() {
    let ctor: Constructor = overrun;
    let args = CacheArgs::DEFAULT.ctor(ctor);
    let cache = KmemCache::create("overrun", 16, &args).unwrap();
    cache.alloc();
}
