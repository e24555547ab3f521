//! Checks the layers of the core, and that no files of a crate import one another in a circle.
//!
//! Reads sources as text: `use` statements and paths in code, followed through re-exports to the
//! file that declares the name. Ignores the code of tests. Does not run the allocator.

use core::fmt::Write as _;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Modules of the core outside its layers: the root, the models of loom, and hooks for tests.
const BESIDE: [&str; 3] = ["lib", "models", "testing"];

/// The sources of one crate, by path below `src`.
type Sources = BTreeMap<String, String>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace").to_owned()
}

/// Reads the sources of the crate in `crates/NAME`.
fn sources_of(name: &str) -> Sources {
    fn collect(dir: &Path, below: &Path, into: &mut Sources) {
        for entry in fs::read_dir(dir).expect("a source folder can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                collect(&path, below, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
                let relative = path.strip_prefix(below).expect("below the sources");
                into.insert(relative.to_str().expect("a path in UTF-8").to_owned(), text);
            }
        }
    }
    let src = root().join("crates").join(name).join("src");
    let mut sources = Sources::new();
    collect(&src, &src, &mut sources);
    sources
}

/// Returns the words and signs of Rust code, without comments, strings, and the tests at its end.
fn tokens(text: &str) -> Vec<String> {
    let text = text.split("\nmod tests {").next().unwrap_or(text);
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |end| end + 2)
        } else if rest.starts_with("'\"'") || rest.starts_with("'{'") || rest.starts_with("'}'") {
            3
        } else if c.is_alphanumeric() || c == '_' {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(rest[..end].to_owned());
            end
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// The names and imports of one file.
#[derive(Default)]
struct File {
    /// Names that `use` statements import, and the path of each.
    names: BTreeMap<String, Vec<String>>,
    /// Modules that `use` statements import whole.
    globs: Vec<Vec<String>>,
    /// Names that the file declares.
    declared: BTreeSet<String>,
    /// Paths that the code depends on. Re-exports do not count.
    paths: Vec<Vec<String>>,
}

struct Reader<'a> {
    tokens: &'a [String],
    at: usize,
    module: Vec<String>,
    file: File,
}

impl Reader<'_> {
    fn token(&self, ahead: usize) -> &str {
        self.tokens.get(self.at + ahead).map_or("", String::as_str)
    }

    /// Reads a whole file.
    fn read(mut self) -> File {
        // The depth of braces, and the depths at which the open inline modules start.
        let (mut depth, mut inline) = (0, Vec::new());
        while self.at < self.tokens.len() {
            let before = if self.at == 0 { String::new() } else { self.tokens[self.at - 1].clone() };
            let before = before.as_str();
            let token = self.token(0).to_owned();
            match token.as_str() {
                "{" => depth += 1,
                "}" => {
                    depth -= 1;
                    if inline.last() == Some(&depth) {
                        inline.pop();
                        self.module.pop();
                    }
                }
                "mod" if self.token(2) == "{" => {
                    self.module.push(self.token(1).to_owned());
                    inline.push(depth);
                    depth += 1;
                    self.at += 2;
                }
                "use" => {
                    let public = before == ")" || before == "pub";
                    self.at += 1;
                    self.tree(Vec::new(), public);
                }
                word if is_word(word) && before != "::" && before != "." && before != "$" => {
                    if ["fn", "struct", "enum", "trait", "type", "const", "static", "union"].contains(&before)
                        || before == "!"
                    {
                        self.file.declared.insert(word.to_owned());
                    }
                    let mut path = vec![word.to_owned()];
                    while self.token(1) == "::" && is_word(self.token(2)) {
                        path.push(self.token(2).to_owned());
                        self.at += 2;
                    }
                    if path.len() > 1 {
                        let path = self.absolute(path);
                        self.file.paths.push(path);
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
        self.file
    }

    /// Reads the tree of a `use` statement, from its first token to the one that ends it.
    fn tree(&mut self, mut path: Vec<String>, public: bool) {
        loop {
            match self.token(0) {
                "{" => {
                    self.at += 1;
                    while self.token(0) != "}" && self.at < self.tokens.len() {
                        self.tree(path.clone(), public);
                        if self.token(0) == "," {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "*" => {
                    self.at += 1;
                    let path = self.absolute(path);
                    self.file.globs.push(path);
                    return;
                }
                "::" => self.at += 1,
                "as" => {
                    let name = self.token(1).to_owned();
                    self.at += 2;
                    return self.bring_in(name, path, public);
                }
                word if is_word(word) => {
                    path.push(word.to_owned());
                    self.at += 1;
                    if self.token(0) != "::" && self.token(0) != "as" {
                        let name = path.last().expect("just added").clone();
                        return self.bring_in(name, path, public);
                    }
                }
                _ => return,
            }
        }
    }

    fn bring_in(&mut self, name: String, mut path: Vec<String>, public: bool) {
        let mut name = name;
        if name == "self" && path.len() > 1 {
            path.pop();
            name = path.last().expect("a module").clone();
        }
        let path = self.absolute(path);
        if !public {
            self.file.paths.push(path.clone());
        }
        self.file.names.insert(name, path);
    }

    /// Returns a path from the root of the crate, which begins with `crate`. Leaves a path
    /// unchanged if it begins with a plain name.
    fn absolute(&self, path: Vec<String>) -> Vec<String> {
        let mut module = self.module.clone();
        let mut rest = path.as_slice();
        match rest[0].as_str() {
            "crate" => module.clear(),
            "self" => {}
            "super" => {
                module.pop();
                while rest.get(1).is_some_and(|next| next == "super") {
                    module.pop();
                    rest = &rest[1..];
                }
            }
            _ => return path,
        }
        ["crate".to_owned()].into_iter().chain(module).chain(rest[1..].iter().cloned()).collect()
    }
}

fn is_word(token: &str) -> bool {
    token.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// The files of a crate, and what each imports.
struct Graph {
    /// By module path, such as `percpu::area`.
    files: BTreeMap<Vec<String>, File>,
    imports: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    fn of(sources: &Sources) -> Graph {
        let mut files = BTreeMap::new();
        for (path, text) in sources {
            if path.ends_with("tests.rs") {
                continue;
            }
            let module: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            let module = match module.last().map(String::as_str) {
                Some("mod") => module[..module.len() - 1].to_vec(),
                Some("lib" | "main") if module.len() == 1 => Vec::new(),
                _ => module,
            };
            let tokens = tokens(text);
            let reader = Reader { tokens: &tokens, at: 0, module: module.clone(), file: File::default() };
            files.insert(module, reader.read());
        }
        let mut graph = Graph { files, imports: BTreeMap::new() };
        for (module, file) in &graph.files {
            let found = file.paths.iter().filter_map(|path| graph.resolve(module, path, 0));
            let found = found.filter(|target| target != module && !target.is_empty()).map(|target| target.join("::"));
            graph.imports.insert(module.join("::"), found.collect());
        }
        graph
    }

    /// Returns the module of the file that declares the target of `path`, as seen from `module`.
    fn resolve(&self, module: &[String], path: &[String], depth: usize) -> Option<Vec<String>> {
        if depth > 8 {
            return None;
        }
        if path[0] != "crate" {
            // A child module, or an imported name.
            let mut child = module.to_vec();
            child.push(path[0].clone());
            if self.files.contains_key(&child) {
                return self.walk(child, &path[1..], depth);
            }
            let brought = self.files.get(module)?.names.get(&path[0])?;
            if brought == path {
                return None;
            }
            let longer: Vec<String> = brought.iter().chain(&path[1..]).cloned().collect();
            return self.resolve(module, &longer, depth + 1);
        }
        self.walk(Vec::new(), &path[1..], depth)
    }

    fn walk(&self, mut at: Vec<String>, mut rest: &[String], depth: usize) -> Option<Vec<String>> {
        while let Some(next) = rest.first() {
            let mut deeper = at.clone();
            deeper.push(next.clone());
            if !self.files.contains_key(&deeper) {
                break;
            }
            (at, rest) = (deeper, &rest[1..]);
        }
        let file = self.files.get(&at)?;
        let Some(name) = rest.first() else { return Some(at) };
        if file.declared.contains(name) {
            return Some(at);
        }
        if let Some(brought) = file.names.get(name) {
            let longer: Vec<String> = brought.iter().chain(&rest[1..]).cloned().collect();
            return self.resolve(&at, &longer, depth + 1);
        }
        for glob in &file.globs {
            if let Some(target) = self.resolve(&at, glob, depth + 1)
                && target != at
                && self.files[&target].declared.contains(name)
            {
                return Some(target);
            }
        }
        Some(at)
    }

    /// Returns the circles: sets of files that import one another, directly or through others.
    fn circles(&self) -> Vec<BTreeSet<String>> {
        let reach: BTreeMap<&String, BTreeSet<&String>> = self
            .imports
            .keys()
            .map(|from| {
                let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
                while let Some(file) = next.pop() {
                    for to in self.imports.get(file).into_iter().flatten() {
                        if seen.insert(to) {
                            next.push(to);
                        }
                    }
                }
                (from, seen)
            })
            .collect();
        let mut circles: Vec<BTreeSet<String>> = Vec::new();
        for (from, seen) in &reach {
            let circle: BTreeSet<String> = seen
                .iter()
                .filter(|to| reach.get(**to).is_some_and(|r| r.contains(from)))
                .map(|to| (*to).clone())
                .collect();
            if circle.len() > 1 && !circles.contains(&circle) {
                circles.push(circle);
            }
        }
        circles
    }
}

/// Returns the layer of each module by the table in lib.rs.
fn layers(lib: &str) -> BTreeMap<String, usize> {
    let rows = lib.lines().filter_map(|line| line.strip_prefix("//! | "));
    let mut layers = BTreeMap::new();
    for row in rows {
        let Some((number, rest)) = row.split_once(" | ") else { continue };
        let Ok(number) = number.parse::<usize>() else { continue };
        let modules = rest.split(" | ").next().expect("a row has cells");
        layers.extend(modules.split('`').skip(1).step_by(2).map(|module| (module.to_owned(), number)));
    }
    layers
}

/// Returns a line for each import that points up, and for each module without a layer.
fn upward(sources: &Sources) -> Vec<String> {
    let layers = layers(&sources["lib.rs"]);
    let mut wrong = Vec::new();
    for (file, targets) in Graph::of(sources).imports {
        let top = |module: &str| module.split("::").next().expect("split gives one part at least").to_owned();
        let module = top(&file);
        if file.is_empty() || BESIDE.contains(&module.as_str()) {
            continue;
        }
        let Some(mine) = layers.get(&module) else {
            wrong.push(format!("{module} has no row in the table of lib.rs"));
            continue;
        };
        for target in targets {
            match layers.get(&top(&target)) {
                Some(theirs) if theirs > mine => {
                    wrong.push(format!("{file} (layer {mine}) imports {target} (layer {theirs})"));
                }
                None if BESIDE.contains(&top(&target).as_str()) => {
                    wrong.push(format!("{file} (layer {mine}) imports {target}, which is beside the layers"));
                }
                _ => {}
            }
        }
    }
    wrong
}

#[test]
fn imports_point_down_only() {
    let sources = sources_of("ashlar");
    let layers = layers(&sources["lib.rs"]);
    assert!(layers.len() >= 9, "the table of layers in lib.rs was not read: {layers:?}");
    let wrong = upward(&sources);
    assert!(wrong.is_empty(), "imports that point up:\n{}", wrong.join("\n"));
}

#[test]
fn no_files_import_one_another_in_a_circle() {
    let mut wrong = String::new();
    let mut imports = 0;
    for entry in fs::read_dir(root().join("crates")).expect("the crates can be listed") {
        let name = entry.expect("an entry can be read").file_name().into_string().expect("a name in UTF-8");
        let graph = Graph::of(&sources_of(&name));
        imports += graph.imports.values().map(BTreeSet::len).sum::<usize>();
        for circle in graph.circles() {
            let files: Vec<_> = circle.into_iter().collect();
            writeln!(wrong, "{name}: {}", files.join(", ")).expect("a string");
            for file in &files {
                let inside: Vec<_> = graph.imports[file].iter().filter(|to| files.contains(to)).cloned().collect();
                writeln!(wrong, "    {file} imports {}", inside.join(", ")).expect("a string");
            }
        }
    }
    assert!(wrong.is_empty(), "circles of files:\n{wrong}");
    assert!(imports > 1000, "only {imports} imports found: the reader of sources may be broken");
}

#[test]
fn nothing_below_the_caches_knows_malloc() {
    let below = ["base/", "pages/", "slab/", "percpu/", "engine/"];
    let sources = sources_of("ashlar");
    let sources = sources.iter().filter(|(path, _)| below.iter().any(|folder| path.starts_with(folder)));
    let lines = sources.flat_map(|(path, text)| text.lines().enumerate().map(move |(at, line)| (path, at + 1, line)));
    let wrong: Vec<_> = lines.filter(|(.., line)| line.contains("malloc")).collect();
    assert!(wrong.is_empty(), "layers below `cache` mention malloc: {wrong:#?}");
}

/// Returns a small crate, in which the files `low` and `high` have these additional lines.
fn planted(low: &str, high: &str) -> Sources {
    let lib =
        "//! | 0 | `low` | |\n//! | 1 | `middle` `high` | |\nmod high;\nmod low;\nmod middle;\npub use middle::M;\n";
    let files = [
        ("lib.rs", lib.to_owned()),
        ("low.rs", format!("{low}pub struct L;\n")),
        ("middle/mod.rs", "mod part;\npub use part::M;\n".to_owned()),
        ("middle/part.rs", "use crate::low::L;\npub struct M(L);\n".to_owned()),
        ("high.rs", format!("use crate::middle::M;\n{high}pub struct H(M);\n")),
    ];
    files.into_iter().map(|(path, text)| (path.to_owned(), text)).collect()
}

#[test]
fn a_planted_import_that_points_up_is_found() {
    assert_eq!(upward(&planted("", "")), [""; 0]);
    let expected = ["low (layer 0) imports middle::part (layer 1)"];
    for line in ["use crate::middle::M;\n", "use crate::M;\n", "use super::{middle::{self}};\ntype T = middle::M;\n"] {
        let found = upward(&planted(line, ""));
        assert!(found.contains(&expected[0].to_owned()), "{line}: {found:?}");
    }
    assert_eq!(upward(&planted("fn f() -> crate::M { loop {} }\n", "")), expected);
    assert_eq!(upward(&planted("// use crate::M;\nconst TEXT: &str = \"crate::M\";\n", "")), [""; 0]);
}

#[test]
fn a_planted_circle_is_found() {
    assert!(Graph::of(&planted("", "use crate::low::L;\n")).circles().is_empty());
    let circles = Graph::of(&planted("use crate::high::H;\n", "")).circles();
    let circle = ["high", "low", "middle::part"].map(str::to_owned);
    assert_eq!(circles, [BTreeSet::from(circle)]);
}
