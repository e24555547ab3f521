//! `ashlar pins`: which caches have pages that cannot go back, and which sites allocated the
//! objects that hold them.
//!
//! A slab goes back to the page layer when its last object is freed. Until then its free bytes are
//! *pinned*. A live object of a slab with `n` of them holds an `n`-th of these bytes ([`shares`]).
//! A sample of the heap profile stands for a number of objects like it, so the sum over the samples
//! of a site is an unbiased estimate of what its objects hold.
//!
//! [`shares`]: super::shares

use core::cmp::Reverse;
use core::fmt::Write;
use std::collections::HashMap;
use std::process::ExitCode;

use ashlar::window::Window;
use serde::Serialize;

use super::memory::Reader;
use super::process::{Refusal, Snapshot, Target};
use super::report::{Cache, Decay, Report};
use super::shares::Shares;
use crate::args::PinsArgs;
use crate::error::ToolError;
use crate::output;
use crate::profile::read::{Live, Profile};
use crate::profile::stacks::Stacks;
use crate::profile::text::{age, bytes, callers};

/// The most sites that are printed.
const MOST_SITES: usize = 20;

/// What the command says.
#[derive(Serialize)]
pub(super) struct Pins {
    pub(super) pid: i32,
    pub(super) name: String,
    pub(super) pinned_bytes: u64,
    /// Free memory that goes back by itself.
    pub(super) free_pages_bytes: u64,
    pub(super) empty_slabs_bytes: u64,
    pub(super) cached_bytes: u64,
    pub(super) decay: Decay,
    pub(super) decay_ms: u32,
    pub(super) caches: Vec<OfCache>,
    /// Whether there is a heap profile.
    pub(super) profile: bool,
    pub(super) sites: Vec<OfSite>,
}

#[derive(Serialize)]
pub(super) struct OfCache {
    pub(super) name: String,
    pub(super) pinned_bytes: u64,
    pub(super) slabs: u64,
    pub(super) partial: u64,
    /// Partial slabs of which at most a quarter is in use.
    pub(super) sparse: u64,
    pub(super) empty_bytes: u64,
    pub(super) cached_bytes: u64,
    pub(super) active: u64,
    pub(super) objsize: u64,
}

/// A site and what its objects hold, by samples.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct OfSite {
    pub(super) cache: String,
    pub(super) pinned_bytes: f64,
    pub(super) objects: f64,
    pub(super) samples: u64,
    pub(super) oldest_ms: u64,
    /// Functions, innermost first.
    pub(super) functions: Vec<String>,
}

impl OfSite {
    /// Returns the innermost functions in a row.
    pub(super) fn callers(&self) -> String {
        callers(&self.functions.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Runs the command.
pub(crate) fn run(args: &PinsArgs) -> Result<ExitCode, ToolError> {
    let pid = args.process.pid;
    let target = Target::open(pid).map_err(|(refusal, name)| refusal.error(pid, &name))?;
    let refused = |refusal: Refusal| refusal.error(pid, &target.name);
    let mut report = target.report().map_err(refused)?;
    if !args.caches.is_empty() {
        super::info::keep_caches(&mut report, &args.caches)?;
    }
    let snapshot = target.snapshot().map_err(refused)?;
    let pins = pins(&report, &snapshot, args.all).map_err(refused)?;
    let text = if args.json { super::ps::to_json(&pins)? + "\n" } else { told(&pins) };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns what keeps the pages of a process; with `all` also sites that hold little.
pub(super) fn pins(report: &Report, snapshot: &Snapshot, all: bool) -> Result<Pins, Refusal> {
    let mut pins = Pins {
        pid: report.pid,
        name: report.name.clone(),
        pinned_bytes: 0,
        free_pages_bytes: 0,
        empty_slabs_bytes: 0,
        cached_bytes: 0,
        decay: Decay::Nothing,
        decay_ms: 0,
        caches: Vec::new(),
        profile: false,
        sites: Vec::new(),
    };
    for allocator in &report.allocators {
        let add = |sum: &mut u64, bytes: u64| *sum = sum.saturating_add(bytes);
        add(&mut pins.free_pages_bytes, allocator.pages.dirty_bytes);
        (pins.decay, pins.decay_ms) = (allocator.pages.decay, allocator.pages.decay_ms);
        for cache in &allocator.caches {
            let of = of_cache(cache);
            add(&mut pins.pinned_bytes, of.pinned_bytes);
            add(&mut pins.empty_slabs_bytes, of.empty_bytes);
            add(&mut pins.cached_bytes, of.cached_bytes);
            pins.caches.push(of);
        }
    }
    pins.caches.sort_by(|a, b| b.pinned_bytes.cmp(&a.pinned_bytes).then_with(|| a.name.cmp(&b.name)));
    for (window, profile) in snapshot.profiles()? {
        pins.profile = true;
        let reader = snapshot.reader();
        let wanted: Vec<&str> = pins.caches.iter().map(|cache| cache.name.as_str()).collect();
        let found = sites(&reader, &window, &profile, &wanted);
        pins.sites.extend(found);
    }
    let total: f64 = pins.sites.iter().map(|site| site.pinned_bytes).sum();
    pins.sites.retain(|site| all || site.pinned_bytes * 100.0 >= total);
    pins.sites.sort_by_key(|site| Reverse(site.oldest_ms));
    Ok(pins)
}

fn of_cache(cache: &Cache) -> OfCache {
    OfCache {
        name: cache.name.clone(),
        pinned_bytes: cache.pinned_bytes,
        slabs: cache.slabs,
        partial: cache.partial,
        sparse: cache.sparse,
        empty_bytes: cache.empty_bytes(),
        cached_bytes: cache.cached.saturating_mul(cache.stride),
        active: cache.active,
        objsize: cache.objsize,
    }
}

/// Returns the sites whose objects hold pages of these caches.
fn sites(reader: &Reader<'_>, window: &Window, profile: &Profile, caches: &[&str]) -> Vec<OfSite> {
    let stacks = Stacks::of(profile);
    let mut shares = Shares::new(reader, window);
    let mut found: HashMap<usize, OfSite> = HashMap::new();
    let of_caches = |live: &&Live| caches.contains(&stacks.all[live.site].cache.as_str());
    for live in profile.live.iter().filter(of_caches) {
        // An object that was freed meanwhile holds nothing.
        let Ok(share) = shares.of(live.address) else { continue };
        if share > 0.0 {
            let site = found.entry(live.site).or_default();
            site.pinned_bytes += share * live.objects();
            site.objects += live.objects();
            site.samples += 1;
            site.oldest_ms = site.oldest_ms.max(live.age_ms);
        }
    }
    let named = found.into_iter().map(|(number, site)| {
        let stack = &stacks.all[number];
        let functions = stack.functions().map(|frame| frame.function.clone()).collect();
        OfSite { cache: stack.cache.clone(), functions, ..site }
    });
    named.collect()
}

fn told(pins: &Pins) -> String {
    let mut text = String::new();
    // Strings grow.
    let _ = tell(&mut text, pins);
    text
}

fn tell(out: &mut String, pins: &Pins) -> core::fmt::Result {
    let size = |size: u64| bytes(size as f64);
    writeln!(out, "{} (PID {})", pins.name, pins.pid)?;
    writeln!(out, "pinned:        {:>9}  free objects in slabs that live objects keep", size(pins.pinned_bytes))?;
    let when = match pins.decay {
        Decay::Nothing => "there are none".to_owned(),
        Decay::Due => "they go back at the next tick".to_owned(),
        Decay::Later => format!("they go back {} ms after they were freed", pins.decay_ms),
        Decay::Resting => "too few to go back, or the program makes no calls".to_owned(),
    };
    writeln!(out, "not due yet:   {:>9}  free pages; {when}", size(pins.free_pages_bytes))?;
    writeln!(out, "               {:>9}  empty slabs that caches keep", size(pins.empty_slabs_bytes))?;
    writeln!(out, "               {:>9}  free objects in front of slabs", size(pins.cached_bytes))?;
    writeln!(
        out,
        "\n{:<24} {:>9} {:>7} {:>8} {:>7} {:>9} {:>8}",
        "# name", "pinned", "slabs", "partial", "sparse", "active", "objsize"
    )?;
    for cache in pins.caches.iter().filter(|cache| cache.pinned_bytes > 0) {
        writeln!(
            out,
            "{:<24} {:>9} {:>7} {:>8} {:>7} {:>9} {:>8}",
            cache.name,
            size(cache.pinned_bytes),
            cache.slabs,
            cache.partial,
            cache.sparse,
            cache.active,
            cache.objsize
        )?;
    }
    if !pins.profile {
        writeln!(out, "\nNo heap profile was started, so the sites that hold them are not known.")?;
        return Ok(());
    }
    let total: f64 = pins.sites.iter().map(|site| site.pinned_bytes).sum();
    writeln!(out, "\nWhat holds them, by samples, the oldest first:")?;
    writeln!(out, "{:>8} {:>9} {:>6} {:>9}  site", "# oldest", "pinned", "%", "objects")?;
    for site in pins.sites.iter().take(MOST_SITES) {
        writeln!(
            out,
            "{:>8} {:>9} {:>6.1} {:>9.0}  {}: {}",
            age(site.oldest_ms),
            bytes(site.pinned_bytes),
            site.pinned_bytes * 100.0 / total.max(1.0),
            site.objects,
            site.cache,
            site.callers()
        )?;
    }
    if pins.sites.is_empty() {
        writeln!(out, "no sample lies in a slab with free objects")?;
    }
    Ok(())
}
