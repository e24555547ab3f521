//! First test: allocates every size from one thread and checks the contents.

/// Fills an object with a pattern that depends on its address; [`check`] compares it.
fn fill(ptr: *mut u8, size: usize) {
    for i in 0..size {
        // SAFETY: the caller allocated `size` bytes at `ptr`.
        unsafe { ptr.add(i).write((ptr as usize >> 3) as u8 ^ i as u8) };
    }
}

fn check(ptr: *mut u8, size: usize) {
    for i in 0..size {
        // SAFETY: as in `fill`.
        let byte = unsafe { ptr.add(i).read() };
        assert_eq!(byte, (ptr as usize >> 3) as u8 ^ i as u8, "byte {i} of {size} at {ptr:?}");
    }
}

/// Serializes the tests, because the second one measures the memory of the whole process.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn objects_of_every_size_are_apart_and_keep_their_bytes() {
    let _alone = ALONE.lock();
    eprintln!("mode {}", ashlar::mode());
    for size in (1..200).chain([255, 256, 257, 1000, 4096, 8192, 8193, 70_000, 3 << 20, 40 << 20]) {
        let count = if size > 10_000 { 3 } else { 600 };
        let mut live = Vec::new();
        for _ in 0..count {
            let ptr = ashlar::kmalloc(size);
            assert!(!ptr.is_null());
            fill(ptr, size);
            // SAFETY: `ptr` is live.
            assert!(unsafe { ashlar::ksize(ptr) } >= size);
            live.push(ptr);
        }
        for ptr in live {
            check(ptr, size);
            // SAFETY: allocated above, freed once.
            unsafe { ashlar::kfree(ptr) };
        }
    }
}

#[test]
fn many_rounds_reuse_the_same_memory() {
    let _alone = ALONE.lock();
    let committed = || ashlar::zone_stats().committed;
    let mut first = 0;
    for round in 0..50 {
        let mut live: Vec<_> = (0..20_000).map(|i| ashlar::kmalloc(i % 500 + 1)).collect();
        if round % 2 == 0 {
            live.reverse();
        }
        for ptr in live {
            // SAFETY: allocated above, freed once.
            unsafe { ashlar::kfree(ptr) };
        }
        if round == 2 {
            first = committed();
        }
    }
    assert!(committed() <= first + 4096, "memory grows from round to round");
}

#[test]
fn sizes_that_are_powers_of_two_are_aligned_to_themselves() {
    let _alone = ALONE.lock();
    for align in (3..=25).map(|bits| 1usize << bits) {
        // Allocate an odd size before each, so that alignment is not due to the order.
        let odd = ashlar::kmalloc(5 * align / 3 + 1);
        let found = [ashlar::kmalloc(align), ashlar::kzalloc(align), ashlar::kmalloc_on(align, ashlar::NodeId(0))];
        // SAFETY: the old pointers are from kmalloc and no longer used.
        let grown = [align / 2 + 1, align - 3].map(|less| unsafe { ashlar::krealloc(ashlar::kmalloc(less), align) });
        for ptr in found.into_iter().chain(grown) {
            assert!(!ptr.is_null());
            // The zone aligns to 2 MiB at most.
            assert!((ptr as usize).is_multiple_of(align.min(2 << 20)), "{align} bytes at {ptr:?}");
            // SAFETY: allocated above, freed once.
            unsafe { ashlar::kfree(ptr) };
        }
        // SAFETY: as above.
        unsafe { ashlar::kfree(odd) };
    }
}

/// The processor ignores the top byte of addresses, so a program may keep something there.
#[test]
#[cfg(target_arch = "aarch64")]
fn pointers_with_tags_lead_to_their_memory() {
    use ashlar::malloc::{free, malloc, malloc_usable_size, realloc};
    let _alone = ALONE.lock();
    let tagged = |ptr: *mut u8| ptr.map_addr(|address| address | 0x5a << 56);
    for size in [8, 100, 5000, 100_000, 40 << 20] {
        // SAFETY: each is live until it is freed, once; the tag changes nothing of where it leads.
        unsafe {
            let ptr = tagged(malloc(size));
            ptr.write(7);
            assert!(malloc_usable_size(ptr) >= size);
            let larger = tagged(realloc(ptr, 2 * size + 64));
            assert_eq!(larger.read(), 7);
            free(larger);
            let ptr = tagged(ashlar::kmalloc(size));
            ptr.write(7);
            assert!(ashlar::ksize(ptr) >= size);
            let larger = tagged(ashlar::krealloc(ptr, 2 * size + 64));
            assert_eq!(larger.read(), 7);
            ashlar::kfree(larger);
        }
    }
    let live = || {
        let mut live = 0;
        ashlar::for_each_cache(|cache| live += cache.usage.live);
        live
    };
    let before = live();
    let held = ashlar::malloc::malloc(100);
    assert_eq!(live(), before + 1);
    // SAFETY: live, freed once.
    unsafe { free(tagged(held)) };
    assert_eq!(live(), before, "the free was one");
}
