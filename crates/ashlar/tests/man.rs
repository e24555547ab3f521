//! Checks that the manual pages describe every option of the allocator and every function of the C
//! header, and no others.
//!
//! Reads pages and sources as text; does not run the allocator. The tool's own tests check its
//! page.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace").to_owned()
}

fn read(path: &str) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_page_of_options_has_every_key_and_no_other() {
    let sources = read("crates/ashlar/src/cache/settings/options.rs");
    let sources = sources.split("#[cfg(test)]").next().expect("code comes before its tests");
    let keys = sources.split_once("one of the keys ").expect("the message lists the keys").1;
    let keys = keys.split(';').next().expect("the list ends").replace(['\\', '\n'], " ");
    let keys: Vec<&str> = keys.split([',', ' ']).filter(|key| !key.is_empty()).collect();
    assert!(keys.len() > 10, "{keys:?}");
    let page = read("man/ashlar.7");
    let described: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix(".It Cm ")?.split_once(" Ns = Ns Ar "))
        .map(|(key, _)| key)
        .collect();
    assert_eq!(described, keys, "keys of man/ashlar.7, then those of the sources");
    // The sources contain the values that are words as `key=word`.
    let words = sources.match_indices('=').filter_map(|(at, _)| {
        let key = keys.iter().find(|key| sources[..at].ends_with(**key))?;
        let word: String = sources[at + 1..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
        (!word.is_empty()).then_some((*key, word))
    });
    let words: Vec<_> = words.collect();
    assert!(words.len() > 8, "{words:?}");
    for (key, word) in words {
        assert!(page.contains(&format!(".Cm {word}\n")) || page.contains(&format!(".Cm {word} ")), "{key}={word}");
    }
}

#[test]
fn the_page_of_options_has_every_key_of_a_single_cache() {
    let sources = read("crates/ashlar/src/cache/settings/own.rs");
    let keys = sources.split_once("one of the keys ").expect("the message lists the keys").1;
    let keys = keys.split('"').next().expect("the list ends").replace('\\', " ");
    let mut keys: Vec<&str> = keys.split([',', ' ', '\n']).filter(|key| !key.is_empty()).collect();
    let page = read("man/ashlar.7");
    let part = page.split(".Ss Options of one cache\n").nth(1).and_then(|rest| rest.split("\n.Sh ").next());
    let described = part.expect("a section").lines().filter_map(|line| line.strip_prefix(".It Cm "));
    let mut described: Vec<&str> = described.flat_map(|line| line.split(" , ")).collect();
    keys.sort_unstable();
    described.sort_unstable();
    assert!(keys.len() > 10);
    assert_eq!(described, keys, "keys of man/ashlar.7, then those of the sources");
    let tuning = read("docs/tuning.md");
    let part = tuning.split("## Options of one cache").nth(1).expect("a chapter");
    for key in keys {
        assert!(
            part.contains(&format!("`{key}`")) || part.contains(&format!("`{key}=")),
            "docs/tuning.md has no {key}"
        );
    }
}

#[test]
fn the_page_of_options_has_both_variables_and_every_figure() {
    let page = read("man/ashlar.7");
    for variable in ["ASHLAR_OPTIONS", "ASHLAR_STATS"] {
        assert!(page.contains(&format!(".It Ev {variable}\n")), "{variable}");
    }
    let figures = read("crates/ashlar/src/faces/stats/print.rs");
    let json = figures.split("fn json(").nth(1).and_then(|rest| rest.split("#[cfg(test)]").next());
    let json = json.expect("print.rs prints JSON");
    let members: Vec<&str> = json.split("\\\"").skip(1).step_by(2).filter(|name| !name.contains(['{', ':'])).collect();
    assert!(members.len() > 10, "{members:?}");
    for name in members {
        assert!(
            page.contains(&format!(".Li {name}\n"))
                || page.contains(&format!(".Li {name} "))
                || page.contains(&format!(".It Cm {name}\n")),
            "man/ashlar.7 does not explain the member {name}"
        );
    }
}

/// Returns `text` without white space.
fn squeezed(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// Returns the functions that the header declares, each with its declaration by name.
fn declared() -> BTreeMap<String, String> {
    let header = read("include/ashlar.h");
    let code: Vec<&str> = header.lines().filter(|line| !line.starts_with('#')).collect();
    // Removes the comments.
    let code = code.join(" ");
    let mut functions = String::new();
    for (at, part) in code.split("/*").enumerate() {
        functions.push_str(if at == 0 { part } else { part.split_once("*/").expect("a comment ends").1 });
    }
    let functions = functions.split("extern \"C\" {").nth(1).expect("the header declares functions");
    let declarations = functions.split(';').filter(|declaration| declaration.contains('('));
    declarations
        .map(|declaration| {
            let before = declaration.split('(').next().expect("split gives a part");
            let name = before.rsplit([' ', '*']).next().expect("a name");
            (name.to_owned(), squeezed(declaration))
        })
        .collect()
}

/// Returns the arguments of a line of mdoc: words, or quoted strings.
fn arguments(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (i, part) in line.split('"').enumerate() {
        if i % 2 == 1 {
            found.push(part.replace("\\:", ""));
        } else {
            found.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    found
}

/// Returns the functions that the page's synopsis declares, as [`declared`] does.
fn synopsis(page: &str) -> BTreeMap<String, String> {
    let part = page.split(".Sh SYNOPSIS\n").nth(1).and_then(|rest| rest.split("\n.Sh ").next()).expect("a synopsis");
    let (mut result, mut name, mut open) = (String::new(), String::new(), Vec::new());
    let mut found = BTreeMap::new();
    for line in part.lines() {
        let (macro_name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut words = arguments(rest);
        match macro_name {
            ".Ft" => result = words.remove(0),
            ".Fo" => name = words.remove(0),
            ".Fa" => open.append(&mut words),
            ".Fn" => {
                name = words.remove(0);
                open = words;
            }
            _ => {}
        }
        if [".Fn", ".Fc"].contains(&macro_name) {
            found.insert(name.clone(), squeezed(&format!("{result}{name}({})", open.join(","))));
            open.clear();
        }
    }
    found
}

#[test]
fn the_page_of_the_c_library_declares_what_the_header_does() {
    let (declared, page) = (declared(), read("man/libashlar.3"));
    assert!(declared.len() > 40, "{declared:?}");
    assert_eq!(synopsis(&page), declared, "the synopsis of man/libashlar.3, then include/ashlar.h");
    let text = page.split(".Sh DESCRIPTION\n").nth(1).expect("a description");
    let names = page.split(".Sh NAME\n").nth(1).and_then(|rest| rest.split(".Nd").next()).expect("names");
    for name in declared.keys() {
        assert!(names.lines().any(|line| line.trim_end_matches(" ,") == format!(".Nm {name}")), "{name} has no .Nm");
        assert!(text.lines().any(|line| line.split(' ').take(2).eq([".Fn", name])), "{name} is not described");
    }
}

#[test]
fn constants_of_the_page_are_those_of_the_header() {
    let (page, header) = (read("man/libashlar.3"), read("include/ashlar.h"));
    let constants: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix(".Dv ")).collect();
    assert!(constants.len() > 5, "{constants:?}");
    for constant in constants.iter().map(|line| line.split(' ').next().unwrap_or("")) {
        assert!(header.contains(constant), "include/ashlar.h has no {constant}");
    }
}
