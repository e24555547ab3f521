//! The quick start of README.md, which must show exactly what follows this line.

use ashlar::{Cache, CacheArgs, KmemCache, kfree, kmalloc, mode};

// Every Box, Vec and String of the program.
#[global_allocator]
static GLOBAL: ashlar::Ashlar = ashlar::Ashlar;

struct Request {
    id: u64,
    body: [u8; 200],
}

fn main() -> Result<(), Box<dyn core::error::Error>> {
    // A cache for one type. Boxes give their memory back, and the cache ends when it drops.
    let requests = Cache::<Request>::new("request")?;
    let mut request = requests.alloc(Request { id: 1, body: [0; 200] }).map_err(|_| ashlar::AllocError)?;
    request.body[0] = 42;
    println!("request {} starts with {}", request.id, request.body[0]);
    drop(request);

    // A cache for objects of one size, in bulk.
    let packets = KmemCache::create("packet", 1500, &CacheArgs::default())?;
    let mut burst = [core::ptr::null_mut(); 32];
    if packets.alloc_bulk(&mut burst) {
        // SAFETY: allocated just above from this cache, and not used again.
        unsafe { packets.free_bulk(&burst) };
    }
    println!("{:?}", packets.info());

    // Any size.
    let buffer = kmalloc(100);
    // SAFETY: allocated just above, and not used again.
    unsafe { kfree(buffer) };
    println!("sections by {}", mode());
    Ok(())
}
