//! The heap profile, for programs that want one about themselves.
//!
//! What is sampled are the objects of [`crate::malloc`], which `ashlar-malloc` exports as C's
//! functions, of `kmalloc`, which [`Ashlar`](crate::Ashlar) stands on, and of the caches of the
//! program.
//!
//! ```no_run
//! ashlar::profile::start(512 << 10)?;
//! // ...
//! let file = std::fs::File::create("heap.ashlar").expect("a file");
//! assert!(ashlar::profile::dump(std::os::fd::AsRawFd::as_raw_fd(&file)));
//! ashlar::profile::stop();
//! # Ok::<(), ashlar::profile::ProfileError>(())
//! ```
//!
//! `ashlar profile FILE` reads what [`dump`] writes. With `ASHLAR_PROFILE=FILE` in its environment,
//! a program starts a profile when it is loaded and writes it at exit.

mod environment;

use crate::boot;
use crate::sizes::profile;
pub use crate::sizes::profile::ProfileError;
pub(super) use environment::{start_as_asked, write_at_exit};

/// Starts a profile: a sample about each `rate` bytes, 1 to 16 MiB. With a rate of 1 each object is
/// a sample. A profile that runs starts anew.
///
/// # Errors
/// A bad rate, an engine other than `ashlar`, no unwinder, no memory.
#[place(cold)]
pub fn start(rate: usize) -> Result<(), ProfileError> {
    if !boot::ensure_base() {
        return Err(ProfileError::Memory);
    }
    profile::start(rate)
}

/// Stops the profile. What was sampled stays. Frees of samples are still noticed, but for those by
/// the handle of a cache.
#[place(cold)]
pub fn stop() {
    profile::stop();
}

/// Writes the profile to a file descriptor, as text for `ashlar profile`. Returns false if no
/// profile was started, or something cannot be written.
#[must_use]
#[place(cold)]
pub fn dump(file: i32) -> bool {
    profile::dump(file)
}

/// Writes the profile to a file, which it creates or replaces. The name has the number of the
/// process in place of `%p`.
///
/// # Errors
/// The number of the system's error; `EIO` if no profile was started.
#[doc(hidden)]
#[place(cold)]
pub fn dump_to(name: &[u8]) -> Result<(), i32> {
    environment::write(name)
}

#[cfg(all(test, not(ashlar_loom)))]
mod tests {
    use crate::KmemCache;
    use crate::base::units::CpuId;
    use crate::cache::{CacheArgs, registry, sampling};
    use crate::percpu::area::{PERCPU, closed, no_sheaves};
    use crate::percpu::{self, all_cpus};

    #[expect(unsafe_code, reason = "reads the slot of each CPU, and frees")]
    #[test]
    fn no_sheaf_gets_into_the_slot_of_the_fast_paths_while_a_cache_is_sampled() {
        let cache = KmemCache::create("closed", 64, &CacheArgs::DEFAULT.no_merge(true)).expect("a cache");
        let raw = cache.raw_cache();
        let words = |slot: u16, cpu: CpuId| {
            let at = PERCPU.slot(cpu, slot);
            // SAFETY: words of the committed areas.
            unsafe { [at.read_volatile(), at.add(1).read_volatile()] }
        };
        let is_everywhere = |slot, wanted| all_cpus().all(|cpu| words(slot, cpu) == wanted);
        let objects = [(); 100].map(|()| cache.alloc().expect("memory"));
        // SAFETY: live, each freed once.
        objects.into_iter().for_each(|object| unsafe { cache.free(object) });
        let before = percpu::read(raw.slot);
        for _ in 0..3 {
            registry::with_lock(|| sampling::begin(raw));
            assert!(sampling::is_sampled(raw) && raw.sheaf_slot() != raw.slot);
            assert!(is_everywhere(raw.slot, closed()) && is_everywhere(raw.sheaf_slot(), no_sheaves()));
            // What a thread does that was under way, and one that reads the old place later.
            if let Some(view) = before {
                assert!(!percpu::exchange(raw.slot, &view, view.main, view.spare));
            }
            assert!(percpu::read(raw.slot).is_none());
            assert_eq!((percpu::pop(raw.slot), percpu::push(raw.slot, 4096)), (0, false));
            assert_eq!((percpu::pop_batch(raw.slot, &mut [0; 4]), percpu::push_batch(raw.slot, &[4096; 4])), (0, 0));
            assert!(percpu::drain::drain(&[raw.slot], |_, _, _| panic!("a closed slot has no sheaf")));
            assert!(is_everywhere(raw.slot, closed()));
            let (object, second) = (cache.alloc().expect("memory"), raw.sheaf_slot());
            // SAFETY: live, freed once.
            unsafe { cache.free(object) };
            registry::with_lock(|| sampling::end(raw));
            assert!(!sampling::is_sampled(raw) && raw.sheaf_slot() == raw.slot);
            assert!(is_everywhere(raw.slot, no_sheaves()) && is_everywhere(second, closed()));
        }
        cache.destroy().expect("every object came back");
    }
}
