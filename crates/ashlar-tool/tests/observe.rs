//! `ashlar ps`, `ashlar info` and `ashlar diff` from outside.
#![cfg(target_os = "linux")]

mod common;
#[path = "common/running.rs"]
mod running;

use core::sync::atomic::{AtomicBool, Ordering};
use std::fs;
use std::process::{Command, Stdio};

use common::{ASHLAR, ashlar, command, refused, scratch, text};
use running::{Running, at_exit, build, info, library, python, skipped, started};
use serde_json::Value;

/// Live objects of several sizes, of which each second one was freed.
const HOLES: &str = "a=[bytes(100+i%900) for i in range(50000)]; b=a[::2]; del a";

#[test]
fn the_sums_of_a_process_are_those_of_the_figures_at_exit() {
    let python_with = |code: &str| vec!["python3".to_owned(), "-c".to_owned(), code.to_owned()];
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let threads = "import threading\nt=[threading.Thread(target=lambda: [bytes(i%3000) for i in range(20000)]) \
                   for _ in range(4)]\n[x.start() for x in t]\n[x.join() for x in t]";
    let programs = [
        words("ls -laR /etc"),
        words("sort /etc/passwd"),
        words("find /usr/share -name *.txt"),
        words("grep -r nothing-like-it /etc/default"),
        words("sed -n s/a/b/p /etc/passwd"),
        words("awk {n[$1]++} /etc/services"),
        words("du -s /usr/share"),
        words("tar cf /dev/null /etc/default"),
        words("bash -c for((i=0;i<20;i++));do(:);a[i]=$i;done"),
        vec!["perl".to_owned(), "-e".to_owned(), "for(1..50000){$h{$_}=\"x\" x ($_%200)}".to_owned()],
        python_with(HOLES),
        python_with("a=bytearray(80<<20); b=[bytes(50000) for _ in range(100)]; import os; os._exit if 0 else 0"),
        python_with(threads),
    ];
    let mut compared = 0;
    for program in programs {
        for options in ["", "percpu=lock", "nodes=2"] {
            let Some((stats, info)) = at_exit(&program, options) else { continue };
            let allocator = &info["allocators"][0];
            for sum in ["used_bytes", "held_bytes", "mapped_bytes", "metadata_bytes", "mode", "ashlar"] {
                assert_eq!(allocator[sum], stats[sum], "{sum} of {program:?} under `{options}`");
            }
            let of_stats = stats["caches"].as_array().unwrap();
            let caches = allocator["caches"].as_array().unwrap();
            let used: Vec<&Value> = caches.iter().filter(|cache| cache["slabs"] != 0).collect();
            assert_eq!(used.len(), of_stats.len(), "{program:?} under `{options}`");
            for (cache, stats) in used.iter().zip(of_stats) {
                for key in ["name", "active", "objects", "objsize", "objperslab", "slabs", "cached"] {
                    assert_eq!(cache[key], stats[key], "{key} of {stats} of {program:?} under `{options}`");
                }
                let number = |key: &str| cache[key].as_u64().unwrap();
                assert_eq!(number("full") + number("partial") + number("empty"), number("slabs"), "{cache}");
            }
            assert_eq!(allocator["aliases"], stats["aliases"]);
            compared += 1;
        }
    }
    if compared == 0 {
        return skipped("no process may be traced here, or no program is there");
    }
    println!("{compared} runs compared");
}

#[test]
fn a_running_process_is_listed_and_described() {
    let Some(child) = python(&format!("{HOLES}; print('ready', flush=True); import time; time.sleep(100)")) else {
        return;
    };
    let out = ashlar(&["ps"]);
    let listed = text(&out.stdout);
    let row = listed.lines().find(|line| line.split_whitespace().next() == Some(&child.pid));
    let row = row.unwrap_or_else(|| panic!("no row of {}: {listed}", child.pid));
    assert!(row.contains("python3") && row.contains(env!("CARGO_PKG_VERSION")), "{row}");
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");

    let out = ashlar(&["info", "--events", &child.pid]);
    let shown = text(&out.stdout);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    assert!(shown.contains("libashlar_malloc.so") && shown.contains("# slow paths"), "{shown}");
    // The path of the library may be long, and is cut.
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");

    let json = info(&child.pid);
    let caches = json["allocators"][0]["caches"].as_array().unwrap();
    let pinned: u64 = caches.iter().map(|cache| cache["pinned_bytes"].as_u64().unwrap()).sum();
    assert_eq!(json["allocators"][0]["pinned_bytes"], pinned);
    assert!(pinned > 100_000, "each second object was freed, so slabs have holes: {pinned}");

    let out = ashlar(&["info", &child.pid, "malloc-64"]);
    for event in ["sheaf_refill", "remote_free", "lock_waits"] {
        assert!(text(&out.stdout).contains(event), "{}", text(&out.stdout));
    }
    refused(&["info", &child.pid], &[(&["nosuch"], "CACHE: nosuch: PID ")]);
}

#[test]
fn a_stopped_process_is_read_and_twice_alike() {
    let Some(child) = python(&format!("{HOLES}; print('ready', flush=True); import time; time.sleep(100)")) else {
        return;
    };
    child.signal(libc::SIGSTOP);
    while info(&child.pid)["state"] != "T" {
        std::thread::yield_now();
    }
    let allocators = || info(&child.pid)["allocators"].clone();
    assert_eq!(allocators(), allocators());
    assert!(text(&ashlar(&["info", &child.pid]).stdout).contains(", stopped"));
}

#[test]
fn a_child_of_a_fork_shows_its_own_objects() {
    let code = "import os,sys,time\nchild=os.fork()\nif child == 0:\n a=[bytes(700) for _ in range(20000)]\n \
                print('ready', os.getpid(), flush=True)\n time.sleep(100)\nelse:\n os.wait()";
    let Some(child) = python(code) else { return };
    let inner = child.said.split_whitespace().nth(1).unwrap().to_owned();
    let used = |pid: &str| info(pid)["allocators"][0]["used_bytes"].as_u64().unwrap();
    let (parent, own) = (used(&child.pid), used(&inner));
    assert!(own > parent + 20000 * 700, "{own} in the child, {parent} in the parent");
    Command::new("kill").arg(inner).status().expect("it runs");
}

#[test]
fn the_text_of_prometheus_has_each_series_once() {
    let Some(child) = python("print('ready', flush=True); import time; time.sleep(100)") else { return };
    let out = ashlar(&["info", "--prometheus", &child.pid]);
    let shown = text(&out.stdout);
    let mut seen = std::collections::BTreeSet::new();
    for line in shown.lines().filter(|line| !line.starts_with('#')) {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        assert!(series.starts_with("ashlar_") && value.parse::<u64>().is_ok(), "{line}");
        assert!(seen.insert(series.to_owned()), "{series} occurs twice");
    }
    assert!(shown.contains("# TYPE ashlar_cache_events_total counter") && seen.len() > 50, "{shown}");
}

#[test]
fn two_saved_files_show_what_grew() {
    let code = "import sys\na=[]\nprint('ready', flush=True)\nfor line in sys.stdin:\n \
                a.append([bytes(1000) for _ in range(5000)])\n print('more', flush=True)\n";
    let Some(mut child) = python(code) else { return };
    let files = [scratch("a.json"), scratch("b.json")];
    let [a, b] = files.each_ref().map(|path| path.to_str().unwrap());
    let pid = child.pid.clone();
    let save = |file: &str| {
        let out = ashlar(&["info", &pid, "--save", file]);
        assert_eq!((out.status.code(), text(&out.stdout), text(&out.stderr)), (Some(0), String::new(), String::new()));
    };
    save(a);
    child.ask("more");
    save(b);
    let out = ashlar(&["diff", a, b]);
    let shown = text(&out.stdout);
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    // An object of bytes has a head of 33 bytes.
    let first = shown.lines().skip_while(|line| !line.starts_with("# name")).nth(1).expect("a row");
    let row: Vec<&str> = first.split_whitespace().collect();
    assert!(row[0] == "malloc-1152" || row[0] == "malloc-1088" || row[0] == "malloc-1040", "{shown}");
    assert!(row[1].trim_start_matches('+').parse::<i64>().unwrap() >= 5000, "{shown}");
    let zeros = |row: &&str| row.split_whitespace().skip(1).all(|cell| cell.trim_start_matches('+') == "0");
    let mut rows = shown.lines().skip_while(|line| !line.starts_with("# name")).skip(1);
    assert_eq!(rows.find(zeros), None, "a row of nothing");
    let json: Value = serde_json::from_slice(&ashlar(&["diff", "--json", a, b]).stdout).expect("JSON");
    assert_eq!(json["same_process"], true);
    fs::write(scratch("c.json"), "{}").unwrap();
    let c = scratch("c.json");
    let cases: &[(&[&str], &str)] = &[
        (&[b, a], "B: "),
        (&["no-such-file", b], "A: no-such-file: "),
        (&[a, c.to_str().unwrap()], "not a file of `ashlar info --save`"),
        (&[a], "B"),
    ];
    refused(&["diff"], cases);
}

#[test]
fn a_program_on_libashlar_and_its_cache_are_shown() {
    let folder = running::built("ashlar-c");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include");
    let flags = ["-I", include, "-L", folder.to_str().unwrap(), "-lashlar"];
    let program = build("libashlar.c", &flags);
    // The loader looks for it by the name that an installation gives it.
    let named = scratch("named");
    fs::create_dir_all(&named).expect("a folder");
    let _ = std::os::unix::fs::symlink(folder.join("libashlar.so"), named.join("libashlar.so.0"));
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", &named);
    let child = started(command);
    let json = info(&child.pid);
    let caches = json["allocators"][0]["caches"].as_array().unwrap();
    let packet = caches.iter().find(|cache| cache["name"] == "packet").expect("its cache");
    assert_eq!((&packet["active"], &packet["objsize"]), (&1000.into(), &300.into()));
    assert!(json["allocators"][0]["file"].as_str().unwrap().contains("libashlar"), "{json}");
}

#[test]
fn processes_that_cannot_be_read_are_named() {
    let foreign = Running::of(Command::new("sleep").arg("100"));
    let cases: &[(&[&str], &str)] = &[
        (&["0"], "PID"),
        (&["no"], "PID"),
        (&["999999999"], "PID: 999999999: no such process"),
        (&[&foreign.pid], "(sleep): not on ashlar"),
        (&["1", "--json", "--prometheus"], "--prometheus"),
    ];
    refused(&["info"], cases);

    // A zombie: a child that has ended, and that this process does not wait for.
    let zombie = Running::of(Command::new("true").stdout(Stdio::null()));
    let mut message = String::new();
    for _ in 0..2000 {
        message = text(&ashlar(&["info", &zombie.pid]).stderr);
        if message.contains("zombie") {
            break;
        }
    }
    assert!(message.contains("it has ended, and waits for its parent (zombie)"), "{message}");
    assert!(!text(&ashlar(&["ps"]).stdout).contains(&format!(" {} ", zombie.pid)));
}

#[test]
fn processes_of_another_user_are_refused() {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return skipped("only root can run the tool as another user");
    }
    let Some(child) = python("print('ready', flush=True); import time; time.sleep(100)") else { return };
    // Where another user can run it.
    let tool = std::env::temp_dir().join(format!("ashlar-tool-{}", std::process::id()));
    fs::copy(ASHLAR, &tool).expect("a copy");
    let as_nobody = |args: &[&str]| {
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
        command("setpriv").args(nobody).arg(&tool).args(args).output()
    };
    let outs = as_nobody(&["info", &child.pid]).and_then(|info| Ok((info, as_nobody(&["ps"])?)));
    let _ = fs::remove_file(&tool);
    let Ok((out, list)) = outs else { return skipped("no setpriv") };
    let message = text(&out.stderr);
    if message.starts_with("setpriv") {
        return skipped(&message);
    }
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert!(message.contains("(python3): a process of another user (0)"), "{message}");
    assert!(!text(&list.stdout).contains("python3"), "{}", text(&list.stdout));
    assert!(text(&list.stderr).contains("of other users may not be looked at"), "{}", text(&list.stderr));
}

#[test]
fn a_hostile_process_is_refused() {
    let program = build("hostile.c", &[]);
    let size = ashlar::window::Window::SIZE.to_string();
    let format = ashlar::window::FORMAT.to_string();
    // Small numbers, addresses of the mapping that the process fills with them, and all ones.
    for pattern in ["0", "1", "8", "100000001", "200000000000", "200000000040", "7fffffff7fffffff", "ffffffffffffffff"]
    {
        let mut command = Command::new(&program);
        command.args([&size, &format, pattern]);
        let child = started(command);
        for args in [&["info", &child.pid][..], &["info", "--json", &child.pid]] {
            let out = ashlar(args);
            let message = text(&out.stderr);
            match out.status.code() {
                // Zeros everywhere are an allocator without caches.
                Some(0) => assert!(["0", "1", "8"].contains(&pattern), "{pattern}: {}", text(&out.stdout)),
                code => {
                    assert_eq!(code, Some(2), "{pattern}: {message}");
                    assert!(message.contains("(hostile): its counters are corrupt: "), "{pattern}: {message}");
                }
            }
        }
        // Every command ends, by itself, and says what it thinks.
        for args in [
            &["pins"][..],
            &["profile"],
            &["doctor"],
            &["top", "--once", "--interval", "0.1"],
            &["report", "--html", "--seconds", "0.1"],
            &["tune", "malloc-64.min_partial=1", "--timeout", "0.1"],
            &["shrink", "--timeout", "0.1"],
            &["reap", "--timeout", "0.1"],
            &["validate", "--timeout", "0.1"],
            &["profile", "--start", "--timeout", "0.1"],
        ] {
            let mut args = args.to_vec();
            args.insert(1, &child.pid);
            let out = ashlar(&args);
            let code = out.status.code().unwrap_or_else(|| panic!("{pattern}: {args:?}: {}", out.status));
            assert!(code == 0 || code <= 2, "{pattern}: {args:?}: {}", text(&out.stderr));
            assert!(!out.stdout.is_empty() || !out.stderr.is_empty(), "{pattern}: {args:?}: {code}");
            assert!(!text(&out.stderr).contains("panicked"), "{pattern}: {args:?}: {}", text(&out.stderr));
        }
        let out = ashlar(&["ps"]);
        assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
        let both = text(&out.stderr) + &text(&out.stdout);
        assert!(both.contains(&child.pid), "{both}");
    }
    let mut command = Command::new(&program);
    command.args(["64", "99", "0"]);
    let child = started(command);
    refused(&["info"], &[(&[&child.pid], "whose window has format 99; this tool is of ")]);
}

/// The process may end before, between and behind any two reads.
#[test]
fn a_process_that_dies_while_it_is_read_is_told() {
    for round in 0..12 {
        let Some(child) = python(&format!("{HOLES}; print('ready', flush=True); import time; time.sleep(100)")) else {
            return;
        };
        let ends = AtomicBool::new(false);
        let look = &|args: &[&str]| {
            let mut looks = 0;
            loop {
                let over = ends.load(Ordering::Relaxed);
                let out = ashlar(args);
                let message = text(&out.stderr);
                looks += 1;
                match out.status.code() {
                    Some(0) => assert!(!over, "{args:?} shows a process that has ended: {}", text(&out.stdout)),
                    Some(2) => {
                        let told =
                            ["no such process", "it ended while it was read", "it has ended, and waits for its parent"];
                        assert!(told.iter().any(|told| message.contains(told)), "{args:?}: {message}");
                        assert!(out.stdout.is_empty(), "{args:?}");
                        return looks;
                    }
                    code => panic!("{args:?}: {code:?}: {message}"),
                }
            }
        };
        let pid = child.pid.clone();
        std::thread::scope(|scope| {
            for args in [vec!["info", &pid], vec!["pins", &pid], vec!["info", "--json", &pid]] {
                scope.spawn(move || assert!(look(&args) > 0));
            }
            // Any moment will do.
            std::thread::sleep(core::time::Duration::from_micros(15_000 + 1_700 * round));
            child.signal(libc::SIGKILL);
            while state_of(&pid).is_some_and(|state| state != 'Z') {
                std::thread::yield_now();
            }
            ends.store(true, Ordering::Relaxed);
        });
        // Its parent has waited for it.
        drop(child);
        refused(&[], &[(&["info", &pid], "no such process"), (&["reap", &pid], "no such process")]);
    }
}

/// The state of a process, as the kernel names it.
fn state_of(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn a_process_without_a_window_is_told_from_one_that_is_not_on_ashlar() {
    let mut command = Command::new("sh");
    // No file of this process may have a byte.
    command.args(["-c", "ulimit -f 0; LD_PRELOAD=$0 exec python3 -c 'print(\"ready\", flush=True); input()'"]);
    command.arg(library());
    let Some(child) = running::try_started(command) else { return skipped("no python3") };
    refused(&["info"], &[(&[&child.pid], "on ashlar, but without a window")]);
}

#[test]
fn a_process_in_other_namespaces_is_read() {
    let code = "print('ready', flush=True); import time; time.sleep(100)";
    let mut inside = Command::new("unshare");
    inside.args(["-pfr", "--kill-child", "python3", "-c", code]).env("LD_PRELOAD", library());
    let Some(child) = running::try_started(inside) else { return skipped("namespaces are not allowed here") };
    // `unshare` itself waits; the program is its child.
    let json: Value = serde_json::from_slice(&ashlar(&["ps", "--json"]).stdout).expect("JSON");
    let inner = json.as_array().unwrap().iter().find(|report| report["inner_pid"] == 1 && report["name"] == "python3");
    assert!(inner.is_some_and(|report| report["allocators"][0]["ashlar"] == env!("CARGO_PKG_VERSION")), "{json}");
    drop(child);
}

#[test]
fn top_prints_one_table_for_scripts() {
    let code = "import threading,time\nprint('ready', flush=True)\na=[]\nwhile True:\n \
                a.append([bytes(1000) for _ in range(500)])\n time.sleep(0.01)";
    let Some(child) = python(code) else { return };
    let out = ashlar(&["top", "--once", "--interval", "0.5", "--sort", "growth", &child.pid]);
    let shown = text(&out.stdout);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()));
    assert!(shown.contains(&format!("(PID {})", child.pid)), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    let json = |args: &[&str]| {
        let out = ashlar(&[&["top", "--json", "--interval", "0.5"], args].concat());
        serde_json::from_slice::<Value>(&out.stdout).expect("JSON")
    };
    let rows = json(&["--sort", "growth", &child.pid]);
    assert!(rows[0]["growth_bytes"].as_i64().unwrap() > 0, "{rows}");
    assert_eq!(json(&["--filter", "nothing-like-it", &child.pid]), Value::Array(Vec::new()));
    let all = json(&[]);
    let names = all.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned());
    assert!(names.into_iter().any(|name| name.starts_with(&format!("{} ", child.pid))), "{all}");
    let cases: &[(&[&str], &str)] = &[
        (&[&child.pid], "top: standard output is not a terminal"),
        (&["--interval", "0", &child.pid], "--interval"),
        (&["--sort", "colour", &child.pid], "--sort"),
        (&["--once", "999999999"], "no such process"),
    ];
    refused(&["top"], cases);
}

#[test]
fn figures_at_exit_go_to_a_file_with_the_number_of_the_process() {
    let run = |wish: &str, args: &[&str]| {
        // Not sh, which may be one that ends by _exit.
        let mut shell = command("bash");
        let out = shell.args(args).env("LD_PRELOAD", library()).env("ASHLAR_STATS", wish).output().expect("it runs");
        assert_eq!(out.status.code(), Some(0));
        (text(&out.stdout).trim().to_owned(), text(&out.stderr))
    };
    let wish = format!("text:{}", scratch("figures-%p-%%").display());
    let (pid, said) = run(&wish, &["-c", "echo $$"]);
    assert_eq!(said, "");
    let table = fs::read_to_string(scratch(&format!("figures-{pid}-%"))).expect("the file");
    assert!(table.lines().next().is_some_and(|line| line.contains(&format!(": bash ({pid}), mode "))), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    // What is there stays.
    let wish = format!("json:{}", scratch("figures").display());
    for lines in 1..3 {
        run(&wish, &["-c", ":"]);
        assert_eq!(fs::read_to_string(scratch("figures")).expect("the file").lines().count(), lines);
    }
    let (_, said) = run("json:/nonexistent/folder/x", &["-c", ":"]);
    assert_eq!(said, "ashlar: ASHLAR_STATS: /nonexistent/folder/x: cannot be opened (error 2)\n");
    for wish in ["xml", "text:", "xml:/tmp/x"] {
        let (_, said) = run(wish, &["-c", ":"]);
        assert!(
            said.starts_with("ashlar: ASHLAR_STATS: expected text, json, text:FILE or json:FILE"),
            "{wish}: {said}"
        );
    }
}

#[test]
fn a_process_without_a_window_is_not_read_and_runs_as_before() {
    let mut python = command("env");
    python.args(["ASHLAR_OPTIONS=window=off", "python3", "-c"]).env("LD_PRELOAD", library());
    python.arg("print('ready', flush=True); import time; time.sleep(100)");
    let Some(child) = running::try_started(python) else { return skipped("no python3") };
    let maps = fs::read_to_string(format!("/proc/{}/maps", child.pid)).expect("maps");
    assert!(maps.contains("libashlar_malloc.so") && !maps.contains("memfd:ashlar"), "{maps}");
    for command in ["info", "pins"] {
        let out = ashlar(&[command, &child.pid]);
        assert_eq!((out.status.code(), text(&out.stdout)), (Some(2), String::new()));
        assert!(text(&out.stderr).contains("it was started with window=off, or"), "{}", text(&out.stderr));
    }
}
