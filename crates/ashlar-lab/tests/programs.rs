//! `ashlar bench programs` from outside: what it refuses, what it notices, and what a small run writes. No test looks
//! at a time.

mod common;

use std::path::PathBuf;
use std::process::Command;

use common::{ASHLAR, ashlar, command, refused, scratch, text};

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--systems", "nosuch"], "--systems: unknown system `nosuch`; expected `all` or a comma-separated list of"),
        (&["--systems", ""], "--systems: unknown system ``"),
        (&["--workloads", "nosuch"], "--workloads: unknown workload `nosuch`; expected `all`, `synthetic`, `real`"),
        (&["--rounds", "0"], "--rounds"),
        (&["--scale", "0"], "expected a number from 0.0001 to 100"),
        (&["--scale", "much"], "expected a number from 0.0001 to 100"),
        (&["--option", "colour=blue"], "--option: option `colour=blue`"),
        (&["--by", "max"], "--by"),
        (&["--json", "/no/such/directory/out.json"], "--json: cannot write"),
        (&["--from", "/no/such/file.json"], "--from: /no/such/file.json"),
        (&["--from", "x.json", "--rounds", "3"], "--from"),
        (&["--nonsense"], "--nonsense"),
    ];
    refused(&["bench", "programs"], cases);
    refused(&["workload"], &[(&["nosuch"], "expected one of numbers")]);
}

#[test]
fn the_list_has_every_workload_and_says_what_is_missing() {
    let out = ashlar(&["bench", "programs", "--list"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let list = text(&out.stdout);
    for name in ["numbers", "handover", "sharing-given", "gcc", "redis", "startup", "glibc", "libashlar_malloc.so"] {
        assert!(list.contains(name), "no {name} in:\n{list}");
    }
    // Each peer is there with its file, or missing with the command that gets it.
    for peer in ["mimalloc", "jemalloc", "tcmalloc", "snmalloc", "rpmalloc"] {
        let found = list.lines().any(|line| line.starts_with(&format!("  {peer} ")) && line.contains(".so"));
        let missing = format!("MISSING  no library of `{peer}` here: ");
        assert!(found || list.lines().any(|line| line.starts_with(&missing)), "{peer}:\n{list}");
    }
}

/// The allocators that this tool is linked with have constructors, and TCMalloc's takes 6 MiB.
#[test]
fn a_workload_has_no_memory_of_allocators_that_it_does_not_run_on() {
    let out = ashlar(&["workload", "numbers", "--scale", "0.0001"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let answer: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let anonymous = answer["peak_anon_kib"].as_u64().expect("a number");
    assert!((1..2048).contains(&anonymous), "{anonymous} KiB");
}

#[test]
fn a_tiny_run_writes_the_json_schema_and_can_be_judged_again() {
    let json = scratch("programs.json");
    let out = ashlar(&[
        "bench",
        "programs",
        "--systems",
        "glibc,ashlar",
        "--option",
        "sheaf=16",
        "--scale",
        "0.002",
        "--rounds",
        "2",
        "--workloads",
        "synthetic,sort,startup",
        "--json",
        json.to_str().unwrap(),
    ]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    for key in ["cpu_model", "cpus", "kernel", "glibc", "ashlar_mode", "build", "rounds", "scale"] {
        assert!(!run["host"][key].is_null(), "host has no {key}");
    }
    let programs = run["programs"].as_array().unwrap();
    let of = |workload: &str, system: &str| {
        let found: Vec<_> = programs.iter().filter(|p| p["workload"] == workload && p["system"] == system).collect();
        assert_eq!(found.len(), 1, "{workload} on {system}");
        found[0]
    };
    for (workload, kind) in [("numbers", "synthetic"), ("churn", "synthetic"), ("sort", "real"), ("startup", "startup")]
    {
        for system in ["glibc", "ashlar", "ashlar[sheaf=16]"] {
            let record = of(workload, system);
            assert_eq!((&record["kind"], &record["unit"]), (&kind.into(), &"ms".into()));
            assert_eq!(record["preload"].is_null(), system == "glibc");
            for key in ["elapsed", "cpu", "user", "sys", "peak_rss_kib", "minor_faults", "context_switches"] {
                let figure = &record[key];
                assert!(figure["min"].as_f64().unwrap() <= figure["median"].as_f64().unwrap(), "{workload} {key}");
            }
            assert!(record["elapsed"]["min"].as_f64().unwrap() > 0.0);
            assert!(record["peak_rss_kib"]["min"].as_f64().unwrap() > 100.0);
            assert_eq!(record["idle_rss_kib"].is_null(), kind != "synthetic");
            assert_eq!(record["checksum"], of(workload, "glibc")["checksum"]);
            assert_eq!(record["runs"].as_u64().unwrap() as usize, record["samples"].as_array().unwrap().len());
        }
    }
    let means = run["geomeans"].as_array().unwrap();
    let base = means.iter().find(|m| m["kind"] == "synthetic" && m["system"] == "glibc").unwrap();
    assert_eq!((base["elapsed"].as_f64(), base["idle_rss"].as_f64()), (Some(1.0), Some(1.0)));

    // The table again, and the targets, from the file.
    let again = ashlar(&["bench", "programs", "--from", json.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), text(&out.stdout));
    let judged = ashlar(&["bench", "programs", "--from", json.to_str().unwrap(), "--check-targets"]);
    assert_eq!(judged.status.code(), Some(1), "no peer was measured, so no target is known to be met");
    assert!(text(&judged.stdout).contains("none  handover ahead of every peer, elapsed time: not measured"));
    let _ = std::fs::remove_file(json);
}

/// A library that answers for another allocator: the figures would be of the wrong one.
#[test]
fn a_preload_without_effect_is_noticed() {
    let out = ashlar(&["workload", "numbers", "--scale", "0.001", "--preload", "/lib/libother.so"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("the preload has no effect: malloc is served by"), "{}", text(&out.stderr));
    assert!(out.stdout.is_empty());
    assert_eq!(ashlar(&["workload", "numbers", "--scale", "0.001"]).status.code(), Some(0));
}

/// Builds a shared library and returns where it is.
fn shared_library(name: &str, source: &str) -> PathBuf {
    let (code, library) = (scratch(&format!("{name}.c")), scratch(&format!("{name}.so")));
    std::fs::write(&code, source).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&code).status();
    assert!(built.expect("cc").success());
    library
}

/// An allocator that hands the same memory out twice must not go unnoticed.
#[test]
fn a_wrong_allocator_changes_the_checksum() {
    let library = shared_library(
        "twice",
        r#"
        #include <stddef.h>
        extern void *__libc_malloc(size_t);
        extern void __libc_free(void *);
        static void *shared; static int turn;
        void *malloc(size_t size) {
            if (size != 24) return __libc_malloc(size);
            if (turn++ % 50) return __libc_malloc(size);
            if (!shared) shared = __libc_malloc(size);
            return shared;
        }
        void free(void *p) { if (p != shared || !p) __libc_free(p); }
        "#,
    );
    let checksum = |preload: Option<&PathBuf>| {
        let mut command = command(ASHLAR);
        command.args(["workload", "numbers", "--scale", "0.01"]);
        if let Some(library) = preload {
            command.arg("--preload").arg(library).env("LD_PRELOAD", library);
        }
        let out = command.output().unwrap();
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        answer["checksum"].as_str().unwrap().to_owned()
    };
    assert_eq!(checksum(None), checksum(None));
    assert_ne!(checksum(Some(&library)), checksum(None));
}
