//! `ashlar report --html` from outside, and in a browser.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

#[path = "common/browser.rs"]
mod browser;
mod common;
#[path = "common/running.rs"]
mod running;

use std::fs;
use std::path::PathBuf;

use common::{ashlar, command, refused, scratch, text};
use running::{Running, library, python, skipped, try_started};

/// Has holes, and keeps some of what it allocates.
const GROWS: &str = "import time\na=[bytes(100+i%900) for i in range(50000)]; b=a[::2]; del a\nkept=[]\n\
                     print('ready', flush=True)\nwhile True:\n kept.append([bytes(1100) for _ in range(50)])\n \
                     c=[bytes(i%2000) for i in range(3000)]; del c; time.sleep(0.01)";

fn grows(options: &str) -> Option<Running> {
    let mut run = command("env");
    run.arg(format!("ASHLAR_OPTIONS={options}")).args(["python3", "-c", GROWS]).env("LD_PRELOAD", library());
    let running = try_started(run);
    if running.is_none() {
        skipped("no python3");
    }
    running
}

#[track_caller]
fn well(args: &[&str]) -> String {
    let out = ashlar(args);
    assert_eq!((out.status.code(), text(&out.stderr)), (Some(0), String::new()), "{args:?}");
    text(&out.stdout)
}

fn folder(name: &str) -> PathBuf {
    let folder = scratch(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// What a script sees of the page: drawings, letters, and what a click on a function does.
const SEES: &str = r#"page => {
  const box = e => e.getBoundingClientRect(), shown = e => box(e).height > 0;
  const tiles = [...page.querySelectorAll('.tile')].filter(shown), map = box(tiles[0].parentNode);
  const charts = [...page.querySelectorAll('svg.chart')];
  const frames = [...page.querySelectorAll('#flame > div')];
  const before = box(frames[4]).width;
  const visible = () => frames.filter(shown).length, all = visible();
  const last = frames.reduce((a, b) => box(b).top > box(a).top ? b : a);
  last.click();
  const zoomed = {all, left: visible(), wide: box(last).width / box(page.getElementById('flame')).width,
    told: page.getElementById('told').textContent};
  frames[0].click();
  const find = page.getElementById('find');
  find.value = 'PyEval';
  find.dispatchEvent(new Event('input'));
  return {
    maps: [...page.querySelectorAll('.map')].filter(shown).length, tiles: tiles.length,
    covered: tiles.reduce((sum, e) => sum + box(e).width * box(e).height, 0) / (map.width * map.height),
    labels: tiles.filter(e => e.querySelector('span') && shown(e.querySelector('span'))).length,
    charts: charts.length, drawn: charts.filter(e => box(e).height > 100 && e.querySelector('polyline')).length,
    small: charts.flatMap(e => [...e.querySelectorAll('text')]).filter(e => box(e).height < 7).length,
    frames: frames.length, zoomed, again: visible(), hits: page.querySelectorAll('#flame .hit').length,
    rows: page.querySelectorAll('.all tbody tr').length,
  };
}"#;

#[test]
fn the_page_is_whole_in_a_browser_as_wide_as_a_phone() {
    let Some(browser) = browser::browser() else { return };
    let Some(process) = grows("profile=16K") else { return };
    let folder = folder("page");
    let file = folder.join("page.html");
    assert_eq!(well(&["report", &process.pid, "--seconds", "1", "--html", file.to_str().unwrap()]), "");
    let page = fs::read_to_string(&file).unwrap();
    for width in [375, 1280] {
        let seen = browser::look(browser, &folder, &page, width, SEES);
        let number = |key: &str| seen[key].as_f64().unwrap_or_else(|| panic!("{key}: {seen}"));
        assert_eq!(seen["maps"], 1, "one shape for one screen: {seen}");
        assert!(number("tiles") > 5.0 && number("labels") > 3.0, "{seen}");
        assert!((0.98..1.02).contains(&number("covered")), "tiles fill the map: {seen}");
        assert!(number("charts") >= 2.0 && seen["charts"] == seen["drawn"], "{seen}");
        assert_eq!(seen["small"], 0, "letters that are too small to read: {seen}");
        assert!(number("frames") > 5.0 && number("rows") > 5.0 && number("hits") > 0.0, "{seen}");
        let zoomed = &seen["zoomed"];
        assert!((0.99..1.01).contains(&zoomed["wide"].as_f64().unwrap()), "{seen}");
        assert!(zoomed["left"].as_u64() <= zoomed["all"].as_u64(), "{seen}");
        assert!(zoomed["told"].as_str().unwrap().contains(" %"), "{seen}");
        assert_eq!(seen["again"], zoomed["all"], "{seen}");
    }
    // The page itself, alone.
    let (dom, errors) = browser::dump(browser, &folder, &file);
    assert!(dom.contains("Click a function"), "its script runs");
    assert_eq!(browser::complaints(&errors), Vec::<&str>::new());
}

#[test]
fn files_that_were_saved_are_a_page_and_so_is_a_series() {
    let Some(process) = grows("") else { return };
    let folder = folder("page-files");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    let (a, b, both, html) = (path("a"), path("b"), path("both"), path("page.html"));
    well(&["info", &process.pid, "--save", &a]);
    std::thread::sleep(core::time::Duration::from_millis(300));
    well(&["info", &process.pid, "--save", &b]);
    fs::write(&both, fs::read_to_string(&b).unwrap() + &fs::read_to_string(&a).unwrap()).unwrap();
    let one = well(&["report", &a, "--html"]);
    assert!(one.contains("One snapshot shows none") && one.contains("No heap profile was started"), "{one}");
    let two = well(&["report", &b, &a, "--html"]);
    assert!(two.contains("2 samples in ") && two.contains("<polyline"), "{two}");
    assert_eq!(well(&["report", &both, "--html", &html]), "");
    assert_eq!(fs::read_to_string(&html).unwrap(), two, "the order of the files does not matter");

    fs::write(path("none"), "").unwrap();
    fs::write(path("bad"), "{\"form\":1}").unwrap();
    let (none, bad, pid) = (path("none"), path("bad"), process.pid.as_str());
    let cases: &[(&[&str], &str)] = &[
        (&[&a], "--html: required"),
        (&["--html"], "PID|FILE"),
        (&["no-such-file", "--html"], "FILE: no-such-file: "),
        (&[&none, "--html"], "it is empty"),
        (&[&bad, "--html"], "not a file of `ashlar info --save`"),
        (&[&a, "--seconds", "1", "--html"], "--seconds: expected the number of a process"),
        (&[pid, &a, "--html"], "PID|FILE: expected one process, or files"),
        (&[pid, "--seconds", "0", "--html"], "--seconds"),
        (&[&a, "--profile", &b, "--html"], "expected a profile"),
        (&[&a, "--html", "/no/such/folder/page"], "--html: /no/such/folder/page: "),
        (&["999999999", "--html"], "no such process"),
    ];
    refused(&["report"], cases);
    refused(&["diff"], &[(&[&both, &b], "A: "), (&[&a, &both], "has 2 snapshots, expected one")]);
}

#[test]
fn a_process_that_ends_meanwhile_is_a_page_of_what_was_seen() {
    let Some(process) = python("print('ready', flush=True); import time; time.sleep(1)") else { return };
    let page = well(&["report", &process.pid, "--seconds", "60", "--html"]);
    assert!(page.contains("The process ended after "), "{page}");
    assert!(page.contains("Every cache"), "{page}");
}

#[test]
fn a_profile_from_a_file_is_drawn() {
    let Some(process) = grows("") else { return };
    let folder = folder("page-profile");
    let profile = folder.join("heap").to_str().unwrap().to_owned();
    let out = ashlar(&[
        "run",
        "--profile",
        &profile,
        "--profile-rate",
        "4K",
        "--",
        "python3",
        "-c",
        "a=[bytes(3000) for _ in range(900)]; import os; x=os.getpid()",
    ]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    let page = well(&["report", &process.pid, "--seconds", "0.1", "--profile", &profile, "--html"]);
    assert!(page.contains("id=\"flame\"") && page.contains("PyEval"), "{page}");
}
