//! The parts of the page.

use std::collections::HashMap;

use super::chart::{self, Line};
use super::html::{Text, change, date, grouped, percent, put, size};
use super::story::Story;
use super::{flame, regions, treemap};
use crate::observe::report::{Allocator, Cache, Decay, Report};
use crate::observe::text::is_used;
use crate::profile::stacks::{Memory, Stacks};
use crate::profile::text::{age, bytes};

/// The most rows of the short tables, and the charts of caches.
const ROWS: usize = 12;
const CHARTS: usize = 5;

fn sum(report: &Report, figure: fn(&Allocator) -> u64) -> u64 {
    report.allocators.iter().map(figure).fold(0, u64::saturating_add)
}

/// Memory that the program has.
fn live(report: &Report) -> u64 {
    sum(report, |allocator| allocator.used_bytes.saturating_add(allocator.mapped_bytes))
}

/// Memory taken from the system.
fn held(report: &Report) -> u64 {
    sum(report, |allocator| allocator.held_bytes.saturating_add(allocator.mapped_bytes))
}

fn grown(before: u64, after: u64) -> i64 {
    i64::try_from(after).unwrap_or(i64::MAX).saturating_sub(i64::try_from(before).unwrap_or(i64::MAX))
}

fn of_cache(cache: &Cache) -> u64 {
    cache.active.saturating_mul(cache.objsize)
}

/// The title, the largest figures, and what held memory is.
pub(super) fn head(page: &mut String, story: &Story) {
    let now = story.now();
    put!(page, "<header><h1>{}</h1><p class=\"soft\">", Text(&now.name));
    put!(page, "PID {}", now.pid);
    if let Some(inner) = now.inner_pid {
        put!(page, " ({inner} in its namespace)");
    }
    if matches!(now.state, 'T' | 't') {
        *page += ", stopped";
    }
    put!(page, ", {}", date(now.time));
    let seconds = now.time - story.samples[0].time;
    if story.samples.len() > 1 {
        put!(page, ", {} samples in {seconds:.1} s", story.samples.len());
    }
    *page += ".";
    for allocator in &now.allocators {
        let Allocator { version, mode, engine, file, options, .. } = allocator;
        let (version, mode, engine, file) = (Text(version), Text(mode), Text(engine), Text(file));
        put!(page, "<br>ashlar {version}: mode {mode}, engine {engine}, in {file}");
        if !options.is_empty() {
            put!(page, ", options <code>{}</code>", Text(options));
        }
    }
    *page += "</p>";
    for note in &story.notes {
        put!(page, "<p class=\"warn\">{}</p>", Text(note));
    }
    let (live, held, pinned) = (live(now), held(now), sum(now, |allocator| allocator.pinned_bytes));
    let first = &story.samples[0];
    let resident = |report: &Report| report.rss_kib.saturating_mul(1024);
    *page += "<ul class=\"score\">";
    let mut score = |figure: String, words: String| put!(page, "<li><b>{figure}</b>{words}</li>");
    score(size(live), "in use".to_owned());
    score(size(held), format!("held, of which {:.0} % in use", percent(live, held)));
    score(size(resident(now)), format!("resident, {} at most", size(now.peak_kib.saturating_mul(1024))));
    score(size(pinned), format!("pinned, {:.0} % of what is held", percent(pinned, held)));
    if story.samples.len() > 1 {
        score(change(grown(self::live(first), live)), format!("growth of what is in use in {seconds:.1} s"));
    }
    *page += "</ul>";
    let regions = regions::all(now);
    let parts = regions::sums(&regions);
    let whole = parts.iter().map(|(_, bytes)| *bytes).fold(0, u64::saturating_add);
    let told: Vec<String> = parts.iter().map(|(kind, bytes)| format!("{} {}", size(*bytes), kind.words())).collect();
    put!(page, "<div class=\"bar\" role=\"img\" aria-label=\"{}\">", told.join(", "));
    for (kind, bytes) in &parts {
        put!(page, "<i class=\"{}\" style=\"width:{:.2}%\"></i>", kind.class(), percent(*bytes, whole));
    }
    *page += "</div><ul class=\"legend\">";
    for ((kind, _), told) in parts.iter().zip(&told) {
        put!(page, "<li><i class=\"{}\"></i>{told}</li>", kind.class());
    }
    *page += "</ul></header>";
}

/// The treemap.
pub(super) fn memory(page: &mut String, now: &Report) {
    *page += "<h2>Memory by cache</h2><p class=\"soft\">Areas are bytes taken from the system. Each cache is \
              divided into what is in use and what is free.</p><figure>";
    treemap::draw(page, &regions::all(now));
    *page += "</figure>";
}

/// How figures moved since the first sample.
pub(super) fn growth(page: &mut String, story: &Story) {
    *page += "<h2>Growth</h2>";
    if story.samples.len() < 2 {
        *page += "<p class=\"soft\">One snapshot shows none. Two files of <code>ashlar info PID --save FILE</code> do, \
                  and so does a process that runs.</p>";
        return;
    }
    let times = story.times();
    let seconds = times.last().copied().unwrap_or(0.0);
    put!(page, "<p class=\"soft\">Changes within {seconds:.1} s.</p><div class=\"charts\">");
    let values = |figure: &dyn Fn(&Report) -> u64| -> Vec<i64> {
        story.samples.iter().map(|sample| grown(figure(&story.samples[0]), figure(sample))).collect()
    };
    let lines = [
        Line { name: "in use", class: "l-use", values: values(&live) },
        Line { name: "held", class: "l-held", values: values(&held) },
        Line { name: "resident", class: "l-rss", values: values(&|report| report.rss_kib.saturating_mul(1024)) },
    ];
    chart::draw(page, "The process", "change of each figure", &times, &lines);
    // Of each cache, its live bytes at each sample.
    let mut lived: HashMap<String, Vec<u64>> = HashMap::new();
    let mut objects: HashMap<String, (u64, u64)> = HashMap::new();
    for (at, sample) in story.samples.iter().enumerate() {
        for (name, cache) in sample.caches() {
            let (first, last) = objects.entry(name.clone()).or_default();
            if at == 0 {
                *first = cache.active;
            }
            if at + 1 == story.samples.len() {
                *last = cache.active;
            }
            lived.entry(name).or_insert_with(|| vec![0; story.samples.len()])[at] = of_cache(cache);
        }
    }
    let mut rows: Vec<(String, Vec<i64>)> = lived
        .into_iter()
        .map(|(name, lived)| {
            let values = lived.iter().map(|&now| grown(lived[0], now)).collect();
            (name, values)
        })
        .collect();
    let total = |values: &[i64]| values.last().copied().unwrap_or(0);
    rows.retain(|(_, values)| total(values) != 0);
    rows.sort_by(|(name, a), (other, b)| total(b).cmp(&total(a)).then_with(|| name.cmp(other)));
    for (name, values) in rows.iter().filter(|(_, values)| total(values) >= 1024).take(CHARTS) {
        let note = format!("in use: {}", change(total(values)));
        chart::draw(page, name, &note, &times, &[Line { name, class: "l-use", values: values.clone() }]);
    }
    *page += "</div>";
    if rows.is_empty() {
        *page += "<p class=\"soft\">No cache grew or shrank.</p>";
        return;
    }
    *page += "<table><thead><tr><th>cache</th><th class=\"n\">in use</th><th class=\"n\">objects</th>\
              <th class=\"n\">each second</th></tr></thead><tbody>";
    let count = rows.len();
    // Those that grew most, then those that shrank most.
    if rows.len() > ROWS {
        rows.drain(ROWS - ROWS / 3..count - ROWS / 3);
    }
    for (name, values) in &rows {
        let (first, last) = objects.get(name).copied().unwrap_or_default();
        let moved = grown(first, last);
        let each = if seconds > 0.0 { (total(values) as f64 / seconds) as i64 } else { 0 };
        let sign = if moved < 0 { '−' } else { '+' };
        put!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{sign}{}</td><td class=\"n\">{}</td></tr>",
            Text(name),
            change(total(values)),
            grouped(moved.unsigned_abs()),
            change(each)
        );
    }
    *page += "</tbody></table>";
    if count > rows.len() {
        put!(page, "<p class=\"small soft\">{} others changed less.</p>", count - rows.len());
    }
}

/// Free memory that cannot go back, and what holds it.
pub(super) fn pinned(page: &mut String, story: &Story) {
    let now = story.now();
    *page += "<h2>Pinned</h2><p class=\"soft\">A slab goes back to the system when its last object is freed. Until then \
              its free bytes are pinned. Of a sparse slab at most a quarter is in use.</p>";
    let mut caches = now.caches();
    caches.retain(|(_, cache)| cache.pinned_bytes > 0);
    caches.sort_by(|(name, a), (other, b)| b.pinned_bytes.cmp(&a.pinned_bytes).then_with(|| name.cmp(other)));
    let whole = caches.iter().map(|(_, cache)| cache.pinned_bytes).fold(0, u64::saturating_add);
    if caches.is_empty() {
        *page += "<p class=\"soft\">Nothing is pinned.</p>";
    } else {
        *page += "<table><thead><tr><th>cache</th><th class=\"n\">pinned</th><th class=\"grow\"></th>\
                  <th class=\"n\">partial slabs</th><th class=\"n m\">sparse</th></tr></thead><tbody>";
        for (name, cache) in caches.iter().take(ROWS) {
            put!(
                page,
                "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"grow\"><i class=\"k-pinned\" style=\"width:{:.1}%\">\
                 </i></td><td class=\"n\">{} of {}</td><td class=\"n m\">{}</td></tr>",
                Text(name),
                size(cache.pinned_bytes),
                percent(cache.pinned_bytes, whole),
                grouped(cache.partial),
                grouped(cache.slabs),
                grouped(cache.sparse)
            );
        }
        *page += "</tbody></table>";
        if caches.len() > ROWS {
            put!(page, "<p class=\"small soft\">{} other caches pin less.</p>", caches.len() - ROWS);
        }
    }
    for allocator in &now.allocators {
        let pages = &allocator.pages;
        let when = match pages.decay {
            Decay::Nothing => continue,
            Decay::Due => "They go back at the next tick.".to_owned(),
            Decay::Later => format!("They go back {} ms after they were freed.", pages.decay_ms),
            Decay::Resting => "They are too few to go back, or the program makes no calls.".to_owned(),
        };
        put!(
            page,
            "<p class=\"small soft\">Not pinned, but not due yet: {} of free pages. {when}</p>",
            size(pages.dirty_bytes)
        );
    }
    let Some(pins) = story.pins.as_ref().filter(|pins| !pins.sites.is_empty()) else { return };
    let whole: f64 = pins.sites.iter().map(|site| site.pinned_bytes).sum();
    *page += "<h3>What holds them, by samples, the oldest first</h3><table><thead><tr><th>site</th>\
              <th class=\"n\">pinned</th><th class=\"n\">%</th><th class=\"n\">oldest</th></tr></thead><tbody>";
    for site in pins.sites.iter().take(ROWS) {
        put!(
            page,
            "<tr><td><code>{}</code><br><small>{}</small></td><td class=\"n\">{}</td><td class=\"n\">{:.1}</td><td class=\"n\">{}</td></tr>",
            Text(&site.callers()),
            Text(&site.cache),
            bytes(site.pinned_bytes),
            site.pinned_bytes * 100.0 / whole.max(1.0),
            age(site.oldest_ms)
        );
    }
    *page += "</tbody></table>";
}

/// The flame graph, and the functions that allocated most of what lives.
pub(super) fn profile(page: &mut String, story: &Story) {
    *page += "<h2>Where it was allocated</h2>";
    let Some(profile) = &story.profile else {
        put!(
            page,
            "<p class=\"soft\">No heap profile was started. <code>ashlar profile {} --start</code> starts one in a process \
             that runs, <code>ashlar run --profile FILE -- PROGRAM</code> in a new one.</p>",
            story.now().pid
        );
        return;
    };
    let stacks = Stacks::of(profile);
    let mut total = Memory::default();
    stacks.all.iter().for_each(|stack| total.add(&stack.memory));
    put!(
        page,
        "<p class=\"soft\">Heap profile of PID {}: {} samples in {}, {} live. They stand for {} that live, of {} \
         allocated.</p>",
        profile.pid,
        grouped(profile.counts.taken),
        age(profile.lasted_ms),
        grouped(profile.live.len() as u64),
        bytes(total.live_bytes),
        bytes(total.allocated_bytes)
    );
    if stacks.all.is_empty() {
        *page += "<p class=\"soft\">There is no sample yet.</p>";
        return;
    }
    *page += "<figure><input id=\"find\" type=\"search\" placeholder=\"find a function\" aria-label=\"find a function\" hidden>";
    let what = flame::draw(page, &stacks);
    put!(
        page,
        "<figcaption><span id=\"told\"></span> Widths are {what}; callers above, callees below.</figcaption></figure>"
    );
    // Functions by what they allocated themselves.
    let mut functions: HashMap<&str, Memory> = HashMap::new();
    for stack in &stacks.all {
        functions.entry(stack.innermost()).or_default().add(&stack.memory);
    }
    let mut rows: Vec<(&str, Memory)> = functions.into_iter().collect();
    rows.sort_by(|(name, a), (other, b)| b.live_bytes.total_cmp(&a.live_bytes).then_with(|| name.cmp(other)));
    *page += "<table><thead><tr><th>function</th><th class=\"n\">live</th><th class=\"n\">%</th>\
              <th class=\"n\">allocated</th><th class=\"n\">oldest</th></tr></thead><tbody>";
    for (name, memory) in rows.iter().take(ROWS) {
        let oldest = if memory.live_samples == 0 { "–".to_owned() } else { age(memory.oldest_ms) };
        put!(
            page,
            "<tr><td><code>{}</code></td><td class=\"n\">{}</td><td class=\"n\">{:.1}</td><td class=\"n\">{}</td><td class=\"n\">{oldest}</td></tr>",
            Text(name),
            bytes(memory.live_bytes),
            memory.live_bytes * 100.0 / total.live_bytes.max(1.0),
            bytes(memory.allocated_bytes)
        );
    }
    *page += "</tbody></table>";
}

/// The figures of every cache that is used, the largest first.
pub(super) fn caches(page: &mut String, now: &Report) {
    let mut caches = now.caches();
    caches.retain(|(_, cache)| is_used(cache));
    caches.sort_by(|(name, a), (other, b)| b.bytes.cmp(&a.bytes).then_with(|| name.cmp(other)));
    *page += "<h2>Every cache</h2><table class=\"all\"><thead><tr><th>cache</th><th class=\"n\">memory</th><th class=\"n\">in use</th>\
              <th class=\"n m\">objects</th><th class=\"n m\">in front</th><th class=\"n m\">full</th><th class=\"n m\">partial</th>\
              <th class=\"n m\">empty</th><th class=\"n\">pinned</th></tr></thead><tbody>";
    for (name, cache) in &caches {
        put!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>",
            Text(name),
            size(cache.bytes),
            size(of_cache(cache))
        );
        for figure in [cache.active, cache.cached, cache.full, cache.partial, cache.empty] {
            put!(page, "<td class=\"n m\">{}</td>", grouped(figure));
        }
        put!(page, "<td class=\"n\">{}</td></tr>", size(cache.pinned_bytes));
    }
    *page += "</tbody></table>";
}

/// What the words mean.
pub(super) fn foot(page: &mut String) {
    *page += "<footer><p class=\"small soft\"><b>In use</b>: objects that the program has. <b>Held</b>: taken from the system \
              and not returned. <b>In front of slabs</b>: free objects that the next allocations take; an idle program \
              returns them within a second. <b>Pinned</b>: free objects in slabs that other objects keep. Figures of a \
              process that runs are not of one moment.</p></footer>";
}
