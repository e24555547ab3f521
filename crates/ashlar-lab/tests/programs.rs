//! `ashlar bench programs` from outside: what it refuses, what it notices, and what a small run
//! writes. No test looks at a time.

mod common;

use common::{ashlar, refused, scratch, text};

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--systems", "nosuch"], "--systems: unknown system `nosuch`; expected `all` or a comma-separated list of"),
        (&["--systems", ""], "--systems: unknown system ``"),
        (
            &["--workloads", "nosuch"],
            "--workloads: unknown workload `nosuch`; expected `all`, `synthetic`, `live`, `real`",
        ),
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
}

#[test]
fn the_list_has_every_workload_and_says_what_is_missing() {
    let out = ashlar(&["bench", "programs", "--list"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let list = text(&out.stdout);
    for name in [
        "numbers",
        "handover",
        "sharing-given",
        "live-64-skewed",
        "gcc",
        "redis",
        "startup",
        "glibc",
        "libashlar_malloc.so",
    ] {
        assert!(list.contains(name), "no {name} in:\n{list}");
    }
    // Each peer is there with its file, or missing with the command that gets it.
    for peer in ["mimalloc", "jemalloc", "tcmalloc", "snmalloc", "rpmalloc"] {
        let found = list.lines().any(|line| line.starts_with(&format!("  {peer} ")) && line.contains(".so"));
        let missing = format!("MISSING  no library of `{peer}` here: ");
        assert!(found || list.lines().any(|line| line.starts_with(&missing)), "{peer}:\n{list}");
    }
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
        "synthetic,live,sort,startup",
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
    for (workload, kind) in [
        ("numbers", "synthetic"),
        ("churn", "synthetic"),
        ("live-1", "live"),
        ("live-64-busy", "live"),
        ("sort", "real"),
        ("startup", "startup"),
    ] {
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
            assert_eq!(record["idle_rss_kib"].is_null(), !["synthetic", "live"].contains(&kind));
            assert_eq!(record["checksum"], of(workload, "glibc")["checksum"]);
            assert_eq!(record["runs"].as_u64().unwrap() as usize, record["samples"].as_array().unwrap().len());
        }
    }
    let means = run["geomeans"].as_array().unwrap();
    for kind in ["synthetic", "live"] {
        let base = means.iter().find(|m| m["kind"] == kind && m["system"] == "glibc").unwrap();
        assert_eq!((base["elapsed"].as_f64(), base["idle_rss"].as_f64()), (Some(1.0), Some(1.0)));
    }

    // The table again, and the targets, from the file.
    let again = ashlar(&["bench", "programs", "--from", json.to_str().unwrap()]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), text(&out.stdout));
    let judged = ashlar(&["bench", "programs", "--from", json.to_str().unwrap(), "--check-targets"]);
    assert_eq!(judged.status.code(), Some(1), "no peer was measured, so no target is known to be met");
    assert!(text(&judged.stdout).contains("none  handover ahead of every peer, elapsed time: not measured"));
    assert!(text(&judged.stdout).contains("none  live-8 no slower than any peer, elapsed time: not measured"));
    let _ = std::fs::remove_file(json);
}
