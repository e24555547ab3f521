//! Checks docs/process.md, on ashlar's effects on a process, against the sources, the libraries and
//! running processes. Each test reads one section of the page.
#![cfg(all(target_arch = "x86_64", target_env = "gnu"))]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{NOT_HERE, build, library, on_library, skipped, text, well};
use syscalls::Sysno;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the workspace").to_owned()
}

/// The text of the page below a heading, which is given with its `#`s, up to the next one of that
/// level or above.
fn section(heading: &str) -> String {
    let page = fs::read_to_string(root().join("docs/process.md")).expect("the page can be read");
    let level = heading.bytes().take_while(|&byte| byte == b'#').count();
    let ends = |line: &&str| !(1..=level).any(|n| line.starts_with(&format!("{} ", "#".repeat(n))));
    let lines = page.lines().skip_while(|line| *line != heading).skip(1).take_while(ends);
    let lines: Vec<&str> = lines.collect();
    assert!(!lines.is_empty(), "docs/process.md has no section `{heading}`");
    lines.join("\n")
}

/// The cells of a section's tables, row by row, without heads. A row whose first cell is empty does
/// not count.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let text = section(heading);
    let lines: Vec<&str> = text.lines().collect();
    let mut rows = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let is_head = lines.get(at + 1).is_some_and(|next| next.starts_with("|---"));
        if line.starts_with("| ") && !is_head {
            rows.push(line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect());
        }
    }
    rows
}

/// Returns the texts between back quotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The cell beside the one with the text `key`, without quotes; only its first word.
fn fact(heading: &str, key: &str) -> String {
    let row = rows(heading).into_iter().find(|row| row[0] == key);
    let cell = row.unwrap_or_else(|| panic!("`{heading}` has no row `{key}`")).swap_remove(1);
    quoted(&cell).next().unwrap_or_else(|| panic!("`{key}`: nothing is quoted in `{cell}`")).to_owned()
}

fn ashlar() -> PathBuf {
    common::built("ashlar-c").join("libashlar.so")
}

/// Returns the output of a tool about a file.
fn said(tool: &str, options: &[&str], file: &Path) -> String {
    let out = Command::new(tool).args(options).arg(file).output().expect("the tool comes with the compiler");
    assert!(out.status.success(), "{tool}: {}", text(&out.stderr));
    text(&out.stdout)
}

#[track_caller]
fn same(what: &str, page: &BTreeSet<String>, found: &BTreeSet<String>) {
    let only = |a: &BTreeSet<String>, b: &BTreeSet<String>| a.difference(b).cloned().collect::<Vec<_>>();
    let (missing, extra) = (only(found, page), only(page, found));
    assert!(missing.is_empty() && extra.is_empty(), "{what}: the page lacks {missing:?}, and has too much {extra:?}");
}

#[test]
fn exported_names_are_those_of_the_page() {
    for (heading, file) in [("### `libashlar_malloc.so`", library()), ("### `libashlar.so`", ashlar())] {
        let page = rows(heading).iter().flat_map(|row| quoted(&row[0])).map(str::to_owned).collect();
        let names = said("nm", &["-D", "--defined-only"], &file);
        let found = names.lines().filter_map(|line| line.split_whitespace().last()).map(str::to_owned).collect();
        same(heading, &page, &found);
    }
}

/// The first cells of a table that has the library in its second column: those of one library.
fn listed(heading: &str, library: &str) -> BTreeSet<String> {
    let of = |row: &Vec<String>| {
        assert!(["both", "malloc", "ashlar"].contains(&row[1].as_str()), "{row:?}");
        row[1] == "both" || row[1] == library
    };
    rows(heading)
        .iter()
        .filter(|row| row.len() > 2 && of(row))
        .flat_map(|row| quoted(&row[0]))
        .map(str::to_owned)
        .collect()
}

/// The page's table of system calls.
const CALLS: &str = "## System calls";
const FUNCTIONS: &str = "## Functions of the C library";

/// The sources of a crate, without tests that stand at their ends.
fn sources(name: &str) -> Vec<String> {
    fn walk(dir: &Path, into: &mut Vec<String>) {
        for entry in fs::read_dir(dir).expect("a source folder can be read") {
            let path = entry.expect("an entry can be read").path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = fs::read_to_string(&path).expect("sources are UTF-8");
                into.push(text.split("#[cfg(test)]").next().unwrap_or("").to_owned());
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join("crates").join(name).join("src"), &mut found);
    found
}

/// The words that follow `prefix` in the sources of some crates.
fn words_after(prefix: &str, crates: &[&str]) -> BTreeSet<String> {
    let word = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    let texts: Vec<String> = crates.iter().flat_map(|name| sources(name)).collect();
    let found =
        texts.iter().flat_map(|text| text.match_indices(prefix).map(|(at, _)| word(&text[at + prefix.len()..])));
    found.filter(|word| !word.is_empty()).collect()
}

#[test]
fn system_calls_of_the_sources_are_those_of_the_page() {
    for (library, crates) in [("malloc", ["ashlar", "ashlar-malloc"]), ("ashlar", ["ashlar", "ashlar-c"])] {
        let mut found = words_after("Sysno::", &crates);
        found.append(&mut words_after("libc::SYS_", &crates));
        same(library, &listed(CALLS, library), &found);
    }
}

/// The numbers of the system calls in a library, from its machine code: what was moved to `eax`
/// before each `syscall`.
fn system_calls_in(file: &Path) -> BTreeSet<String> {
    let code = said("objdump", &["-d", "--no-show-raw-insn", "-M", "intel"], file);
    let (mut eax, mut found) = (None, BTreeSet::new());
    for line in code.lines() {
        let Some(instruction) = line.split_once(":\t").map(|(_, rest)| rest.split_whitespace().collect::<Vec<_>>())
        else {
            eax = None;
            continue;
        };
        match instruction[..] {
            ["mov", operands, ..] if operands.starts_with("eax,0x") => {
                eax = usize::from_str_radix(&operands[6..], 16).ok()
            }
            ["xor", "eax,eax", ..] => eax = Some(0),
            ["syscall", ..] => {
                let number = eax.take().unwrap_or_else(|| panic!("{}: which call is this? {line}", file.display()));
                found
                    .insert(Sysno::new(number).unwrap_or_else(|| panic!("no call {number}: {line}")).name().to_owned());
            }
            _ => {}
        }
    }
    found
}

#[test]
fn system_calls_in_the_libraries_are_those_of_the_page() {
    if cfg!(debug_assertions) {
        return skipped("numbers of system calls are constants in the machine code of optimised builds alone");
    }
    same("libashlar_malloc.so", &listed(CALLS, "malloc"), &system_calls_in(&library()));
    same("libashlar.so", &listed(CALLS, "ashlar"), &system_calls_in(&ashlar()));
}

#[test]
fn functions_of_the_c_library_are_those_of_the_page() {
    /// Compilers choose among those of the first kind; those of the second come with their start
    /// files.
    const NOT_LISTED: [&str; 7] = ["mem", "str", "bcmp", "explicit_bzero", "_ITM_", "__gmon_start__", "__cxa_finalize"];
    for (name, file) in [("malloc", library()), ("ashlar", ashlar())] {
        let names = said("nm", &["-D", "--undefined-only"], &file);
        let names = names.lines().filter_map(|line| line.split_whitespace().last()?.split('@').next());
        let found = names.filter(|name| !NOT_LISTED.iter().any(|start| name.starts_with(start))).map(str::to_owned);
        same(name, &listed(FUNCTIONS, name), &found.collect());
    }
}

/// System calls of the C library and of the loader in the test's programs, and of the program
/// itself.
const OF_THE_PROGRAM: [&str; 28] = [
    "access",
    "arch_prctl",
    "brk",
    "clone",
    "clone3",
    "execve",
    "exit",
    "exit_group",
    "fstat",
    "futex",
    "lseek",
    "newfstatat",
    "openat",
    "pread64",
    "prlimit64",
    "read",
    "readlink",
    "restart_syscall",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "set_robust_list",
    "set_tid_address",
    "uname",
    "wait4",
    "write",
    "close",
];
/// The part of these that comes after the start.
const LATER: [&str; 11] = [
    "clone",
    "clone3",
    "exit",
    "exit_group",
    "futex",
    "rseq",
    "rt_sigaction",
    "rt_sigprocmask",
    "set_robust_list",
    "wait4",
    "write",
];

/// The numbers of system calls of these names, and of those that the page has functions of the C
/// library make.
fn numbers<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let number = |name: &str| name.parse::<Sysno>().unwrap_or_else(|()| panic!("no system call is named {name}")).id();
    let mut all: BTreeSet<i32> = names.map(number).collect();
    // Not those of `abort`: nothing goes wrong.
    for row in rows(FUNCTIONS).iter().filter(|row| row[0] != "`abort`") {
        all.extend(quoted(&row[3]).map(number));
    }
    all.into_iter().map(|number| number.to_string()).collect()
}

/// Returns whether the system allows filters.
fn possible(out: &Output) -> bool {
    if out.status.code() == Some(NOT_HERE) {
        skipped("seccomp filters are not allowed here");
        return false;
    }
    true
}

const MODES: [&str; 5] = ["", "percpu=lock", "percpu=rseq", "nodes=2", "reaper=calls"];

#[test]
fn behind_a_filter_of_the_page_a_program_runs_from_its_start() {
    let program = build("cc", "c/process.c", &[]);
    let page = listed(CALLS, "malloc");
    let allowed = numbers(page.iter().map(String::as_str).chain(OF_THE_PROGRAM));
    for options in MODES {
        let mut command = on_library(&program, options);
        let out = command.arg("under").arg(allowed.len().to_string()).args(&allowed).arg(&program).arg("all").output();
        let out = out.expect("it runs");
        if !possible(&out) {
            return;
        }
        well(&out, options);
    }
}

#[test]
fn behind_a_filter_without_calls_of_the_start_a_program_runs_on() {
    let program = build("cc", "c/process.c", &[]);
    let table = rows(CALLS);
    let later = table.iter().filter(|row| row.len() == 4 && row[2] != "start" && row[2] != "report");
    let later: Vec<&str> =
        later.filter(|row| row[1] == "both" || row[1] == "malloc").map(|row| row[0].trim_matches('`')).collect();
    assert!(later.contains(&"madvise") && !later.contains(&"openat,") && !later.contains(&"pread64"), "{later:?}");
    let run = |options: &str, without: &str| {
        let names = later.iter().copied().chain(LATER).filter(|name| *name != without);
        on_library(&program, options).arg("later").args(numbers(names)).output().expect("it runs")
    };
    for options in MODES {
        let out = run(options, "");
        if !possible(&out) {
            return;
        }
        well(&out, options);
    }
    // Shows that the filter works: if one of these is missing, the program is killed.
    for without in ["mmap", "mremap", "madvise", "prctl", "tgkill", "vfork"] {
        let out = run("", without);
        assert!(!out.status.success() && out.stdout.is_empty(), "{without} is not missed");
    }
}

#[test]
fn environment_variables_are_those_of_the_page() {
    for (library, crates) in [("malloc", ["ashlar", "ashlar-malloc"]), ("ashlar", ["ashlar", "ashlar-c"])] {
        let found = words_after("env(c\"", &crates);
        same(library, &environment(library), &found);
        // Nothing reads the environment past this one.
        let calls = |name: &str| {
            crates.iter().flat_map(|krate| sources(krate)).map(|text| text.matches(name).count()).sum::<usize>()
        };
        assert_eq!(calls("libc::getenv("), 1, "in os::secure_env");
        assert_eq!(calls("secure_getenv("), 0, "{library}");
        assert_eq!(calls("environ"), calls("environment"), "{library}");
    }
}

fn environment(library: &str) -> BTreeSet<String> {
    let rows = rows("## Environment");
    let rows = rows.iter().filter(|row| row[2] == "both" || row[2] == library);
    rows.flat_map(|row| quoted(&row[0])).map(str::to_owned).collect()
}

#[test]
fn files_that_are_opened_are_those_of_the_page() {
    let page: BTreeSet<String> =
        rows("## File descriptors").iter().flat_map(|row| quoted(&row[0])).map(str::to_owned).collect();
    let program = build("cc", "c/process.c", &[]);
    let log = program.with_extension("strace");
    let opened = |preload: bool, stats: &str| {
        let mut command = Command::new("strace");
        command.args(["-f", "-e", "trace=open,openat", "-o"]).arg(&log);
        if preload {
            command.arg("-E").arg(format!("LD_PRELOAD={}", library().display()));
        }
        let out = command.args(["-E", &format!("ASHLAR_STATS={stats}")]).arg(&program).arg("start").output().ok()?;
        if !out.status.success() {
            return None;
        }
        let text = fs::read_to_string(&log).ok()?;
        Some(text.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_owned).collect::<BTreeSet<_>>())
    };
    let (Some(mut with), Some(without)) = (opened(true, "text"), opened(false, "text")) else {
        return skipped("strace is missing, or may not trace here");
    };
    with.retain(|file| !without.contains(file) && !file.contains("libashlar_malloc"));
    // Of several nodes the page names the first.
    with.retain(|file| !file.starts_with("/sys/devices/system/node/node") || file.contains("/node0/"));
    same("files", &page, &with);
}

#[test]
fn no_file_descriptor_stays_open() {
    let program = build("cc", "c/process.c", &[]);
    let run = |command: &mut Command| {
        let out = command.arg("fds").output().expect("it runs");
        assert!(out.status.success(), "{}", text(&out.stderr));
        text(&out.stdout).lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let without = run(&mut Command::new(&program));
    assert_eq!(run(&mut on_library(&program, "")), without);
    // With figures there is one more descriptor, with a high number.
    let with = run(on_library(&program, "").env("ASHLAR_STATS", "json"));
    let more: Vec<usize> = with.difference(&without).filter_map(|fd| fd.parse().ok()).collect();
    assert!(more.len() == 1 && more[0] >= 100, "{more:?}");
}

#[test]
fn the_background_thread_is_as_the_page_says() {
    let program = build("cc", "c/process.c", &[]);
    let run = |options: &str| {
        let out = on_library(&program, options).arg("threads").output().expect("it runs");
        assert!(out.status.success(), "{options}: {}", text(&out.stderr));
        text(&out.stdout)
    };
    let (name, mask) = (fact("## Threads", "name"), fact("## Threads", "blocked signals (`SigBlk`)"));
    let policy = fact("## Threads", "scheduling policy");
    assert_eq!(policy, "SCHED_OTHER");
    let expected = format!("alone: 1\nthreaded: 3\n{name} {mask} {}\njoined: 1\n", libc::SCHED_OTHER);
    for options in ["", "percpu=lock"] {
        assert_eq!(run(options), expected, "{options}");
    }
    let alone = "alone: 1\nthreaded: 2\njoined: 1\n";
    for options in ["reaper=calls", "reaper=off"] {
        assert_eq!(run(options), alone, "{options}");
        assert!(section("### When there is one").contains(&format!("`{options}`")));
    }
    let stack: usize = fact("## Threads", "stack").parse().expect("KiB");
    let source = fs::read_to_string(root().join("crates/ashlar/src/base/os/thread.rs")).expect("a source");
    assert!(source.contains(&format!("const SMALL_STACK: usize = {stack} << 10;")), "{stack} KiB");
}

#[test]
fn what_mlockall_locks_is_what_the_page_says() {
    let program = build("cc", "c/process.c", &[]);
    let run = |command: &mut Command| {
        let out = command.arg("locked").output().expect("it runs");
        if out.status.code() == Some(NOT_HERE) {
            return None;
        }
        assert!(out.status.success(), "{}", text(&out.stderr));
        let said = text(&out.stdout);
        let (done, kib) = said.trim().split_once(' ').expect("two words");
        Some((done.to_owned(), kib.parse::<usize>().expect("KiB")))
    };
    let Some((done, without)) = run(&mut Command::new(&program)) else { return skipped("limits may not be changed") };
    if done != "locked" {
        return skipped("mlockall is refused on the C library's malloc too");
    }
    let number = |key| fact("### Locked memory", key).parse::<usize>().expect("KiB");
    let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = possible.trim().rsplit(['-', ',']).next().and_then(|cpu| cpu.parse::<usize>().ok()).unwrap_or(0);
    let bound = number("at most") + (last + 1) * number("and for each possible CPU");
    for options in ["", "percpu=lock"] {
        let (done, with) = run(&mut on_library(&program, options)).expect("it ran before");
        if bound + without > 8 << 10 && done != "locked" {
            return skipped("too many CPUs for the limit");
        }
        println!("mlockall: {with} KiB on ashlar ({options}), {without} KiB on the C library's malloc");
        assert_eq!(done, "locked", "{options}");
        assert!(with <= without + bound, "{options}: {with} KiB, {without} without");
    }
}

#[test]
fn under_a_limit_of_addresses_there_are_as_many_small_objects_as_with_the_c_library() {
    let (limited, program) = (build("cc", "c/limited.c", &[]), build("cc", "c/process.c", &[]));
    const MIB: usize = 1 << 20;
    for mib in [64, 256] {
        let run = |command: &mut Command| {
            let out = command.arg("as").arg((mib * MIB).to_string()).arg(&program).arg("small").output();
            let out = out.expect("it runs");
            if out.status.code() == Some(NOT_HERE) {
                return None;
            }
            assert!(out.status.success(), "{}", text(&out.stderr));
            Some(text(&out.stdout).trim().parse::<usize>().expect("a number") * 64 / MIB)
        };
        let Some(without) = run(&mut Command::new(&limited)) else { return skipped("limits may not be changed") };
        let with = run(&mut on_library(&limited, "")).expect("it ran before");
        println!("{mib} MiB of addresses: {with} MiB of objects on ashlar, {without} MiB on the C library's malloc");
        assert!(with * 10 >= without * 9, "{with} MiB under {mib}, {without} on the C library's malloc");
    }
}
