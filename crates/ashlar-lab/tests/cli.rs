//! The tool from outside: what it refuses and how, and what a small run writes. No test looks at a
//! time.

mod common;

use std::path::PathBuf;

use common::{ASHLAR, ashlar, command, refused, scratch, text};

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--sizes", "0"], "ashlar-lab: --sizes: `0` is out of range: expected a number of bytes from 1 to 1048576"),
        (&["--sizes", "eight"], "`eight` is not a size"),
        (&["--sizes", "99999999"], "--sizes"),
        (&["--sizes", "64..8"], "LOW <= HIGH"),
        (&["--rounds", "0"], "--rounds"),
        (&["--objects", "0"], "--objects"),
        (&["--objects", "many"], "--objects"),
        (&["--cpus", "0"], "--cpus"),
        (&["--cpus", "5000"], "--cpus"),
        (&["--nodes", "0"], "--nodes"),
        (&["--nodes", "65"], "--nodes"),
        (&["--from", "x.json", "--nodes", "2"], "--nodes"),
        (&["--page", "8K"], "--page"),
        (&["--from", "x.json", "--page", "16K"], "--page"),
        (&["--fragmented", "0"], "--fragmented"),
        (&["--fragmented", "100", "--sizes", "8"], "--fragmented: size 8: expected sizes above 8 bytes"),
        (&["--from", "x.json", "--fragmented", "2"], "--fragmented"),
        (&["--from", "x.json", "--first-pass"], "--first-pass"),
        (&["--first-pass", "--check-targets"], "--first-pass: cannot be judged by --check-targets, whose bounds are"),
        (&["checks", "--sizes", "64,2048"], "--sizes: size 2048: expected at most 1024 bytes"),
        (&["checks", "--rounds", "0"], "--rounds"),
        (&["checks", "--json", "/no/such/directory/out.json"], "--json: cannot write"),
        (
            &["worst", "--systems", "slob,limit"],
            "--systems: `limit` is neither an engine of ashlar nor a malloc with plain free; expected `all` or",
        ),
        (&["worst", "--systems", "ashlar-sized"], "--systems: `ashlar-sized` is neither"),
        (&["worst", "--systems", "gnulibc"], "--systems: unknown system `gnulibc`"),
        (&["worst", "--sizes", "8"], "--sizes: size 8: expected at least 16 bytes"),
        (&["worst", "--sizes", "big"], "`big` is not a size"),
        (&["worst", "--samples", "0"], "--samples"),
        (&["worst", "--cold", "0"], "--cold"),
        (&["worst", "--sweep", "2000"], "--sweep"),
        (&["worst", "--live", "many"], "--live"),
        (&["worst", "--json", "/no/such/directory/out.json"], "--json: cannot write"),
        (&["--published", "--style", "kernel"], "--published"),
        (&["--style", "fancy"], "--style"),
        (&["--by", "max"], "--by"),
        (&["G"], "ashlar-lab: TEST: `G` is no test: expected one of A, B, C, D, E, F"),
        (&["--systems", "nosuch"], "--systems: unknown system `nosuch`"),
        (&["--systems", ""], "--systems: unknown system ``"),
        (&["--json", "/no/such/directory/out.json"], "--json: cannot write"),
        (&["--csv", "/no/such/directory/out.csv"], "--csv: cannot write"),
        (&["--from", "/no/such/file.json"], "--from: cannot read"),
        (&["--from", "x.json", "--rounds", "3"], "--from"),
        (&["--nonsense"], "--nonsense"),
    ];
    refused(&["bench"], cases);
}

#[test]
fn bad_input_of_kernel_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--cpus", "0"], "--cpus"),
        (&["--cpus", "65"], "--cpus"),
        (&["--nodes", "9"], "--nodes"),
        (&["--cpus", "2"], "--nodes: 4 nodes: expected at most as many as --cpus, 2"),
        (&["--sizes", "4"], "--sizes: size 4: expected 8 to 65536 bytes"),
        (&["--objects", "0"], "--objects"),
        (&["--objects", "100000"], "--objects: those of all CPUs take 3125 MiB: expected at most 256"),
        (&["--seconds", "x"], "--seconds"),
        (&["--json", "/no/such/directory/out.json"], "--json: cannot write"),
    ];
    refused(&["kernel"], cases);
}

/// Without QEMU in the path nothing is built, and the package is named.
#[test]
fn a_kernel_without_qemu_names_the_package() {
    let out = command(ASHLAR).arg("kernel").env("PATH", "/no/such/directory").output().expect("the tool runs");
    let message = text(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert_eq!(message, "ashlar-lab: qemu-system-x86_64 is missing: apt-get install qemu-system-x86\n");
}

#[test]
fn bad_input_of_simulate_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--systems", "glibc"], "--systems: `glibc` is no engine of ashlar; expected `all` or some of ashlar, slub"),
        (&["--sizes", "0"], "--sizes"),
        (&["--cpus", "1"], "--cpus"),
        (&["--cpus", "2,2000"], "expected numbers from 2 to 1024"),
        (&["--nodes", "0"], "--nodes"),
        (&["--nodes", "17"], "expected numbers from 1 to 16"),
        (&["--far", "0.1"], "--far"),
        (&["--objects", "5"], "--objects"),
        (&["--seed", "x"], "--seed"),
        (&["--json", "/no/such/directory/out.json"], "--json: cannot write"),
        (&["--from", "/no/such/file.json"], "--from: /no/such/file.json: cannot read"),
        (&["--from", "x.json", "--systems", "slab"], "--systems"),
    ];
    refused(&["simulate"], cases);
}

#[test]
fn a_small_simulation_measures_predicts_and_can_be_repeated() {
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() < 2) {
        eprintln!("SKIPPED: simulate needs two CPUs");
        return;
    }
    let json = scratch("simulate.json");
    let path = json.to_str().unwrap();
    let measured = ["--systems", "slab,slob-seg", "--sizes", "64", "--objects", "500", "--json", path];
    let machines = ["--cpus", "2,8", "--nodes", "1,2", "--seed", "5"];
    let out = ashlar(&["simulate"].iter().chain(&measured).chain(&machines).copied().collect::<Vec<_>>());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let records = run["records"].as_array().unwrap();
    // Two engines; tests D and F; 2 and 8 CPUs; one node and two.
    assert_eq!(records.iter().filter(|r| r["simulated"] == true).count(), 16);
    assert!(records.iter().all(|r| r["median"].as_f64().unwrap() > 0.0), "{records:?}");
    let inputs = &run["inputs"].as_array().unwrap()[1]["inputs"];
    assert!(inputs["line"].as_f64().unwrap() > 0.0);
    let locks = inputs["one_node"]["alloc"]["list_locks"].as_f64().unwrap();
    assert!((locks - 1.0).abs() < 0.05, "slob-seg takes list_lock for each allocation, {locks} were counted");
    let errors = run["validation"].as_array().unwrap();
    assert_eq!(errors.len(), 10);

    // The same inputs and seed give the same predictions.
    let again = ashlar(&["simulate", "--from", path].iter().chain(&machines).copied().collect::<Vec<_>>());
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), text(&out.stdout));
    let _ = std::fs::remove_file(json);
}

#[test]
fn an_unknown_system_is_answered_with_the_known_ones() {
    let message = text(&ashlar(&["bench", "--systems", "glibc,gnulibc"]).stderr);
    for id in ["ashlar", "ashlar-cache", "glibc", "mimalloc", "limit-called"] {
        assert!(message.contains(id), "no {id} in: {message}");
    }
}

#[cfg(not(feature = "peer-mimalloc"))]
#[test]
fn a_system_left_out_of_the_build_is_told_with_its_feature() {
    let out = ashlar(&["bench", "--systems", "mimalloc"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("`peer-mimalloc`"), "{}", text(&out.stderr));
}

const TINY: [&str; 9] = ["bench", "--objects", "100", "--rounds", "1", "--systems", "glibc,limit", "--sizes", "8,64"];

#[test]
fn a_tiny_run_writes_the_json_schema_and_the_csv() {
    let (json, csv) = (scratch("run.json"), scratch("run.csv"));
    let mut args = TINY.to_vec();
    args.extend(["--json", json.to_str().unwrap(), "--csv", csv.to_str().unwrap()]);
    let out = ashlar(&args);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));

    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let host = &run["host"];
    assert!(host["first_pass"].is_null(), "only a run of first passes says so");
    for key in ["cpu_model", "cpus", "kernel", "glibc", "thp", "ashlar_mode", "rustc", "build", "peers"] {
        assert!(!host[key].is_null(), "host has no {key}");
    }
    assert!(host["peers"]["glibc"]["version"].is_string() && host["peers"]["glibc"]["build"].is_string());

    let records = run["records"].as_array().unwrap();
    for test in ["A", "B", "C", "D", "D-free", "E", "F", "F-alloc"] {
        for system in ["glibc", "limit"] {
            for size in [8, 64] {
                let found: Vec<_> = records
                    .iter()
                    .filter(|r| r["test"] == test && r["system"] == system && r["size"] == size)
                    .collect();
                assert_eq!(found.len(), 1, "{test} {system} {size}");
                let record = found[0];
                assert_eq!(record["resident"].is_number(), ["A", "B"].contains(&test), "{record}");
                assert!(record["unit"].is_string() && record["oversubscribed"].is_boolean());
                let runs = record["runs"].as_u64().unwrap();
                assert!(runs >= 1);
                assert_eq!(record["samples"].as_array().unwrap().len() as u64, runs);
                assert!(record["cpus"].as_u64().unwrap() >= 1);
                assert!(record["min"].as_f64().unwrap() <= record["median"].as_f64().unwrap());
            }
        }
    }
    assert_eq!(std::fs::read_to_string(&csv).unwrap().lines().count(), 1 + records.len());

    // The table again, and the targets, from the file.
    let from = ["bench", "--from", json.to_str().unwrap()];
    let again = ashlar(&from);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again.stderr));
    assert_eq!(text(&again.stdout), text(&out.stdout));
    let judged = ashlar(&[from[0], from[1], from[2], "--check-targets"]);
    assert_eq!(judged.status.code(), Some(1), "ashlar was not measured, so its targets are missed");
    assert!(text(&judged.stdout).contains("MISS"));
    for path in [json, csv] {
        let _ = std::fs::remove_file(path);
    }
}

#[test]
fn the_kernel_style_prints_the_lines_of_the_module() {
    let mut args = TINY.to_vec();
    args.extend(["--style", "kernel", "--cpus", "2"]);
    let out = text(&ashlar(&args).stdout);
    for start in ["100 times kmalloc(8) -> ", "100 times kmalloc(64)/kfree -> ", "Kmalloc N*alloc N*free(8): 0="] {
        assert!(out.lines().any(|line| line.starts_with(start)), "no line `{start}` in:\n{out}");
    }
    assert!(out.contains(" Average="));
}

#[test]
fn only_the_tests_asked_for_are_reported() {
    let mut args = TINY.to_vec();
    args.extend(["b", "C"]);
    let out = text(&ashlar(&args).stdout);
    assert!(
        out.contains("Test B:") && out.contains("Test C:") && !out.contains("Test A:") && !out.contains("Test D"),
        "{out}"
    );
}

#[test]
fn more_threads_than_cpus_are_marked() {
    let cpus = std::thread::available_parallelism().unwrap().get() + 1;
    let mut args = TINY.to_vec();
    let cpus = cpus.to_string();
    args.extend(["D", "F", "--cpus", &cpus]);
    assert!(text(&ashlar(&args).stdout).contains("OVERSUBSCRIBED"));
}

#[test]
fn a_file_that_is_no_run_is_refused_by_name() {
    let path = scratch("bad.json");
    std::fs::write(&path, "{\"records\": 3}").unwrap();
    let out = ashlar(&["bench", "--from", path.to_str().unwrap()]);
    let _ = std::fs::remove_file(&path);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("--from"), "{}", text(&out.stderr));
}

#[test]
fn a_system_that_cannot_run_is_told_by_name_and_the_run_fails() {
    // 10^7 objects of 1 MiB on each of 64 CPUs: more than the address space holds.
    let args = ["bench", "C", "--systems", "limit", "--sizes", "1048576", "--objects", "10000000", "--cpus", "64"];
    let out = ashlar(&args);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("limit: cannot map"), "{}", text(&out.stderr));
}

#[test]
fn worst_cases_have_every_call_of_every_engine_warm_and_cold() {
    let json = scratch("worst.json");
    let path = json.to_str().unwrap();
    let args = ["bench", "worst", "--systems", "slob,slob-seg,slob-cache", "--sizes", "64,4096", "--live", "300"];
    let more = ["--samples", "700", "--cold", "20", "--sweep", "1", "--json", path];
    let out = ashlar(&[&args[..], &more].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let _ = std::fs::remove_file(&json);
    assert!(run["clock"].is_u64() && run["unit"].is_string() && run["plan"]["live"] == 300);
    let records = run["records"].as_array().unwrap();
    assert_eq!(records.len(), 3 * 2 * 4 * 2);
    let table = text(&out.stdout);
    for system in ["slob", "slob-seg", "slob-cache"] {
        assert!(table.contains(&format!("\n  {system} ")), "{table}");
        for call in ["kmalloc", "kfree", "kmem_cache_alloc", "kmem_cache_free"] {
            for (caches, samples) in [("warm", 700), ("cold", 20)] {
                for size in [64, 4096] {
                    assert!(table.contains(&format!("{call}, {size} bytes, {caches}, {samples} calls")), "{table}");
                    let found: Vec<_> = records
                        .iter()
                        .filter(|r| r["system"] == system && r["call"] == call && r["caches"] == caches)
                        .filter(|r| r["size"] == size && r["samples"] == samples)
                        .collect();
                    assert_eq!(found.len(), 1, "{system} {call} {caches} {size}");
                    let at = |key: &str| found[0][key].as_u64().unwrap();
                    let order = [at("min"), at("p50"), at("p99"), at("p99_9"), at("max")];
                    assert!(order.is_sorted() && order[4] > 0, "{order:?}");
                }
            }
        }
    }
}

#[test]
fn worst_cases_of_a_malloc_stand_beside_those_of_kmalloc() {
    let json = scratch("worst-malloc.json");
    let args = ["bench", "worst", "--systems", "ashlar,glibc,ashlar-malloc", "--sizes", "64", "--live", "300"];
    let more = ["--samples", "700", "--cold", "20", "--sweep", "1", "--json", json.to_str().unwrap()];
    let out = ashlar(&[&args[..], &more].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let _ = std::fs::remove_file(&json);
    let records = run["records"].as_array().unwrap();
    let calls = |system: &str| {
        let of = records.iter().filter(|record| record["system"] == system && record["caches"] == "warm");
        of.map(|record| record["call"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(calls("ashlar"), ["kmalloc", "kfree", "kmem_cache_alloc", "kmem_cache_free"]);
    assert_eq!((calls("glibc"), calls("ashlar-malloc")), (vec!["malloc", "free"], vec!["malloc", "free"]));
    assert_eq!(records.len(), 4 * 2 + 2 * 2 * 2);
    let table = text(&out.stdout);
    for title in ["kmalloc or malloc, 64 bytes, warm, 700 calls", "kfree or free, 64 bytes, cold, 20 calls"] {
        let block = table.split(title).nth(1).unwrap_or_else(|| panic!("no `{title}` in: {table}"));
        let rows: Vec<_> = block.lines().skip(1).map_while(|line| line.split_whitespace().next()).collect();
        assert_eq!(rows, ["ashlar", "glibc", "ashlar-malloc"], "{table}");
    }
    // Without kmalloc the block has the name of the malloc.
    let out = ashlar(&["bench", "worst", "--systems", "glibc", "--samples", "10", "--cold", "1", "--sweep", "1"]);
    assert!(text(&out.stdout).contains("\nmalloc, 64 bytes, warm, 10 calls"), "{}", text(&out.stdout));
}

#[test]
fn a_fragmented_heap_is_told_in_the_table_and_the_json() {
    let json = scratch("fragmented.json");
    let args = ["bench", "A", "--systems", "slob,ashlar-cache,glibc", "--sizes", "64", "--objects", "100"];
    let more = ["--rounds", "1", "--fragmented", "500", "--json", json.to_str().unwrap()];
    let out = ashlar(&[&args[..], &more].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("fragmented heap: for each size 500 objects"), "{}", text(&out.stdout));
    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let _ = std::fs::remove_file(&json);
    assert_eq!(run["host"]["fragmented"], 500);
    assert_eq!(run["records"].as_array().unwrap().len(), 3);
}

#[test]
fn first_passes_are_told_in_the_table_and_the_json() {
    let json = scratch("first.json");
    let path = json.to_str().unwrap();
    let args = ["bench", "A", "--first-pass", "--systems", "glibc,ashlar", "--sizes", "64", "--objects", "1000"];
    let out = ashlar(&[&args[..], &["--rounds", "1", "--json", path]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let table = text(&out.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(table.contains("first pass: each figure is from a new process that runs one pass, without"), "{table}");
    assert!(!table.contains("not counted"), "{table}");
    assert!(
        table.contains("Memory: resident KiB beyond the start") && table.contains("had this size alone"),
        "{table}"
    );
    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(run["host"]["first_pass"], true);
    let records = run["records"].as_array().unwrap();
    for system in ["glibc", "ashlar"] {
        let found: Vec<_> = records.iter().filter(|record| record["system"] == system).collect();
        assert_eq!(found.len(), 1, "{records:?}");
        assert_eq!((&found[0]["test"], &found[0]["size"], &found[0]["runs"]), (&"A".into(), &64.into(), &1.into()));
        assert!(found[0]["median"].as_f64().unwrap() > 0.0, "{found:?}");
        assert!(found[0]["resident"].is_number(), "{found:?}");
    }
    // Each process of ashlar said which mode it has.
    assert!(run["host"]["notes"]["ashlar"].as_str().unwrap().contains("nodes: "), "{run}");
    assert_eq!(text(&ashlar(&["bench", "--from", path]).stdout), text(&out.stdout));
    // What was written so is not judged either.
    let refused = ashlar(&["bench", "--from", path, "--check-targets"]);
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    let told = text(&refused.stderr);
    assert!(told.contains("--from: ") && told.contains("written by --first-pass, which --check-targets"), "{told}");
    let _ = std::fs::remove_file(&json);
}

#[test]
fn fake_nodes_reach_the_engines_and_are_told() {
    let json = scratch("nodes.json");
    let args = ["bench", "F", "--nodes", "4", "--cpus", "8", "--systems", "slub,ashlar", "--sizes", "16384"];
    let out = ashlar(&[&args[..], &["--objects", "100", "--rounds", "1", "--json", json.to_str().unwrap()]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let (table, data) = (text(&out.stdout), std::fs::read_to_string(&json).unwrap());
    let _ = std::fs::remove_file(&json);
    assert!(table.contains("4 fake nodes"), "{table}");
    assert_eq!(table.contains("OVERSUBSCRIBED"), std::thread::available_parallelism().unwrap().get() < 8, "{table}");
    let run: serde_json::Value = serde_json::from_str(&data).unwrap();
    assert_eq!(run["host"]["nodes"], 4);
    assert_eq!(run["records"].as_array().unwrap().len(), 4, "F and F-alloc of two systems");
    assert!(run["records"].as_array().unwrap().iter().all(|record| record["cpus"] == 8));
    // Each child says how many nodes it has.
    for system in ["slub", "ashlar"] {
        assert!(run["host"]["notes"][system].as_str().unwrap().ends_with("nodes: 4"), "{data}");
    }
}

#[test]
fn published_figures_stand_in_the_table_and_in_the_json() {
    let json = scratch("published.json");
    let mut args = TINY.to_vec();
    args.extend(["A", "--published", "--json", json.to_str().unwrap()]);
    let out = ashlar(&args);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let table = text(&out.stdout);
    assert!(table.contains("SLUB+@2007") && table.contains("SLUB-ll@2010"), "{table}");
    let run: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(run["published"]["tables"][0]["rows"][0]["values"], serde_json::json!([96, 86, 45, 44]));
    // A file that has them shows them again; without them a run has none.
    assert_eq!(text(&ashlar(&["bench", "--from", json.to_str().unwrap()]).stdout), table);
    let _ = std::fs::remove_file(&json);
    assert!(!text(&ashlar(&TINY).stdout).contains('@'));
}

/// The tool in a tree of its own, in which `linux` may hold what stands for a kernel.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn tool_in(tree: &std::path::Path) -> PathBuf {
    for dir in ["bin", "linux"] {
        std::fs::create_dir_all(tree.join(dir)).unwrap();
    }
    let tool = tree.join("bin/ashlar");
    std::fs::copy(common::ASHLAR, &tool).unwrap();
    tool
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn a_kernel_that_is_not_built_is_told_with_the_command_that_builds_it() {
    let tree = scratch("no-kernels");
    let out = command(tool_in(&tree)).args(["bench", "A", "--systems", "glibc,linux-slob"]).output().unwrap();
    let _ = std::fs::remove_dir_all(&tree);
    assert_eq!(out.status.code(), Some(2));
    let message = text(&out.stderr);
    assert!(message.contains("--systems") && message.contains("`lab/linux/build.sh slob`"), "{message}");
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn a_page_size_that_is_not_built_is_told_with_the_command_that_builds_it() {
    let tree = scratch("page");
    let output = command(tool_in(&tree)).args(["bench", "A", "--page", "16K"]).output().expect("it starts");
    let _ = std::fs::remove_dir_all(&tree);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("--page: pages of 16 KiB need a build of their own"), "{error}");
    assert!(error.contains("--features page-16k --target-dir target/page-16k"), "{error}");
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn a_kernel_stands_in_the_table_of_the_others() {
    use std::os::unix::fs::PermissionsExt;
    let tree = scratch("kernels");
    let tool = tool_in(&tree);
    // In the place of a kernel, one that says what a real one once said for these sizes and rounds.
    let kernel = tree.join("linux/linux-slub");
    let recorded = include_str!("data/linux-slub.txt");
    std::fs::write(&kernel, format!("#!/bin/sh\ncat <<'END'\n{recorded}END\n")).unwrap();
    std::fs::set_permissions(&kernel, std::fs::Permissions::from_mode(0o755)).unwrap();
    let json = tree.join("out.json");
    let run = |sizes: &str, tests: &[&str]| {
        let args = ["bench", "--systems", "linux-slub,glibc", "--rounds", "1", "--sizes", sizes, "--json"];
        command(&tool).args(args).arg(&json).args(tests).output().unwrap()
    };
    let out = run("64,1024,32768", &["A", "C", "E"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("linux-slub: Linux 6.1"), "{}", text(&out.stdout));
    let data: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&json).unwrap()).unwrap();
    let records: Vec<_> =
        data["records"].as_array().unwrap().iter().filter(|record| record["system"] == "linux-slub").collect();
    assert_eq!(records.len(), 4, "A and C, 64 and 1024: {records:?}");
    let ticks: f64 = recorded.split("pass 64 ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let first = records.iter().find(|record| record["test"] == "A" && record["size"] == 64).unwrap();
    assert!((first["samples"][0].as_f64().unwrap() - ticks / 10_000.0).abs() < 0.01, "{first}");
    assert_eq!((first["runs"].as_u64(), first["cpus"].as_u64()), (Some(2), Some(1)));

    // What it was not asked for is no answer, and a test that it does not run is refused.
    let out = run("64", &["A"]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("linux-slub: the kernel printed 4 passes"), "{}", text(&out.stderr));
    let out = run("64", &["A", "--first-pass"]);
    assert_eq!(out.status.code(), Some(2));
    let message = "--first-pass: the kernel `linux-slub` cannot start anew for each figure; expected other systems";
    assert!(text(&out.stderr).contains(message), "{}", text(&out.stderr));
    let out = run("64", &["D"]);
    let _ = std::fs::remove_dir_all(&tree);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("A, B and C"), "{}", text(&out.stderr));
}

/// Were the preloaded library linked into the lab, it would obey `ASHLAR_STATS` there, and the
/// system `glibc` would be ours.
#[test]
fn the_lab_is_not_linked_with_the_library() {
    let args = ["bench", "C", "--systems", "glibc", "--sizes", "64", "--objects", "10", "--rounds", "1"];
    let out = command(ASHLAR).args(args).env("ASHLAR_STATS", "text").output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(!text(&out.stderr).contains("# name"), "{}", text(&out.stderr));
    // With the library in it a program does obey: the sign is still the right one.
    let listed = text(&ashlar(&["bench", "programs", "--list"]).stdout);
    let library = listed.split_whitespace().find(|word| word.ends_with("libashlar_malloc.so")).expect("the library");
    let with = command("true").env("LD_PRELOAD", library).env("ASHLAR_STATS", "text").output().unwrap();
    assert!(text(&with.stderr).contains("# name"), "the sign that the test looks for is gone");
}
