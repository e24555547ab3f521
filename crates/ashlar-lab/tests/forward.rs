//! `ashlar forward` from outside: what it refuses, what a small run prints and writes, and that it
//! leaves no network behind. No test looks at a time.
//!
//! Whether namespaces are gone is asked of the kernel: in a user namespace with a limit of three
//! network namespaces, just as many as one process of the command makes, a second one can only
//! start when those of the first are gone.

mod common;

use core::time::Duration;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use common::{ASHLAR, ashlar, command, refused, scratch, text};
use serde_json::Value;

fn forward(args: &[&str]) -> Output {
    ashlar(&[&["forward"], args].concat())
}

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let cases: &[(&[&str], &str)] = &[
        (&["--systems", "nosuch"], "--systems: unknown system `nosuch`"),
        (
            &["--systems", "limit"],
            "--systems: `limit` does not forward; expected `all` or a comma-separated list of: ashlar",
        ),
        (
            &["--modes", "fast"],
            "--modes: unknown mode `fast`; expected `all` or a comma-separated list of: normal, nomerge",
        ),
        (&["--bulk", "0"], "--bulk"),
        (&["--bulk", "257"], "--bulk"),
        (&["--completions", "third"], "--completions"),
        (&["--size", "59"], "--size"),
        (&["--size", "1515"], "--size"),
        (&["--routes", "0"], "--routes"),
        (&["--flows", "0"], "--flows"),
        (&["--bad", "1001"], "--bad"),
        (&["--others", "many"], "--others"),
        (&["--packets", "0"], "--packets"),
        (&["--rounds", "0"], "--rounds"),
        (&["--max-seconds", "0"], "--max-seconds"),
        (&["--confidence", "100"], "expected a number of per cent from 50 to 99.99"),
        (&["--confidence", "high"], "--confidence"),
        (&["--json", "/no/such/directory/out.json"], "--json: cannot write"),
        (&["--check-targets", "--modes", "bulk"], "--check-targets: expected the modes `normal` and `bulk`"),
        (&["--check-targets", "--systems", "glibc"], "--check-targets"),
    ];
    refused(&["forward"], cases);
}

#[test]
fn the_differences_of_the_mail_are_printed_and_written() {
    let path = scratch("memory.json");
    let file = path.to_str().unwrap();
    let out = forward(&["--rounds", "2", "--packets", "3000", "--json", file]);
    let (shown, errors) = (text(&out.stdout), text(&out.stderr));
    assert!(out.status.success(), "{errors}");
    assert_eq!(errors, "", "every option of every mode is known");
    for line in [
        "IPv4 forwarding in memory: frames of 60 bytes, 1 flow, 10000 routes",
        "\nslub-bulk\n * Normal ",
        " * slab_nomerge ",
        " * Bulk-free32 ",
        " * Bulk-free32, slab_nomerge ",
        " * Bulk-free32, slub-tuned ",
        "   - Diff to \"Normal\": ",
        "   - Diff to \"Bulk-free32\": ",
        "   - Diff to \"Bulk-free32, slab_nomerge\": ",
        "   - Diff to \"slub-bulk, Normal\": ",
        "2 rounds are too few to know the noise",
        "\n198000 packets: 198000 forwarded; every object given back (slub-bulk, ashlar)\n",
    ] {
        assert!(shown.contains(line), "no `{line}` in:\n{shown}");
    }
    let lines: Vec<&str> = shown.lines().collect();
    for pair in lines.windows(2).filter(|pair| pair[1].contains("locks ")) {
        let slabs = if pair[0].contains("nomerge") { ", slabs of their own" } else { ", slabs shared with others" };
        assert!(pair[1].ends_with(slabs), "{pair:?}");
    }
    assert!(lines.iter().all(|line| line.len() <= 120), "{shown}");
    let run: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run["records"].as_array().unwrap().len(), 11);
    let bulk = run["records"].as_array().unwrap().iter().find(|record| record["mode"] == "bulk").unwrap();
    assert_eq!((&bulk["test"], &bulk["system"]), (&"forward-memory".into(), &"slub-bulk".into()));
    assert_eq!((&bulk["unit"], &bulk["size"], &bulk["cpus"]), (&"ns_per_packet".into(), &60.into(), &1.into()));
    assert_eq!((bulk["samples"].as_array().unwrap().len(), &bulk["runs"]), (2, &2.into()));
    assert!(bulk["counts"]["slow"].is_number());
    let differences = run["differences"].as_array().unwrap();
    // Five of each system with caches, and two systems against the first.
    assert_eq!(differences.len(), 12);
    assert!(differences.iter().all(|difference| difference["significant"] == false));
    assert_eq!(run["host"]["systems"], serde_json::json!(["slub-bulk", "ashlar", "glibc"]));
}

#[test]
fn every_system_forwards_and_drops_what_is_bad() {
    for completions in ["same", "other"] {
        let out = forward(&[
            "--systems",
            "all",
            "--modes",
            "normal,bulk",
            "--rounds",
            "1",
            "--packets",
            "2048",
            "--bad",
            "250",
            "--flows",
            "40",
            "--size",
            "200",
            "--completions",
            completions,
        ]);
        let (shown, errors) = (text(&out.stdout), text(&out.stderr));
        assert!(out.status.success(), "{errors}");
        let figures: Vec<u64> = shown
            .lines()
            .skip_while(|line| !line.contains(" packets: "))
            .flat_map(|line| line.split(|c: char| !c.is_ascii_digit()))
            .filter_map(|number| number.parse().ok())
            .collect();
        // Received, forwarded, and four reasons.
        assert!(figures.len() >= 6, "{figures:?}\n{shown}");
        assert_eq!(figures[0], figures[1..6].iter().sum::<u64>(), "{shown}");
        assert_eq!(figures[0], figures[1] * 4 / 3, "a quarter is bad: {shown}");
        assert!(shown.contains(" dropped (TTL expired)") && shown.contains(" dropped (no route)"));
    }
}

#[test]
fn a_missed_target_exits_with_1_and_says_how_sure_it_is() {
    // Too few rounds to know anything: the target cannot be met.
    let out = forward(&[
        "--systems",
        "slub-bulk",
        "--modes",
        "normal,bulk",
        "--rounds",
        "2",
        "--packets",
        "2000",
        "--check-targets",
    ]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stdout).contains("TARGET MISSED: slub-bulk, bulk free against normal"));
    assert!(text(&out.stderr).contains("not every target was met"));
}

/// A user namespace in which three network namespaces may exist.
struct Limited(Child);

impl Limited {
    /// `None` where the system does not let the test make one. `extra` is a line of shell.
    fn new(extra: &str) -> Option<Self> {
        let script = format!("echo 3 > /proc/sys/user/max_net_namespaces && {extra} echo ready && exec sleep 1000");
        let holder = Command::new("unshare")
            .args(["--user", "--map-root-user", "--kill-child", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut holder = Self(holder.ok()?);
        let mut line = String::new();
        BufReader::new(holder.0.stdout.take()?).read_line(&mut line).ok()?;
        (line.trim() == "ready").then_some(holder)
    }

    /// The tool in there.
    fn command(&self, wrapper: &[&str], args: &[&str]) -> Command {
        let mut command = command("nsenter");
        command.args(["--user", "--preserve-credentials", "--target", &self.0.id().to_string()]);
        command.args(wrapper).args([ASHLAR, "forward", "--veth", "--systems", "glibc", "--rounds", "1"]).args(args);
        command
    }

    /// Runs `command` as soon as there is room for namespaces: the kernel removes those of a
    /// process a moment after its end. That there never is any is a failure.
    fn when_free(&self, mut command: Command, what: &str) -> Output {
        let start = Instant::now();
        loop {
            let out = command.output().expect("nsenter is there if unshare is");
            if !text(&out.stderr).contains(LIMIT) {
                return out;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{what}: network namespaces are left");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn run(&self, args: &[&str]) -> Output {
        self.when_free(self.command(&[], args), "before the run")
    }

    /// Fails unless all namespaces go.
    fn must_be_free(&self, what: &str) {
        let out = self.when_free(self.command(&[], &["--packets", "64"]), what);
        assert!(out.status.success(), "{what}: {}", text(&out.stderr));
    }
}

/// What the tool says when no network namespace can be made because there are too many.
const LIMIT: &str = "the limit user.max_net_namespaces is reached";

/// Packets that a measured process of `parent` has sent, if there is one that is so far.
fn sent_by_child_of(parent: u32) -> Option<u64> {
    let of = |path: std::path::PathBuf| {
        // The name in the second field has no blank.
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        let is_child = stat.split(' ').nth(3) == Some(&parent.to_string());
        // The devices of that process's namespace.
        let devices = std::fs::read_to_string(path.join("net/dev")).ok().filter(|_| is_child)?;
        let right = devices.lines().find_map(|line| line.trim().strip_prefix("right:"))?;
        right.split_whitespace().nth(9)?.parse().ok()
    };
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| of(entry.path()))
}

impl Drop for Limited {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A user namespace, or a line that says why the test can only look at the message.
fn limited(extra: &str) -> Option<Limited> {
    let limited = Limited::new(extra);
    if limited.is_none() {
        eprintln!("no user namespace can be made here: only the message is tested");
        let out = forward(&["--veth", "--systems", "glibc", "--rounds", "1", "--packets", "512"]);
        assert!(out.status.success() || text(&out.stderr).contains("expected to run as root"), "{}", text(&out.stderr));
    }
    limited
}

#[test]
fn packets_cross_two_namespaces_and_nothing_is_left() {
    let Some(limited) = limited("") else { return };
    let path = scratch("veth.json");
    let before = std::fs::read_to_string("/proc/net/dev").unwrap_or_default().lines().count();
    let out = limited.run(&["--packets", "3000", "--bad", "100", "--size", "300", "--json", path.to_str().unwrap()]);
    let shown = text(&out.stdout);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(shown.contains("IPv4 forwarding between network namespaces (veth, packet sockets)"), "{shown}");
    assert!(shown.contains("\n9000 packets: 8") && shown.contains("malformed header"), "{shown}");
    let run: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run["records"][0]["test"], "forward-veth");
    limited.must_be_free("after a normal end");
    let after = std::fs::read_to_string("/proc/net/dev").unwrap_or_default().lines().count();
    assert_eq!(before, after, "no device is ever created outside");
}

#[test]
fn completions_on_another_cpu_work_over_veth_too() {
    let Some(limited) = limited("") else { return };
    let out = limited.run(&["--packets", "2000", "--completions", "other"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("\n6000 packets: 6000 forwarded"));
}

/// Starts a run that would last for hours, and ends it by `signal` in the middle.
fn ended_by(signal: i32) {
    let Some(limited) = limited("") else { return };
    // A shell starts what it runs in the background with SIGINT ignored, and that is inherited.
    // SAFETY: sets a disposition, which nothing in this process counts on.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    let mut running = limited
        .command(&[], &["--packets", "100000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nsenter is there if unshare is");
    let start = Instant::now();
    while sent_by_child_of(running.id()).is_none_or(|packets| packets < 5000) {
        assert!(running.try_wait().unwrap().is_none(), "it ended by itself");
        assert!(start.elapsed() < Duration::from_secs(60), "no packet is forwarded");
        std::thread::sleep(Duration::from_millis(5));
    }
    // So this is what namespaces that are there look like.
    let out = limited.command(&[], &[]).output().unwrap();
    assert!(text(&out.stderr).contains(LIMIT), "{}", text(&out.stderr));
    assert_eq!(out.status.code(), Some(1));
    // SAFETY: sends a signal to a process that we started and have not waited for, so the number is
    // still its own.
    assert_eq!(unsafe { libc::kill(running.id() as libc::pid_t, signal) }, 0);
    assert_eq!(running.wait().unwrap().signal(), Some(signal));
    limited.must_be_free("after the signal");
}

#[test]
fn an_interrupt_in_the_middle_leaves_no_namespace() {
    ended_by(libc::SIGINT);
}

#[test]
fn a_kill_in_the_middle_leaves_no_namespace() {
    ended_by(libc::SIGKILL);
}

#[test]
fn a_failure_at_any_step_of_the_set_up_is_named_and_leaves_no_namespace() {
    let Some(limited) = limited("") else { return };
    let steps =
        ["source-namespace", "sink-namespace", "forwarder-namespace", "left-link", "right-link", "links-up", "sockets"];
    for step in steps {
        let mut command = limited.command(&[], &["--packets", "64"]);
        command.env("ASHLAR_FORWARD_FAIL_AT", step);
        let out = limited.when_free(command, step);
        let errors = text(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{step}: {errors}");
        assert!(errors.contains(&format!("glibc, normal: --veth: {step}: a failure that was asked for")), "{errors}");
        limited.must_be_free(step);
    }
}

#[test]
fn without_the_right_the_message_says_what_is_missing() {
    let Some(limited) = limited("echo 0 > /proc/sys/user/max_user_namespaces &&") else { return };
    let none = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"];
    let out = limited.command(&none, &[]).output().expect("nsenter is there if unshare is");
    let errors = text(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{errors}");
    assert!(out.stdout.is_empty());
    for part in
        ["--veth: source-namespace: ", "expected to run as root", "CAP_NET_ADMIN", "user namespaces", "needs no right"]
    {
        assert!(errors.contains(part), "no `{part}` in: {errors}");
    }
}
