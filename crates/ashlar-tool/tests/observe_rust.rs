//! A Rust program whose global allocator is ashlar, seen from outside: this test is the program.
#![cfg(target_os = "linux")]

mod common;

use common::{ashlar, text};
use serde_json::Value;

#[global_allocator]
static GLOBAL: ashlar::Ashlar = ashlar::Ashlar;

#[test]
fn a_rust_program_and_its_caches_are_shown() {
    let args = ashlar::CacheArgs::DEFAULT;
    let [_one, two] =
        ["observe-one", "observe-two"].map(|name| ashlar::KmemCache::create(name, 200, &args).expect("a cache"));
    let objects: Vec<_> = (0..500).map(|_| two.alloc().expect("memory")).collect();
    let own = ashlar::KmemCache::create("observe-own", 96, &args.no_merge(true)).expect("a cache");
    let kept: Vec<_> = (0..77).map(|_| own.alloc().expect("memory")).collect();
    let out = ashlar(&["info", "--json", &std::process::id().to_string()]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let allocator = &json["allocators"][0];
    let cache =
        |name: &str| allocator["caches"].as_array().unwrap().iter().find(|cache| cache["name"] == name).cloned();
    assert_eq!(cache("observe-own").expect("its cache")["active"], 77);
    let merged = cache("observe-one").expect("the first of two caches");
    assert_eq!((&merged["active"], &merged["refcount"]), (&500.into(), &2.into()));
    let alias = serde_json::json!({ "name": "observe-two", "cache": "observe-one", "objsize": 200 });
    assert!(allocator["aliases"].as_array().unwrap().contains(&alias), "{allocator}");
    // SAFETY: allocated above, and not used again.
    objects.into_iter().for_each(|object| unsafe { two.free(object) });
    // SAFETY: as above.
    kept.into_iter().for_each(|object| unsafe { own.free(object) });
}

#[test]
fn a_rust_program_prints_its_figures_at_exit() {
    let figures = |wish: &str, args: &[&str]| {
        let own = std::env::current_exe().expect("a path");
        let out = common::command(own).args(args).env("ASHLAR_STATS", wish).output().expect("it runs");
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stderr)
    };
    let json: Value = serde_json::from_str(&figures("json", &["--list"])).expect("one line of JSON");
    assert!(json["name"].as_str().expect("a name").starts_with("observe_rust"), "{json}");
    assert!(json["used_bytes"].as_u64().expect("bytes") > 0, "{json}");
    let table = figures("text", &["--list"]);
    assert!(table.contains(", mode ") && table.contains("# name"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    let refused = figures("xml", &["--list"]);
    assert!(refused.starts_with("ashlar: ASHLAR_STATS: expected text, json, text:FILE or json:FILE"), "{refused}");
}
