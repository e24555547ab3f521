//! What the process of a round is told and answers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::kit::random::Rng;

/// Phases of a round, at the end of each of which all objects are free.
pub(crate) const PHASES: usize = 3;

/// A round: what a child is told, as its argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Round {
    pub(crate) seed: u64,
    pub(crate) seconds: f64,
    pub(crate) threads: usize,
    /// `ASHLAR_OPTIONS`.
    pub(crate) options: String,
    /// `ASHLAR_DEBUG` and `ASHLAR_FAILSLAB`; empty for none.
    pub(crate) debug: String,
    pub(crate) failslab: String,
}

/// What a child prints.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Allocations that returned an object, and that returned none.
    pub(crate) allocated: u64,
    pub(crate) refused: u64,
    pub(crate) freed: u64,
    /// How often each thing was done beside.
    pub(crate) actions: BTreeMap<String, u64>,
    /// Resident KiB at the end of each phase.
    pub(crate) resident: Vec<i64>,
}

impl Round {
    /// Draws the options of a round.
    pub(crate) fn draw(seed: u64, number: u64, seconds: f64, threads: usize) -> Round {
        let seed = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(number);
        let mut random = Rng::new(seed);
        let mut options = Vec::new();
        let engines = ashlar::Engine::ALL;
        // Every second round is one of the default engine.
        if random.below(2) == 0 {
            options.push(format!("engine={}", engines[random.below(engines.len())].id()));
        }
        // Of each line one, or none where it is empty.
        for choices in [
            &["percpu=lock", "", "", ""][..],
            &["nodes=2", "nodes=4", "", "", ""],
            &["reaper=off", "reaper=calls", "", "", ""],
            &["sheaf_capacity=2,barn=0,min_partial=0,decay=0", "max_order=0", "", "", ""],
            &["guard=1000", "guard=1ms", "guard=1ms,cache.*.guard=on", "guard=200,cache.soak*.guard=on", "", ""],
            &["init_on_alloc=on", "init_on_free=on", "", "", "", ""],
            &["quarantine=64", "quarantine=8,random=on", "random=on", "", "", "", ""],
        ] {
            options.push(choices[random.below(choices.len())].to_owned());
        }
        options.retain(|option| !option.is_empty());
        let (debug, failslab) = match random.below(8) {
            0 => ("FZP", ""),
            1 => ("FZPU,soak*", ""),
            2 => ("ZP,malloc-*;F,kmalloc-*", ""),
            3 => ("A,soak*,malloc-*", "7,50,65536,-1"),
            4 => ("FA,kmalloc-*", "100,100,0,-1"),
            _ => ("", ""),
        };
        Round {
            seed,
            seconds,
            threads,
            options: options.join(","),
            debug: debug.to_owned(),
            failslab: failslab.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_round_has_options_that_the_allocator_takes() {
        let mut seen = BTreeSet::new();
        for number in 0..500 {
            let round = Round::draw(1, number, 1.0, 1);
            ashlar::check_options(&round.options).unwrap_or_else(|error| panic!("{}: {error}", round.options));
            assert!(ashlar::check_debug(&round.debug).is_ok() || round.debug.is_empty());
            assert!(ashlar::check_failslab(&round.failslab).is_ok() || round.failslab.is_empty());
            assert_eq!(round.options, Round::draw(1, number, 1.0, 1).options, "a seed says all");
            seen.insert((round.options, round.debug));
        }
        assert!(seen.len() > 300, "only {} rounds differ", seen.len());
    }
}
