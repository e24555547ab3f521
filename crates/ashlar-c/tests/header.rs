//! `include/ashlar.h` is generated from the sources of this crate.
//!
//! `ASHLAR_UPDATE_HEADERS=1 cargo test --release -p ashlar-c --test header` writes the file.

use std::fs;
use std::path::{Path, PathBuf};

use cbindgen::{Builder, Config, DocumentationStyle, Language, Layout, LineEndingStyle, SortKey, Style};

/// The sources in the order of the header.
const SOURCES: [&str; 7] = ["flags.rs", "cache.rs", "sheaf.rs", "kmalloc.rs", "numa.rs", "strings.rs", "figures.rs"];

const HEAD: &str = "\
/*
 * The Linux slab allocators for C programs: caches, kmalloc, prefilled sheaves.
 *
 * Names, arguments and contracts are the kernel's
 * (https://docs.kernel.org/core-api/mm-api.html). A function that fails returns a null pointer or a
 * negative number and sets errno; after a success errno means nothing. Every function may be called
 * from any thread and from the handlers of a fork, but not from a signal handler. Invalid use that
 * is found is reported in one line on standard error, and ends the program (unless the option
 * on_error has another value).
 *
 * Link with -lashlar. Kernel code that includes <linux/slab.h> finds that header beside this file.
 *
 * Generated from the sources of the crate ashlar-c; do not edit.
 */";

const AFTER_INCLUDES: &str = "
/* What a request of 0 bytes returns: no memory, but not null either. Freeing it does nothing. */
#define ZERO_SIZE_PTR ((void *)16)
/* True for NULL and for ZERO_SIZE_PTR, behind which there is nothing. */
#define ZERO_OR_NULL_PTR(x) ((size_t)(x) <= (size_t)ZERO_SIZE_PTR)

/* For struct kmem_cache_args: all defaults, in C and in C++. */
#ifdef __cplusplus
#define ASHLAR_CACHE_ARGS_INIT {}
#else
#define ASHLAR_CACHE_ARGS_INIT { 0 }
#endif
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace").to_owned()
}

fn generated() -> String {
    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        include_guard: Some("ASHLAR_H".to_owned()),
        header: Some(HEAD.to_owned()),
        after_includes: Some(AFTER_INCLUDES.to_owned()),
        no_includes: true,
        sys_includes: vec!["stdbool.h".to_owned(), "stddef.h".to_owned(), "stdint.h".to_owned()],
        usize_is_size_t: true,
        style: Style::Tag,
        documentation_style: DocumentationStyle::C,
        line_endings: LineEndingStyle::LF,
        line_length: 110,
        tab_width: 4,
        ..Config::default()
    };
    config.function.args = Layout::Horizontal;
    config.function.sort_by = Some(SortKey::None);
    config.constant.sort_by = Some(SortKey::None);
    let builder = SOURCES.iter().fold(Builder::new().with_config(config), |builder, source| {
        builder.with_src(Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(source))
    });
    let mut text = Vec::new();
    builder.generate().expect("cbindgen reads the sources").write(&mut text);
    polish(&String::from_utf8(text).expect("cbindgen writes UTF-8"))
}

/// Writes a comment of the kernel's form, in one line where that is enough. C89 has no `//`.
fn comment(indent: &str, lines: &[&str], out: &mut String) {
    match lines {
        [line] if indent.len() + line.len() <= 94 => out.push_str(&format!("{indent}/* {line} */\n")),
        _ => {
            out.push_str(&format!("{indent}/*\n"));
            for line in lines {
                out.push_str(format!("{indent} * {line}").trim_end());
                out.push('\n');
            }
            out.push_str(&format!("{indent} */\n"));
        }
    }
}

/// Rust's headings and quotes are not C's; declarations that are too long are broken after a comma.
fn polish(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "/*" {
            let indent = &line[..line.len() - line.trim_start().len()];
            let inside: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != "*/").collect();
            let inside: Vec<String> = inside
                .iter()
                .map(|line| line.trim().trim_start_matches('*').trim().replace("# Safety", "The caller promises:"))
                .map(|line| line.replace('`', ""))
                .collect();
            comment(indent, &inside.iter().map(String::as_str).collect::<Vec<_>>(), &mut out);
            continue;
        }
        let line = line.replace('`', "");
        // C89 has no comments of one line.
        let line = match line.split_once(" // ") {
            Some((code, comment)) => format!("{} /* {comment} */", code.trim_end()),
            None => line,
        };
        let mut rest = line.trim_end();
        if rest.is_empty() && out.ends_with("\n\n") {
            continue;
        }
        // Lines of comments are not broken.
        while rest.len() > 110 && !rest.trim_start().starts_with('*') {
            let at = rest[..110].rfind(", ").map_or(rest.len(), |comma| comma + 1);
            out.push_str(&rest[..at]);
            rest = rest[at..].trim_start();
            if !rest.is_empty() {
                out.push_str("\n    ");
            }
        }
        out.push_str(rest);
        out.push('\n');
    }
    out
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = root().join("include/ashlar.h");
    let wanted = generated();
    if std::env::var_os("ASHLAR_UPDATE_HEADERS").is_some() {
        fs::write(&path, &wanted).expect("the header can be written");
    }
    let found = fs::read_to_string(&path).expect("include/ashlar.h can be read");
    let differs = wanted.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
    assert!(
        wanted == found,
        "include/ashlar.h differs from the sources, first in {differs:?}: \
         ASHLAR_UPDATE_HEADERS=1 cargo test --release -p ashlar-c --test header"
    );
}
