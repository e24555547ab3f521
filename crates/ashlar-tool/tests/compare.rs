//! `ashlar compare` from outside. No test judges a time.

mod common;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use common::{ASHLAR, ashlar, command, refused, scratch, text};

/// Compares in six rounds, if not told otherwise, with `options` and the program behind them.
fn compare(options: &[&str]) -> Output {
    let rounds: &[&str] = if options.contains(&"--rounds") { &[] } else { &["--rounds", "6"] };
    ashlar(&[&["compare"], rounds, options].concat())
}

/// As [`compare`]; what the JSON says.
fn json(options: &[&str]) -> serde_json::Value {
    let out = compare(&[&["--json", "-"], options].concat());
    serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&out.stderr)))
}

/// A C program or, with `-shared`, a library; of this name, in a directory of its own.
fn build(name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let dir = scratch(&format!("dir-{name}"));
    fs::create_dir_all(&dir).unwrap();
    let (file, built) = (dir.join("source.c"), dir.join(name));
    fs::write(&file, source).unwrap();
    let status = Command::new("cc").args(["-O1", "-o"]).arg(&built).arg(&file).args(flags).status().expect("cc");
    assert!(status.success());
    fs::remove_file(file).unwrap();
    built
}

/// Removes what [`build`] made.
fn remove(built: &Path) {
    fs::remove_dir_all(built.parent().unwrap()).unwrap();
}

/// A library with the system's malloc under another name, and a constructor with this body.
fn peer(name: &str, constructor: &str) -> PathBuf {
    let source = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <stdlib.h>\nvoid *__libc_malloc(size_t);\n\
         void *malloc(size_t n) {{ return __libc_malloc(n); }}\n\
         __attribute__((constructor)) static void start(void) {{ {constructor} }}\n"
    );
    build(name, &source, &["-shared", "-fPIC", "-fno-builtin"])
}

#[test]
fn a_program_is_compared_and_the_answer_is_the_last_line() {
    let out = compare(&["--", "sh", "-c", "echo out; echo err'o'r >&2; ls / | wc -l"]);
    let said = text(&out.stdout);
    assert_eq!((out.status.code(), text(&out.stderr).as_str()), (Some(0), ""), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 80), "{said}");
    assert!(said.contains("\n6 rounds of 2 mallocs, 1 round of warm-up, outputs compared\n"), "{said}");
    let rows: Vec<&str> =
        said.lines().filter(|line| line.starts_with("system  ") || line.starts_with("ashlar  ")).collect();
    assert_eq!(rows.len(), 4, "version and figures of both: {said}");
    let answer = said.split("\n\n").last().unwrap();
    assert!(answer.starts_with("ashlar: ") && answer.ends_with(".\n"), "{said}");
    assert!(!said.contains("\nout\n") && !said.contains("error"), "the program's output is kept away: {said}");
}

#[test]
fn the_json_holds_every_run_with_ratios_and_intervals() {
    let file = scratch("record.json");
    fs::write(&file, "longer than what is written ".repeat(9999)).unwrap();
    let out = compare(&["--warmup", "0", "--json", file.to_str().unwrap(), "--", "sh", "-c", "echo $0 x", "y"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let record: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    fs::remove_file(file).unwrap();
    assert_eq!(record["program"], serde_json::json!(["sh", "-c", "echo $0 x", "y"]));
    assert_eq!((&record["rounds"], &record["warmup"], &record["checked"]), (&6.into(), &0.into(), &true.into()));
    assert!(record["host"]["kernel"].is_string() && record["host"]["cpus"].as_u64().unwrap() > 0);
    for (row, id) in record["mallocs"].as_array().unwrap().iter().zip(["system", "ashlar"]) {
        assert_eq!(row["id"], id);
        let runs = row["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 6);
        for run in runs {
            assert!(run["elapsed_s"].as_f64().unwrap() > 0.0 && run["peak_kib"].as_u64().unwrap() > 100, "{run}");
            assert_eq!((&run["end"]["code"], &run["stdout"]["bytes"]), (&0.into(), &4.into()), "{run}");
        }
    }
    let ours = &record["mallocs"][1];
    assert_eq!((&ours["probe"]["processes"], &ours["probe"]["served"]), (&1.into(), &1.into()));
    for figure in ["elapsed", "cpu", "peak", "faults"] {
        let ratio = &ours["changes"][figure]["ratio"];
        let at = |key: &str| ratio[key].as_f64().unwrap_or_else(|| panic!("{figure}: no {key}: {ratio}"));
        assert!(0.0 < at("low") && at("low") <= at("median") && at("median") <= at("high"), "{figure}: {ratio}");
        assert!(at("confidence") > 0.95 && ratio["enough"] == true, "{ratio}");
    }
    // On standard output the JSON is alone, and the table goes where errors go.
    let out = compare(&["--json", "-", "--", "true"]);
    assert!(
        text(&out.stderr).contains("\nashlar: ") && serde_json::from_slice::<serde_json::Value>(&out.stdout).is_ok()
    );
}

#[test]
fn the_rounds_are_as_many_as_were_asked_for_and_few_are_told_to_be_few() {
    for (rounds, told) in [("1", "One round shows nothing sure"), ("5", "So few rounds show nothing sure")] {
        let out = ashlar(&["compare", "--rounds", rounds, "--", "true"]);
        let said = text(&out.stdout);
        assert_eq!(out.status.code(), Some(0), "{said}");
        assert!(said.replace("\n  ", " ").contains(told), "{said}");
    }
    let out = ashlar(&["compare", "--", "true"]);
    assert!(
        text(&out.stdout).contains("\n30 rounds of 2 mallocs,"),
        "a short program runs often: {}",
        text(&out.stdout)
    );
}

#[test]
fn a_program_that_differs_by_itself_is_told_apart() {
    let out = compare(&["--", "sh", "-c", "echo same; echo $$"]);
    assert_eq!(out.status.code(), Some(2));
    let message = text(&out.stderr);
    let start = "ashlar: PROGRAM: differs from run to run on the system's malloc already: line 2 of its output is ";
    assert!(message.starts_with(start) && message.contains("--no-check measures it"), "{message}");
    let out = compare(&["--no-check", "--", "sh", "-c", "echo same; echo $$"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("outputs not compared"), "{}", text(&out.stdout));
    // Exit codes count, too.
    let counter = scratch("counter");
    let script = format!("echo >>{0}; exit $(wc -l <{0})", counter.display());
    let out = compare(&["--", "sh", "-c", &script]);
    fs::remove_file(counter).unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(
        text(&out.stderr).contains("it ended with exit code 2, at first it ended with exit code 1"),
        "{}",
        text(&out.stderr)
    );
}

#[test]
fn a_malloc_on_which_the_output_differs_is_left_out() {
    let out = compare(&["--", "sh", "-c", "echo one; echo preloaded: ${LD_PRELOAD##*/}"]);
    let said = text(&out.stdout).replace("\n  ", " ");
    assert_eq!(out.status.code(), Some(1), "{said}");
    let wanted = "ashlar: not compared: it does not do the same: line 2 of its output is \"preloaded: \
                  libashlar_malloc.so\", at first \"preloaded:";
    assert!(said.contains(wanted), "{said}");
    // One peer prints a line, another one crashes; ashlar is compared all the same.
    let chatty = peer("libchatty.so.7", "puts(\"hello\"); fflush(stdout);");
    let crash = peer("libcrash.so", "fprintf(stderr, \"no luck\\n\"); abort();");
    let with = format!("{},{}", chatty.display(), crash.display());
    let out = compare(&["--with", &with, "--", "ls", "/"]);
    let said = text(&out.stdout).replace("\n  ", " ");
    remove(&chatty);
    remove(&crash);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("line 1 of its output is \"hello\""), "{said}");
    assert!(said.contains("it was killed by signal 6 (SIGABRT), at first it ended with exit code 0"), "{said}");
    assert!(said.contains("; it said: no luck."), "{said}");
    assert!(said.lines().last().unwrap().contains(" time ") && said.contains("6 rounds"), "{said}");
}

#[test]
fn a_program_that_fails_everywhere_alike_is_compared_with_a_note() {
    let out = compare(&["--", "sh", "-c", "echo why >&2; exit 3"]);
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{said}");
    assert!(said.contains("note: the program ended with exit code 3 on the system's malloc, too: why\n"), "{said}");
    let record = json(&["--", "sh", "-c", "kill -SEGV $$"]);
    assert_eq!(record["mallocs"][1]["runs"][5]["end"]["signal"], 11);
    assert!(record["notes"][0].as_str().unwrap().contains("was killed by signal 11 (SIGSEGV)"), "{record}");
}

#[test]
fn a_program_that_would_run_without_the_library_is_never_compared() {
    let bare = build("bare", "int main(void) { for (volatile long i = 0; i < 100000000; i++); }\n", &["-static"]);
    let path = bare.to_str().unwrap();
    let out = compare(&["--", path]);
    assert_eq!(out.status.code(), Some(2));
    assert!(text(&out.stderr).contains("a static program"), "{}", text(&out.stderr));
    // Behind a script that becomes it, and below one that waits for it.
    let said = text(&compare(&["--", "sh", "-c", "exec \"$0\"", path]).stdout).replace("\n  ", " ");
    assert!(said.contains("ashlar: not compared: the program does not call its malloc: "), "{said}");
    let out = compare(&["--", "sh", "-c", "\"$0\"; :", path]);
    let said = text(&out.stdout).replace("\n  ", " ");
    assert!(out.status.code() == Some(0) && said.contains("note: ashlar: these ran without it: "), "{said}");
    // One that exports a malloc of its own comes before every library.
    let source = "#include <stddef.h>\nvoid *__libc_malloc(size_t);\nvoid *malloc(size_t n) { return __libc_malloc(n); }\n\
                  int main(void) { return malloc(9) == 0; }\n";
    let own = build("own", source, &["-rdynamic", "-fno-builtin"]);
    let out = compare(&["--", own.to_str().unwrap()]);
    let said = text(&out.stdout).replace("\n  ", " ");
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("malloc is that of {}.", own.display())), "{said}");
    remove(&bare);
    remove(&own);
}

#[test]
fn peers_are_taken_by_path_and_must_be_libraries_with_malloc() {
    let good = peer("libgood.so.2", "");
    let useless = build("libuseless.so", "int unused;\n", &["-shared", "-fPIC"]);
    let with = format!("{},{}", good.display(), useless.display());
    let out = compare(&["--with", &with, "--", "ls", "/"]);
    let said = text(&out.stdout).replace("\n  ", " ");
    remove(&good);
    remove(&useless);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("good  ")).count(), 2, "{said}");
    assert!(said.contains("\ngood: "), "{said}");
    assert!(said.contains("useless: not compared: the program does not call its malloc: malloc is that of "), "{said}");
}

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--rounds", "0", "--", "true"], "--rounds"),
        (&["--rounds", "many", "--", "true"], "--rounds"),
        (&["--warmup", "101", "--", "true"], "--warmup"),
        (&["--with", "foo", "--", "true"], "--with: unknown malloc \"foo\", expected all, mimalloc"),
        (&["--with", "", "--", "true"], "--with: unknown malloc \"\""),
        (&["--with", "system", "--", "true"], "--with: \"system\" is compared anyway"),
        (&["--with", "/no/such.so", "--", "true"], "--with: /no/such.so: No such file"),
        (&["--with", "/bin/sh/x", "--", "true"], "--with: /bin/sh/x: Not a directory"),
        (&["--with", "/etc/passwd", "--", "true"], "--with: /etc/passwd: not a shared library"),
        (&["--option", "colour=blue", "--", "true"], "--option: option `colour=blue`"),
        (&["--json", "/no/such/directory/out.json", "--", "true"], "--json: cannot write"),
        (&["--base", "tin", "--option", "decay=1", "--", "true"], "--base"),
        (&["--base", "ashlar", "--", "true"], "--base: ashlar: expected --option KEY=VALUE with it"),
        (&["--", "/etc/passwd"], "Permission denied"),
        (&["--"], "PROGRAM"),
    ];
    refused(&["compare"], cases);
    let out = compare(&["--", "no-such-program"]);
    assert_eq!(out.status.code(), Some(127), "{}", text(&out.stderr));
    assert!(text(&out.stderr).contains("no-such-program: not found"));
}

#[test]
fn options_reach_ashlar_alone() {
    let script = "#!/bin/sh\nif [ -n \"$ASHLAR_OPTIONS\" ]; then echo \"$ASHLAR_OPTIONS\" >&2; exit 1; fi\n";
    let program = scratch("options.sh");
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let out = compare(&["--option", "percpu=lock", "--option", "decay=50", "--", program.to_str().unwrap()]);
    fs::remove_file(program).unwrap();
    let said = text(&out.stdout).replace("\n  ", " ");
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("ended with exit code 1") && said.contains("it said: percpu=lock,decay=50."), "{said}");
}

#[test]
fn ashlar_with_options_is_held_against_ashlar_without() {
    let script = "case $LD_PRELOAD in *ashlar*) ;; *) exit 9;; esac; echo \"$ASHLAR_OPTIONS\" >&2";
    let words = ["--base", "ashlar", "--option", "profile=512K", "--rounds", "2"];
    let record = json(&[&words[..], &["--", "sh", "-c", script]].concat());
    let rows: Vec<_> = record["mallocs"].as_array().unwrap().iter().collect();
    let ids: Vec<_> = rows.iter().map(|row| (row["id"].as_str(), row["options"].as_str())).collect();
    assert_eq!(ids, [(Some("ashlar"), None), (Some("with options"), Some("profile=512K"))]);
    assert!(rows.iter().all(|row| row["runs"].as_array().unwrap().len() == 2), "{record}");
    let out = compare(&[&words[..], &["--", "sh", "-c", script]].concat());
    let said = text(&out.stdout);
    assert!(said.contains("\nwith options  ") && said.contains("[profile=512K]"), "{said}");
    assert!(said.contains("\nashlar: medians; the others: ratios to it"), "{said}");
    // What differs is told as a difference to ashlar.
    let script = "case $ASHLAR_OPTIONS in '') echo a;; *) echo b;; esac";
    let said = text(&compare(&[&words[..], &["--", "sh", "-c", script]].concat()).stdout).replace("\n  ", " ");
    assert!(said.contains("is \"b\", at first \"a\" on ashlar"), "{said}");
}

#[test]
fn a_file_as_standard_input_is_read_anew_by_each_run() {
    let input = scratch("input");
    fs::write(&input, "first\nsecond\n".repeat(1000)).unwrap();
    let run = |stdin: Stdio| {
        let mut command = command(ASHLAR);
        command.args(["compare", "--rounds", "2", "--json", "-", "--", "cat"]).stdin(stdin);
        let out = command.output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)))
    };
    let bytes = |record: &serde_json::Value| {
        let rows = record["mallocs"].as_array().unwrap().iter();
        let runs = rows.flat_map(|row| row["runs"].as_array().unwrap().clone());
        runs.map(|run| run["stdout"]["bytes"].as_u64().unwrap()).collect::<Vec<u64>>()
    };
    assert_eq!(bytes(&run(File::open(&input).unwrap().into())), [13_000; 4]);
    // From where it stood.
    let mut file = File::open(&input).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(6)).unwrap();
    assert_eq!(bytes(&run(file.into())), [12_994; 4]);
    fs::remove_file(input).unwrap();
    let piped = run(Stdio::piped());
    assert_eq!(bytes(&piped), [0; 4]);
    assert!(piped["notes"][0].as_str().unwrap().starts_with("standard input is a pipe"), "{}", piped["notes"]);
}

#[test]
fn long_outputs_are_compared_to_their_end() {
    let record = json(&["--rounds", "2", "--", "sh", "-c", "yes | head -c 20000000; echo end"]);
    assert_eq!(record["mallocs"][1]["runs"][1]["stdout"]["bytes"], 20_000_004);
    let script = "yes | head -c 5000000; case $LD_PRELOAD in *ashlar*) echo n;; *) echo y;; esac";
    let said = text(&compare(&["--", "sh", "-c", script]).stdout).replace("\n  ", " ");
    assert!(said.contains("line 2500001 of its output is \"n\", at first \"y\""), "{said}");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let script = format!("{ASHLAR} compare --rounds 1 -- true; echo $? >&2");
    let mut child =
        command("/bin/sh").args(["-c", &script]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let out = child.wait_with_output().unwrap();
    assert_eq!(text(&out.stderr), "0\n");
}

/// Starts a comparison of a program that says when a run begins, and sends SIGINT in run number
/// `run`.
fn interrupted(script: &str, run: usize) -> Output {
    let marks = scratch(&format!("marks-{run}"));
    assert!(Command::new("mkfifo").arg(&marks).status().unwrap().success());
    let script = format!("echo >{}; {script}", marks.display());
    // The tool keeps ignoring a signal that is ignored here, as in the background of a script.
    let mut tool = command("env");
    tool.args(["--default-signal=INT", ASHLAR, "compare", "--rounds", "100", "--", "sh", "-c", &script]);
    let tool = tool.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    for _ in 0..run {
        // Opening waits for the run, and the line ends when the run has written it.
        let mut line = String::new();
        while line.is_empty() {
            BufReader::new(File::open(&marks).unwrap()).read_line(&mut line).unwrap();
        }
    }
    assert!(Command::new("kill").args(["-INT", &tool.id().to_string()]).status().unwrap().success());
    let out = tool.wait_with_output().unwrap();
    fs::remove_file(marks).unwrap();
    out
}

#[test]
fn a_signal_ends_the_program_and_prints_the_complete_rounds() {
    // Two runs for the reference, one probe, two to warm up: run 11 is in the fourth round.
    let out = interrupted("sleep 0.2", 11);
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(130), "{said} {}", text(&out.stderr));
    assert!(said.contains("\n2 rounds of 2 mallocs") || said.contains("\n3 rounds of 2 mallocs"), "{said}");
    assert!(said.contains("nothing sure"), "{said}");
    let early = interrupted("sleep 0.2", 4);
    assert_eq!((early.status.code(), text(&early.stdout).as_str()), (Some(130), ""));
    assert!(
        text(&early.stderr).starts_with("ashlar: interrupted by signal 2 after 0 complete rounds"),
        "{}",
        text(&early.stderr)
    );
}

#[test]
fn a_program_that_ignores_the_signal_is_killed() {
    let out = interrupted("trap '' INT; sleep 1000.25", 1);
    assert_eq!(out.status.code(), Some(130), "{}", text(&out.stderr));
    let left = Command::new("pgrep").args(["-f", "sleep 1000.25$"]).output().unwrap();
    assert_eq!(text(&left.stdout), "", "the program is still there");
}

#[test]
fn nothing_stays_in_the_directory_for_temporary_files() {
    let dir = scratch("tmp");
    fs::create_dir_all(&dir).unwrap();
    let out = command(ASHLAR).args(["compare", "--rounds", "1", "--", "ls", "/"]).env("TMPDIR", &dir).output().unwrap();
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
    fs::remove_dir(&dir).unwrap();
    let out = command(ASHLAR).args(["compare", "--rounds", "1", "--", "true"]).env("TMPDIR", &dir).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("cannot keep the output: "), "{}", text(&out.stderr));
}
