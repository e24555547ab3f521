//! Checks the plan of the lab: what each file may import, which rooms an experiment has, and that
//! no files import one another in a circle.
//!
//! Reads the sources as text. Every import in the lab is a path that begins with `crate::`; a test
//! here refuses `super::` outside tests, so no import escapes. Does not run the lab.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The layers, each of which may import those before it.
const LAYERS: [&str; 4] = ["kit", "systems", "experiments", "registry"];
/// What an experiment may consist of, beside its head.
const ROOMS: [&str; 5] = ["args", "plan", "child", "table", "targets"];

/// Module paths, such as `kit::table`, and the text of each without its tests.
type Sources = BTreeMap<String, String>;

fn read() -> Sources {
    fn collect(dir: &Path, below: &Path, into: &mut Sources) {
        for entry in fs::read_dir(dir).expect("a source folder can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                collect(&path, below, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file can be read");
                let module = path.strip_prefix(below).expect("below the sources").with_extension("");
                let module = module.to_str().expect("a path in UTF-8").replace('/', "::");
                let module = module.strip_suffix("::mod").unwrap_or(&module).to_owned();
                // Tests see everything: those of a file at its end, and files of tests.
                if module != "shipped" && !module.ends_with("::tests") {
                    into.insert(module, without_tests(&text).to_owned());
                }
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources = Sources::new();
    collect(&src, &src, &mut sources);
    sources
}

/// The text of a file before the module of its tests.
fn without_tests(text: &str) -> &str {
    let mut tests = text.match_indices("\n#[cfg(test)]\n").map(|(at, _)| at);
    let end = tests.find(|at| text[*at..].lines().nth(2).is_some_and(|line| line.contains("mod tests")));
    &text[..end.unwrap_or(text.len())]
}

/// The code of a file, without comments.
fn code(text: &str) -> String {
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    lines.collect::<Vec<_>>().join("\n")
}

/// The items that follow the path `at` in `text`: one, or each of the braces, and of braces in
/// them.
fn tree(text: &str, at: &[String], into: &mut Vec<Vec<String>>) -> usize {
    let mut path = at.to_vec();
    let mut used = 0;
    loop {
        let rest = &text[used..];
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        if word > 0 {
            path.push(rest[..word].to_owned());
            used += word;
        } else if rest.starts_with("::") {
            used += 2;
        } else if rest.starts_with('{') && text[..used].ends_with("::") {
            used += 1;
            while !text[used..].starts_with('}') {
                let blank = text[used..].find(|c: char| !c.is_whitespace() && c != ',').unwrap_or(0);
                used += blank;
                if !text[used..].starts_with('}') {
                    used += tree(&text[used..], &path, into).max(1);
                }
            }
            return used + 1;
        } else {
            path.retain(|part| part != "self");
            into.push(path);
            return used;
        }
    }
}

/// The file that declares what `path` leads to.
fn file_of(sources: &Sources, path: &[String]) -> Option<String> {
    (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|module| sources.contains_key(module))
}

/// Which files each file imports.
fn imports(sources: &Sources) -> BTreeMap<String, BTreeSet<String>> {
    let of = |module: &String, text: &String| {
        let text = code(text);
        let mut paths = Vec::new();
        for (at, name) in text.match_indices("crate::") {
            // `$crate` and `my_crate` are others.
            if !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                tree(&text[at + name.len()..], &[], &mut paths);
            }
        }
        let files = paths.iter().filter_map(|path| file_of(sources, path)).filter(|file| file != module);
        (module.clone(), files.collect())
    };
    sources.iter().map(|(module, text)| of(module, text)).collect()
}

/// Each import that the layers forbid, as a line.
fn forbidden(sources: &Sources) -> Vec<String> {
    let layer = |module: &str| {
        let top = module.split("::").next().unwrap_or("");
        LAYERS.iter().position(|layer| *layer == top)
    };
    let experiment =
        |module: &str| module.strip_prefix("experiments::").and_then(|rest| rest.split("::").next().map(str::to_owned));
    let mut wrong = Vec::new();
    for (from, targets) in imports(sources) {
        for to in targets {
            let up = from != "main" && layer(&to) > layer(&from);
            let across = experiment(&from).is_some_and(|mine| experiment(&to).is_some_and(|theirs| mine != theirs));
            if up || across {
                wrong.push(format!("{from} imports {to}"));
            }
        }
    }
    wrong
}

/// The files that reach themselves through imports.
fn in_circles(sources: &Sources) -> BTreeSet<String> {
    let imports = imports(sources);
    let reaches_itself = |from: &&String| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![*from]);
        while let Some(file) = next.pop() {
            next.extend(imports.get(file).into_iter().flatten().filter(|to| seen.insert(*to)));
        }
        seen.contains(from)
    };
    imports.keys().filter(reaches_itself).cloned().collect()
}

#[test]
fn no_experiment_imports_another_and_no_layer_a_later_one() {
    let sources = read();
    for layer in LAYERS {
        assert!(sources.contains_key(layer), "no module {layer}");
    }
    let count: usize = imports(&sources).values().map(BTreeSet::len).sum();
    assert!(count > 300, "only {count} imports found: does the reader of sources still work?");
    let wrong = forbidden(&sources);
    assert!(wrong.is_empty(), "imports that the plan forbids:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_import_one_another_in_a_circle() {
    let circles = in_circles(&read());
    assert!(circles.is_empty(), "files in circles: {circles:?}");
}

#[test]
fn imports_are_paths_from_the_root() {
    let sources = read();
    let relative = sources.iter().filter(|(_, text)| code(text).contains("super::"));
    let relative: Vec<_> = relative.map(|(module, _)| module).collect();
    assert!(relative.is_empty(), "files with `super::`: {relative:?}");
}

#[test]
fn every_experiment_has_the_same_rooms_and_says_which_it_has_no_use_for() {
    let sources = read();
    let experiments: Vec<_> = sources
        .keys()
        .filter_map(|module| module.strip_prefix("experiments::"))
        .filter(|rest| !rest.contains("::"))
        .collect();
    assert!(experiments.len() >= 9, "{experiments:?}");
    let mut wrong = Vec::new();
    for name in experiments {
        let path = format!("experiments::{name}");
        let rooms: BTreeSet<_> = sources
            .keys()
            .filter_map(|module| module.strip_prefix(&format!("{path}::")))
            .filter_map(|rest| rest.split("::").next())
            .collect();
        wrong
            .extend(rooms.iter().filter(|room| !ROOMS.contains(room)).map(|room| format!("{name}: {room} is no room")));
        for room in ROOMS {
            let reason = format!("//! No `{room}`: ");
            if rooms.contains(room) == sources[&path].lines().any(|line| line.starts_with(&reason)) {
                wrong.push(format!("{name}: expected either the room {room} or a line `{reason}...` at its head"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A small lab, in which `kit::low` and the head of the experiment `one` have these additional
/// lines.
fn planted(low: &str, one: &str) -> Sources {
    let files = [
        ("kit", "pub(crate) mod low;\n".to_owned()),
        ("kit::low", low.to_owned()),
        ("systems", "use crate::kit::{self, low::Low};\n".to_owned()),
        ("experiments::one", format!("use crate::systems::{{a, b::{{C, D}}}};\n{one}")),
        ("experiments::two", "// crate::experiments::one\n".to_owned()),
        ("registry", "use crate::experiments::{one, two};\n".to_owned()),
    ];
    files.into_iter().map(|(module, text)| (module.to_owned(), text)).collect()
}

#[test]
fn planted_imports_are_found() {
    assert_eq!(forbidden(&planted("", "")), [""; 0]);
    assert!(in_circles(&planted("", "")).is_empty());
    let up = planted("use crate::systems::Host;\n", "");
    assert_eq!(forbidden(&up), ["kit::low imports systems"]);
    assert_eq!(in_circles(&up), BTreeSet::from(["kit::low", "systems"].map(str::to_owned)));
    let across = planted("", "fn f() -> crate::experiments::two::Two {}\n");
    assert_eq!(forbidden(&across), ["experiments::one imports experiments::two"]);
}
