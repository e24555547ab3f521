//! The forwarder on an allocator that knows every live object: packets are conserved, and buffers
//! freed once.

use core::alloc::Layout;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::alloc::{alloc, dealloc};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use crate::experiments::forward::args::{self, MOST_BULK};
use crate::experiments::forward::child::completions::{Completions, Free};
use crate::experiments::forward::child::forwarder::Forwarder;
use crate::experiments::forward::child::memory::MemoryWire;
use crate::experiments::forward::child::packet;
use crate::experiments::forward::child::pool::{HEAD, Others, Pool};
use crate::experiments::forward::child::routes::Routes;
use crate::experiments::forward::child::traffic::Trace;
use crate::experiments::forward::plan::tally::{Reason, Tally};

const LEAST: usize = args::LEAST as usize;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Head,
    Data,
    Other(usize),
}

/// Knows what is live; refuses after `limit` allocations.
#[derive(Debug)]
struct Ledger {
    live: Mutex<BTreeMap<usize, (Kind, usize)>>,
    left: AtomicUsize,
    largest_bulk: AtomicUsize,
}

impl Ledger {
    fn with_limit(limit: usize) -> Self {
        Self { live: Mutex::default(), left: AtomicUsize::new(limit), largest_bulk: AtomicUsize::new(0) }
    }

    fn take(&self, kind: Kind, size: usize) -> *mut u8 {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_err() {
            return core::ptr::null_mut();
        }
        // SAFETY: the size is not zero.
        let object = unsafe { alloc(Layout::from_size_align(size, 8).unwrap()) };
        assert!(self.live.lock().unwrap().insert(object as usize, (kind, size)).is_none());
        object
    }

    fn give(&self, kind: Kind, object: *mut u8, size: Option<usize>) {
        let known = self.live.lock().unwrap().remove(&(object as usize));
        let (was, bytes) = known.expect("an object is freed once, by its start");
        assert_eq!(was, kind);
        assert!(size.is_none_or(|size| size == bytes));
        // SAFETY: allocated by `take` with this layout, and taken off the ledger just above.
        unsafe {
            object.write_bytes(0xDB, bytes);
            dealloc(object, Layout::from_size_align(bytes, 8).unwrap());
        }
    }
}

impl Pool for Ledger {
    fn new() -> Result<Self, String> {
        Ok(Self::with_limit(usize::MAX))
    }
    fn head(&self) -> *mut u8 {
        self.take(Kind::Head, HEAD)
    }
    unsafe fn free_head(&self, head: *mut u8) {
        self.give(Kind::Head, head, None);
    }
    unsafe fn free_heads(&self, heads: &[*mut u8]) {
        self.largest_bulk.fetch_max(heads.len(), Ordering::Relaxed);
        heads.iter().for_each(|&head| self.give(Kind::Head, head, None));
    }
    fn data(&self, size: usize) -> *mut u8 {
        self.take(Kind::Data, size)
    }
    unsafe fn free_data(&self, data: *mut u8, size: usize) {
        self.give(Kind::Data, data, Some(size));
    }
    fn other(&self, which: usize) -> *mut u8 {
        self.take(Kind::Other(which), HEAD)
    }
    unsafe fn free_other(&self, which: usize, object: *mut u8) {
        self.give(Kind::Other(which), object, None);
    }
}

/// What becomes of the first `packets` of a trace.
fn expected(trace: &Trace, packets: usize) -> Tally {
    let mut tally = Tally { received: packets as u64, ..Tally::default() };
    for at in 0..packets {
        match trace.fault(at % trace.len()) {
            Some(reason) => tally.dropped[reason as usize] += 1,
            None => tally.forwarded += 1,
        }
    }
    tally
}

fn completions(pool: &Arc<Ledger>, free: Free, other: bool) -> Completions {
    if other { Completions::other(pool, free, 100, || ()) } else { Completions::same(free) }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn packets_are_conserved_and_every_buffer_is_freed_once(
        packets in 0usize..3000,
        size in LEAST..300,
        flows in 1usize..50,
        bad in 0usize..=1000,
        others in 0usize..100,
        bulk in prop::option::of(1..=MOST_BULK),
        other_cpu: bool,
    ) {
        let routes = Arc::new(Routes::generate(500, 1));
        let trace = Arc::new(Trace::generate(&routes, flows, size, bad, 1));
        let pool = Arc::new(Ledger::new().unwrap());
        let free = bulk.map_or(Free::OneByOne, Free::Bulk);
        let completions = completions(&pool, free, other_cpu);
        let others = Others::new(&*pool, others).unwrap();
        let wire = MemoryWire::new(Arc::clone(&trace));
        let mut forwarder = Forwarder::new(Arc::clone(&pool), wire, routes, size, completions, others);
        for _ in 0..2 {
            forwarder.tally = Tally::default();
            forwarder.wire.start(packets, true);
            while forwarder.wire.left > 0 {
                forwarder.poll().unwrap();
            }
            forwarder.drain();
            prop_assert!(forwarder.tally.is_conserved());
            prop_assert_eq!(forwarder.tally, expected(&trace, packets));
        }
        forwarder.end().unwrap();
        prop_assert!(pool.live.lock().unwrap().is_empty());
        let largest = pool.largest_bulk.load(Ordering::Relaxed);
        prop_assert!(largest <= bulk.unwrap_or(0), "{} at once", largest);
        // On the same CPU what one poll sent goes back in the next: as much as the limit allows.
        let enough = bad == 0 && packets > 128 && !other_cpu;
        prop_assert!(!enough || largest == bulk.unwrap_or(0).min(64), "{} at once", largest);
    }

    #[test]
    fn where_memory_ends_nothing_is_lost(limit in 0usize..700, bulk: bool) {
        let routes = Arc::new(Routes::generate(50, 1));
        let trace = Arc::new(Trace::generate(&routes, 1, LEAST, 0, 1));
        let pool = Arc::new(Ledger::with_limit(limit));
        let free = if bulk { Free::Bulk(32) } else { Free::OneByOne };
        let mut forwarder = Forwarder::new(
            Arc::clone(&pool),
            MemoryWire::new(trace),
            routes,
            LEAST,
            Completions::same(free),
            Others::new(&*pool, 0).unwrap(),
        );
        forwarder.wire.start(10_000, true);
        let mut outcome = Ok(0);
        while outcome.is_ok() {
            outcome = forwarder.poll();
        }
        prop_assert_eq!(outcome.unwrap_err(), "memory for a packet is missing");
        prop_assert!(forwarder.tally.is_conserved());
        forwarder.end().unwrap();
        prop_assert!(pool.live.lock().unwrap().is_empty());
    }
}

#[test]
fn the_wire_in_memory_sees_what_is_wrong() {
    use crate::experiments::forward::child::forwarder::Wire;
    use crate::experiments::forward::child::skb;
    use crate::experiments::forward::child::skb::Skb;
    let routes = Routes::generate(50, 1);
    let trace = Arc::new(Trace::generate(&routes, 1, LEAST, 0, 1));
    let pool = Ledger::new().unwrap();
    let mut packets = [Skb::new(&pool, LEAST).unwrap(), Skb::new(&pool, LEAST).unwrap()];
    let mut wire = MemoryWire::new(Arc::clone(&trace));
    let come = |wire: &mut MemoryWire, packets: &mut [Skb; 2]| {
        wire.start(2, true);
        assert_eq!(wire.receive(packets), Ok(2));
        for packet in packets.iter_mut() {
            packet::forward(packet.frame(), &routes).unwrap();
        }
    };
    come(&mut wire, &mut packets);
    assert_eq!(wire.send(&mut packets), Ok(()));
    come(&mut wire, &mut packets);
    packets.swap(0, 1);
    assert!(wire.send(&mut packets).unwrap_err().contains("frame 1 went out where 0 was due"));
    come(&mut wire, &mut packets);
    packets[1].frame()[LEAST - 1] ^= 1;
    assert!(wire.send(&mut packets).unwrap_err().contains("spoiled"));
    packets.into_iter().for_each(|packet| skb::free(&pool, packet));
}

#[test]
fn reasons_are_numbered_as_they_are_listed() {
    for (at, reason) in Reason::ALL.into_iter().enumerate() {
        assert_eq!(reason as usize, at);
    }
}
