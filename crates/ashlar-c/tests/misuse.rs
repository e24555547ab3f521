//! Bad input is refused: NULL, errno, and a line on standard error that names the function or
//! cache, the argument, and what was expected.

mod common;

use common::{Link, build, program, text};

const CREATE: &str = "ashlar: kmem_cache_create(cache): ";

#[test]
fn bad_input_is_named() {
    let path = build("c99", "crates/ashlar-c/tests/c/bad.c", Link::Shared);
    let long = "a name of more than forty-seven bytes, which is one too many";
    let bits = "expected a combination of the __GFP_ bits of ashlar.h";
    let no_ctor = "__GFP_ZERO: expected a cache without constructor";
    let name = "name: expected 1 to 47 bytes without control characters";
    let ids: Vec<&str> = core_ashlar::Engine::ALL.iter().map(|engine| engine.id()).collect();
    let cases: Vec<(&str, String, &str)> = vec![
        ("create-name-null", "ashlar: kmem_cache_create(?): name: expected a string in UTF-8".into(), "NULL EINVAL"),
        ("create-name-bytes", "ashlar: kmem_cache_create(?): name: expected a string in UTF-8".into(), "NULL EINVAL"),
        ("create-name-empty", format!("ashlar: kmem_cache_create(): {name}"), "NULL EINVAL"),
        ("create-name-long", format!("ashlar: kmem_cache_create({long}): {name}"), "NULL EINVAL"),
        ("create-size-0", format!("{CREATE}size: expected 1 byte to 2 MiB"), "NULL EINVAL"),
        ("create-size-large", format!("{CREATE}size: expected 1 byte to 2 MiB"), "NULL EINVAL"),
        ("create-align", format!("{CREATE}align: expected a power of two of at most 4096"), "NULL EINVAL"),
        (
            "create-flags",
            format!("{CREATE}flags 0x8000: expected a combination of the SLAB_ bits of ashlar.h"),
            "NULL EINVAL",
        ),
        ("create-usercopy", format!("{CREATE}useroffset and usersize: expected a part of the object"), "NULL EINVAL"),
        (
            "create-usercopy-offset",
            format!("{CREATE}useroffset and usersize: expected a part of the object"),
            "NULL EINVAL",
        ),
        ("create-sheaf", format!("{CREATE}sheaf_capacity: expected 1 to 254"), "NULL EINVAL"),
        ("create-max-order", format!("{CREATE}max_order: expected 0 to 9"), "NULL EINVAL"),
        ("create-min-order", format!("{CREATE}min_order: expected 0 to 9"), "NULL EINVAL"),
        ("create-defrag", format!("{CREATE}remote_node_defrag_ratio: expected 0 to 100 (percent)"), "NULL EINVAL"),
        ("create-orders", format!("{CREATE}min_order: expected at most max_order"), "NULL EINVAL"),
        ("create-engine", format!("{CREATE}expected engine= and one of the ids {}", ids.join(" ")), "NULL EINVAL"),
        ("gfp-kmalloc", format!("ashlar: kmalloc: gfp flags 0x2: {bits}"), "NULL EINVAL"),
        ("gfp-alloc", format!("ashlar: kmem_cache_alloc: gfp flags 0x40000000: {bits}"), "NULL EINVAL"),
        ("gfp-bulk", format!("ashlar: kmem_cache_alloc_bulk: gfp flags 0x4: {bits}"), "NULL EINVAL"),
        ("gfp-krealloc", format!("ashlar: krealloc: gfp flags 0x4: {bits}"), "NULL EINVAL"),
        ("gfp-sheaf", format!("ashlar: kmem_cache_alloc_from_sheaf: gfp flags 0x4: {bits}"), "NULL EINVAL"),
        ("zero-constructed", format!("ashlar: kmem_cache_zalloc(constructed): {no_ctor}"), "NULL EINVAL"),
        ("zero-constructed-bulk", format!("ashlar: kmem_cache_alloc_bulk(constructed): {no_ctor}"), "NULL EINVAL"),
        (
            "zero-constructed-sheaf",
            format!("ashlar: kmem_cache_alloc_from_sheaf(constructed): {no_ctor}"),
            "NULL EINVAL",
        ),
        ("prefill-0", "ashlar: kmem_cache_prefill_sheaf(plain): size: expected 1 or more".into(), "NULL EINVAL"),
        (
            "prefill-zero",
            "ashlar: kmem_cache_prefill_sheaf(plain): __GFP_ZERO: expected with alloc_from_sheaf".into(),
            "NULL EINVAL",
        ),
        (
            "tunable-name",
            "ashlar: ashlar_set_tunable(plain): name: expected cpu_partial, min_partial, sheaf_capacity, \
             remote_node_defrag_ratio, limit, batchcount or shared"
                .into(),
            "-EINVAL",
        ),
        (
            "tunable-range",
            "ashlar: ashlar_set_tunable(plain): remote_node_defrag_ratio: expected 0 to 100 (percent)".into(),
            "-EINVAL",
        ),
        (
            "tunable-engine",
            "ashlar: ashlar_set_tunable(plain): cpu_partial: expected a cache of the engine slub-bulk".into(),
            "-EINVAL",
        ),
        (
            "sheaf-of-another",
            "ashlar: kmem_cache_alloc_from_sheaf(constructed): sheaf of cache plain: expected one of this".into(),
            "NULL EINVAL",
        ),
        (
            "refill-of-another",
            "ashlar: kmem_cache_refill_sheaf(constructed): sheaf of cache plain: expected one of this".into(),
            "-EINVAL",
        ),
        ("node", "ashlar: kmem_cache_alloc_node: node 1000: expected NUMA_NO_NODE or 0 to 1".into(), "NULL EINVAL"),
        ("node-kmalloc", "ashlar: kmalloc_node: node -2: expected NUMA_NO_NODE or 0 to 1".into(), "NULL EINVAL"),
        ("sheaf-null", String::new(), "NULL EINVAL"),
        ("destroy-live", "ashlar: cache plain: destroyed while 3 objects are in use: it stays".into(), "NULL EBUSY"),
    ];
    for (kind, stderr, stdout) in cases {
        let out = program(&path, "nodes=2").arg(kind).output().expect("it runs");
        let seen = (text(&out.stderr), text(&out.stdout), out.status.code());
        let line = if stderr.is_empty() { stderr } else { format!("{stderr}\n") };
        assert_eq!(seen, (line, format!("{stdout}\n"), Some(0)), "{kind}");
    }
}

#[test]
fn what_cannot_go_on_ends_the_program() {
    use std::os::unix::process::ExitStatusExt;
    let path = build("c99", "crates/ashlar-c/tests/c/bad.c", Link::Shared);
    for (kind, line) in [
        ("create-panic", "ashlar: kmem_cache_create(cache): size: expected 1 byte to 2 MiB; SLAB_PANIC is set\n"),
        ("nofail", "ashlar: kmalloc: out of memory, and __GFP_NOFAIL says that it must not fail\n"),
    ] {
        let out = program(&path, "").arg(kind).output().expect("it runs");
        assert_eq!((text(&out.stderr), out.status.signal()), (line.to_owned(), Some(libc::SIGABRT)), "{kind}");
    }
    for use_of_it in ["alloc", "zalloc", "free", "alloc-bulk", "free-bulk", "destroy"] {
        let out = program(&path, "").arg(format!("gone-{use_of_it}")).output().expect("it runs");
        let line = "ashlar: cache gone: used after it was destroyed\n".to_owned();
        assert_eq!((text(&out.stderr), out.status.signal()), (line, Some(libc::SIGABRT)), "{use_of_it}");
    }
    let out = program(&path, "").arg("kfree-foreign").output().expect("it runs");
    let stderr = text(&out.stderr);
    assert!(
        stderr.starts_with("ashlar: kfree(0x")
            && stderr.ends_with("): not allocated here, or a huge object freed long ago\n")
    );
    assert_eq!(out.status.signal(), Some(libc::SIGABRT));
}
