//! Where the linker laid functions down: what every program runs together, and apart what few run (`layout.ld`).
#![cfg(target_os = "linux")]

mod common;

use common::{library, skipped};
use core::ops::Range;
use std::process::Command;

fn said(command: &str, options: &[&str]) -> String {
    let out = Command::new(command).args(options).arg(library()).output().expect("the tool comes with the compiler");
    String::from_utf8(out.stdout).expect("names in UTF-8")
}

/// Addresses of a section.
fn section(name: &str) -> Option<Range<u64>> {
    let text = said("readelf", &["-SW"]);
    let mut words = text.lines().find_map(|line| Some(line.split_once(&format!("] {name} "))?.1))?.split_whitespace();
    let mut number = |place| u64::from_str_radix(words.nth(place)?, 16).ok();
    let (start, size) = (number(1)?, number(1)?);
    Some(start..start + size)
}

#[test]
fn what_few_programs_run_lies_apart() {
    let Some(rare) = section(".text.ashlar_rare") else {
        assert!(
            !said("readelf", &["-p", ".comment"]).contains("LLD"),
            "LLD takes layout.ld, but build.rs did not give it"
        );
        return skipped("a linker that does not take layout.ld");
    };
    let text = section(".text").expect("code");
    assert!(
        rare.end.is_multiple_of(64 << 10),
        "what every program runs begins with a window of the kernel's, not at {:#x}",
        rare.end
    );
    let names = said("nm", &[]);
    let functions: Vec<(u64, &str)> = names
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [address, "t" | "T", name] => Some((u64::from_str_radix(address, 16).ok()?, name)),
            _ => None,
        })
        .collect();
    let in_section = |name: &str, section: &Range<u64>| {
        let found: Vec<_> = functions.iter().filter(|function| function.1.contains(name)).collect();
        assert!(!found.is_empty(), "no function has {name} in its name: is it still called so in layout.ld and here?");
        let astray: Vec<_> = found.iter().filter(|function| !section.contains(&function.0)).collect();
        assert!(astray.is_empty(), "{name}: {astray:x?} outside {section:x?}");
    };
    for engine in ["8cpu_slab", "4slab", "4slob", "10segregated"] {
        in_section(&format!("6ashlar6engine{engine}"), &rare);
    }
    for module in ["6ashlar7options", "6ashlar6report", "13ashlar_malloc7figures"] {
        in_section(module, &rare);
    }
    for rare_path in ["6ashlar3api10zone_stats", "6ashlar10background5start", "6ashlar6percpu5drain"] {
        in_section(rare_path, &rare);
    }
    for hollow in ["6ashlar6engine6hollow", "6ashlar6engine4slub6hollow9come_home"] {
        in_section(hollow, &rare);
    }
    for path in ["6ashlar6engine4slub6refill", "6ashlar6malloc11malloc_slow", "6ashlar6malloc9free_slow"] {
        in_section(path, &text);
    }
    // 103 KiB when this was written.
    let bytes = text.end - text.start;
    assert!(
        cfg!(debug_assertions) || bytes <= 104 << 10,
        "{bytes} bytes of code lie where every program has them resident"
    );
}
