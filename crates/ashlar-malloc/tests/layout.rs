//! The layout of the library (`layout.ld`): code that every program uses lies together, and code
//! that few use lies apart.
#![cfg(target_os = "linux")]

mod common;

#[cfg(target_arch = "x86_64")]
use common::{NOT_HERE, build, on_library};
use common::{library, skipped};
use core::ops::Range;
#[cfg(target_arch = "x86_64")]
use std::path::Path;
use std::process::Command;

fn said(command: &str, options: &[&str]) -> String {
    let out = Command::new(command).args(options).arg(library()).output().expect("the tool comes with the compiler");
    String::from_utf8(out.stdout).expect("names in UTF-8")
}

/// Returns the addresses of a section.
fn section(name: &str) -> Option<Range<u64>> {
    let text = said("readelf", &["-SW"]);
    let mut words = text.lines().find_map(|line| Some(line.split_once(&format!("] {name} "))?.1))?.split_whitespace();
    let mut number = |place| u64::from_str_radix(words.nth(place)?, 16).ok();
    let (start, size) = (number(1)?, number(1)?);
    Some(start..start + size)
}

/// Returns the addresses of the code and of the tables that lie apart; `None` if the linker does
/// not support the script.
fn apart() -> Option<[Range<u64>; 2]> {
    let Some(code) = section(".text.ashlar_apart") else {
        assert!(
            !said("readelf", &["-p", ".comment"]).contains("LLD"),
            "LLD takes layout.ld, but build.rs did not give it"
        );
        skipped("a linker that does not take layout.ld");
        return None;
    };
    let end = section(".eh_frame").expect("tables for unwinding").end;
    let tables = section(".rodata.ashlar_apart").expect("messages").start..end;
    for unwinding in [".eh_frame_hdr", ".eh_frame"].map(section) {
        let unwinding = unwinding.expect("tables for unwinding");
        assert!(tables.contains(&unwinding.start), "tables for unwinding at {unwinding:x?}, not in {tables:x?}");
    }
    Some([code, tables])
}

/// What a linker makes of the script may differ: GNU ld once put everything into one segment.
#[test]
fn no_segment_is_written_and_run() {
    let text = said("readelf", &["-lW"]);
    let loaded: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("LOAD")).collect();
    assert!(loaded.len() > 1 && loaded.iter().any(|line| line.contains(" R E ")), "{text}");
    assert!(!loaded.iter().any(|line| line.contains("RWE")), "{text}");
    assert!(text.contains("GNU_RELRO"), "{text}");
}

#[test]
fn what_few_programs_use_lies_apart() {
    let Some([apart, tables]) = apart() else { return };
    let text = section(".text").expect("code");
    for address in [apart.start, apart.end] {
        assert!(address.is_multiple_of(64 << 10), "{address:#x} is in the middle of a window of the kernel's");
    }
    assert!(!apart.contains(&text.start) && text.end <= tables.start, "{apart:x?}, {text:x?}, {tables:x?}");
    let names = said("nm", &[]);
    let symbols: Vec<(u64, &str)> = names
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [address, "t" | "T" | "r" | "R", name] => Some((u64::from_str_radix(address, 16).ok()?, name)),
            _ => None,
        })
        .collect();
    let lies = |name: &str, place: &Range<u64>| {
        let found: Vec<_> = symbols.iter().filter(|symbol| symbol.1.contains(name)).collect();
        assert!(!found.is_empty(), "nothing has {name} in its name: is it still called so in layout.ld and here?");
        let astray: Vec<_> = found.iter().filter(|symbol| !place.contains(&symbol.0)).collect();
        assert!(astray.is_empty(), "{name}: {astray:x?} outside {place:x?}");
    };
    for engine in ["7history4slub", "7history11slab_queues", "7history4slob", "7history10slob_pools"] {
        lies(&format!("6ashlar6engine{engine}"), &apart);
    }
    for module in [
        "6ashlar5sizes7profile7samples",
        "14malloc_counted",
        "6ashlar5cache8settings",
        "6ashlar4base6report",
        "6ashlar5faces5stats",
        "6ashlar4boot17lay_out_for_linux",
    ] {
        lies(module, &apart);
    }
    for function in [
        "21look_for_replacements",
        "13ashlar_malloc8deepbind",
        "6ashlar3api10zone_stats",
        "6ashlar6percpu5drain",
        "5owner6Misuse6report",
    ] {
        lies(function, &apart);
    }
    lies("6ashlar6engine7sheaves6sparse23restore_emptied_of_node", &apart);
    for path in [
        "6ashlar6engine7sheaves6refill6refill",
        "6ashlar6engine7sheaves6refill9from_list",
        "6ashlar6engine7sheaves6refill14from_new_slabs",
        "7counted6x86_6411malloc_slow",
        "6ashlar5faces6malloc4slow16malloc_uncounted",
        "6ashlar5faces6malloc4slow9free_slow",
        "7process7at_load",
    ] {
        lies(path, &text);
    }
    // 79.8 KiB when this was written.
    let bytes = text.end - text.start;
    assert!(
        cfg!(debug_assertions) || bytes <= 80 << 10,
        "{bytes} bytes of code lie where every program has them resident"
    );
}

/// Runs of the program of which one must leave nothing resident that lies apart.
#[cfg(target_arch = "x86_64")]
const RUNS: usize = 4;

/// Start-up uses some of these pages, and drops them. Allocations of any size, in several threads,
/// need neither code nor constants there. In one run of a hundred, depending on how the threads
/// meet, slabs become so sparse that their free pages are returned before the zone grows. That code
/// lies apart, so the program runs again then.
#[test]
#[cfg(target_arch = "x86_64")]
fn nothing_that_lies_apart_is_resident() {
    let Some(apart) = apart() else { return };
    if cfg!(debug_assertions) {
        return skipped("a library that is not optimised");
    }
    let program = build("cc", "c/resident.c", &[]);
    let mut found = Vec::new();
    for _ in 0..RUNS {
        let Some(pages) = resident_of(&program, &apart) else { return skipped("no /proc/self/pagemap") };
        found = pages;
        if found.is_empty() {
            return;
        }
    }
    panic!("of {apart:x?} these pages are resident: {found:x?}");
}

/// Returns the pages of the library that lie in one of two ranges and that a run of the program
/// leaves resident, as offsets. `None` if the program cannot know.
#[cfg(target_arch = "x86_64")]
fn resident_of(program: &Path, apart: &[Range<u64>; 2]) -> Option<Vec<u64>> {
    let out = on_library(program, "").output().expect("the program runs");
    if out.status.code() == Some(NOT_HERE) {
        return None;
    }
    assert!(out.status.success(), "{out:?}");
    let library = library();
    let library = library.to_str().expect("a path in UTF-8");
    let (mut base, mut all) = (None, 0);
    let mut found = Vec::new();
    for line in String::from_utf8(out.stdout).expect("text").lines() {
        // A page and the line of its mapping.
        let Some((page, mapping)) = line.split_once(' ') else { panic!("a line without a mapping: {line}") };
        if mapping.ends_with(library) {
            let page = u64::from_str_radix(page, 16).expect("an address");
            let start =
                mapping.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok()).expect("a mapping");
            let place = page - *base.get_or_insert(start);
            all += 1;
            if apart.iter().any(|range| range.contains(&place)) {
                found.push(place);
            }
        }
    }
    println!("{} KiB of the library are resident", all * 4);
    assert!(all >= 16, "{all} pages of the library are resident: is this its file?");
    Some(found)
}
