//! Several CPUs under a kernel, systematically: one short run for each place where interrupts are
//! on and for each thing that a kernel may do there; see `common/kernel.rs`.
#![cfg(not(feature = "os"))]

#[path = "common/process.rs"]
mod common;
#[path = "common/kernel.rs"]
mod kernel;

use core::ptr::NonNull;
use core::sync::atomic::Ordering;

use ashlar::{Engine, KmemCache};
use common::{check, child, fill};
use kernel::{DEATHS, Event, HANDLER, Handler, INTERRUPTS, MOVES, Machine, PLACES, PLAN, cache, free, start};

/// Objects of the run, more than a sheaf of the cache holds.
const OBJECTS: usize = 40;

/// The short run: fast and slow paths, bulk calls, a drain of one cache and of all.
fn script(cache: &'static KmemCache) {
    let take = |number| {
        let object = cache.alloc().expect("memory").as_ptr();
        // SAFETY: 72 fresh bytes.
        unsafe { fill(object, 72, number) };
        object
    };
    let give = |object: *mut u8, number| {
        // SAFETY: live, with 72 bytes, and freed once.
        unsafe {
            check(object, 72, 72, number);
            cache.free(NonNull::new(object).expect("not null"));
        }
    };
    let some: Vec<_> = (0..OBJECTS as u64).map(|number| (take(number), number)).collect();
    let sized = ashlar::kmalloc(100);
    let (first, rest) = some.split_at(OBJECTS / 2);
    first.iter().for_each(|&(object, number)| give(object, number));
    cache.shrink();
    let again = take(1000);
    let mut bulk = [core::ptr::null_mut(); OBJECTS / 2];
    assert!(cache.alloc_bulk(&mut bulk));
    rest.iter().for_each(|&(object, number)| give(object, number));
    ashlar::reap();
    give(again, 1000);
    // SAFETY: live, and freed once.
    unsafe {
        cache.free_bulk(&bulk);
        ashlar::kfree(sized);
    }
    ashlar::poll();
}

/// Runs the script once for each place, with the event there. Returns the number of places.
fn at_every_place(machine: &'static Machine, event: Event) -> usize {
    let caches = [cache("one"), cache("other")];
    let mut place = 0;
    loop {
        HANDLER.set(Some(Handler::new(place as u64, &caches, 20)));
        PLACES.set(0);
        PLAN.set(Some((place, event)));
        script(caches[0]);
        PLAN.set(None);
        let places = PLACES.get();
        let handler = HANDLER.with_borrow_mut(Option::take).expect("no handler runs");
        handler.live.into_iter().for_each(free);
        kernel::nothing_is_lost(machine);
        place += 1;
        if place > places {
            return places;
        }
    }
}

#[test]
fn events_at_every_place_lose_nothing() {
    let test = "events_at_every_place_lose_nothing";
    let mut tried = 0;
    for engine in Engine::ALL.iter().map(|engine| engine.id()) {
        for (event, happened) in [
            (Event::Interrupt, &INTERRUPTS),
            (Event::Move, &MOVES),
            (Event::Death, &DEATHS),
            (Event::Drain, &kernel::DRAINS),
        ] {
            for fences in [true, false] {
                let outcome = child(test, &format!("{engine}, {event:?}, fences {fences}"), &[], || {
                    let machine = Machine::new(&[0, 1], 1, fences);
                    ashlar::configure(&format!("engine={engine}")).expect("before the start");
                    start(machine, 64 << 20);
                    let places = at_every_place(machine, event);
                    assert!(places > 2 * OBJECTS, "{places}");
                    assert!(happened.load(Ordering::Relaxed) >= places, "the event did not happen at each place");
                    common::tell("places", places);
                });
                let Some(outcome) = outcome else { continue };
                assert!(outcome.status.success(), "{engine}, {event:?}, fences {fences}: {outcome:?}");
                tried += outcome.succeeded().told("places").parse::<usize>().expect("a number");
            }
        }
    }
    println!("{tried} places, nothing lost");
}
