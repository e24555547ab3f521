//! How the zone grows: past what stands in its way, up to its bound, under limits that change.

#![cfg(target_os = "linux")]

mod common;

use common::{child, statm};

const MIB: usize = 1 << 20;

/// Allocates objects of `size` until memory ends or there are `most`.
fn take(size: usize, most: usize) -> Vec<*mut u8> {
    let all = core::iter::repeat_with(|| ashlar::kmalloc(size)).take_while(|at| !at.is_null());
    all.take(most).collect()
}

fn give(all: Vec<*mut u8>) {
    // SAFETY: live, each freed once.
    all.into_iter().for_each(|at| unsafe { ashlar::kfree(at) });
}

#[test]
fn a_zone_that_is_full_refuses_small_objects_and_maps_large_ones() {
    let test = "a_zone_that_is_full_refuses_small_objects_and_maps_large_ones";
    for options in ["zone=64M", "zone=64M,nodes=4", "zone=64M,percpu=lock"] {
        let child = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            for _ in 0..3 {
                let full = take(1000, 1 << 20);
                assert!(full.len() > 48 * MIB / 1000 && full.len() <= 64 * MIB / 1000, "{} objects", full.len());
                // Each has addresses of its own.
                let large = take(3 * MIB, 20);
                assert_eq!(large.len(), 20);
                for &at in &large {
                    // SAFETY: live memory of that size.
                    unsafe { at.write_bytes(1, 3 * MIB) };
                }
                give(large);
                give(full);
            }
            let stats = ashlar::zone_stats();
            assert!(stats.committed * ashlar::PAGE_SIZE <= 64 * MIB, "{stats:?}");
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

/// The most memory that was ever resident, in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("the line is there");
    peak.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

/// Pages larger than the system's ask for no alignment that mappings do not have.
#[test]
fn a_mapping_of_malloc_is_resized_without_a_copy() {
    let test = "a_mapping_of_malloc_is_resized_without_a_copy";
    let child = child(test, test, &[], || {
        let small = ashlar::malloc::malloc(64 * MIB);
        // SAFETY: live memory of that size.
        unsafe { small.write_bytes(1, 64 * MIB) };
        let before = peak();
        // SAFETY: live, and not used any more.
        let large = unsafe { ashlar::malloc::realloc(small, 256 * MIB) };
        assert!(!large.is_null());
        // SAFETY: live memory, of which 64 MiB were written.
        assert_eq!(unsafe { (large.read(), large.add(64 * MIB - 1).read()) }, (1, 1));
        let grown = peak() - before;
        assert!(before >= 64 * MIB && grown < 32 * MIB, "{before} bytes, and {grown} more");
        // SAFETY: live, freed once.
        unsafe { ashlar::malloc::free(large) };
    });
    if let Some(child) = child {
        child.succeeded();
    }
}

/// A program that sets aside more than it uses does not pay for the rest when it sets aside more.
#[test]
fn pages_of_zeros_are_not_copied_to_a_mapping() {
    let test = "pages_of_zeros_are_not_copied_to_a_mapping";
    let child = child(test, test, &[("ASHLAR_OPTIONS", "hugepages=off")], || {
        const SIZE: usize = 24 * MIB;
        let places = [0, 5 * MIB + 4095, 5 * MIB + 4096, 12 * MIB + 77, SIZE - 1];
        let small = ashlar::malloc::malloc(SIZE);
        // SAFETY: live memory of that size.
        places.iter().for_each(|&at| unsafe { small.add(at).write(at as u8 | 1) });
        let before = peak();
        // SAFETY: live, and not used any more.
        let large = unsafe { ashlar::malloc::realloc(small, 40 * MIB) };
        assert!(!large.is_null() && large != small);
        // SAFETY: live memory of that size.
        places.iter().for_each(|&at| assert_eq!(unsafe { large.add(at).read() }, at as u8 | 1));
        // SAFETY: as above; memory that was not written reads as zero in a new mapping.
        assert_eq!(unsafe { (large.add(MIB).read(), large.add(SIZE - 4097).read()) }, (0, 0));
        let grown = peak() - before;
        assert!(grown < SIZE / 2, "{grown} bytes more");
        // SAFETY: live, freed once.
        unsafe { ashlar::malloc::free(large) };
    });
    if let Some(child) = child {
        child.succeeded();
    }
}

/// The end of the mapping that an address lies in.
fn end_of_mapping(address: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let ranges = maps.lines().filter_map(|line| line.split(' ').next()?.split_once('-'));
    let number = |text| usize::from_str_radix(text, 16).expect("an address");
    let range = ranges.map(|(start, end)| number(start)..number(end)).find(|range| range.contains(&address));
    range.expect("a mapping").end
}

#[test]
fn the_zone_grows_around_mappings_in_its_way_and_leaves_them_alone() {
    let test = "the_zone_grows_around_mappings_in_its_way_and_leaves_them_alone";
    for options in ["", "nodes=3", "percpu=lock"] {
        let child = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            let mut foreign = Vec::new();
            let mut all = take(1000, 10);
            for bytes in [4096, 5 * MIB, 300 * MIB, 4096] {
                let end = end_of_mapping(*all.last().expect("some") as usize);
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
                let access = libc::PROT_READ | libc::PROT_WRITE;
                // SAFETY: the flag lets it replace no mapping.
                let at = unsafe { libc::mmap(end as *mut _, bytes, access, flags, -1, 0) };
                // With several nodes another one may have grown there.
                if at != libc::MAP_FAILED {
                    // SAFETY: fresh memory that the test mapped.
                    unsafe { at.cast::<u8>().write(77) };
                    foreign.push((at as usize, bytes));
                }
                all.extend(take(1000, 16 * MIB / 1000));
                all.extend(take(5 * MIB, 3));
            }
            assert!(!foreign.is_empty() && all.len() > 60 * MIB / 1000);
            for &at in &all {
                // SAFETY: live, of that many bytes at least.
                unsafe { at.write_bytes(1, 1000) };
                assert!(foreign.iter().all(|&(start, bytes)| !(start..start + bytes).contains(&(at as usize))));
            }
            // The mapping between is the program's.
            for &(at, _) in &foreign {
                // SAFETY: memory that the test mapped.
                assert_eq!(unsafe { (at as *const u8).read() }, 77);
            }
            let mut sorted = all.clone();
            sorted.sort_unstable();
            assert!(sorted.windows(2).all(|pair| pair[1] as usize - pair[0] as usize >= 1000));
            give(all);
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

/// The mappings of the allocator's ranges: those at addresses that only it proposes.
fn own_mappings() -> Vec<core::ops::Range<usize>> {
    const TIB: usize = 1 << 40;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let number = |text| usize::from_str_radix(text, 16).expect("an address");
    let ranges = maps.lines().filter_map(|line| line.split(' ').next()?.split_once('-'));
    let ranges = ranges.map(|(start, end)| number(start)..number(end));
    ranges
        .filter(|range| (2 * TIB..4 * TIB).contains(&range.start) || (32 * TIB..64 * TIB).contains(&range.start))
        .collect()
}

/// A program maps memory at addresses of its own choice: behind the zone, behind each table beside
/// it, behind metadata and the object map. None of them can grow there any more.
#[test]
fn tables_and_metadata_grow_around_mappings_in_their_way() {
    let test = "tables_and_metadata_grow_around_mappings_in_their_way";
    for options in ["", "nodes=3", "percpu=lock"] {
        let child = child(test, options, &[("ASHLAR_OPTIONS", options)], || {
            let mut all = vec![ashlar::malloc::malloc(1000)];
            let mut foreign = 0;
            for bytes in [4096, 5 * MIB, 1024 * MIB] {
                for range in own_mappings() {
                    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
                    let flags = flags | libc::MAP_FIXED_NOREPLACE;
                    // SAFETY: the flag lets it replace no mapping.
                    let at = unsafe { libc::mmap(range.end as *mut _, bytes, libc::PROT_NONE, flags, -1, 0) };
                    foreign += usize::from(at != libc::MAP_FAILED);
                }
                for count in 0..40 * MIB / 1000 {
                    let at = ashlar::malloc::malloc(1000);
                    assert!(!at.is_null(), "object {count} behind {foreign} mappings, the last of {bytes} bytes");
                    // SAFETY: live, of that many bytes.
                    unsafe { at.write_bytes(1, 1000) };
                    all.push(at);
                }
                all.extend((0..3).map(|_| ashlar::malloc::malloc(5 * MIB)));
                for _ in 0..200 {
                    let cache = ashlar::KmemCache::create("many", 24, &ashlar::CacheArgs::DEFAULT.no_merge(true));
                    assert!(cache.is_ok_and(|cache| cache.alloc().is_some()), "metadata for a cache");
                }
            }
            assert!(foreign > 6, "{foreign} mappings");
            assert!(all.iter().all(|at| !at.is_null()));
            // SAFETY: live, each freed once.
            all.into_iter().for_each(|at| unsafe { ashlar::malloc::free(at) });
        });
        if let Some(child) = child {
            child.succeeded();
        }
    }
}

#[test]
fn addresses_that_are_not_used_count_for_nothing() {
    let test = "addresses_that_are_not_used_count_for_nothing";
    let child = child(test, test, &[], || {
        let before = statm(0);
        give(take(1000, 1000));
        // A block, the tables for four, areas of the CPUs, metadata.
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let grown = statm(0) - before;
        assert!(grown < 4 * MIB + 64 * 1024 * cpus.max(64), "{grown} bytes of addresses");
        let all = take(1000, 100 * MIB / 1000);
        assert!(statm(0) - before < 140 * MIB, "{} bytes for 100 MiB", statm(0) - before);
        give(all);
        // Locked as real-time programs do it: nothing is locked that is not used.
        // SAFETY: locks what there is.
        if unsafe { libc::mlockall(libc::MCL_CURRENT) } == 0 {
            assert!(statm(1) < 400 * MIB, "{} bytes are locked", statm(1));
        }
    });
    child.expect("the parent").succeeded();
}
