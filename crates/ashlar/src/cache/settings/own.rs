//! Options of single caches: `cache.NAME.KEY=VALUE`.
//!
//! NAME is the name of a cache, or the beginning of one and a `*`, as the kernel's `slab_debug` has
//! it. A name may hold anything but a comma, `=` and `*`, which have a meaning here (dots may be in
//! it: the last one ends it); a cache with such a name is reached by a pattern. Of several options
//! that fit, the last counts.
//!
//! They are read with all others, before the first allocation, and looked up whenever a cache is
//! made. So they stand in a table of fixed size: nothing can be allocated yet, and the environment
//! may have changed by then.
//!
//! What the engine of a cache does not have is left out with a line on standard error, the first
//! time. That cannot be known earlier: the program may choose the engine.

use super::values::{max_order, min_objects, min_order, no_value, switch, tunable};
use crate::engine::{Engine, Tunable};
use crate::slab::cache::MAX_NAME;

/// Most options of single caches.
const MOST: usize = 64;

const FORM: &str =
    "cache.NAME.KEY=VALUE, where a NAME has 1 to 47 bytes without `=` and `*`, but that it may end in `*`";
const KEYS: &str = "cache.NAME. and one of the keys engine, min_order, max_order, min_objects, cpu_partial, min_partial, \
                    sheaf_capacity, remote_node_defrag_ratio, limit, batchcount, shared, merge, nomerge, guard";
const FULL: &str = "at most 64 options of single caches";

/// What an option says of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    Tunable(Tunable, usize),
    Engine(Engine),
    MinOrder(u8),
    MaxOrder(u8),
    MinObjects(u32),
    NoMerge,
    Guard(bool),
}

impl Setting {
    fn parse(key: &str, value: &str) -> Result<Setting, &'static str> {
        Ok(match key {
            "engine" => Setting::Engine(Engine::from_id(value).ok_or(Engine::EXPECTED)?),
            "min_order" => Setting::MinOrder(min_order(value)?),
            "max_order" => Setting::MaxOrder(max_order(value)?),
            "min_objects" => Setting::MinObjects(min_objects(value)?),
            "nomerge" => no_value(value).map(|()| Setting::NoMerge)?,
            // The maker of the cache may count on slabs of its own, so no option undoes that.
            "merge" if value == "off" => Setting::NoMerge,
            "guard" => Setting::Guard(switch(value).ok_or("guard=on or guard=off, of a single cache")?),
            "merge" => return Err("merge=off, of a single cache"),
            _ => {
                let which = Tunable::from_name(key).ok_or(KEYS)?;
                Setting::Tunable(which, tunable(which, value)?)
            }
        })
    }

    /// What a cache would have to be, where one of this engine, and of the program or not, has no
    /// such thing.
    fn lacks(self, of_program: bool, engine: Engine) -> Option<&'static str> {
        let pages_of_all = matches!(engine, Engine::Slob | Engine::SlobSeg);
        match self {
            Setting::Guard(_) => None,
            Setting::Tunable(which, _) => (!which.is_of(engine)).then_some(which.engines()),
            Setting::Engine(_) => (!of_program).then_some(
                "engine: expected a cache of the program: those of kmalloc and malloc have that of the process",
            ),
            Setting::MinOrder(_) | Setting::MaxOrder(_) => pages_of_all
                .then_some("min_order and max_order: expected a cache of another engine than slob and slob-seg"),
            Setting::MinObjects(_) => (pages_of_all || engine.has_queues())
                .then_some("min_objects: expected a cache of another engine than slab, slab24, slob and slob-seg"),
            Setting::NoMerge => {
                pages_of_all.then_some("nomerge: expected a cache of another engine than slob and slob-seg")
            }
        }
    }
}

/// The names that an option is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Up to the `*`; zeros behind.
    name: [u8; MAX_NAME],
    len: u8,
    /// There is one.
    star: bool,
}

#[place(cold)]
impl Pattern {
    const NONE: Pattern = Pattern { name: [0; MAX_NAME], len: 0, star: false };

    fn parse(text: &str) -> Option<Pattern> {
        let (start, star) = text.strip_suffix('*').map_or((text, false), |start| (start, true));
        let good = start.len() <= MAX_NAME && !text.is_empty() && !start.contains(['*', '=', ',']);
        if !good || start.chars().any(char::is_control) {
            return None;
        }
        let mut pattern = Pattern { len: start.len() as u8, star, ..Pattern::NONE };
        pattern.name[..start.len()].copy_from_slice(start.as_bytes());
        Some(pattern)
    }

    fn fits(&self, name: &str) -> bool {
        let start = &self.name[..usize::from(self.len)];
        if self.star { name.as_bytes().starts_with(start) } else { name.as_bytes() == start }
    }
}

#[place(cold)]
impl core::fmt::Display for Pattern {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let start = core::str::from_utf8(&self.name[..usize::from(self.len)]).unwrap_or("?");
        write!(f, "cache.{start}{}", if self.star { "*" } else { "" })
    }
}

#[derive(Clone, Copy, Debug)]
struct CacheOption {
    of: Pattern,
    setting: Setting,
    /// It was said that a cache does not have it.
    told: bool,
}

/// The options of single caches, in the order in which they were given.
#[derive(Clone, Debug)]
pub(crate) struct CacheOptions {
    options: [CacheOption; MOST],
    count: usize,
}

/// A cache that is about to be, as options see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) name: &'a str,
    /// The program makes it, not this library.
    pub(crate) of_program: bool,
    pub(crate) engine: Engine,
}

/// What the options say of one cache; `None` where they say nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own {
    tunables: [Option<usize>; Tunable::ALL.len()],
    pub(crate) min_order: Option<u8>,
    pub(crate) max_order: Option<u8>,
    pub(crate) min_objects: Option<u32>,
    pub(crate) no_merge: bool,
    pub(crate) guard: Option<bool>,
}

impl Own {
    pub(crate) fn tunable(&self, which: Tunable) -> Option<usize> {
        self.tunables[which as usize]
    }

    /// Whether they say anything: such a cache is not merged.
    pub(crate) fn any(&self) -> bool {
        *self != Own::default()
    }
}

#[place(cold)]
impl CacheOptions {
    pub(crate) const NONE: CacheOptions = CacheOptions {
        options: [CacheOption { of: Pattern::NONE, setting: Setting::NoMerge, told: false }; MOST],
        count: 0,
    };

    /// Enters an option, whose key is what follows `cache.`; an error says what was expected.
    pub(super) fn add(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        let (name, key) = key.rsplit_once('.').ok_or(FORM)?;
        let of = Pattern::parse(name).ok_or(FORM)?;
        let setting = Setting::parse(key, value)?;
        let before = || self.given().iter().rev().filter(|option| option.of == of);
        let contradiction = match setting {
            Setting::MinOrder(min) => before().find_map(|option| match option.setting {
                Setting::MaxOrder(max) => Some(min > max),
                _ => None,
            }),
            Setting::MaxOrder(max) => before().find_map(|option| match option.setting {
                Setting::MinOrder(min) => Some(min > max),
                _ => None,
            }),
            _ => None,
        };
        if contradiction == Some(true) {
            return Err("a min_order of at most the cache's max_order");
        }
        *self.options.get_mut(self.count).ok_or(FULL)? = CacheOption { of, setting, told: false };
        self.count += 1;
        Ok(())
    }

    /// Whether nothing was said of any cache, as in most programs.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a cache is to be guarded.
    pub(super) fn has_guard(&self) -> bool {
        self.given().iter().any(|option| option.setting == Setting::Guard(true))
    }

    fn given(&self) -> &[CacheOption] {
        &self.options[..self.count]
    }

    /// The engine of a program's cache.
    pub(crate) fn engine(&self, name: &str) -> Option<Engine> {
        self.given().iter().rev().find_map(|option| match option.setting {
            Setting::Engine(engine) if option.of.fits(name) => Some(engine),
            _ => None,
        })
    }

    /// What holds for a cache: options that it cannot have are left out.
    #[inline(never)]
    pub(crate) fn of(&self, cache: Candidate<'_>) -> Own {
        let mut own = Own::default();
        for option in self.given().iter().filter(|option| option.of.fits(cache.name)) {
            if option.setting.lacks(cache.of_program, cache.engine).is_some() {
                continue;
            }
            match option.setting {
                Setting::Tunable(which, value) => own.tunables[which as usize] = Some(value),
                Setting::MinOrder(order) => own.min_order = Some(order),
                Setting::MaxOrder(order) => own.max_order = Some(order),
                Setting::MinObjects(objects) => own.min_objects = Some(objects),
                Setting::NoMerge => own.no_merge = true,
                Setting::Guard(on) => own.guard = Some(on),
                // Known already.
                Setting::Engine(_) => {}
            }
        }
        own
    }

    /// An option that fits the name of a cache which cannot have it, and what was expected. Each is
    /// told once.
    #[inline(never)]
    pub(crate) fn untold(&mut self, cache: Candidate<'_>) -> Option<(Pattern, &'static str)> {
        let options = self.options[..self.count].iter_mut().filter(|option| !option.told && option.of.fits(cache.name));
        for option in options {
            if let Some(expected) = option.setting.lacks(cache.of_program, cache.engine) {
                option.told = true;
                return Some((option.of, expected));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Stage;
    use std::prelude::rust_2024::*;

    /// The table of a text that holds such options only, and what was refused.
    fn parsed(text: &str) -> (CacheOptions, Vec<String>) {
        let (mut options, mut own) = (super::super::options::Options::DEFAULT, CacheOptions::NONE);
        let mut errors = Vec::new();
        super::super::options::parse(text, &mut options, &mut own, |e| errors.push(e.to_string()));
        assert_eq!(options, super::super::options::Options::DEFAULT, "{text}");
        (own, errors)
    }

    #[track_caller]
    fn good(text: &str) -> CacheOptions {
        let (own, errors) = parsed(text);
        assert_eq!(errors, Vec::<String>::new());
        own
    }

    fn of(own: &CacheOptions, name: &str, engine: Engine) -> Own {
        own.of(Candidate { name, of_program: true, engine })
    }

    const BULK: Engine = Engine::Slub(Stage::Bulk);

    #[test]
    fn every_key_reaches_the_cache_of_that_name_and_no_other() {
        let own = good(
            "cache.a.cpu_partial=64,cache.a.min_partial=3, cache.a.remote_node_defrag_ratio = 40,cache.a.min_order=1,\
             cache.a.max_order=4,cache.a.min_objects=9,cache.a.merge=off",
        );
        let a = of(&own, "a", BULK);
        assert_eq!(a.tunable(Tunable::CpuPartial), Some(64));
        assert_eq!(a.tunable(Tunable::MinPartial), Some(3));
        assert_eq!(a.tunable(Tunable::RemoteNodeDefragRatio), Some(40));
        assert_eq!((a.min_order, a.max_order, a.min_objects, a.no_merge), (Some(1), Some(4), Some(9), true));
        for other in ["ab", "", "A", "b"] {
            assert!(!of(&own, other, BULK).any(), "{other}");
        }
        let queues = good("cache.q.limit=20,cache.q.batchcount=5,cache.q.shared=2");
        let q = of(&queues, "q", Engine::Slab);
        let queues = [Tunable::Limit, Tunable::BatchCount, Tunable::Shared].map(|which| q.tunable(which));
        assert_eq!(queues, [Some(20), Some(5), Some(2)]);
        let sheaves = good("cache.s.sheaf_capacity=0,cache.t.nomerge,cache.u.engine=slab");
        assert_eq!(of(&sheaves, "s", Engine::Sheaves).tunable(Tunable::SheafCapacity), Some(0));
        assert!(of(&sheaves, "t", Engine::Sheaves).no_merge);
        assert_eq!((sheaves.engine("u"), sheaves.engine("t")), (Some(Engine::Slab), None));
    }

    #[test]
    fn names_may_hold_dots_and_blanks_and_end_in_a_star_and_the_last_option_counts() {
        let own = good(
            "cache.net.core skb.min_partial=1,cache.kmalloc-*.min_partial=2,cache.kmalloc-64.min_partial=3,\
             cache.kmalloc-6*.min_partial=4,cache.ü.min_partial=5",
        );
        let kept = |name| of(&own, name, Engine::Sheaves).tunable(Tunable::MinPartial);
        let names = ["net.core skb", "kmalloc-", "kmalloc-8", "kmalloc-64", "kmalloc", "ü", "x"];
        assert_eq!(names.map(kept), [Some(1), Some(2), Some(2), Some(4), None, Some(5), None]);
        let all = good("cache.*.min_partial=7");
        assert_eq!(of(&all, "anything", Engine::Sheaves).tunable(Tunable::MinPartial), Some(7));
        let name = "n".repeat(MAX_NAME);
        let long = good(&std::format!("cache.{name}.min_partial=8,cache.{name}*.max_order=1"));
        assert_eq!(of(&long, &name, Engine::Sheaves).tunable(Tunable::MinPartial), Some(8));
        assert_eq!(of(&long, &name, Engine::Sheaves).max_order, Some(1));
    }

    #[test]
    fn bad_ones_are_named_with_what_was_expected_and_left_out() {
        let long = std::format!("cache.{}.min_partial=1", "n".repeat(MAX_NAME + 1));
        for (text, names) in [
            ("cache.a.colour=1", "one of the keys engine"),
            ("cache.a.=1", "one of the keys engine"),
            ("cache.a.sheaf=4", "sheaf_capacity"),
            ("cache.min_partial=1", "cache.NAME.KEY"),
            ("cache.", "cache.NAME.KEY"),
            ("cache..min_partial=1", "cache.NAME.KEY"),
            ("cache.a*b.min_partial=1", "cache.NAME.KEY"),
            ("cache.a**.min_partial=1", "cache.NAME.KEY"),
            ("cache.a\tb.min_partial=1", "cache.NAME.KEY"),
            ("cache.a=b.min_partial=1", "cache.NAME.KEY"),
            (&*long, "1 to 47 bytes"),
            ("cache.a.cpu_partial=1048577", "0 to 1048576"),
            ("cache.a.min_partial", "0 to 1048576"),
            ("cache.a.min_partial=-1", "0 to 1048576"),
            ("cache.a.sheaf_capacity=255", "0 to 254"),
            ("cache.a.remote_node_defrag_ratio=101", "0 to 100"),
            ("cache.a.limit=0", "1 to 8192"),
            ("cache.a.batchcount=8193", "1 to 8192"),
            ("cache.a.shared=65", "0 to 64"),
            ("cache.a.min_order=10", "min_order=0 to min_order="),
            ("cache.a.max_order=x", "max_order=0 to max_order="),
            ("cache.a.min_objects=32768", "0 to 32767"),
            ("cache.a.engine=slabs", "one of the ids"),
            ("cache.a.merge=on", "merge=off"),
            ("cache.a.nomerge=on", "nomerge without a value"),
        ] {
            let (own, errors) = parsed(text);
            assert_eq!((own.count, errors.len()), (0, 1), "{text}: {errors:?}");
            assert!(errors[0].contains(text) && errors[0].contains(names), "{}", errors[0]);
        }
    }

    #[test]
    fn orders_of_one_name_must_agree() {
        for text in ["cache.a.max_order=1,cache.a.min_order=2", "cache.a.min_order=2,cache.a.max_order=1"] {
            let (own, errors) = parsed(text);
            assert_eq!((own.count, errors.len()), (1, 1), "{text}");
            assert!(errors[0].contains("at most the cache's max_order"), "{}", errors[0]);
        }
        good("cache.a.min_order=2,cache.a.min_order=1,cache.a.max_order=1,cache.b.max_order=0");
    }

    #[test]
    fn the_table_has_room_for_64() {
        let text = std::vec!["cache.a.min_partial=1"; MOST].join(",");
        assert_eq!(good(&text).count, MOST);
        let (own, errors) = parsed(&std::format!("{text},cache.b.min_partial=1"));
        assert_eq!((own.count, errors.len()), (MOST, 1));
        assert!(errors[0].contains("cache.b.min_partial=1") && errors[0].contains("at most 64"), "{}", errors[0]);
    }

    #[test]
    fn what_a_cache_cannot_have_is_left_out_and_told_once() {
        let mut own = good("cache.a*.limit=5,cache.a.min_partial=2,cache.a.min_objects=3,cache.a.engine=slab");
        let of_program = true;
        let slab = Candidate { name: "a", of_program, engine: Engine::Slab };
        assert_eq!(own.of(slab).tunable(Tunable::Limit), Some(5));
        assert_eq!((own.of(slab).tunable(Tunable::MinPartial), own.of(slab).min_objects), (None, None));
        let ashlar = Candidate { engine: Engine::Sheaves, ..slab };
        assert_eq!(own.of(ashlar).tunable(Tunable::Limit), None);
        let told = own.untold(ashlar).map(|(of, expected)| std::format!("{of}: {expected}"));
        let expected = "cache.a*: limit, batchcount and shared: expected a cache of the engine slab or slab24";
        assert_eq!(told.as_deref(), Some(expected));
        assert_eq!(own.untold(ashlar), None, "told already");
        assert_eq!(own.untold(Candidate { name: "ab", ..ashlar }), None, "told already");
        let told: Vec<_> = core::iter::from_fn(|| own.untold(slab).map(|(_, expected)| expected)).collect();
        assert!(told.len() == 2 && told[0].starts_with("min_partial: ") && told[1].starts_with("min_objects: "));
        let kmalloc = Candidate { name: "a", of_program: false, engine: Engine::Sheaves };
        assert!(own.untold(kmalloc).expect("its engine").1.contains("expected a cache of the program"));
    }

    #[test]
    fn what_engines_are_said_to_lack_is_said_of_some_and_not_of_all() {
        let settings = [Setting::MinOrder(1), Setting::MaxOrder(1), Setting::MinObjects(1), Setting::NoMerge];
        for setting in settings {
            let lack = |engine: &&Engine| setting.lacks(true, **engine).is_some();
            let named: Vec<_> = Engine::ALL.iter().filter(lack).collect();
            assert!(!named.is_empty() && named.len() < Engine::ALL.len());
            for engine in named {
                let words = setting.lacks(true, *engine).expect("lacks it");
                assert!(words.contains(engine.id()), "{words}");
            }
        }
    }

    #[test]
    fn indices_of_tunables_are_their_places_in_the_list() {
        for (at, which) in Tunable::ALL.into_iter().enumerate() {
            assert_eq!(which as usize, at);
            assert!(KEYS.contains(which.name()));
        }
    }
}
