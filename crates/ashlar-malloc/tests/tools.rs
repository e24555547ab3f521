//! Programs under tools: debuggers, single steps, valgrind, strace.

mod common;

use std::process::{Command, Output};

use common::{NOT_HERE, build, library, preloaded, skipped, text, well};

/// Runs a tool; reports and returns `None` if it is not installed.
fn tool(command: &mut Command) -> Option<Output> {
    match command.output() {
        Ok(out) => Some(out),
        Err(error) => {
            skipped(&format!("{}: {error}", command.get_program().to_string_lossy()));
            None
        }
    }
}

#[test]
fn a_thread_under_single_steps_gets_on() {
    let program = build("cc", "c/stepped.c", &[]);
    for options in ["", "percpu=lock"] {
        let out = preloaded(&program, options);
        if out.status.code() == Some(NOT_HERE) {
            return skipped("ptrace is not allowed here");
        }
        well(&out, options);
    }
}

#[test]
fn gdb_steps_over_and_into_allocation() {
    let program = build("cc", "c/debugged.c", &["-g", "-O0"]);
    let mut script = format!(
        "set pagination off\nset confirm off\nset startup-with-shell off\nset debuginfod enabled off\n\
         set environment LD_PRELOAD={}\nbreak main\nrun\n",
        library().display()
    );
    script.push_str(&"next\n".repeat(50));
    script.push_str(&"stepi 100\n".repeat(20));
    script.push_str("continue\n");
    let file = program.with_extension("gdb");
    std::fs::write(&file, script).expect("a file");
    let Some(out) = tool(Command::new("gdb").args(["-nx", "-batch", "-x"]).arg(&file).arg(&program)) else { return };
    let told = text(&out.stdout);
    if told.contains("not permitted") || text(&out.stderr).contains("not permitted") {
        return skipped("gdb may not trace here");
    }
    // Where the last step ends in a function without its source, gdb leaves the line open.
    let ended = told.lines().any(|line| line.ends_with("well")) && told.contains("exited normally");
    assert!(ended, "{told}\n{}", text(&out.stderr));
}

/// The function lies among the pages that start-up drops.
#[test]
fn a_breakpoint_that_was_set_before_the_start_stays() {
    let program = build("cc", "c/stats.c", &["-g", "-O0"]);
    let script = format!(
        "set pagination off\nset confirm off\nset startup-with-shell off\nset debuginfod enabled off\n\
         set environment LD_PRELOAD={}\nbreak *_start\nrun\nbreak malloc_info\ncontinue\n",
        library().display()
    );
    let file = program.with_extension("before.gdb");
    std::fs::write(&file, script).expect("a file");
    let Some(out) = tool(Command::new("gdb").args(["-nx", "-batch", "-x"]).arg(&file).arg(&program)) else { return };
    let told = text(&out.stdout);
    if told.contains("not permitted") || text(&out.stderr).contains("not permitted") {
        return skipped("gdb may not trace here");
    }
    let hit = told.lines().any(|line| line.starts_with("Breakpoint ") && line.contains("in malloc_info ()"));
    assert!(hit, "{told}\n{}", text(&out.stderr));
}

#[test]
fn valgrind_runs_the_library_by_locks() {
    let program = build("cc", "c/busy.c", &[]);
    for kind in ["none", "memcheck"] {
        let mut command = Command::new("valgrind");
        command.args(["-q", "--error-exitcode=9"]).arg(format!("--tool={kind}")).arg(&program).arg("mode");
        // The tool itself must run without the library.
        let Some(out) = tool(command.env("LD_PRELOAD", library())) else { return };
        assert_eq!((text(&out.stderr), text(&out.stdout)), (String::new(), "lock well\n".into()), "{kind}");
        assert_eq!(out.status.code(), Some(0), "{kind}");
    }
}

#[test]
fn strace_follows_a_threaded_program() {
    let program = build("cc", "c/busy.c", &[]);
    let log = program.with_extension("strace");
    let mut command = Command::new("strace");
    command.args(["-f", "-o"]).arg(&log).arg(&program).env("LD_PRELOAD", library());
    let Some(out) = tool(&mut command) else { return };
    if text(&out.stderr).contains("not permitted") {
        return skipped("strace may not trace here");
    }
    well(&out, "strace");
    assert!(std::fs::read(&log).is_ok_and(|bytes| text(&bytes).contains("libashlar_malloc.so")));
}
