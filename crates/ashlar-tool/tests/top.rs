//! `ashlar top` on a terminal: tmux is one, and says what is on its screen.
#![cfg(target_os = "linux")]

mod common;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use common::{ASHLAR, command, scratch, text};
use running::{library, skipped, try_started};

const GROWS: &str = "import time\nprint('ready', flush=True)\nkept=[]\nwhile True:\n \
                     kept.append([bytes(1100) for _ in range(50)]); time.sleep(0.01)";

/// A terminal that ends with this value.
struct Terminal {
    socket: String,
    /// What was written to it.
    log: PathBuf,
}

impl Terminal {
    /// Runs `ashlar` in a terminal of this size; `None` where there is no tmux.
    fn run(name: &str, width: u32, height: u32, args: &str) -> Option<Terminal> {
        let terminal = Terminal { socket: format!("ashlar-{name}-{}", std::process::id()), log: scratch(name) };
        let size = ["-x", &width.to_string(), "-y", &height.to_string()].map(str::to_owned);
        // The first bytes count, so the tool waits until they are recorded.
        let script = format!("read go; '{ASHLAR}' {args}");
        let mut new = command("tmux");
        new.args(["-L", &terminal.socket, "-f", "/dev/null", "new-session", "-d"])
            .args(size)
            .args(["sh", "-c", &script]);
        if !new.output().is_ok_and(|out| out.status.success()) {
            skipped("no tmux");
            return None;
        }
        let pipe = format!("cat > '{}'", terminal.log.display());
        assert!(terminal.tmux(&["pipe-pane", &pipe]).status.success());
        terminal.keys(&["Enter"]);
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> Output {
        command("tmux").args(["-L", &self.socket]).args(args).output().expect("tmux runs")
    }

    fn keys(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()).status.success());
    }

    /// The screen, when it is as it is awaited.
    #[track_caller]
    fn screen(&self, awaited: impl Fn(&[&str]) -> bool) -> String {
        let mut shown = String::new();
        for _ in 0..600 {
            shown = text(&self.tmux(&["capture-pane", "-p"]).stdout);
            if awaited(&shown.lines().collect::<Vec<_>>()) {
                return shown;
            }
            std::thread::sleep(core::time::Duration::from_millis(50));
        }
        panic!("the screen is not as it should be:\n{shown}");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

fn has(lines: &[&str], text: &str) -> bool {
    lines.iter().any(|line| line.contains(text))
}

/// Starts Python with a heap profile.
fn grows() -> Option<running::Running> {
    let mut run = command("env");
    run.args(["ASHLAR_OPTIONS=profile=16K", "python3", "-c", GROWS]).env("LD_PRELOAD", library());
    let running = try_started(run);
    if running.is_none() {
        skipped("no python3");
    }
    running
}

#[test]
fn keys_sort_filter_mark_and_open_a_cache_with_its_sites() {
    let Some(process) = grows() else { return };
    let Some(terminal) = Terminal::run("top-keys", 80, 24, &format!("top {} --interval 0.2", process.pid)) else {
        return;
    };
    let shown = terminal.screen(|lines| has(lines, "malloc-1152") && has(lines, "*KiB"));
    assert!(shown.contains("q quit  Enter detail") && shown.contains("python3 (PID "), "{shown}");
    assert_eq!(shown.lines().count(), 24, "{shown}");
    terminal.keys(&[">"]);
    terminal.screen(|lines| has(lines, "*pinned/K"));
    terminal.keys(&[">"]);
    // What grows is the first row.
    terminal
        .screen(|lines| has(lines, "*growth/K") && lines.get(4).is_some_and(|line| line.starts_with("malloc-1152")));
    terminal.keys(&["/", "1", "1", "5"]);
    terminal.screen(|lines| has(lines, "filter: 115_") && !has(lines, "malloc-64 "));
    terminal.keys(&["Enter", "m"]);
    terminal.screen(|lines| has(lines, "growth since 0 s") && has(lines, "filter 115"));
    terminal.keys(&["Enter"]);
    let detail = terminal.screen(|lines| has(lines, "malloc-1152 of python3") && has(lines, "sheaf_capacity"));
    assert!(detail.contains("Esc back  Up/Down scroll"), "{detail}");
    terminal.keys(&["PageDown"]);
    terminal.screen(|lines| has(lines, "alloc_slow") && has(lines, "_PyBytes_FromSize"));
    terminal.keys(&["Escape"]);
    terminal.screen(|lines| has(lines, "*growth/K"));
    terminal.keys(&["q"]);
}

#[test]
fn a_wide_screen_has_curves_and_samples_do_not_make_it_flicker() {
    let Some(process) = grows() else { return };
    let Some(terminal) = Terminal::run("top-wide", 130, 30, &format!("top {} --interval 0.1", process.pid)) else {
        return;
    };
    terminal.screen(|lines| has(lines, "live memory") && has(lines, "cached") && has(lines, "▇█"));
    let begun = fs::read(&terminal.log).expect("a log").len();
    let seconds = |lines: &[&str]| lines.iter().find_map(|line| line.split("growth since ").nth(1)).map(str::to_owned);
    let before = seconds(&terminal.screen(|lines| seconds(lines).is_some()).lines().collect::<Vec<_>>());
    terminal.screen(|lines| seconds(lines) != before);
    let written = fs::read(&terminal.log).expect("a log");
    let first = text(&written[..begun]);
    assert!(first.contains("\x1b[?1049h"), "the screen of the shell is kept");
    // Only what changed is written: the screen is not cleared, and most of it is left as it is.
    let later = text(&written[begun..]);
    assert!(!later.is_empty() && !later.contains("\x1b[2J") && !later.contains("\x1b[J"), "{later:?}");
    assert!(!later.contains("q quit"), "the last line does not change: {later:?}");
}

#[test]
fn the_list_of_processes_opens_one_and_its_end_is_told() {
    let Some(process) = grows() else { return };
    let filter = format!("{} ", process.pid);
    let Some(terminal) =
        Terminal::run("top-list", 100, 24, &format!("top --interval 0.2 --filter '{filter}'; sleep 100"))
    else {
        return;
    };
    terminal.screen(|lines| has(lines, "processes on ashlar: ") && has(lines, &format!("{} python3", process.pid)));
    terminal.keys(&["Enter"]);
    terminal.screen(|lines| has(lines, &format!("python3 (PID {})", process.pid)) && has(lines, "malloc-1152"));
    Command::new("kill").arg(&process.pid).status().expect("it runs");
    let shown = terminal.screen(|lines| has(lines, &format!("ashlar: PID: {}", process.pid)));
    assert!(
        shown.contains("it has ended") || shown.contains("it ended") || shown.contains("no such process"),
        "{shown}"
    );
}
