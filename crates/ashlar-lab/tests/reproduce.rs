//! `ashlar reproduce` from outside: what it refuses, what it writes, and its page in a browser. No
//! figure is judged here.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{ashlar, refused, text};

/// A directory of a test, which goes away with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = common::scratch(name);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn bad_input_is_named_and_exits_with_2() {
    let empty = Scratch::new("empty");
    let nothing = empty.path("");
    fs::write(empty.path("no.json"), "{}").unwrap();
    let broken = empty.path("no.json");
    let cases: &[(&[&str], &str)] = &[
        (&["--runs", "test"], "--runs: unknown run `test`; expected `all` or some of tests, one-cpu"),
        (&["--json", "/no/such/directory/out.json"], "--json: cannot write"),
        (&["--html", "/no/such/directory/out.html"], "--html: cannot write"),
        (&["--from", "/no/such/file.json"], "--from: /no/such/file.json: cannot read it"),
        (&["--from", &broken], "expected a file written by `ashlar reproduce --json`"),
        (&["--from", &nothing], "no recorded run is in it"),
        (&["--from", "x.json", "--quick"], "--quick"),
        (&["--from", "x.json", "--runs", "tests"], "--runs"),
    ];
    refused(&["reproduce"], cases);
}

/// Records as `ashlar bench --json` writes them, made up.
fn record(directory: &Scratch) {
    let mut records = Vec::new();
    for (at, system) in ["slab24", "slub", "slub-emu", "slub+", "slub-o", "slub-ll", "ashlar"].iter().enumerate() {
        for test in ["A", "B", "C", "D", "D-free", "E", "F"] {
            for size in [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
                let ticks = (60 - 8 * at + size / 20) as f64;
                records.push(serde_json::json!({
                    "test": test, "system": system, "size": size, "cpus": 2, "unit": "tsc_cycles_per_op", "min": ticks,
                    "median": ticks, "runs": 6, "oversubscribed": false, "per_cpu": [ticks], "samples": vec![ticks; 6],
                }));
            }
        }
    }
    let run = serde_json::json!({
        "host": { "cpu_model": "a made-up CPU", "cpus": 2, "rounds": 6 }, "records": records
    });
    fs::write(directory.path("tests.json"), run.to_string()).unwrap();
    let records: Vec<_> = ["slob", "slob-seg", "slob-cache"]
        .iter()
        .zip([95.0, 9.5, 9.1])
        .map(|(system, s)| {
            serde_json::json!({ "test": "hackbench", "system": system, "size": 0, "cpus": 2, "unit": "s", "median": s, "runs": 6, "samples": vec![s; 6] })
        })
        .collect();
    fs::write(
        directory.path("hackbench.json"),
        serde_json::json!({ "host": { "rounds": 6 }, "records": records }).to_string(),
    )
    .unwrap();
}

#[test]
fn recorded_runs_make_a_report_and_a_report_makes_the_same_again() {
    let (recorded, scratch) = (Scratch::new("recorded"), Scratch::new("report"));
    record(&recorded);
    let json = scratch.path("report.json");
    let out = ashlar(&["reproduce", "--from", &recorded.path(""), "--json", &json]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    assert_eq!(report["machine"]["cpu_model"], "a made-up CPU");
    let claims = report["claims"].as_array().unwrap();
    for claim in claims {
        let verdict = claim["verdict"].as_str().unwrap();
        let known = ["reproduced", "not-reproduced", "open", "fitted", "not-comparable", "not-measured"];
        assert!(known.contains(&verdict), "{claim}");
        // A verdict on a number judges its interval.
        let (number, interval) = (claim["measured"].is_number(), claim["interval"].is_array());
        assert!(number == interval || verdict == "open", "{claim}");
        assert!(!claim["reason"].as_str().unwrap().is_empty() && claim["simulated"].is_boolean(), "{claim}");
    }
    let of = |id: &str| claims.iter().find(|claim| claim["id"] == id).unwrap_or_else(|| panic!("no claim {id}"));
    assert_eq!(of("004-B-seg")["verdict"], "reproduced", "{}", of("004-B-seg"));
    assert!((of("004-B-seg")["measured"].as_f64().unwrap() - 10.0).abs() < 1e-9, "{}", of("004-B-seg"));
    let ends = of("004-B-seg")["interval"].as_array().unwrap().iter().map(|end| end.as_f64().unwrap());
    assert!(ends.into_iter().all(|end| (end - 10.0).abs() < 1e-9), "{}", of("004-B-seg"));
    assert_eq!((&of("003-pair")["kind"], &of("003-pair")["repeats"]), (&"repeated".into(), &"000-C-pair".into()));
    // Every row of the tables that were measured has its pairs of columns.
    let tables = report["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["tables"] == "000-B").unwrap();
    assert_eq!(table["rows"].as_array().unwrap().len(), 10);
    assert_eq!(table["rows"][0]["pairs"].as_array().unwrap().len(), 6, "{table}");
    assert_eq!(table["rows"][0]["rating"][0], "=");
    // Commands that were not run are named.
    assert_eq!(of("001-bulk")["verdict"], "not-measured");
    assert!(of("001-bulk")["reason"].as_str().unwrap().contains("ashlar forward"));
    assert!(text(&out.stdout).contains("Mail 004") && text(&out.stdout).contains("claims: "));

    let again = ashlar(&["reproduce", "--from", &json]);
    assert_eq!(text(&again.stdout), text(&out.stdout), "{}", text(&again.stderr));
}

#[test]
fn a_quick_run_measures_and_says_that_it_is_worth_nothing() {
    let scratch = Scratch::new("quick");
    let (json, html) = (scratch.path("out.json"), scratch.path("out.html"));
    let out = ashlar(&["reproduce", "--quick", "--runs", "slob", "--json", &json, "--html", &html]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("QUICK"));
    let report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&json).unwrap()).unwrap();
    let search = report["claims"].as_array().unwrap().iter().find(|claim| claim["id"] == "004-search").unwrap();
    assert!(search["measured"].as_f64().unwrap() > 0.0, "{search}");
    assert_eq!(search["verdict"], "open", "one round has no interval: {search}");
    let processor = &report["machine"]["processor"];
    assert!(processor["name"].is_string() && processor["family"].is_string(), "{processor}");
    assert!(fs::read_to_string(&html).unwrap().contains("A quick run"));
}

/// What a page does in a browser that is as wide as a phone: a page of its own puts it into a frame
/// and looks.
const LOOK: &str = r#"<!doctype html><meta charset="utf-8"><iframe id="f" style="border:0;width:WIDTHpx;height:3000px"></iframe>
<pre id="out">not yet</pre><script>
const frame = document.getElementById('f');
frame.onload = () => {
  const page = frame.contentDocument, wide = page.documentElement.clientWidth;
  const over = [...page.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > wide + 0.5);
  const charts = [...page.querySelectorAll('svg.chart')];
  const drawn = charts.filter(e => e.getBoundingClientRect().height > 100 && e.querySelector('rect,circle'));
  const letters = charts.flatMap(e => [...e.querySelectorAll('text')].map(t => t.getBoundingClientRect()));
  const box = e => e.closest('svg').getBoundingClientRect();
  document.getElementById('out').textContent = JSON.stringify({
    width: wide, scroll: page.documentElement.scrollWidth, over: over.slice(0, 5).map(e => e.outerHTML.slice(0, 120)),
    charts: charts.length, drawn: drawn.length, letters: letters.length, small: letters.filter(r => r.height < 7).length,
    cards: page.querySelectorAll('.card').length,
    ink: getComputedStyle(charts[0].querySelector('text')).fill,
  });
};
frame.srcdoc = PAGE;
</script>"#;

fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    names.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success()))
}

#[test]
fn the_page_is_whole_in_a_browser_as_wide_as_a_phone() {
    let Some(browser) = chromium() else {
        eprintln!("SKIPPED: no chromium is installed; the page was not looked at");
        return;
    };
    let (recorded, scratch) = (Scratch::new("browser-runs"), Scratch::new("browser"));
    record(&recorded);
    let html = scratch.path("page.html");
    let out = ashlar(&["reproduce", "--from", &recorded.path(""), "--html", &html]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let page = fs::read_to_string(&html).unwrap();
    let charts = page.matches("<svg class=\"chart\"").count();
    assert!(charts >= 14, "{charts} charts");
    for width in ["375", "1280"] {
        // A script of the page's own would end at its first end tag, and so would this text.
        let source = serde_json::to_string(&page).unwrap().replace("</", "<\\/");
        let look = scratch.path(&format!("look-{width}.html"));
        fs::write(&look, LOOK.replace("WIDTH", width).replace("PAGE", &source)).unwrap();
        let (dom, errors) = dump(browser, &scratch, Path::new(&look));
        let found =
            dom.split("<pre id=\"out\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap_or_default();
        let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
        let found: serde_json::Value =
            serde_json::from_str(&found).unwrap_or_else(|_| panic!("the browser found `{found}`: {errors}"));
        assert_eq!(found["over"], serde_json::json!([]), "wider than the screen: {found}");
        assert_eq!(found["scroll"], found["width"], "{found}");
        assert_eq!(
            (found["charts"].as_u64(), found["drawn"].as_u64()),
            (Some(charts as u64), Some(charts as u64)),
            "{found}"
        );
        assert!(found["cards"].as_u64().unwrap() > 28, "{found}");
        assert_eq!(found["small"], 0, "letters that nobody can read: {found}");
        assert_ne!(found["ink"], "rgb(1, 2, 16)", "the style sheet does not reach the charts");
        // The page itself, alone.
        let (dom, errors) = dump(browser, &scratch, Path::new(&html));
        assert_eq!(dom.matches("<svg class=\"chart\"").count(), charts);
        let complaints: Vec<&str> = errors.lines().filter(|line| line.contains("CONSOLE")).collect();
        assert!(complaints.is_empty(), "{complaints:?}");
    }
}

/// The document after everything is loaded, and what the browser says.
fn dump(browser: &str, scratch: &Scratch, page: &Path) -> (String, String) {
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", scratch.path("profile")))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser starts");
    (text(&out.stdout), text(&out.stderr))
}
