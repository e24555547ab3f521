//! `ashlar run` from outside.

mod common;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use common::{ASHLAR, ashlar, command, refused, scratch, text};

#[test]
fn a_program_runs_on_the_library_and_gives_its_exit_code() {
    let out = ashlar(&["run", "--", "sh", "-c", "grep -c libashlar_malloc.so /proc/$$/maps; exit 7"]);
    assert_eq!(out.status.code(), Some(7), "{}", text(&out.stderr));
    assert!(text(&out.stdout).trim().parse::<u32>().unwrap() > 0, "the library is not mapped");
    assert_eq!(text(&out.stderr), "");
}

#[test]
fn stats_tell_the_mode_that_the_options_asked_for() {
    let out = ashlar(&["run", "--option", "percpu=lock", "--stats=json", "--", "ls", "/"]);
    let stats: serde_json::Value = serde_json::from_slice(&out.stderr).expect("one line of JSON");
    assert_eq!((&stats["mode"], &stats["fast_paths"]), (&"lock".into(), &false.into()));
    assert!(stats["peak_kib"].as_u64().unwrap() > 100);
    let caches = stats["caches"].as_array().unwrap();
    assert!(caches.iter().any(|c| c["name"].as_str().unwrap().starts_with("malloc-")), "{stats}");
    let plain = ashlar(&["run", "--engine", "slub", "--stats", "--", "ls", "/"]);
    assert!(text(&plain.stderr).contains("# name"), "{}", text(&plain.stderr));
    let fast = ashlar(&["run", "--stats=json", "--", "ls", "/"]);
    let stats: serde_json::Value = serde_json::from_slice(&fast.stderr).expect("one line of JSON");
    let rseq = stats["mode"] == "rseq";
    assert_eq!(stats["fast_paths"], rseq);
    // An engine without sheaves has none.
    assert_eq!(text(&plain.stderr).contains(", mode rseq (malloc by slow paths)\n"), rseq);
    assert_eq!(text(&plain.stdout), text(&out.stdout));
}

/// The library that is preloaded has them from its environment, before the program begins.
#[test]
fn options_of_one_cache_reach_the_program() {
    let program = ["--stats=json", "--", "ls", "/"];
    let option = ["run", "--option", "cache.malloc-32.min_order=3,cache.malloc-31*.limit=5,cache.malloc-48.limit=5"];
    let out = ashlar(&[&option[..], &program].concat());
    let (told, stats) =
        text(&out.stderr).split_once('\n').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("two lines");
    assert_eq!(
        told,
        "ashlar: option `cache.malloc-48` for cache malloc-48: limit, batchcount and shared: expected a cache of the engine slab or slab24"
    );
    let stats: serde_json::Value = serde_json::from_str(&stats).expect("one line of JSON");
    let slabs = |name: &str| {
        let cache = stats["caches"].as_array().unwrap().iter().find(|cache| cache["name"] == name);
        cache.unwrap_or_else(|| panic!("no {name}: {stats}"))["objperslab"].as_u64().unwrap()
    };
    assert_eq!((slabs("malloc-32"), slabs("malloc-16")), (1024, 256));
}

#[test]
fn an_overflow_by_one_byte_ends_a_debugged_program_with_a_report() {
    let program = scratch("overflow");
    let source =
        "#include <stdlib.h>\nint main(void) { volatile char *p = malloc(20); p[20] = 1; free((void *)p); return 0; }";
    let file = scratch("overflow.c");
    std::fs::write(&file, source).expect("a file");
    assert!(Command::new("gcc").arg("-O0").arg("-o").arg(&program).arg(&file).status().expect("gcc").success());
    let program = program.to_str().expect("a path in UTF-8");
    let plain = ashlar(&["run", "--", program]);
    assert!(plain.status.success(), "{}", text(&plain.stderr));
    let debugged = ashlar(&["run", "--debug", "FZU,malloc-32", "--", program]);
    assert_eq!(debugged.status.signal(), Some(libc::SIGABRT));
    let report = text(&debugged.stderr);
    for part in
        ["BUG malloc-32 (ashlar ", "Requested size Redzone overwritten", "Allocated: age=", "in use for 20 bytes"]
    {
        assert!(report.contains(part), "{part} in {report}");
    }
    let other = ashlar(&["run", "--debug", "FZU,malloc-64", "--", program]);
    assert!(other.status.success(), "{}", text(&other.stderr));
}

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--debug", "FX", "--", "true"], "--debug: option `X`: expected letters of F, Z, P, U, T, A, O and -"),
        (&["--failslab", "1,2", "--", "true"], "--failslab: expected INTERVAL,PROBABILITY,SPACE,TIMES"),
        (
            &["--option", "cache.malloc-64.limit=0", "--", "true"],
            "--option: option `cache.malloc-64.limit=0`: expected limit=1",
        ),
        (
            &["--option", "cache.a.colour=1", "--", "true"],
            "--option: option `cache.a.colour=1`: expected cache.NAME. and one of",
        ),
        (&["--option", "nodes=0", "--", "true"], "--option: option `nodes=0`: expected nodes=1 to nodes=64"),
        (&["--option", "colour=blue", "--", "true"], "--option: option `colour=blue`"),
        (&["--option", "min_order=5", "--", "true"], "--option: option `min_order`"),
        (&["--engine", "nosuch", "--", "true"], "--engine: option `engine=nosuch`"),
        (&["--stats=xml", "--", "true"], "--stats"),
        (&["--"], "PROGRAM"),
    ];
    refused(&["run"], cases);
    let out = ashlar(&["run", "--", "no-such-program"]);
    assert_eq!(out.status.code(), Some(127), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("no-such-program: not found"));
}

#[test]
fn programs_that_ignore_a_preload_are_told_apart() {
    let source = scratch("static.c");
    let program = scratch("static");
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let built = Command::new("cc").args(["-static", "-o"]).arg(&program).arg(&source).status().expect("cc");
    assert!(built.success());
    let out = ashlar(&["run", "--", program.to_str().unwrap()]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("a static program"), "{}", text(&out.stderr));

    // Another user's set-user-ID program can only be made by root.
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } == 0 {
        let setuid = scratch("setuid");
        std::fs::copy("/bin/true", &setuid).unwrap();
        std::os::unix::fs::chown(&setuid, Some(65534), None).unwrap();
        std::fs::set_permissions(&setuid, std::fs::Permissions::from_mode(0o4755)).unwrap();
        let out = ashlar(&["run", "--", setuid.to_str().unwrap()]);
        assert_eq!(out.status.code(), Some(2));
        assert!(text(&out.stderr).contains("set-user-ID"), "{}", text(&out.stderr));
    }
}

/// Were the library linked into the tool, the tool would obey `ASHLAR_STATS` itself.
#[test]
fn the_tool_is_not_linked_with_the_library() {
    let out = command(ASHLAR).arg("--version").env("ASHLAR_STATS", "text").output().unwrap();
    assert_eq!((out.status.code(), text(&out.stderr).as_str()), (Some(0), ""));
    let linked = command(ASHLAR).args(["run", "--stats", "--"]).arg("true").output().unwrap();
    assert!(text(&linked.stderr).contains("# name"), "the sign that the test looks for is gone");
}
