//! The page as text. A browser looks at it in `tests/page.rs` of this crate.

use super::render;
use super::story::Story;
use crate::observe::report::{Allocator, Cache, Report};
use crate::profile::read;

/// A process whose name and caches are markup.
fn hostile(time: f64, active: u64) -> Report {
    let evil = "</title><script>alert(1)</script>\"' onload=x".to_owned();
    let cache = Cache {
        name: evil.clone(),
        objsize: 100,
        stride: 112,
        active,
        slabs: 9,
        bytes: 36_864,
        pinned_bytes: 900,
        ..Cache::default()
    };
    let allocator = Allocator {
        file: evil.clone(),
        version: evil.clone(),
        mode: evil.clone(),
        engine: evil.clone(),
        options: evil.clone(),
        used_bytes: active * 100,
        held_bytes: 36_864,
        caches: vec![cache.clone(), cache],
        ..Allocator::default()
    };
    Report { name: evil, time, allocators: vec![allocator], ..Report::default() }
}

fn story(samples: Vec<Report>) -> Story {
    Story { samples, profile: None, pins: None, notes: Vec::new() }
}

#[test]
fn nothing_of_a_process_is_markup_and_nothing_comes_from_outside() {
    let mut told = story(vec![hostile(1.0, 10), hostile(3.0, 200)]);
    let profile = "ashlar-profile 2\nrate 80000\npid 1f\nnow 64\nstarted 14\ncounts 3 1 0 0 0\n\
        site 1 70 0 2 e0 4001 1c0070 .6d61 aa bb\nlive 1 7f0010 64 80000 a 20 .6d61696e\nmaps\n\
        0-1000 r-xp 00001000 fe:00 12   /bin/<img onerror=alert(2)>\n";
    told.profile = Some(read::parse(profile).expect("a profile"));
    let page = render(&told);
    assert!(page.contains("id=\"flame\"") && page.contains("&lt;script&gt;alert(1)"), "{page}");
    assert!(page.contains("&lt;img onerror=alert(2)&gt;"), "{page}");
    assert_eq!(page.matches("<script").count(), 1, "the page's own: {page}");
    assert_eq!(page.matches("</script>").count(), 1);
    assert_eq!(page.matches("<title>").count() + page.matches("</title>").count(), 2);
    for outside in ["http:", "https:", "src=\"", "@import", "url("] {
        assert!(!page.contains(outside), "{outside}");
    }
    // The second cache of one name is told apart.
    assert!(page.contains("onload=x#1"), "{page}");
}

#[test]
fn growth_is_that_between_the_first_and_the_last_sample() {
    let page = render(&story(vec![hostile(1.0, 100), hostile(2.0, 50), hostile(3.0, 1124)]));
    // 1024 objects of 100 bytes.
    assert!(
        page.contains("<td class=\"n\">+100 KiB</td><td class=\"n\">+1,024</td><td class=\"n\">+50.0 KiB</td>"),
        "{page}"
    );
    assert!(page.contains("3 samples in 2.0 s"), "{page}");
    let page = render(&story(vec![hostile(1.0, 100)]));
    assert!(page.contains("One snapshot shows none") && page.contains("No heap profile was started"), "{page}");
}

#[test]
fn the_extremes_of_figures_are_a_page() {
    let mut most = hostile(f64::MAX, u64::MAX / 100);
    most.allocators[0].caches[0].bytes = u64::MAX;
    most.allocators[0].pinned_bytes = u64::MAX;
    (most.rss_kib, most.peak_kib) = (u64::MAX, u64::MAX);
    for samples in [vec![Report::default()], vec![Report::default(), most.clone()], vec![most.clone(), most]] {
        let page = render(&story(samples));
        assert!(page.ends_with("</html>\n") && !page.contains("NaN") && !page.contains(":inf"), "{page}");
    }
}
