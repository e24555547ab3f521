//! Helpers that the test files share.
#![allow(dead_code, unused_imports, reason = "each test file uses only some of it")]

pub(crate) mod conformance;
pub(crate) mod machine;
pub(crate) mod model;
pub(crate) mod process;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", feature = "os")))]
pub(crate) mod step;
pub(crate) mod stress;

pub(crate) use process::*;

/// Returns a figure of /proc/self/statm in bytes: 0 is the virtual size, 1 the resident set.
pub(crate) fn statm(field: usize) -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("procfs");
    let pages: usize = text.split(' ').nth(field).and_then(|n| n.parse().ok()).expect("statm has numbers");
    // SAFETY: sysconf has no preconditions.
    pages * unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize
}

/// Returns the number of resident pages of the `bytes` bytes at `at`.
pub(crate) fn resident(at: *mut u8, bytes: usize) -> usize {
    // SAFETY: reads a constant of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = at as usize & !(page - 1);
    let mut pages = vec![0u8; (at as usize + bytes - start).div_ceil(page)];
    // SAFETY: the range is mapped, and there is a byte for each of its pages.
    assert_eq!(unsafe { libc::mincore(start as *mut libc::c_void, pages.len() * page, pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

/// Returns the result of `look` on the cache `name`, which must exist.
pub(crate) fn of_cache<T>(name: &str, look: impl Fn(&ashlar::CacheInfo) -> T) -> T {
    let mut found = None;
    ashlar::for_each_cache(|info| {
        if info.name() == name {
            found = Some(look(info));
        }
    });
    found.unwrap_or_else(|| panic!("no cache {name}"))
}

/// Moves the calling thread to one CPU. Returns false if the thread may not run there.
pub(crate) fn pin(cpu: usize) -> bool {
    // SAFETY: a zeroed set is the empty set, the index is below its size, and the call reads the
    // set's size.
    unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        libc::CPU_SET(cpu % 1024, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) == 0
    }
}

/// Returns the CPUs that this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    // SAFETY: the set is writable for its size, and zero is the empty set.
    let set = unsafe {
        let mut set: libc::cpu_set_t = core::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set), 0);
        set
    };
    // SAFETY: the index is below the size of the set.
    (0..1024).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect()
}
