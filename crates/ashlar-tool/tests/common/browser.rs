//! A browser that looks at pages, without a screen.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Returns the browser; `None` after a line that says that there is none.
pub(crate) fn browser() -> Option<&'static str> {
    let runs = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(runs);
    if found.is_none() {
        eprintln!("SKIPPED: no chromium is installed; the page was not looked at");
    }
    found
}

/// A page that puts another one into a frame of a width and looks.
const LOOK: &str = r#"<!doctype html><meta charset="utf-8"><iframe id="f" style="border:0;width:WIDTHpx;height:3000px"></iframe>
<pre id="out">not yet</pre><script>
const frame = document.getElementById('f');
frame.onload = () => {
  const page = frame.contentDocument, wide = page.documentElement.clientWidth;
  const shown = [...page.querySelectorAll('body *')].filter(e => e.getClientRects().length);
  const over = shown.filter(e => e.getBoundingClientRect().right > wide + 0.5);
  document.getElementById('out').textContent = JSON.stringify({
    width: wide, scroll: page.documentElement.scrollWidth, over: over.slice(0, 5).map(e => e.outerHTML.slice(0, 120)),
    seen: (SEES)(page),
  });
};
frame.srcdoc = PAGE;
</script>"#;

/// Returns what the function `sees`, in JavaScript, finds on a page of that width. The page must
/// not be wider than its frame, and nothing may complain. `folder` is for files of the browser.
#[track_caller]
pub(crate) fn look(browser: &str, folder: &Path, page: &str, width: u32, sees: &str) -> Value {
    // A script of the page's own would end at its first end tag, and so would this text.
    let source = serde_json::to_string(page).unwrap().replace("</", "<\\/");
    let look = folder.join(format!("look-{width}.html"));
    let whole = LOOK.replace("WIDTH", &width.to_string()).replace("SEES", sees).replace("PAGE", &source);
    std::fs::write(&look, whole).unwrap();
    let (dom, errors) = dump(browser, folder, &look);
    let found = dom.split("<pre id=\"out\">").nth(1).and_then(|rest| rest.split("</pre>").next()).unwrap_or_default();
    let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    let found: Value = serde_json::from_str(&found).unwrap_or_else(|_| panic!("the browser found `{found}`: {errors}"));
    assert_eq!(found["over"], serde_json::json!([]), "wider than the screen: {found}");
    assert_eq!(found["scroll"], found["width"], "{found}");
    assert_eq!(complaints(&errors), Vec::<&str>::new());
    found["seen"].clone()
}

/// Returns what a page wrote to the console, which is nothing but errors.
pub(crate) fn complaints(errors: &str) -> Vec<&str> {
    errors.lines().filter(|line| line.contains("CONSOLE")).collect()
}

/// Returns the document after everything is loaded, and what the browser says.
pub(crate) fn dump(browser: &str, folder: &Path, page: &Path) -> (String, String) {
    let out = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--virtual-time-budget=5000"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser starts");
    (String::from_utf8_lossy(&out.stdout).into_owned(), String::from_utf8_lossy(&out.stderr).into_owned())
}
