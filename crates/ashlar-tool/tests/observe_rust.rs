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
