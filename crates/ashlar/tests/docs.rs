//! Checks that the documents name code that exists. `structure.rs` checks the layers.
//!
//! Reads sources as text and does not run the allocator.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Documents whose names of code are checked.
const DOCUMENTS: [&str; 13] = [
    "README.md",
    "docs/design.md",
    "docs/tuning.md",
    "docs/observe.md",
    "SAFETY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/process.md",
    "docs/why.md",
    "docs/engines.md",
    "docs/figures.md",
    "docs/kernel.md",
    "crates/ashlar-lab/README.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace").to_owned()
}

fn sources() -> PathBuf {
    root().join("crates/ashlar/src")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Collects the files below `dir` that end in `.rs`.
fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("a source folder can be read") {
        let path = entry.expect("an entry can be read").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|e| e == "rs") {
            into.push(path);
        }
    }
}

/// Returns the texts between single back quotes outside of code blocks. One may go on in the next
/// line, but not in the next paragraph.
fn quoted(text: &str) -> Vec<String> {
    let (mut found, mut paragraph, mut in_block) = (Vec::new(), String::new(), false);
    for line in text.lines().chain([""]) {
        let is_fence = line.trim_start().starts_with("```");
        in_block ^= is_fence;
        if !in_block && !is_fence && !line.trim().is_empty() && !line.starts_with('|') {
            paragraph.extend([line.trim(), " "]);
            continue;
        }
        found.extend(paragraph.split('`').skip(1).step_by(2).map(str::to_owned));
        paragraph.clear();
        if !in_block && line.starts_with('|') {
            found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

/// Returns whether `text` declares `name` after one of the keywords (or, for types, implements
/// something for it).
fn declares(text: &str, keywords: &[&str], name: &str) -> bool {
    keywords.iter().any(|keyword| {
        text.match_indices(&format!("{keyword}{name}")).any(|(at, found)| {
            let before = text[..at].chars().next_back();
            let after = text[at + found.len()..].chars().next();
            let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
            !is_word(before) && !is_word(after)
        })
    })
}

const ITEMS: [&str; 9] = ["fn ", "mod ", "struct ", "enum ", "trait ", "type ", "const ", "static ", "macro_rules! "];

/// Checks a path such as `engine::sheaves::refill::carve`: modules as far as there are files, then
/// items in the file. `ashlar::name` is a name of the public interface.
fn check_path(path: &str) -> Result<(), String> {
    let path = path.trim_end_matches("()");
    if let Some(name) = path.strip_prefix("ashlar::") {
        let exported = declares(&read(&sources().join("lib.rs")), &[""], name);
        return if exported { Ok(()) } else { Err(format!("lib.rs does not export `{name}`")) };
    }
    let parts: Vec<&str> = path.strip_prefix("crate::").unwrap_or(path).split("::").collect();
    let mut dir = sources();
    let mut file = sources().join("lib.rs");
    let mut rest = 0;
    for part in &parts {
        let (flat, folder) = (dir.join(format!("{part}.rs")), dir.join(part).join("mod.rs"));
        if !flat.is_file() && !folder.is_file() {
            break;
        }
        file = if flat.is_file() { flat } else { folder };
        dir = dir.join(part);
        rest += 1;
    }
    let mut text = read(&file);
    if rest > 0 && parts[rest..].iter().any(|part| part.starts_with(char::is_uppercase)) && dir.is_dir() {
        // Functions of a type may be in any file below the module of the type.
        let mut files = Vec::new();
        rust_files(&dir, &mut files);
        files.iter().for_each(|file| text.push_str(&read(file)));
    }
    for part in &parts[rest..] {
        let field = format!("{part}: ");
        if !declares(&text, &ITEMS, part) && !declares(&text, &[""], &field) && !text.contains(&format!(" {part},")) {
            return Err(format!("{} has no `{part}`", file.display()));
        }
    }
    Ok(())
}

/// Checks `tests/file.rs::function`.
fn check_test(path: &str) -> Result<(), String> {
    let (file, function) = path.split_once("::").expect("the caller looked");
    let mut text = String::new();
    for name in crates_of(path) {
        let file = root().join("crates").join(name).join(file);
        text.push_str(&fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?);
    }
    // A macro makes the suites for all modes, and it names the test without `fn`.
    if declares(&text, &["fn ", ""], function) { Ok(()) } else { Err(format!("no `{function}` in {file}")) }
}

/// Returns the crates whose `tests/` may have the file. The file's name decides, except for tests
/// of the same name in two crates.
fn crates_of(path: &str) -> &'static [&'static str] {
    match path.split("::").next().expect("split gives one part at least") {
        "tests/cli.rs" => &["ashlar-lab"],
        "tests/misuse.rs" => &["ashlar", "ashlar-c"],
        "tests/exports.rs" => &["ashlar-malloc", "ashlar-c"],
        "tests/header.rs" | "tests/programs.rs" | "tests/headers.rs" => &["ashlar-c"],
        _ => &["ashlar"],
    }
}

#[test]
fn names_of_code_in_the_documents_exist() {
    let known: BTreeSet<&str> = BTreeSet::from(["std", "core", "alloc"]);
    let mut wrong = Vec::new();
    let mut checked = 0;
    for document in DOCUMENTS {
        for name in quoted(&read(&root().join(document))) {
            let is_path = name.contains("::")
                && name.trim_end_matches("()").chars().all(|c| c.is_alphanumeric() || "_:".contains(c));
            let is_test = name.starts_with("tests/") && name.contains(".rs::") && !name.contains('…');
            let is_file = !name.contains("::")
                && !name.contains([' ', '*', '$', '…'])
                && name.contains('/')
                && [".rs", ".sh", ".md", ".toml"].iter().any(|end| name.ends_with(end));
            let result = if is_test {
                check_test(&name)
            } else if is_path && !known.contains(name.split("::").next().unwrap_or("")) {
                check_path(&name)
            } else if is_file {
                let places = [root().join(&name), root().join("crates/ashlar").join(&name), sources().join(&name)];
                if places.iter().any(|p| p.is_file()) { Ok(()) } else { Err("no such file".to_owned()) }
            } else {
                continue;
            };
            checked += 1;
            if let Err(reason) = result {
                wrong.push(format!("{document}: `{name}`: {reason}"));
            }
        }
    }
    assert!(wrong.is_empty(), "names that do not exist:\n{}", wrong.join("\n"));
    assert!(checked > 100, "only {checked} names found: does the reader of documents still work?");
}

/// Returns the file that declares what a path of modules leads to.
fn file_of(path: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = path.split("::").collect();
    let (mut dir, mut file) = (sources(), None);
    for part in &parts {
        let found = [dir.join(format!("{part}.rs")), dir.join(part).join("mod.rs")].into_iter().find(|f| f.is_file());
        let Some(found) = found else { break };
        file = Some(found);
        dir = dir.join(part);
    }
    let mut files: Vec<PathBuf> = file.into_iter().collect();
    if dir.is_dir() && !files.is_empty() {
        rust_files(&dir, &mut files);
    }
    let item = parts.last()?;
    let declaring = files.iter().find(|file| declares(&read(file), &ITEMS, item)).cloned();
    declaring.or_else(|| files.first().cloned())
}

/// The walk through one allocation is for a reader with an hour: it once passed 31 files.
#[test]
fn one_allocation_passes_few_files() {
    let text = read(&root().join("docs/design.md"));
    let walk = text.split_once("## One allocation, cold to hot").expect("the chapter").1;
    let walk = walk.split_once("\n## ").expect("another chapter follows").0;
    let names = quoted(walk).into_iter().filter(|name| name.contains("::"));
    let files: BTreeSet<PathBuf> = names.filter_map(|name| file_of(&name)).collect();
    assert!((8..=15).contains(&files.len()), "{} files: {files:?}", files.len());
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let mut wrong = Vec::new();
    for document in DOCUMENTS {
        let path = root().join(document);
        let text = read(&path);
        for (at, _) in text.match_indices("](") {
            let target = text[at + 2..].split(')').next().unwrap_or("");
            let file = target.split('#').next().unwrap_or("");
            if file.is_empty() || file.starts_with("http") {
                continue;
            }
            if !path.parent().expect("a file has a folder").join(file).exists() {
                wrong.push(format!("{document}: {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn the_readme_shows_the_examples_that_are_compiled() {
    let readme = read(&root().join("README.md"));
    for file in ["crates/ashlar/examples/quick_start.rs", "crates/ashlar-c/examples/quick_start.c"] {
        let example = read(&root().join(file));
        let shown = example.split_once("\n\n").expect("the example starts with a line of documentation").1;
        assert!(readme.contains(shown), "README.md differs from {file}");
    }
}

#[test]
fn the_page_of_tuning_names_every_option() {
    let page = read(&root().join("docs/tuning.md"));
    let options = read(&sources().join("cache/settings/options.rs"));
    let keys = options.split_once("one of the keys ").expect("it lists its keys").1;
    let keys = keys.split(';').next().expect("the list ends").replace(['\\', '\n'], " ");
    for key in keys.split([',', ' ']).filter(|k| !k.is_empty()) {
        assert!(page.contains(&format!("| `{key}` |")), "docs/tuning.md does not explain the option {key}");
    }
}

/// Removes line comments.
fn code(text: &str) -> String {
    text.lines().map(|line| line.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

#[test]
fn only_sync_imports_atomics_and_cells() {
    /// Files that may import them, each with its reason.
    const MAY: [(&str, &str); 7] = [
        ("base/sync/mod.rs", "it is the door"),
        ("base/sync/lock.rs", "a part of the door"),
        ("base/sync/boot_cell.rs", "a part of the door"),
        ("base/sync/gate.rs", "a fence that loom alone needs"),
        ("base/sync/set_once.rs", "a part of the door"),
        ("percpu/sheaf.rs", "info words lie in the memory of sheaves, where no atomic of loom's can be"),
        ("percpu/fence.rs", "a switch of tests, which no model explores"),
    ];
    let mut files = Vec::new();
    rust_files(&sources(), &mut files);
    let mut wrong = Vec::new();
    for file in files {
        let relative = file.strip_prefix(sources()).expect("below the sources").to_string_lossy().into_owned();
        if relative.starts_with("models") || MAY.iter().any(|(may, _)| *may == relative) {
            continue;
        }
        let code = code(&read(&file));
        wrong.extend(["sync::atomic", "cell::UnsafeCell"].iter().filter(|name| code.contains(*name)).map(|name| {
            format!("{relative}: {name}") // not through crate::sync
        }));
    }
    assert!(wrong.is_empty(), "atomics or cells past the door:\n{}", wrong.join("\n"));
}

#[test]
fn the_kernel_of_the_document_is_the_example() {
    let text = read(&root().join("docs/kernel.md"));
    let block = text.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(block.expect("the document has the code"), read(&root().join("examples/kernel/src/lib.rs")));
    for template in ["asterinas.rs", "hermit.rs"] {
        let code = read(&root().join("crates/ashlar/tests/templates").join(template));
        assert!(text.contains(&format!("```rust,ignore\n{code}```\n")), "the document has another {template}");
    }
}
