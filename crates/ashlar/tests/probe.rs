//! `LockProbe` reports no lock while no thread is in the allocator, and all while all are held.

mod common;

use ashlar::{Engine, LockProbe, LocksHeld};
use common::child;

#[test]
fn a_probe_sees_the_locks_of_every_engine() {
    for engine in Engine::ALL {
        let options = format!("engine={},reaper=off", engine.id());
        let child = child("a_probe_sees_the_locks_of_every_engine", &options, &[("ASHLAR_OPTIONS", &options)], || {
            let probe = LockProbe::new(64).expect("64 bytes have a cache");
            assert_eq!(probe.look(), LocksHeld { list: false, zone: false });
            ashlar::fork::prepare();
            let seen = probe.look();
            // SAFETY: `prepare` was called by this thread, two lines above.
            unsafe { ashlar::fork::after_in_parent() };
            assert_eq!(seen, LocksHeld { list: true, zone: true });
            assert_eq!(probe.look(), LocksHeld::default());
        });
        // `None`: this child tests another engine.
        let Some(child) = child else { continue };
        child.succeeded();
    }
}

#[test]
fn sizes_without_a_cache_have_no_probe() {
    let child = child("sizes_without_a_cache_have_no_probe", "sizes", &[], || {
        assert!(LockProbe::new(0).is_none());
        assert!(LockProbe::new(1 << 20).is_none());
        assert!(LockProbe::new(1).is_some());
    });
    child.expect("the parent").succeeded();
}
