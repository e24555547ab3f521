//! Options of the whole allocator: what they are, and how their text is read.

use super::own::CacheOptions;
use super::values::{self, number, switch};
use crate::base::report::OnError;
use crate::base::source::HugePages;
use crate::base::units::{MAX_NODES, MAX_ZONE_BYTES};
#[cfg(feature = "os")]
use crate::engine::guard::{MOST_INTERVAL, MOST_MS};
use crate::engine::hardened::MOST_QUARANTINED;
use crate::engine::route::{Guarding, Hardening};
use crate::engine::{Engine, Tunable};
use crate::percpu::{Irq, Wanted};
use crate::slab::OrderRule;

/// What gives free memory back to the system without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reaper {
    /// The background thread where there is one, else calls of the program.
    Thread,
    /// Calls of the program alone: there is never a thread.
    Calls,
    /// Nothing.
    Nothing,
}

/// Whether tools may change this process through its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    /// Those that may debug it.
    On,
    /// The same, and a line on standard error says what was done.
    Audit,
    /// None.
    Off,
}

/// What becomes of `RTLD_DEEPBIND` in calls of `dlopen`, where the malloc library stands before the
/// C library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum DeepBind {
    /// It is left out.
    Drop,
    /// The same, and the first time a line on standard error says so.
    Warn,
    /// It stays.
    Keep,
}

/// All options with their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Of kmalloc's and malloc's caches, and of all that do not choose.
    pub(crate) engine: Engine,
    pub(crate) percpu: Wanted,
    /// What engines of the kernel's history take for disabled interrupts.
    pub(crate) irq: Irq,
    /// Fake NUMA nodes; 0: those of the machine.
    pub(crate) nodes: u32,
    pub(crate) hugepages: HugePages,
    /// Most bytes of memory that is to be zero and is made resident at once.
    pub(crate) prefault: usize,
    /// Bytes of addresses that the zone may come to.
    pub(crate) zone: usize,
    /// Milliseconds before free memory goes back to the system.
    pub(crate) decay_ms: u32,
    /// What gives free memory back without being asked.
    pub(crate) reaper: Reaper,
    pub(crate) order: OrderRule,
    /// Objects in a sheaf; `None`: by object size.
    pub(crate) sheaf_capacity: Option<usize>,
    /// Most bytes of objects in the full sheaves of one barn; `cache::BARN_OBJECTS` holds too.
    pub(crate) barn: usize,
    /// Empty slabs that a node keeps; `None`: by object size.
    pub(crate) min_partial: Option<usize>,
    /// Free objects in a CPU's partial slabs; `None`: by object size.
    pub(crate) cpu_partial: Option<usize>,
    /// See `Tunable::RemoteNodeDefragRatio`.
    pub(crate) defrag_ratio: usize,
    /// The tunables of queues; `None`: by object size.
    pub(crate) limit: Option<usize>,
    pub(crate) batchcount: Option<usize>,
    pub(crate) shared: Option<usize>,
    /// Whether caches of objects alike share slabs.
    pub(crate) merge: bool,
    /// Whether frees of SLAB to other nodes go there one by one.
    pub(crate) noaliencache: bool,
    pub(crate) on_error: OnError,
    /// What is done to memory beside what its engine does.
    pub(crate) hardening: Hardening,
    /// Whether call sites choose among copies of kmalloc's caches.
    pub(crate) random_kmalloc: bool,
    /// Which allocations get a guarded object.
    pub(crate) guard: Guarding,
    /// Every cache is debugged of which `ASHLAR_DEBUG` says nothing.
    pub(crate) paranoid: bool,
    /// Whether the unwinder is loaded at load, so that reports have a backtrace.
    pub(crate) backtrace: bool,
    /// For the malloc library alone.
    pub(crate) deepbind: DeepBind,
    pub(crate) control: Control,
    /// Whether the process has a window for tools.
    pub(crate) window: bool,
    /// Bytes between samples of the heap profile that starts at load; 0 for none.
    pub(crate) profile: usize,
    /// Whether the unwinder of the profile is loaded at load, for a tool that may ask for one.
    pub(crate) profile_ready: bool,
}

impl Options {
    pub(crate) const DEFAULT: Options = Options {
        engine: Engine::Sheaves,
        percpu: Wanted::Auto,
        irq: Irq::Lock,
        nodes: 0,
        hugepages: HugePages::Auto,
        prefault: 64 << 10,
        zone: MAX_ZONE_BYTES,
        decay_ms: 1000,
        reaper: Reaper::Thread,
        order: OrderRule::DEFAULT,
        sheaf_capacity: None,
        barn: 256 << 20,
        min_partial: None,
        cpu_partial: None,
        defrag_ratio: 0,
        limit: None,
        batchcount: None,
        shared: None,
        merge: true,
        noaliencache: false,
        on_error: OnError::Abort,
        hardening: Hardening { init_on_alloc: false, init_on_free: false, quarantine: 0, random: false },
        random_kmalloc: false,
        guard: Guarding::Off,
        paranoid: false,
        backtrace: false,
        deepbind: DeepBind::Drop,
        control: Control::On,
        window: true,
        profile: 0,
        profile_ready: false,
    };
}

/// A part of an option string that could not be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionError<'a> {
    /// The part, up to the next comma.
    pub part: &'a str,
    /// What was expected there.
    pub expected: &'static str,
}

impl OptionError<'_> {
    /// What [`crate::configure`] expected when it came too late.
    pub const TOO_LATE: &'static str = "to be set before the first allocation";
}

#[place(cold)]
impl core::fmt::Display for OptionError<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "option `{}`: expected {}", self.part, self.expected)
    }
}

impl core::error::Error for OptionError<'_> {}

const KEYS: &str = "one of the keys engine, percpu, irq, nodes, hugepages, prefault, zone, decay, reaper, min_order, max_order, \
                    min_objects, sheaf_capacity, barn, min_partial, cpu_partial, \
                    remote_node_defrag_ratio, limit, batchcount, shared, merge, noaliencache, on_error, init_on_alloc, init_on_free, quarantine, random, random_kmalloc, guard, checks, backtrace, deepbind, control, window, profile; nomerge; or cache.NAME.KEY";

/// The option `guard` that `checks=paranoid` stands for.
#[cfg(feature = "os")]
const PARANOID_GUARD: Guarding = Guarding::Count(1000);
#[cfg(not(feature = "os"))]
const PARANOID_GUARD: Guarding = Guarding::Off;

/// Applies `text` to `options`, and to those of single caches; calls `bad` for each part that is
/// none, and leaves that option as it was. Most programs have no text.
#[cold]
#[inline(never)]
#[place(cold)]
pub(crate) fn parse<'a>(
    text: &'a str,
    options: &mut Options,
    own: &mut CacheOptions,
    mut bad: impl FnMut(OptionError<'a>),
) {
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim());
        let applied = match key.strip_prefix("cache.") {
            Some(key) => own.add(key, value),
            None => apply(key, value, options),
        };
        if let Err(expected) = applied {
            bad(OptionError { part, expected });
        }
    }
    if options.order.min_order > options.order.max_order {
        bad(OptionError { part: "min_order", expected: "a value of at most max_order" });
        options.order = OrderRule::DEFAULT;
    }
    if options.guard == Guarding::Off && own.has_guard() {
        bad(OptionError {
            part: "cache.NAME.guard",
            expected: "the option guard=N or guard=Nms as well, which says how often",
        });
    }
    if options.random_kmalloc && matches!(options.engine, Engine::Slob | Engine::SlobSeg | Engine::SlobCache) {
        bad(OptionError {
            part: "random_kmalloc",
            expected: "an engine whose caches have slabs of their own, not slob, slob-seg or slob-cache",
        });
        options.random_kmalloc = false;
    }
    if options.profile != 0 && options.engine != Engine::Sheaves {
        bad(OptionError { part: "profile", expected: "engine=ashlar: other engines have no profile" });
        options.profile = 0;
    }
}

/// Returns whether `text` asks for backtraces in reports, or for guarded objects, which have some.
#[cfg(feature = "os")]
#[place(cold)]
pub(crate) fn has_backtrace(text: &str) -> bool {
    let mut options = Options::DEFAULT;
    for part in text.split(',').map(str::trim) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        if let key @ ("backtrace" | "guard" | "checks") = key.trim() {
            // The start reports what is no option.
            let _ = apply(key, value.trim(), &mut options);
        }
    }
    options.backtrace || options.guard != Guarding::Off
}

/// Whether `text` is a good value of `ASHLAR_OPTIONS`.
///
/// # Errors
/// The first part that is no option.
pub fn check_options(text: &str) -> Result<(), OptionError<'_>> {
    let mut first = None;
    parse(text, &mut Options::DEFAULT.clone(), &mut CacheOptions::NONE.clone(), |error| {
        first.get_or_insert(error);
    });
    first.map_or(Ok(()), Err)
}

#[place(cold)]
fn apply(key: &str, value: &str, options: &mut Options) -> Result<(), &'static str> {
    match key {
        "engine" => options.engine = Engine::from_id(value).ok_or(Engine::EXPECTED)?,
        "percpu" => {
            options.percpu = match value {
                "auto" => Wanted::Auto,
                "rseq" => Wanted::Tested,
                "lock" => Wanted::Lock,
                "emulate" => Wanted::Emulate,
                _ => return Err("percpu=auto, percpu=rseq, percpu=lock or percpu=emulate"),
            }
        }
        "irq" => {
            options.irq = match value {
                "lock" => Irq::Lock,
                "biased" => Irq::Biased,
                _ => return Err("irq=lock or irq=biased"),
            }
        }
        "nodes" => options.nodes = number(value, 1, MAX_NODES).ok_or("nodes=1 to nodes=64")? as u32,
        "hugepages" => {
            options.hugepages = match (value, switch(value)) {
                ("auto", _) => HugePages::Auto,
                (_, Some(true)) => HugePages::On,
                (_, Some(false)) => HugePages::Off,
                _ => return Err("hugepages=auto, hugepages=on or hugepages=off"),
            }
        }
        "prefault" => options.prefault = number(value, 0, 32 << 20).ok_or("prefault=BYTES up to 32M")?,
        "zone" => options.zone = number(value, 2 << 20, MAX_ZONE_BYTES).ok_or("zone=BYTES from 2M to 8192G")?,
        "decay" => options.decay_ms = number(value, 0, 3_600_000).ok_or("decay=0 to 3600000 (milliseconds)")? as u32,
        "reaper" => options.reaper = reaper(value).ok_or("reaper=on, reaper=calls or reaper=off")?,
        "min_order" => options.order.min_order = values::min_order(value)?,
        "max_order" => options.order.max_order = values::max_order(value)?,
        "min_objects" => options.order.min_objects = values::min_objects(value)?,
        "sheaf_capacity" => options.sheaf_capacity = Some(values::tunable(Tunable::SheafCapacity, value)?),
        // Its name up to 0.1.
        "sheaf" => options.sheaf_capacity = Some(number(value, 0, 254).ok_or("sheaf=0 to sheaf=254 (objects)")?),
        "barn" => options.barn = number(value, 0, 1 << 40).ok_or("barn=BYTES, as 1048576 or 1M")?,
        "min_partial" => options.min_partial = Some(values::tunable(Tunable::MinPartial, value)?),
        "cpu_partial" => options.cpu_partial = Some(values::tunable(Tunable::CpuPartial, value)?),
        "remote_node_defrag_ratio" => options.defrag_ratio = values::tunable(Tunable::RemoteNodeDefragRatio, value)?,
        "limit" => options.limit = Some(values::tunable(Tunable::Limit, value)?),
        "batchcount" => options.batchcount = Some(values::tunable(Tunable::BatchCount, value)?),
        "shared" => options.shared = Some(values::tunable(Tunable::Shared, value)?),
        "merge" => options.merge = switch(value).ok_or("merge=on or merge=off")?,
        // The kernel's name.
        "nomerge" => {
            values::no_value(value)?;
            options.merge = false;
        }
        "noaliencache" => {
            options.noaliencache = switch(value).ok_or("noaliencache=on or noaliencache=off")?;
        }
        "on_error" => {
            options.on_error = match value {
                "abort" => OnError::Abort,
                "quarantine" => OnError::Quarantine,
                _ => return Err("on_error=abort or on_error=quarantine"),
            }
        }
        "init_on_alloc" => {
            options.hardening.init_on_alloc = switch(value).ok_or("init_on_alloc=on or init_on_alloc=off")?;
        }
        "init_on_free" => {
            options.hardening.init_on_free = switch(value).ok_or("init_on_free=on or init_on_free=off")?;
        }
        "quarantine" => {
            let objects = number(value, 0, MOST_QUARANTINED).ok_or("quarantine=0 to quarantine=256 (objects)")?;
            options.hardening.quarantine = objects as u16;
        }
        "random" => options.hardening.random = switch(value).ok_or("random=on or random=off")?,
        #[cfg(feature = "os")]
        "random_kmalloc" => {
            options.random_kmalloc = switch(value).ok_or("random_kmalloc=on or random_kmalloc=off")?;
        }
        #[cfg(feature = "os")]
        "guard" => {
            const EXPECTED: &str = "guard=0 to guard=16777216 (allocations), or guard=1ms to guard=3600000ms";
            options.guard = match value.strip_suffix("ms") {
                Some(ms) => Guarding::Every(number(ms, 1, MOST_MS).ok_or(EXPECTED)? as u32),
                None => match number(value, 0, MOST_INTERVAL).ok_or(EXPECTED)? {
                    0 => Guarding::Off,
                    interval => Guarding::Count(interval as u32),
                },
            };
        }
        "checks" => {
            options.paranoid = match value {
                "default" => false,
                "paranoid" => true,
                _ => return Err("checks=default or checks=paranoid"),
            };
            if options.paranoid && options.guard == Guarding::Off {
                options.guard = PARANOID_GUARD;
            }
        }
        "backtrace" => options.backtrace = switch(value).ok_or("backtrace=on or backtrace=off")?,
        "deepbind" => {
            options.deepbind = match value {
                "drop" => DeepBind::Drop,
                "warn" => DeepBind::Warn,
                "keep" => DeepBind::Keep,
                _ => return Err("deepbind=drop, deepbind=warn or deepbind=keep"),
            }
        }
        "control" => {
            options.control = match value {
                "on" => Control::On,
                "audit" => Control::Audit,
                "off" => Control::Off,
                _ => return Err("control=on, control=audit or control=off"),
            }
        }
        "window" => options.window = switch(value).ok_or("window=on or window=off")?,
        "profile" => {
            options.profile_ready = value == "ready";
            options.profile = match switch(value) {
                Some(false) => 0,
                _ if options.profile_ready => 0,
                _ => number(value, 1, 16 << 20).ok_or("profile=BYTES, 1 to 16M, profile=ready or profile=off")?,
            }
        }
        _ => return Err(KEYS),
    }
    Ok(())
}

#[place(cold)]
fn reaper(value: &str) -> Option<Reaper> {
    if value == "calls" {
        return Some(Reaper::Calls);
    }
    switch(value).map(|on| if on { Reaper::Thread } else { Reaper::Nothing })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::prelude::rust_2024::*;

    #[test]
    fn the_older_name_of_the_sheaf_capacity_still_works() {
        let (options, errors) = parsed("sheaf=60");
        assert_eq!((options.sheaf_capacity, errors.len()), (Some(60), 0));
        assert_eq!(parsed("sheaf_capacity=60").0, options);
    }

    fn parsed(text: &str) -> (Options, Vec<String>) {
        let mut options = Options::DEFAULT;
        let mut errors = Vec::new();
        parse(text, &mut options, &mut CacheOptions::NONE.clone(), |e| errors.push(e.to_string()));
        (options, errors)
    }

    #[cfg(feature = "os")]
    #[test]
    fn paranoid_checks_have_samples_unless_a_number_was_given() {
        let of = |text| {
            let (options, errors) = parsed(text);
            assert_eq!(errors, Vec::<String>::new());
            (options.paranoid, options.guard)
        };
        assert_eq!(of("checks=paranoid"), (true, PARANOID_GUARD));
        assert_eq!(of("guard=7,checks=paranoid"), (true, Guarding::Count(7)));
        assert_eq!(of("checks=paranoid,guard=100ms"), (true, Guarding::Every(100)));
        assert_eq!(of("checks=paranoid,guard=0"), (true, Guarding::Off));
        assert_eq!((of("checks=default"), of("guard=9")), ((false, Guarding::Off), (false, Guarding::Count(9))));
    }

    #[test]
    fn a_guarded_cache_needs_a_number() {
        let mut own = CacheOptions::NONE.clone();
        let mut errors = Vec::new();
        parse("cache.a.guard=on", &mut Options::DEFAULT.clone(), &mut own, |e| errors.push(e.to_string()));
        assert!(errors[0].contains("the option guard=N or guard=Nms as well") && errors.len() == 1, "{errors:?}");
        for text in ["cache.a.guard=off", "guard=5,cache.a.guard=on", "cache.a.guard=on,guard=5ms"] {
            parse(text, &mut Options::DEFAULT.clone(), &mut CacheOptions::NONE.clone(), |e| std::panic!("{e}"));
        }
    }

    #[test]
    fn good_options_are_taken() {
        let (o, e) = parsed("engine=ashlar, percpu=lock,nodes=4,barn=2M,sheaf_capacity=60,decay=50,max_order=5");
        assert_eq!(e, Vec::<String>::new());
        assert_eq!((o.percpu, o.nodes, o.barn, o.sheaf_capacity, o.decay_ms), (Wanted::Lock, 4, 2 << 20, Some(60), 50));
        assert_eq!(o.order.max_order, 5);
        assert!(o.merge && !parsed("nomerge").0.merge && !parsed("merge=off").0.merge);
    }

    #[test]
    fn bad_options_are_named_and_leave_the_default() {
        for (text, names) in [
            ("colour=blue", "colour=blue"),
            ("engine=slabs", "one of the ids ashlar"),
            ("nodes=0", "nodes=0"),
            ("nodes=65", "nodes=65"),
            ("percpu=magic", "percpu=magic"),
            ("irq=off", "irq=lock or irq=biased"),
            ("hugepages=some", "hugepages=auto"),
            ("prefault=33M", "prefault=BYTES"),
            ("barn=12Q", "barn=12Q"),
            ("barn=99999999999999999999", "barn=99999999999999999999"),
            ("sheaf", "sheaf"),
            ("sheaf_capacity=255", "sheaf_capacity=0 to 254"),
            ("nomerge=on", "nomerge without a value"),
            ("deepbind=on", "deepbind=drop"),
            ("init_on_alloc", "init_on_alloc=on or init_on_alloc=off"),
            ("guard=16777217", "guard=0 to guard=16777216"),
            ("guard=on", "guard=0 to guard=16777216"),
            ("guard=0ms", "guard=1ms to guard=3600000ms"),
            ("guard=3600001ms", "guard=1ms to guard=3600000ms"),
            ("guard=5 ms", "guard=1ms to guard=3600000ms"),
            ("guard=5s", "guard=1ms to guard=3600000ms"),
            ("checks=all", "checks=default or checks=paranoid"),
            ("init_on_free=2", "init_on_free=on or init_on_free=off"),
            ("quarantine=257", "quarantine=0 to quarantine=256"),
            ("quarantine=on", "quarantine=0 to quarantine=256"),
            ("random=4", "random=on or random=off"),
            ("backtrace=some", "backtrace=on or backtrace=off"),
            ("control=yes", "control=on, control=audit"),
            ("window=2", "window=on or window=off"),
            ("profile=17M", "1 to 16M"),
            ("profile=-1", "profile=ready or profile=off"),
            ("profile=on", "profile=BYTES"),
            ("profile", "profile=BYTES"),
            ("cache", "cache.NAME.KEY"),
            ("min_order=5", "min_order"),
        ] {
            let (o, e) = parsed(text);
            assert_eq!(o, Options::DEFAULT, "{text}");
            assert_eq!(e.len(), 1, "{text}");
            assert!(e[0].contains(names), "{}", e[0]);
        }
    }
}
