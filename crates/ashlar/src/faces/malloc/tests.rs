//! Tests of the caches behind `malloc`, and of the object map with them.
#![allow(unsafe_code, reason = "frees what it allocates")]

use super::{free, malloc};
use crate::base::sync::Ordering;
use crate::boot::ensure_malloc;
use crate::engine;
use crate::percpu;
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
use crate::percpu::area::{PERCPU, PerCpu};
use crate::sizes::malloc::classes::{CLASSES, Code, MALLOC_MAX_CACHE_SIZE, STEP, class_of, size_of_class};
use crate::sizes::malloc::{SIZE_CODE, cache, forget_cache};
use crate::sizes::object_map::OBJECTS;
use std::vec::Vec;

#[test]
fn codes_lead_to_the_slots_of_their_caches() {
    assert!(ensure_malloc());
    let slots = OBJECTS.slots.load(Ordering::Relaxed);
    for class in 0..CLASSES {
        let code = Code::of_class(class).entry();
        assert_eq!(slots + 8 * usize::from(code), percpu::slot0(cache(class).unwrap().slot));
        assert_eq!(cache(class).unwrap().slabs.geometry.stride, size_of_class(class));
        assert_eq!(SIZE_CODE[size_of_class(class) / STEP], code);
    }
}

#[test]
fn threads_that_need_a_class_at_once_get_one_cache() {
    assert!(ensure_malloc());
    let barrier = std::sync::Barrier::new(8);
    let all: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    (0..CLASSES).map(|class| core::ptr::from_ref(cache(class).unwrap()) as usize).collect::<Vec<_>>()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(all.iter().all(|caches| *caches == all[0]));
    let mut slots: Vec<_> = Vec::new();
    crate::cache::registry::for_each(|cache| slots.push(cache.slot));
    slots.sort_unstable();
    assert!(slots.windows(2).all(|pair| pair[0] != pair[1]), "two caches in one slot");
    // As for who died between the two: the registry has a cache that is not known here.
    let place = forget_cache(7);
    assert_eq!(core::ptr::from_ref(cache(7).unwrap()), place);
}

#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn each_cpu_has_the_entries_of_its_side() {
    use crate::percpu::area::SIZE_ENTRIES;
    assert!(ensure_malloc());
    for cpu in (0..PERCPU.cpus.load(Ordering::Relaxed)).map(crate::base::units::CpuId) {
        let table = PERCPU.slot(cpu, SIZE_ENTRIES as u16).cast::<u8>();
        let side = PerCpu::side_of(cpu);
        for (steps, code) in SIZE_CODE.iter().enumerate() {
            // SAFETY: in the committed area of the CPU; no thread writes it any more.
            assert_eq!(unsafe { table.add(steps).read() }, code | side, "{cpu:?}, {} bytes", steps * STEP);
        }
    }
}

#[test]
fn the_map_knows_what_is_live_and_kfree_keeps_it_true() {
    for size in [1, 16, 100, 4096, 20_000, MALLOC_MAX_CACHE_SIZE] {
        let at = malloc(size);
        assert!(!at.is_null());
        assert_eq!(OBJECTS.code_at(at as usize) & !1, Code::of_class(class_of(size)).entry());
        assert_eq!(OBJECTS.code_at(at as usize + STEP), 0, "inside, or the next object, which is free");
        // SAFETY: live, freed once, by the other family's function.
        unsafe { crate::kfree(at) };
        assert_eq!(OBJECTS.code_at(at as usize), 0);
        let (one, other) = (malloc(size), malloc(size));
        // SAFETY: live, freed once.
        unsafe { crate::kfree_bulk(&[one, other]) };
        assert_eq!((OBJECTS.code_at(one as usize), OBJECTS.code_at(other as usize)), (0, 0));
    }
}

/// What nothing but a race between a look at the slot and the operation leads to.
#[cfg(all(feature = "os", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn single_objects_come_from_and_go_to_the_main_sheaf_on_both_sides() {
    assert!(ensure_malloc());
    let cache = cache(class_of(3072)).unwrap();
    for cpu in (0..64).filter(|&cpu| crate::base::os::pin_to(cpu).is_some()) {
        let top = |word: usize| PERCPU.slot(crate::base::units::CpuId(cpu), cache.slot).wrapping_add(word);
        let main = usize::from(PerCpu::side_of(crate::base::units::CpuId(cpu)));
        // SAFETY: words of a committed slot; no other test uses this class.
        let tops = || unsafe { [top(main).read_volatile(), top(1 - main).read_volatile()] };
        // An interrupt may cut a section off, and a reaper may come between. A thread that drains
        // keeps all sections out, and may have lost its CPU meanwhile, so failed tries wait.
        let right = (0..1000).any(|try_number| {
            if try_number > 0 {
                crate::base::os::sleep_ns(1_000_000);
            }
            let some: [*mut u8; 6] = core::array::from_fn(|_| malloc(3072));
            // SAFETY: live, each freed once.
            some.into_iter().for_each(|at| unsafe { free(at) });
            let [main, spare] = tops();
            let object = percpu::pop(cache.slot);
            let popped = object != 0 && tops() == [main + 8, spare];
            popped && percpu::push(cache.slot, object) && tops() == [main, spare]
        });
        assert!(right || percpu::mode() != percpu::Mode::Rseq, "CPU {cpu}");
    }
}

#[cfg(all(feature = "os", target_arch = "x86_64"))]
#[test]
fn objects_that_another_cpu_allocated_are_counted_by_the_sheaf() {
    use crate::base::os::pin_to;
    assert!(ensure_malloc());
    if percpu::mode() != percpu::Mode::Rseq || pin_to(1).is_none() || pin_to(0).is_none() {
        return;
    }
    // No other test uses this class.
    let cache = cache(class_of(2560)).unwrap();
    let remote = || engine::slow_path_stats(cache).remote_free;
    let some = || (0..1000).map(|_| malloc(2560)).collect::<Vec<_>>();
    // SAFETY: each was allocated here and is freed once.
    let free_all = |all: Vec<*mut u8>| all.into_iter().for_each(|at| unsafe { free(at) });
    free_all(some());
    assert_eq!(remote(), 0, "of its own CPU");
    let all = some();
    assert!(pin_to(1).is_some());
    free_all(all);
    // What fits on the last sheaf is not counted yet.
    assert!((500..=1000).contains(&remote()), "{}", remote());
}

/// The sheaves of such a cache are small ones at first.
#[test]
fn the_capacity_of_sheaves_can_be_raised_beyond_what_they_had_room_for() {
    assert!(ensure_malloc());
    let cache = cache(class_of(3584)).unwrap();
    for capacity in [254, 1, 126, 30, 62, 254] {
        engine::sheaves::set_sheaf_capacity(cache, capacity, 2);
        let mut all: Vec<usize> = (0..2000).map(|_| malloc(3584) as usize).collect();
        // SAFETY: each was allocated here and is freed once.
        all.iter().for_each(|&at| unsafe { free(at as *mut u8) });
        all.sort_unstable();
        assert!(
            all[0] != 0 && all.windows(2).all(|pair| pair[1] - pair[0] >= 3584),
            "{capacity}: an object had two owners"
        );
    }
}

#[test]
fn slabs_of_large_classes_hold_several_objects_and_waste_little() {
    assert!(ensure_malloc());
    for class in 0..CLASSES {
        let cache = cache(class).unwrap();
        let geometry = cache.slabs.geometry;
        let slab = geometry.order.bytes();
        let used = usize::from(geometry.objects(geometry.order)) * geometry.stride;
        // The unused end is never touched, so it costs addresses, not memory.
        assert!((slab - used) * 3 <= slab, "{}: {} of {slab} bytes unused", cache.name(), slab - used);
    }
}

/// Two threads may look an object up before either of them frees it.
#[test]
fn an_object_that_was_freed_since_its_look_up_is_not_freed_again() {
    use crate::base::report::{OnError, set_on_error};
    use crate::sizes::owner::identify;
    let at = malloc(2900);
    assert!(!at.is_null());
    let [one, other] = [0; 2].map(|_| identify(at as usize).unwrap_or_else(|_| panic!("a live object")));
    // The report drops the second free, and the test goes on.
    set_on_error(OnError::Quarantine);
    // SAFETY: the first gives the object up. The second is the misuse that must be found.
    unsafe {
        one.free("kfree", at);
        other.free("kfree", at);
    }
    set_on_error(OnError::Abort);
    let [first, second] = [0; 2].map(|_| malloc(2900));
    assert_ne!(first, second, "the object is handed out twice");
    // SAFETY: allocated just above, each freed once.
    [first, second].into_iter().for_each(|at| unsafe { free(at) });
}
