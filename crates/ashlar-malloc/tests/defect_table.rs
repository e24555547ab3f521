//! What becomes of each kind of misuse, by default and with each letter of `ASHLAR_DEBUG`: the
//! tables of docs/defects.md.
//!
//! `ci/defects.sh --update` writes the document, and `ci/defects.sh --peers DIR` prints what other
//! allocators make of the same programs: those whose libraries lie in DIR (lab/peers/build.sh), by
//! preloading, and the C library's.

mod common;

use core::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{build, built, library, text};

/// What a program is run with.
#[derive(Clone, Copy)]
struct Column {
    title: &'static str,
    /// The value of `ASHLAR_DEBUG`.
    debug: Option<&'static str>,
    /// Added to `ASHLAR_OPTIONS`.
    options: &'static str,
}

const fn letters(title: &'static str, debug: &'static str) -> Column {
    Column { title, debug: Some(debug), options: "" }
}

const fn options(title: &'static str, options: &'static str) -> Column {
    Column { title, debug: None, options }
}

const COLUMNS: [Column; 9] = [
    options("default", ""),
    letters("`F`", "F"),
    letters("`Z`", "Z"),
    letters("`P`", "P"),
    letters("`U`", "U"),
    letters("`FZPU`", "FZPU"),
    options("`init`", "init_on_alloc=on,init_on_free=on"),
    options("`quarantine`", "quarantine=64"),
    options("`guard`", "guard=1,cache.*.guard=on"),
];
const DOCUMENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/defects.md");
/// The exit code of a program whose data were changed or told.
const HARM: i32 = 42;
const PEERS_BEGIN: &str = "<!-- printed by ci/defects.sh --peers -->\n";
const PEERS_END: &str = "<!-- up to here -->\n";
const BEGIN: &str = "<!-- printed by ci/defects.sh -->\n";

/// A program of `tests/defects`, built.
struct Defect {
    name: String,
    /// The first comment of its source.
    what: String,
    program: PathBuf,
    /// Whether it is linked with `libashlar.so`: it has caches.
    has_caches: bool,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/defects")
}

/// Builds all programs, in the order of their names: those of malloc, then those of caches.
fn defects() -> Vec<Defect> {
    let sources = std::fs::read_dir(folder()).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut sources: Vec<PathBuf> = sources.filter(|path| path.extension().is_some_and(|end| end != "h")).collect();
    let is_cache = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("cache_"));
    sources.sort_by_key(|path| (is_cache(path), path.clone()));
    sources.iter().map(|path| defect(path, is_cache(path))).collect()
}

fn defect(path: &Path, has_caches: bool) -> Defect {
    let file = path.file_name().and_then(|name| name.to_str()).expect("text");
    let source = std::fs::read_to_string(path).expect("text");
    let comment = source.trim_start_matches("/* ").trim_start_matches("// ");
    let what = comment.split(" */").next().and_then(|text| text.split("\n#").next()).expect("a comment");
    let compiler = if file.ends_with(".cc") { "c++" } else { "cc" };
    let flags = if has_caches { cache_flags() } else { Vec::new() };
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Defect {
        name: file.split('.').next().expect("a name").to_owned(),
        what: what.split_whitespace().collect::<Vec<_>>().join(" "),
        program: build(compiler, &format!("defects/{file}"), &flags),
        has_caches,
    }
}

/// What a program with caches is compiled and linked with.
fn cache_flags() -> Vec<String> {
    let library = built("ashlar-c").join("libashlar.so");
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("defects-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let _ = std::os::unix::fs::symlink(&library, dir.join("libashlar.so.0"));
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include");
    let arguments = [format!("-I{}", include.display()), library.display().to_string()];
    arguments.into_iter().chain([format!("-Wl,-rpath,{}", dir.display())]).collect()
}

/// Runs a program, which ends by itself or by SIGKILL after ten seconds.
fn run(defect: &Defect, preload: Option<&Path>, column: &Column) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "10"]).arg(&defect.program);
    command.env("ASHLAR_OPTIONS", format!("reaper=off,{}", column.options)).env_remove("ASHLAR_DEBUG");
    if let Some(letters) = column.debug {
        command.env("ASHLAR_DEBUG", letters);
    }
    if let Some(library) = preload {
        command.env("LD_PRELOAD", library);
    }
    command.output().expect("the program runs")
}

/// What became of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// It ended with a report.
    Stopped,
    /// There was a report, and it went on.
    Reported,
    /// It was ended by SIGABRT or another signal, without a report of ours.
    Signal(i32),
    /// It went on, and its data were changed or told.
    Harmed,
    /// It went on.
    Unnoticed,
}

impl End {
    fn of(out: &Output, has_report: bool) -> End {
        // `timeout` ends as the program did, or by 128 and the number of the signal.
        let signal = out.status.signal().or(out.status.code().filter(|&code| code > 128).map(|code| code - 128));
        match (signal, out.status.code()) {
            (Some(_), _) if has_report => End::Stopped,
            (Some(signal), _) => End::Signal(signal),
            _ if has_report => End::Reported,
            (_, Some(HARM)) => End::Harmed,
            _ => End::Unnoticed,
        }
    }

    fn cell(self) -> String {
        match self {
            End::Stopped => "**stopped**".to_owned(),
            End::Reported => "reported".to_owned(),
            End::Signal(6) => "SIGABRT".to_owned(),
            End::Signal(9) => "hangs".to_owned(),
            End::Signal(11) => "SIGSEGV".to_owned(),
            End::Signal(signal) => format!("signal {signal}"),
            End::Harmed => "harm".to_owned(),
            End::Unnoticed => "-".to_owned(),
        }
    }
}

/// Returns the first line of a report, with each address as `A`.
fn first_line(report: &str) -> Option<String> {
    let line = report.lines().find(|line| line.starts_with("ashlar: ") || line.starts_with("BUG"))?;
    let line = line.replace(&format!("(ashlar {})", env!("CARGO_PKG_VERSION")), "(ashlar)");
    let mut parts = line.split("0x");
    let mut plain = parts.next().expect("a part").to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(part.len());
        plain.push('A');
        plain.push_str(&part[end..]);
    }
    Some(plain)
}

fn row(cells: impl IntoIterator<Item = String>) -> String {
    cells.into_iter().fold("|".to_owned(), |line, cell| format!("{line} {cell} |")) + "\n"
}

fn head(columns: &[String]) -> String {
    row(columns.iter().cloned()) + &format!("|{}\n", "---|".repeat(columns.len()))
}

/// Runs every program in every column, on all CPUs.
fn outputs(defects: &[Defect]) -> Vec<Vec<Output>> {
    let library = library();
    let of = |defect: &Defect| {
        let preload = (!defect.has_caches).then_some(&*library);
        COLUMNS.iter().map(|column| run(defect, preload, column)).collect()
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let parts = defects.chunks(defects.len().div_ceil(threads));
        let parts: Vec<_> = parts.map(|part| scope.spawn(|| part.iter().map(of).collect::<Vec<_>>())).collect();
        parts.into_iter().flat_map(|part| part.join().expect("a part")).collect()
    })
}

/// Returns the tables: what became of each program, and the lines.
fn tables() -> String {
    let mut ends = head(
        &["defect".to_owned()].into_iter().chain(COLUMNS.map(|column| column.title.to_owned())).collect::<Vec<_>>(),
    );
    let mut lines = head(&["program", "with", "line"].map(str::to_owned));
    let mut found = [0; COLUMNS.len()];
    let defects = defects();
    for (defect, outputs) in defects.iter().zip(outputs(&defects)) {
        let mut cells = vec![defect.what.clone()];
        // The lines, each with the columns in which it was printed.
        let mut told: Vec<(String, Vec<&str>)> = Vec::new();
        for (at, (column, out)) in COLUMNS.iter().zip(outputs).enumerate() {
            let line = first_line(&text(&out.stderr));
            let end = End::of(&out, line.is_some());
            found[at] += usize::from(matches!(end, End::Stopped | End::Reported));
            cells.push(end.cell());
            let Some(line) = line else { continue };
            match told.iter_mut().find(|(known, _)| *known == line) {
                Some((_, titles)) => titles.push(column.title),
                None => told.push((line, vec![column.title])),
            }
        }
        ends += &row(cells);
        for (line, titles) in told {
            lines += &row([format!("`{}`", defect.name), titles.join(" "), format!("`{line}`")]);
        }
    }
    let mut sum = vec![format!("found, of {}", defects.len())];
    sum.extend(found.map(|count| count.to_string()));
    ends += &row(sum);
    format!("{ends}\n## The lines\n\n{lines}")
}

/// The document says what the programs do. With `ASHLAR_UPDATE_GOLDEN` set, it is written.
#[test]
fn the_document_has_what_the_programs_do() {
    let document = std::fs::read_to_string(DOCUMENT).expect("docs/defects.md");
    let (before, printed) = document.split_once(BEGIN).expect("the mark");
    let now = tables();
    if std::env::var_os("ASHLAR_UPDATE_GOLDEN").is_some() {
        std::fs::write(DOCUMENT, format!("{before}{BEGIN}\n{now}")).expect("written");
        return;
    }
    for (old, new) in printed.trim_start().lines().zip(now.lines()) {
        assert_eq!(old, new, "docs/defects.md: `ci/defects.sh --update` writes it");
    }
    assert_eq!(printed.trim_start().lines().count(), now.lines().count());
}

/// The columns of ashlar beside other allocators.
const BESIDE: [Column; 3] = [
    options("ashlar", ""),
    options("ashlar, `checks=paranoid`", "checks=paranoid"),
    options("ashlar, `guard=1`", "guard=1"),
];

/// Prints what other allocators make of the programs without caches, and with
/// `ASHLAR_UPDATE_GOLDEN` writes it to the document: `ci/defects.sh --peers DIR`.
#[test]
#[ignore = "needs the libraries of other allocators"]
fn peers() {
    let dir = PathBuf::from(std::env::var_os("ASHLAR_PEERS").expect("ASHLAR_PEERS=DIR"));
    let ours = BESIDE.map(|column| (column.title.to_owned(), Some(library()), column));
    let mut libraries = Vec::from(ours);
    libraries.push(("C library".to_owned(), None, COLUMNS[0]));
    let entries = std::fs::read_dir(&dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    let mut others: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == "so")).collect();
    others.sort();
    libraries.extend(others.into_iter().map(|path| {
        let name = path.file_stem().and_then(|name| name.to_str()).expect("text").trim_start_matches("lib").to_owned();
        (name, Some(path), COLUMNS[0])
    }));
    let titles = libraries.iter().map(|(name, ..)| name.clone());
    let mut table = head(&["defect".to_owned()].into_iter().chain(titles).collect::<Vec<_>>());
    let mut stopped = vec![0; libraries.len()];
    let defects: Vec<Defect> = defects().into_iter().filter(|defect| !defect.has_caches).collect();
    for defect in &defects {
        let mut cells = vec![defect.what.clone()];
        for (at, (_, preload, column)) in libraries.iter().enumerate() {
            let out = run(defect, preload.as_deref(), column);
            // What a report is differs by allocator: the end is what counts.
            let end = End::of(&out, false);
            stopped[at] += usize::from(matches!(end, End::Signal(_)));
            cells.push(end.cell());
        }
        table += &row(cells);
    }
    let mut sum = vec![format!("ended, of {}", defects.len())];
    sum.extend(stopped.iter().map(usize::to_string));
    let _ = write!(table, "{}", row(sum));
    println!("{table}");
    if std::env::var_os("ASHLAR_UPDATE_GOLDEN").is_some() {
        let document = std::fs::read_to_string(DOCUMENT).expect("docs/defects.md");
        let (before, rest) = document.split_once(PEERS_BEGIN).expect("the mark");
        let (_, after) = rest.split_once(PEERS_END).expect("the mark");
        std::fs::write(DOCUMENT, format!("{before}{PEERS_BEGIN}\n{table}\n{PEERS_END}{after}")).expect("written");
    }
}
