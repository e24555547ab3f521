//! `ashlar profile` and `ashlar run --leaks` from outside.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod common;
#[path = "common/running.rs"]
mod running;

use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{ashlar, command, refused, scratch, text};
use running::{build, library, skipped};

/// The programs with known sites.
fn program() -> &'static str {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let path = BUILT.get_or_init(|| {
        library();
        build("profiled.c", &["-O1", "-g", "-pthread"])
    });
    path.to_str().expect("a path in UTF-8")
}

/// What is live by function.
type Sites = HashMap<String, f64>;

/// Runs a program with a profile. Returns what it printed, and the file.
fn profiled(name: &str, rate: &str, options: &[&str], words: &[&str]) -> (String, PathBuf) {
    let file = scratch(&format!("{name}-{rate}.profile"));
    let path = file.to_str().expect("a path in UTF-8");
    let run = [&["run", "--profile", path, "--profile-rate", rate], options, &["--", program()], words].concat();
    let out = ashlar(&run);
    assert!(out.status.success() && out.stderr.is_empty(), "{run:?}: {}: {}", out.status, text(&out.stderr));
    (text(&out.stdout), file)
}

/// What `ashlar profile` prints.
fn shown(file: &Path, options: &[&str]) -> String {
    let path = file.to_str().expect("a path in UTF-8");
    let out = ashlar(&[&["profile", path], options].concat());
    assert!(out.status.success(), "{options:?}: {}", text(&out.stderr));
    text(&out.stdout)
}

/// The bytes by the function that called the allocator.
fn by_site(file: &Path, options: &[&str]) -> Sites {
    let mut sites = Sites::new();
    for line in shown(file, &[&["--folded"], options].concat()).lines() {
        let (stack, bytes) = line.rsplit_once(' ').expect("bytes behind the functions");
        let site = stack.split(';').rfind(|name| name.starts_with("site_")).unwrap_or("others");
        *sites.entry(site.to_owned()).or_default() += bytes.parse::<f64>().expect("bytes");
    }
    sites
}

/// Samples taken, freed, lost, truncated and nested, and the number of live ones.
fn counts(file: &Path) -> ([u64; 5], u64) {
    let text = fs::read_to_string(file).expect("a profile");
    let line = text.lines().find_map(|line| line.strip_prefix("counts ")).expect("counts");
    let counts: Vec<u64> = line.split(' ').map(|word| u64::from_str_radix(word, 16).expect("a number")).collect();
    (counts.try_into().expect("five"), text.lines().filter(|line| line.starts_with("live ")).count() as u64)
}

/// Holds the live bytes of each site against what the program says. Returns how many standard
/// deviations each estimate is off, but not those of sites whose sums are exact.
fn compare(printed: &str, file: &Path, rate: f64) -> Vec<f64> {
    let sites = by_site(file, &[]);
    let mut compared = 0;
    let mut off = Vec::new();
    for line in printed.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, _, bytes, size] = words[..] else { panic!("{line}") };
        let (bytes, size): (f64, f64) = (bytes.parse().unwrap(), size.parse().unwrap());
        let found = sites.get(name).copied().unwrap_or(0.0);
        // Each object is a sample with the probability p, and stands for 1/p objects then.
        let p = if rate <= 1.0 { 1.0 } else { -(-size / rate).exp_m1() };
        let sigma = (bytes * size * (1.0 - p) / p).sqrt();
        println!("{name} at {rate}: {bytes} bytes, {found} by samples: {:.2} sigma", (found - bytes) / sigma.max(1.0));
        assert!((found - bytes).abs() <= SIGMAS * sigma + 1.0, "{line} at {rate}: {found}, sigma {sigma}");
        compared += 1;
        off.extend((sigma > 1.0).then(|| (found - bytes) / sigma));
    }
    assert!(compared > 2, "{printed}");
    off
}

/// No estimate may be further off. Six sigma, because the tests run often: one estimate of 500
/// million is.
const SIGMAS: f64 = 6.0;

/// Checks that estimates spread as unbiased ones do: one of 370 is more than three sigma off, and
/// the mean of all is near zero.
fn assert_unbiased(off: &[f64]) {
    let number = off.len() as f64;
    let far = off.iter().filter(|sigmas| sigmas.abs() > 3.0).count();
    let mean = off.iter().sum::<f64>() / number;
    println!("{far} of {number} estimates are more than three sigma off; the mean is {mean:.2} sigma");
    assert!(number > 40.0 && far as f64 <= 2.0 + number / 50.0, "{far} of {off:?}");
    assert!(mean.abs() < 5.0 / number.sqrt(), "a mean of {mean} sigma: {off:?}");
}

#[test]
fn live_bytes_of_known_sites_are_those_of_the_program_at_every_rate() {
    let mut off = Vec::new();
    for (rate, bytes) in [("1", 1.0), ("4096", 4096.0), ("64K", 65536.0), ("512K", 524_288.0)] {
        let hardened = ["--option", "quarantine=20", "--option", "random=on", "--option", "init_on_free=on"];
        for options in [&[][..], &["--option", "percpu=lock"], &["--option", "nodes=2"], &hardened] {
            let (printed, file) = profiled("sites", rate, options, &["sites"]);
            off.extend(compare(&printed, &file, bytes));
            // Each free of a sample was noticed, and no other.
            let ([taken, freed, lost, truncated, nested], live) = counts(&file);
            assert_eq!((taken - freed, lost, truncated, nested), (live, 0, 0, 0), "at {rate}");
            assert!(freed > 0 && live > 0, "at {rate}");
            let _ = fs::remove_file(file);
        }
    }
    assert_unbiased(&off);
}

#[test]
fn what_was_allocated_is_estimated_too() {
    let (_, file) = profiled("allocated", "64K", &[], &["sites"]);
    let sites = by_site(&file, &["--allocated"]);
    // 48 bytes 200000 times; and those that pass, a hundred times as much.
    let passing: f64 = (0..200_000u32).flat_map(|i| (0..i % 20).map(|j| f64::from(16 + 40 * j))).sum();
    for (name, bytes, size) in [("site_small", 9.6e6, 48.0), ("site_passing", passing, 400.0)] {
        let sigma = (bytes * 65536.0f64.max(size)).sqrt();
        assert!((sites[name] - bytes).abs() < SIGMAS * sigma, "{name}: {} of {bytes}, sigma {sigma}", sites[name]);
    }
}

#[test]
fn threads_are_named_and_their_objects_may_be_freed_by_others() {
    for (rate, bytes) in [("1", 1.0), ("64K", 65536.0)] {
        let (printed, file) = profiled("threads", rate, &[], &["threads"]);
        compare(&printed, &file, bytes);
        let table = shown(&file, &["--by", "thread"]);
        let named = (0..4).filter(|number| table.contains(&format!("worker-{number} ("))).count();
        assert_eq!(named, 4, "{table}");
        let ([taken, freed, ..], live) = counts(&file);
        assert_eq!(taken - freed, live);
    }
}

#[test]
fn deep_backtraces_are_truncated_and_say_so() {
    let (_, file) = profiled("deep", "1", &[], &["deep"]);
    let ([_, _, lost, truncated, nested], _) = counts(&file);
    assert_eq!((lost, truncated, nested), (0, 1, 0));
    let stacks = shown(&file, &["--folded"]);
    let of_site: Vec<&str> = stacks.lines().filter(|line| line.contains(";site_small ")).collect();
    assert_eq!(of_site.len(), 2, "{stacks}");
    let deeper = |line: &str| line.matches("deeper").count();
    let (cut, whole): (Vec<&str>, Vec<&str>) = of_site.into_iter().partition(|line| line.starts_with("[truncated];"));
    assert!(cut.len() == 1 && deeper(cut[0]) > 60 && !cut[0].contains("main"), "{cut:?}");
    assert!(whole.len() == 1 && deeper(whole[0]) == 4 && whole[0].contains(";main;"), "{whole:?}");
    let table = shown(&file, &["--by", "site"]);
    assert!(table.contains("1 backtraces were deeper than 64 frames and are truncated"), "{table}");
    assert!(table.contains("    site_small at ") && table.contains("profiled.c:"), "{table}");
}

/// The unwinder may allocate. Those allocations are samples without a backtrace.
#[test]
fn an_unwinder_that_allocates_does_not_call_itself() {
    let program = program();
    let folder = scratch("unwinder");
    fs::create_dir_all(&folder).expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/allocating_unwinder.c");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wl,-soname,libgcc_s.so.1", "-o"])
        .args([folder.join("libgcc_s.so.1"), source])
        .status();
    assert!(built.expect("cc runs").success());
    let file = folder.join("profile");
    let mut run = command(program);
    run.arg("threads").env("LD_PRELOAD", library()).env("LD_LIBRARY_PATH", &folder);
    let out = run.env("ASHLAR_OPTIONS", "profile=1").env("ASHLAR_PROFILE", &file).output().expect("it runs");
    assert!(out.status.success() && out.stderr.is_empty(), "{}", text(&out.stderr));
    let ([taken, freed, lost, truncated, nested], live) = counts(&file);
    assert!(nested > 100_000 && taken == 2 * nested, "{nested} of {taken}");
    assert_eq!((taken - freed, lost, truncated), (live, 0, 0));
}

#[test]
fn the_child_of_a_fork_goes_on_with_its_copy() {
    let files = scratch("forks-%p");
    let run = ["run", "--profile", files.to_str().unwrap(), "--profile-rate", "1", "--", program(), "forks"];
    let out = ashlar(&run);
    assert!(out.status.success(), "{}: {}", out.status, text(&out.stderr));
    let printed = text(&out.stdout);
    let child = printed.lines().find_map(|line| line.strip_prefix("child ")).expect("its number");
    let file = PathBuf::from(files.to_str().unwrap().replace("%p", child));
    let sites = by_site(&file, &[]);
    assert_eq!(sites.get("site_middle").copied(), Some(500.0 * 700.0), "its own");
    let table = shown(&file, &[]);
    assert!(table.contains(&format!("heap profile of PID {child}: every object")), "{table}");
    // What the threads of the parent had by then is the only rest.
    let small = sites.get("site_small").copied().unwrap_or(0.0);
    assert_eq!(small % 200.0, 0.0, "the parent's objects of 100 bytes are freed in the child");
    let ([taken, freed, ..], live) = counts(&file);
    assert_eq!(taken - freed, live);
}

#[test]
fn a_program_starts_stops_and_writes_a_profile_by_itself() {
    let file = scratch("itself.profile");
    let mut run = command(program());
    let out = run.args(["itself", file.to_str().unwrap()]).env("LD_PRELOAD", library()).output().expect("it runs");
    assert!(out.status.success(), "{}: {}", out.status, text(&out.stderr));
    let sites = by_site(&file, &[]);
    assert_eq!((sites.get("site_small"), sites.get("site_middle")), (Some(&100.0), Some(&700.0)), "{sites:?}");
    assert_eq!((sites.get("site_large"), sites.get("site_page")), (None, None), "after it was stopped");
    assert!(shown(&file, &[]).contains(": stopped, "));
}

#[test]
fn the_tables_have_caches_functions_and_callers() {
    let (_, file) = profiled("tables", "1", &[], &["sites"]);
    let table = shown(&file, &["--limit", "3"]);
    let rows: Vec<&str> = table.lines().skip_while(|line| !line.contains("# live")).skip(1).collect();
    assert!(rows.len() == 4 && rows[3].ends_with("more (--limit)"), "{table}");
    assert!(rows[0].contains("site_large") && rows[0].contains("profiled.c:"), "{table}");
    let all = shown(&file, &["--limit", "1000"]);
    let main = all.lines().find(|line| line.ends_with("  main")).expect("a row of the caller");
    assert!(main.trim_start().starts_with("0 B") && main.contains("100.0"), "{main}");
    let caches = shown(&file, &["--by", "cache"]);
    for cache in ["large", "malloc-48", "malloc-704", "malloc-9216", "malloc-320", "malloc-512", "malloc-1152"] {
        assert!(caches.lines().any(|line| line.ends_with(&format!("  {cache}"))), "{cache}: {caches}");
    }
    let sites = shown(&file, &["--by", "site", "--limit", "2", "--allocated"]);
    assert!(sites.contains("objects of ") && sites.contains("    main at "), "{sites}");
}

/// A reader of protocol buffers: the fields of a message, each a number or bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    fn number(bytes: &mut &[u8]) -> u64 {
        let mut number = 0;
        for place in 0.. {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            number |= u64::from(byte & 127) << (7 * place);
            if byte < 128 {
                break;
            }
        }
        number
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = number(&mut bytes);
        let value = number(&mut bytes);
        match key & 7 {
            0 => all.push((key >> 3, value, &[][..])),
            2 => {
                let (text, rest) = bytes.split_at(value as usize);
                all.push((key >> 3, 0, text));
                bytes = rest;
            }
            kind => panic!("a field of kind {kind}"),
        }
    }
    all
}

#[test]
fn the_file_for_pprof_has_the_same_sums() {
    let (_, file) = profiled("pprof", "64K", &[], &["sites"]);
    let written = scratch("heap.pb.gz");
    assert_eq!(shown(&file, &["--pprof", written.to_str().unwrap()]), "", "a file alone");
    let mut bytes = Vec::new();
    let packed = fs::File::open(&written).expect("the file");
    flate2::read::GzDecoder::new(packed).read_to_end(&mut bytes).expect("gzip");
    let profile = fields(&bytes);
    let of = |message: &[(u64, u64, &[u8])], field: u64| {
        message.iter().find(|(number, ..)| *number == field).map_or(0, |(_, value, _)| *value)
    };
    let texts: Vec<&str> = profile
        .iter()
        .filter(|field| field.0 == 6)
        .map(|field| core::str::from_utf8(field.2).expect("UTF-8"))
        .collect();
    assert_eq!(texts[0], "");
    let names: HashMap<u64, &str> = profile
        .iter()
        .filter(|field| field.0 == 5)
        .map(|field| fields(field.2))
        .map(|function| (of(&function, 1), texts[of(&function, 2) as usize]))
        .collect();
    let innermost: HashMap<u64, &str> = profile
        .iter()
        .filter(|field| field.0 == 4)
        .map(|field| fields(field.2))
        .map(|location| {
            let line = fields(location.iter().find(|field| field.0 == 4).expect("a line").2);
            (of(&location, 1), names[&of(&line, 1)])
        })
        .collect();
    let kinds: Vec<&str> =
        profile.iter().filter(|field| field.0 == 1).map(|field| texts[of(&fields(field.2), 1) as usize]).collect();
    assert_eq!(kinds, ["alloc_objects", "alloc_space", "inuse_objects", "inuse_space"]);
    let mut live = Sites::new();
    let mut labels = Vec::new();
    for sample in profile.iter().filter(|field| field.0 == 2).map(|field| fields(field.2)) {
        let packed = |number| sample.iter().find(|field| field.0 == number).expect("a list").2;
        // A list of numbers without keys: read them as fields of kind 0.
        let numbers = |bytes: &[u8]| {
            let mut all = Vec::new();
            let (mut number, mut place) = (0u64, 0);
            for &byte in bytes {
                number |= u64::from(byte & 127) << place;
                place += 7;
                if byte < 128 {
                    all.push(number);
                    (number, place) = (0, 0);
                }
            }
            all
        };
        let (places, values) = (numbers(packed(1)), numbers(packed(2)));
        assert_eq!(values.len(), 4);
        let site = places.iter().map(|place| innermost[place]).find(|name| name.starts_with("site_"));
        *live.entry(site.unwrap_or("others").to_owned()).or_default() += values[3] as f64;
        labels.extend(sample.iter().filter(|field| field.0 == 3).map(|field| texts[of(&fields(field.2), 1) as usize]));
    }
    let folded = by_site(&file, &[]);
    for (site, bytes) in &folded {
        assert!((live[site] - bytes).abs() <= bytes * 1e-3 + 10.0, "{site}: {} and {bytes}", live[site]);
    }
    for label in ["cache", "thread", "bytes", "age"] {
        assert!(labels.contains(&label), "no label {label}");
    }
    assert_eq!(of(&profile, 12), 65536, "the period");

    let go = Command::new("go").args(["tool", "pprof", "-top", "-sample_index=inuse_space"]).arg(&written).output();
    match go {
        Ok(out) if out.status.success() => {
            let table = text(&out.stdout);
            assert!(table.contains("site_large") && table.contains("site_page"), "{table}");
        }
        _ => skipped("no pprof of Go on this machine"),
    }
}

/// Runs the known program for leaks.
fn leaks(options: &[&str], words: &[&str]) -> std::process::Output {
    ashlar(&[&["run", "--leaks"], options, &["--", program()], words].concat())
}

#[test]
fn what_lives_at_exit_is_listed_by_site() {
    let out = leaks(&[], &["deep"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains(" objects lived at exit, reachable or not\n"), "{said}");
    assert!(
        said.contains("100 B live") && said.contains("    site_small at ") && said.contains("[truncated]"),
        "{said}"
    );
    assert_eq!(leaks(&["--leak-exit-code", "23"], &["deep"]).status.code(), Some(23));
    assert_eq!(leaks(&[], &["nothing"]).status.code(), Some(99), "that of the program");

    let known = scratch("known");
    fs::write(&known, "# known\n\nleak:^site_sm*ll$\nleak:libc\nleak:never_called\n").expect("a file");
    let out = leaks(&["--suppressions", known.to_str().unwrap(), "--leak-exit-code", "23"], &["deep"]);
    let said = text(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.starts_with("ashlar: 0 B in 0 objects lived at exit"), "{said}");
    assert!(said.contains("suppressed: 200 B in 2 objects by leak:^site_sm*ll$"), "{said}");
    assert!(!said.contains("never_called"), "{said}");
}

#[test]
fn a_program_that_ends_by_a_signal_has_no_list() {
    library();
    let out = ashlar(&["run", "--leaks", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(out.status.code(), Some(137));
    assert!(text(&out.stderr).contains("ended without its exit handlers"), "{}", text(&out.stderr));
}

#[test]
fn bad_input_is_named() {
    library();
    let folder = scratch("bad");
    fs::create_dir_all(&folder).expect("a folder");
    let [nothing, cut, lines] = ["nothing", "cut", "lines"].map(|name| folder.join(name).display().to_string());
    fs::write(&nothing, "").expect("a file");
    fs::write(&cut, "ashlar-profile 2\nrate 80000\n").expect("a file");
    fs::write(&lines, "site_a\n").expect("a file");
    let folder = folder.to_str().unwrap();
    refused(
        &["profile"],
        &[
            (&[], "FILE"),
            (&["/no/such/file"], "/no/such/file: No such file"),
            (&[&nothing], "expected a profile"),
            (&[&cut], "cut off"),
            (&[folder], "Is a directory"),
            (&[&nothing, "--by", "colour"], "--by"),
            (&[&nothing, "--folded", "--top"], "--top"),
            (&[&nothing, "--limit", "many"], "--limit"),
        ],
    );
    let program = &["--", "true"][..];
    refused(
        &["run"],
        &[
            (&[&["--profile-rate", "512K"], program].concat(), "--profile"),
            (&[&["--profile", &nothing, "--profile-rate", "0"], program].concat(), "--profile-rate: expected 1 to 16M"),
            (&[&["--profile", &nothing, "--profile-rate", "17M"], program].concat(), "--profile-rate: expected"),
            (&[&["--profile", &nothing, "--profile-rate", "off"], program].concat(), "--profile-rate: expected"),
            (&[&["--profile", &nothing, "--profile-rate", "1,decay=0"], program].concat(), "--profile-rate: expected"),
            (&[&["--profile", "/no/such/folder/file"], program].concat(), "--profile: /no/such/folder/file: No such"),
            (&[&["--profile", folder], program].concat(), "expected a file"),
            (
                &[&["--profile", &nothing, "--engine", "slub"], program].concat(),
                "option `profile`: expected engine=ashlar",
            ),
            (&[&["--leaks", "--engine", "slab"], program].concat(), "option `profile`: expected engine=ashlar"),
            (&[&["--suppressions", &lines], program].concat(), "--leaks"),
            (&[&["--leaks", "--suppressions", &lines], program].concat(), "line 1: expected leak:PATTERN"),
            (&[&["--leaks", "--suppressions", "/no/such/file"], program].concat(), "--suppressions: /no/such/file"),
            (&[&["--leaks", "--leak-exit-code", "256"], program].concat(), "--leak-exit-code"),
            (&[&["--leaks", "--profile", &nothing], program].concat(), "--profile"),
            (&[&["--option", "profile=on"], program].concat(), "expected profile=BYTES"),
        ],
    );
}

/// A library is not the tool: it says what it cannot do on standard error, and the program runs.
#[test]
fn the_library_says_why_there_is_no_profile() {
    let run = |options: &str, file: &str, libraries: &str| {
        // Shells end without their exit handlers, and other tools close standard error before.
        let mut run = command(program());
        run.arg("deep").env("LD_PRELOAD", library()).env("ASHLAR_OPTIONS", options).env("ASHLAR_PROFILE", file);
        let out = run.env("LD_LIBRARY_PATH", libraries).output().expect("it runs");
        assert!(out.status.success());
        text(&out.stderr)
    };
    let file = scratch("sh.profile").display().to_string();
    assert_eq!(
        run("engine=slub", &file, ""),
        "ashlar: profile: expected engine=ashlar: other engines have no profile\n"
    );
    assert_eq!(
        run("", "/no/such/folder/file", ""),
        "ashlar: ASHLAR_PROFILE: /no/such/folder/file: cannot be written (error 2)\n"
    );
    let folder = scratch("no-unwinder");
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("libgcc_s.so.1"), "no library").expect("a file");
    let said = run("profile=64K", &file, folder.to_str().unwrap());
    assert_eq!(said, "ashlar: profile: no unwinder for backtraces: libgcc_s.so.1 cannot be loaded\n");
    assert_eq!(run("profile=off", &file, ""), "", "a file alone asks for the usual rate");
    assert!(shown(Path::new(&file), &[]).contains(": a sample each 512 KiB, "));
}
