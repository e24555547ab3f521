//! The heap profile of programs on libashlar, and of Rust programs: this test is one of them.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;
#[path = "common/running.rs"]
mod running;

use core::hint::black_box;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{ashlar, command, scratch, text};
use running::{build, built, started};
use serde_json::Value;

#[global_allocator]
static GLOBAL: ashlar::Ashlar = ashlar::Ashlar;

/// The program with known sites, on libashlar.
fn program() -> Command {
    static BUILT: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    let (program, named) = BUILT.get_or_init(|| {
        let folder = built("ashlar-c");
        let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include");
        let flags = ["-O1", "-g", "-I", include, "-L", folder.to_str().unwrap(), "-lashlar"];
        let program = build("sampled.c", &flags);
        // The loader looks for it by the name that an installation gives it.
        let named = scratch("named-sampled");
        std::fs::create_dir_all(&named).expect("a folder");
        let _ = std::os::unix::fs::symlink(folder.join("libashlar.so"), named.join("libashlar.so.0"));
        (program, named)
    });
    let mut run = command(program.to_str().expect("a path in UTF-8"));
    run.env("LD_LIBRARY_PATH", named);
    run
}

/// The output of `ashlar profile`.
fn shown(file: &Path, options: &[&str]) -> String {
    let out = ashlar(&[&["profile", file.to_str().expect("a path in UTF-8")], options].concat());
    assert!(out.status.success(), "{options:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

/// The live bytes by the function that called the allocator.
fn by_site(file: &Path) -> HashMap<String, f64> {
    let mut sites = HashMap::new();
    for line in shown(file, &["--folded"]).lines() {
        let (stack, bytes) = line.rsplit_once(' ').expect("bytes behind the functions");
        let site = stack.rsplit(';').next().expect("a function");
        *sites.entry(site.to_owned()).or_insert(0.0) += bytes.parse::<f64>().expect("bytes");
    }
    sites
}

/// Holds what a profile says against what the program printed. An estimate may be six standard
/// deviations off, because the tests run often.
fn compare(printed: &str, file: &Path, rate: f64) {
    let sites = by_site(file);
    let caches = shown(file, &["--by", "cache"]);
    let mut compared = 0;
    for line in printed.lines().filter(|line| line.starts_with("site_")) {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, cache, live, size] = words[..] else { panic!("{line}") };
        let (live, size): (f64, f64) = (live.parse().unwrap(), size.parse().unwrap());
        let p = if rate <= 1.0 { 1.0 } else { -(-size / rate).exp_m1() };
        let sigma = size * (live * (1.0 - p) / p).sqrt();
        let found = sites.get(name).copied().unwrap_or(0.0);
        assert!(
            (found - live * size).abs() <= 6.0 * sigma + 1.0,
            "{line} at {rate}: {found}, sigma {sigma}: {sites:?}"
        );
        assert!(rate > 1.0 || caches.contains(&format!("  {cache}\n")), "{cache}: {caches}");
        compared += 1;
    }
    assert_eq!(compared, 9, "{printed}");
}

#[test]
fn live_bytes_of_known_sites_are_those_of_the_program() {
    for (rate, options) in [
        ("1", ""),
        ("1", "nodes=2"),
        ("1", "quarantine=20,random=on,init_on_free=on"),
        ("4096", "percpu=lock"),
        ("4096", "quarantine=50,percpu=lock"),
        ("65536", ""),
        ("65536", "random=on,nodes=2"),
        ("65536", "nodes=4,percpu=lock"),
    ] {
        let file = scratch(&format!("sampled-{rate}-{options}"));
        let out = program().arg(&file).arg(rate).env("ASHLAR_OPTIONS", options).output().expect("it runs");
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{rate} {options}");
        compare(&text(&out.stdout), &file, rate.parse().unwrap());
        assert_frees_were_noticed(&file);
        let _ = std::fs::remove_file(file);
    }
}

/// Checks that each free of a sample was noticed, and no other, and that no sample was lost.
fn assert_frees_were_noticed(file: &Path) {
    let text = std::fs::read_to_string(file).expect("a profile");
    let counts = text.lines().find_map(|line| line.strip_prefix("counts ")).expect("counts");
    let counts: Vec<u64> = counts.split(' ').map(|word| u64::from_str_radix(word, 16).expect("a number")).collect();
    let live = text.lines().filter(|line| line.starts_with("live ")).count() as u64;
    assert_eq!((counts[0] - counts[1], counts[2..].to_vec()), (live, vec![0; 3]));
    assert!(counts[1] > 0 && live > 0, "{counts:?}");
}

#[test]
fn debugged_caches_are_left_out_and_the_others_are_whole() {
    let file = scratch("sampled-debugged");
    for debug in ["FZ,kmalloc-512", "PU,kmalloc-512"] {
        let out = program().arg(&file).arg("1").env("ASHLAR_DEBUG", debug).output().expect("it runs");
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{debug}");
        assert_frees_were_noticed(&file);
        let sites = by_site(&file);
        let printed = text(&out.stdout);
        for line in printed.lines().filter(|line| line.starts_with("site_")) {
            let words: Vec<&str> = line.split(' ').collect();
            let bytes = words[2].parse::<f64>().expect("objects") * words[3].parse::<f64>().expect("bytes");
            let wanted = if words[1] == "kmalloc-512" { 0.0 } else { bytes };
            assert_eq!(sites.get(words[0]).copied().unwrap_or(0.0), wanted, "{debug}: {line}");
        }
    }
    let _ = std::fs::remove_file(file);
}

#[test]
fn the_environment_starts_a_profile_and_has_it_written() {
    let file = scratch("sampled-by-environment");
    let mut run = program();
    run.env("ASHLAR_PROFILE", &file).env("ASHLAR_OPTIONS", "profile=1");
    let out = run.output().expect("it runs");
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    // The objects of before are samples as well, of the function `main`.
    compare(&text(&out.stdout), &file, 1.0);
    let first = shown(&file, &["--limit", "1"]);
    assert!(first.starts_with("heap profile of PID ") && first.contains(": every object, "), "{first}");

    // With the library for malloc, the program has two allocators.
    run.env("LD_PRELOAD", running::library());
    assert!(run.output().expect("it runs").status.success());
    let second = PathBuf::from(format!("{}.2", file.display()));
    let caches = [&file, &second].map(|file| shown(file, &["--by", "cache", "--allocated"]));
    assert_eq!(caches.iter().filter(|table| table.contains("  packet\n")).count(), 1, "{caches:?}");
    assert_eq!(caches.iter().filter(|table| table.contains("  malloc-")).count(), 1, "{caches:?}");

    run.env_remove("LD_PRELOAD").env("ASHLAR_PROFILE", "/proc/none/x");
    let said = text(&run.output().expect("it runs").stderr);
    assert_eq!(said, "ashlar: ASHLAR_PROFILE: /proc/none/x: cannot be written (error 2)\n");
}

#[test]
fn a_process_on_libashlar_profiles_itself_when_it_is_asked() {
    let mut run = command("env");
    let program = program();
    run.arg("ASHLAR_OPTIONS=profile=ready").arg(program.get_program()).arg("-");
    run.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let process = started(run);
    let pid = process.pid.as_str();
    let well = |args: &[&str]| {
        let out = ashlar(args);
        assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{args:?}");
        text(&out.stdout)
    };
    let capacity = || {
        let info: Value = serde_json::from_str(&well(&["info", "--json", pid, "packet"])).expect("JSON");
        info["allocators"][0]["caches"][0]["tunables"]["sheaf_capacity"].as_u64().unwrap_or_else(|| panic!("{info}"))
    };
    let usual = capacity();
    assert!(usual > 0);
    well(&["profile", pid, "--start", "--rate", "1", "--timeout", "60"]);
    assert_eq!(capacity(), usual);
    well(&["tune", pid, "cache.packet.sheaf_capacity=12", "--timeout", "60"]);
    assert_eq!(capacity(), 12);
    let mut stacks = String::new();
    for _ in 0..600 {
        stacks = well(&["profile", pid, "--folded"]);
        if stacks.contains(";site_packet ") && stacks.contains(";site_small ") {
            break;
        }
        std::thread::sleep(core::time::Duration::from_millis(100));
    }
    assert!(stacks.contains("main;go_on;site_packet ") && stacks.contains("main;go_on;site_small "), "{stacks}");
    well(&["profile", pid, "--stop", "--timeout", "60"]);
    assert_eq!(capacity(), 12);
    let caches = well(&["profile", pid, "--by", "cache"]);
    assert!(caches.contains("  packet\n") && caches.contains("  kmalloc-128\n"), "{caches}");
}

#[inline(never)]
#[expect(clippy::vec_box, reason = "each box is an object")]
fn site_boxes() -> Vec<Box<[u8; 1000]>> {
    (0..300).map(|_| Box::new(black_box([1; 1000]))).collect()
}

#[inline(never)]
fn site_cached(cache: &ashlar::Cache<[u64; 20]>) -> Vec<ashlar::CacheBox<'_, [u64; 20]>> {
    (0..100).map(|i| cache.alloc([i; 20]).expect("memory")).collect()
}

/// One test, because a process has one profile.
#[test]
fn a_rust_program_profiles_itself() {
    use std::os::fd::AsRawFd;
    let path = scratch("rust.profile");
    let cache =
        ashlar::Cache::<[u64; 20]>::with_args("typed", &ashlar::CacheArgs::DEFAULT.no_merge(true)).expect("one");
    for round in 0..3 {
        ashlar::profile::start(1).expect("a profile");
        let (boxes, cached) = (site_boxes(), site_cached(&cache));
        drop(cached.into_iter().step_by(2).collect::<Vec<_>>());
        drop(boxes.into_iter().step_by(3).collect::<Vec<_>>());
        let (boxes, cached) = (site_boxes(), site_cached(&cache));
        let file = std::fs::File::create(&path).expect("a file");
        assert!(ashlar::profile::dump(file.as_raw_fd()));
        ashlar::profile::stop();
        let (mut of_boxes, mut of_cache) = (0.0, 0.0);
        for line in shown(&path, &["--folded"]).lines() {
            let (stack, bytes) = line.rsplit_once(' ').expect("bytes");
            let bytes: f64 = bytes.parse().expect("bytes");
            // The vectors are allocated outside of the closures.
            of_boxes += if stack.contains("site_boxes::{{closure}}") { bytes } else { 0.0 };
            of_cache += if stack.contains("site_cached::{{closure}}") { bytes } else { 0.0 };
            assert!(!stack.rsplit(';').next().expect("a function").starts_with("ashlar::"), "{stack}");
        }
        assert_eq!((of_boxes, of_cache), (300_000.0, 16_000.0), "round {round}: {}", shown(&path, &["--folded"]));
        let caches = shown(&path, &["--by", "cache"]);
        assert!(caches.contains("  typed\n") && caches.contains("  kmalloc-1k\n"), "{caches}");
        drop((boxes, cached));
        assert!(cache.as_raw().tunable(ashlar::Tunable::SheafCapacity).expect("sheaves") > 0);
    }
}
