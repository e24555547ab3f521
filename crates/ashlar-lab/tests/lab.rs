//! `hackbench`, `bench bulk` and `bench memory` from outside: what they refuse, and what a small
//! run writes. No test looks at a time.

mod common;

use common::{ASHLAR, ashlar, command, refused, scratch, text};
use serde_json::Value;

/// Runs a command with `--json`; what it printed, and the file.
fn run(name: &str, args: &[&str]) -> (String, Value) {
    let json = scratch(&format!("{name}.json"));
    let out = ashlar(&[args, &["--json", json.to_str().unwrap()]].concat());
    assert_eq!(out.status.code(), Some(0), "{args:?}: {}", text(&out.stderr));
    let run = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let _ = std::fs::remove_file(&json);
    (text(&out.stdout), run)
}

/// The records of a run, each as every command writes them.
fn records(run: &Value) -> &[Value] {
    for key in ["cpu_model", "cpus", "kernel", "ashlar_version", "build", "systems", "notes"] {
        assert!(!run["host"][key].is_null(), "host has no {key}");
    }
    let records = run["records"].as_array().unwrap();
    for record in records {
        for key in ["test", "system", "unit"] {
            assert!(record[key].is_string(), "{key}: {record}");
        }
        assert!(record["min"].as_f64().unwrap() <= record["median"].as_f64().unwrap() + 0.011, "{record}");
        assert_eq!(record["samples"].as_array().unwrap().len() as u64, record["runs"].as_u64().unwrap(), "{record}");
        assert!(record["cpus"].as_u64().unwrap() >= 1, "{record}");
    }
    records
}

fn find<'a>(records: &'a [Value], test: &str, system: &str, key: &str, value: &Value) -> Option<&'a Value> {
    let mut found = records.iter().filter(|r| r["test"] == test && r["system"] == system && r[key] == *value);
    let first = found.next();
    assert!(found.next().is_none(), "two records: {test} {system} {key} {value}");
    first
}

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["bench", "bulk", "--bulks", "0"], "`0` is no bulk: expected numbers of objects from 1 to 4096"),
        (&["bench", "bulk", "--bulks", "8,many"], "`many` is no bulk"),
        (&["bench", "bulk", "--size", "4"], "--size"),
        (&["bench", "bulk", "--rounds", "0"], "--rounds"),
        (&["bench", "bulk", "--passes", "0"], "--passes"),
        (&["bench", "bulk", "--objects", "0"], "--objects"),
        (&["bench", "bulk", "--spread", "0"], "--spread"),
        (&["bench", "bulk", "--systems", "nosuch"], "--systems: unknown system `nosuch`"),
        (&["bench", "bulk", "--systems", "slub,limit"], "--systems: `limit` runs only the tests A to F"),
        (&["bench", "bulk", "--json", "/no/such/directory/x"], "--json: cannot write"),
        (&["bench", "memory", "--profile", "large"], "--profile"),
        (&["bench", "memory", "--scale", "0"], "--scale"),
        (&["bench", "memory", "--idle", "100000"], "--idle"),
        (&["bench", "memory", "--seed", "x"], "--seed"),
        (&["bench", "memory", "--rounds", "0"], "--rounds"),
        (&["bench", "memory", "--option", "colour=blue"], "--option"),
        (&["bench", "memory", "--systems", "limit-called"], "--systems: `limit-called`"),
        (&["hackbench", "-g", "0"], "--groups"),
        (&["hackbench", "-l", "0"], "--loops"),
        (&["hackbench", "-f", "101"], "--fds"),
        (&["hackbench", "-s", "0"], "--datasize"),
        (&["hackbench", "-s", "100,20000"], "`20000` is no size: expected bytes from 1 to 16384"),
        (&["hackbench", "-P", "-T"], "--threads"),
        (&["hackbench", "-P", "-s", "100,200"], "--datasize: several sizes need threads"),
        (&["hackbench", "-P", "-s", "4"], "--datasize: messages of processes"),
        (&["hackbench", "--scale", "0"], "--scale"),
        (&["hackbench", "--boot", "11"], "--boot"),
        (&["hackbench", "--system", "nosuch"], "--systems: unknown system `nosuch`"),
        (&["hackbench", "--json", "/no/such/directory/x"], "--json: cannot write"),
    ];
    refused(&[], cases);
}

#[test]
fn bulk_has_loops_of_all_and_calls_of_ours() {
    let args = ["bench", "bulk", "--systems", "ashlar,slub-bulk,slob-cache,glibc", "--bulks", "1,32", "--rounds", "2"];
    let (table, run) = run("bulk", &[&args[..], &["--objects", "300", "--spread", "600", "--passes", "2"]].concat());
    let records = records(&run);
    for system in ["ashlar", "slub-bulk", "slob-cache", "glibc"] {
        for bulk in [1, 32] {
            for test in ["bulk-loop", "bulk-call", "bulk-worst-loop", "bulk-worst-call"] {
                let found = find(records, test, system, "bulk", &bulk.into());
                assert_eq!(found.is_some(), system != "glibc" || test.ends_with("loop"), "{test} {system}");
                assert!(found.is_none_or(|record| record["size"] == 256 && record["runs"] == 4), "{found:?}");
            }
        }
        for test in ["bulk-keep-32", "bulk-keep-128", "bulk-keep-512"] {
            assert!(find(records, test, system, "bulk", &8.into()).unwrap()["size"] == 2048, "{test}");
        }
        assert!(table.contains(system), "{table}");
    }
    assert!(!table.contains("SKIPPED"), "DPDK was not asked for: {table}");
}

#[test]
fn dpdk_is_refused_by_name_where_it_is_missing() {
    let run = |systems: &str| {
        let args = ["bench", "bulk", "--systems", systems, "--bulks", "8", "--rounds", "1"];
        command(ASHLAR).args(args).env("PATH", "/no/such/directory").output().unwrap()
    };
    let out = run("dpdk");
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--systems: `dpdk`: no dpdk-test in PATH: `apt-get install dpdk-dev`"));
}

#[test]
fn every_system_replays_the_same_trace_and_empties_its_heap() {
    for (profile, first, phases) in [("mixed", "grow", 6), ("caches", "boot", 5)] {
        let args = ["bench", "memory", "--systems", "all", "--profile", profile, "--scale", "0.01", "--idle", "0"];
        let (table, run) = run(profile, &[&args[..], &["--rounds", "1"]].concat());
        let records = records(&run);
        let systems: Vec<&str> =
            run["host"]["systems"].as_array().unwrap().iter().map(|system| system.as_str().unwrap()).collect();
        assert!(systems.len() >= 12 && systems.contains(&"slob") && systems.contains(&"glibc"), "{systems:?}");
        assert!(table.contains("on every system"), "{table}");
        let live = |system: &str, phase: &str| {
            find(records, "memory-live", system, "phase", &phase.into()).unwrap()["median"].as_f64().unwrap()
        };
        for system in systems {
            let of = |test: &str| records.iter().filter(|r| r["test"] == test && r["system"] == system).count();
            assert_eq!(of("memory-rss"), phases, "{system}");
            // Who needs no page more has no share of them.
            assert!(of("memory-utilisation") >= 1 || ashlar::Engine::from_id(system).is_none(), "{system}");
            assert_eq!(of("memory-peak-over-live"), phases, "{system}");
            assert_eq!(live(system, first), live("glibc", first), "{system}");
            assert_eq!(live(system, "empty"), 0.0);
            let slab = |phase: &str| find(records, "memory-slab", system, "phase", &phase.into());
            assert_eq!(slab(first).is_some(), ashlar::Engine::from_id(system).is_some(), "{system}");
            if let Some(slab) = slab(first) {
                assert!(slab["median"].as_f64().unwrap() >= live(system, first), "{system}: {slab}");
            }
        }
    }
}

#[test]
fn options_make_columns_of_their_own() {
    let args = ["bench", "memory", "--systems", "slub,glibc", "--scale", "0.005", "--idle", "0", "--rounds", "1"];
    let (_, run) = run("options", &[&args[..], &["--option", "min_partial=0"]].concat());
    assert_eq!(run["host"]["systems"], serde_json::json!(["slub", "slub[min_partial=0]", "glibc"]));
    assert!(find(records(&run), "memory-slab", "slub[min_partial=0]", "phase", &"grow".into()).is_some());
}

#[test]
fn a_soak_loses_nothing_and_its_seed_says_what_it_does() {
    let run = || {
        let out = ashlar(&["soak", "--minutes", "0.01", "--seed", "5", "--threads", "3"]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        text(&out.stdout)
    };
    let said = run();
    assert!(said.starts_with("Soak with seed 5\n") && said.contains("\nNothing was lost: "), "{said}");
    assert!(said.contains("\n1 rounds: ") && said.contains(" forks, "), "{said}");
    let options =
        |text: &str| text.lines().nth(2).and_then(|line| line.find("ASHLAR_").map(|at| line[at..].to_owned()));
    assert!(options(&said).is_some() && options(&said) == options(&run()), "{said}");
    refused(
        &["soak"],
        &[
            (&["--minutes", "0"], "--minutes: \"0\": expected 0.01 to 10000 minutes"),
            (&["--seed", "x"], "--seed: \"x\" is not a number"),
            (&["--threads", "65"], "--threads: \"65\" is out of range"),
            (&["--round", "0"], "--round: \"0\" is out of range"),
        ],
    );
}

#[test]
fn hackbench_runs_on_every_system() {
    let args = ["hackbench", "--systems", "all", "-g", "2", "-l", "10", "-f", "3", "-s", "100,1460", "--rounds", "1"];
    let (out, run) = run("hackbench", &[&args[..], &["--boot", "0.02"]].concat());
    let records = records(&run);
    let systems = run["host"]["systems"].as_array().unwrap();
    for system in systems.iter().map(|system| system.as_str().unwrap()) {
        let of = |test: &str, phase: Value| find(records, test, system, "phase", &phase);
        for test in
            ["hackbench", "hackbench-message", "hackbench-user", "hackbench-task-clock", "hackbench-page-faults"]
        {
            assert!(of(test, Value::Null).is_some(), "{test} {system}");
        }
        assert!(of("hackbench-rss", "after".into()).is_some());
        let ours = ashlar::Engine::from_id(system).is_some();
        assert_eq!(of("hackbench-slab", "before".into()).is_some(), ours, "{system}");
        assert_eq!(of("hackbench", Value::Null).unwrap()["scale"].is_number(), system == "slob", "{system}");
    }
    for line in ["Running in threaded mode with 2 groups using 6 tasks each (== 12 tasks)", "seconds time elapsed"] {
        assert!(out.contains(line), "{out}");
    }
    assert!(out.contains("Time: ") && out.contains("memory usage:") && out.contains("--scale: 1 of 10 loops"), "{out}");
}

#[test]
fn hackbench_of_processes_copies_between_heaps() {
    let args =
        ["hackbench", "--systems", "ashlar,slob-seg,glibc", "-P", "-g", "2", "-l", "20", "-f", "3", "--rounds", "2"];
    let (out, run) = run("processes", &args);
    assert!(out.contains("Running in process mode with 2 groups using 6 tasks each (== 12 tasks)"), "{out}");
    for system in ["ashlar", "slob-seg"] {
        let slab = find(records(&run), "hackbench-slab", system, "phase", &"after".into()).unwrap();
        assert_eq!(slab["runs"], 2);
    }
}
