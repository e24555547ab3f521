//! Each claim with made-up records on both sides of its bound.

use super::*;
use crate::experiments::reproduce::plan::evidence::Difference;
use crate::kit::counts::Search;

fn load() -> (Claims, Published) {
    (Claims::load().unwrap(), Published::load().unwrap())
}

/// Records of one side, all with the same figure.
fn cells(side: &Side, sizes: Option<&[usize]>, figure: f64) -> Vec<Cell> {
    let sizes = side.sizes.as_deref().or(sizes).unwrap_or(&[0]).to_vec();
    let bulks: Vec<Option<usize>> =
        side.bulks.as_ref().map_or_else(|| vec![None], |b| b.iter().map(|&b| Some(b)).collect());
    let of = |(size, bulk): (usize, Option<usize>)| Cell {
        test: side.test.clone(),
        system: side.system.clone(),
        size,
        cpus: side.cpus.unwrap_or(1),
        nodes: side.nodes,
        mode: None,
        phase: side.phase.clone(),
        bulk,
        scale: None,
        unit: "tsc_cycles_per_op".to_owned(),
        median: Some(figure),
        runs: 1,
        counts: None,
        simulated: side.cpus.is_some(),
    };
    sizes.iter().flat_map(|&size| bulks.iter().map(move |&bulk| (size, bulk))).map(of).collect()
}

/// Evidence in which the number of `claim` is `value`.
pub(crate) fn evidence(claim: &Claim, value: f64) -> Evidence {
    let mut evidence = Evidence::new();
    let mut put = |side: Option<&Side>, figure: f64| {
        let Some(side) = side else { return };
        let run = side.run.as_ref().unwrap_or(&claim.run);
        let outcome = evidence.entry(run.clone()).or_default();
        outcome.command = "ashlar test".to_owned();
        outcome.records.extend(cells(side, claim.sizes.as_deref(), figure));
    };
    put(claim.over.as_ref(), 100.0 * value);
    put(claim.under.as_ref(), 100.0);
    let outcome = evidence.entry(claim.run.clone()).or_default();
    if let Some(sides) = &claim.difference {
        outcome.differences.push(Difference {
            system: sides.system.clone(),
            mode: sides.mode.clone(),
            base_system: sides.system.clone(),
            base_mode: sides.base.clone(),
            percent: value,
            ns: -value,
            interval_ns: Some([-value - 0.1, -value + 0.1]),
            significant: true,
            rounds: 9,
        });
    }
    evidence
}

fn verdict(claim: &Claim, data: &Published, value: f64) -> Verdict {
    of_claim(claim, data, &evidence(claim, value)).verdict
}

#[test]
fn every_rule_is_met_on_one_side_of_its_bound_and_missed_on_the_other() {
    let (claims, data) = load();
    for claim in &claims.claims {
        let (least, most) = claim.bounds(&data);
        let step = if claim.is_difference() { 0.01 } else { 0.001 };
        for (bound, outward) in [(least, -step), (most, step)] {
            if bound.is_finite() {
                assert_eq!(
                    verdict(claim, &data, bound - outward),
                    Verdict::Reproduced,
                    "{}: inside of {bound}",
                    claim.id
                );
                assert_eq!(
                    verdict(claim, &data, bound + outward),
                    Verdict::NotReproduced,
                    "{}: outside of {bound}",
                    claim.id
                );
            }
        }
    }
}

#[test]
fn a_reason_has_the_measured_figures_and_changes_with_them() {
    let (claims, data) = load();
    let claim = &claims.claims[0];
    let one = of_claim(claim, &data, &evidence(claim, 0.5));
    assert!(one.reason.contains("slub+ A 50.0 over slub A 100 cycles = 0.500 (8 to 32 bytes)"), "{}", one.reason);
    assert!(one.reason.contains(&one.wanted));
    let other = of_claim(claim, &data, &evidence(claim, 0.9));
    assert!(other.reason.contains("= 0.900") && other.verdict == Verdict::NotReproduced, "{}", other.reason);
}

#[test]
fn a_reason_says_how_far_searches_went() {
    let (claims, data) = load();
    let claim = claims.claims.iter().find(|claim| claim.id == "004-B-seg").unwrap();
    let mut evidence = evidence(claim, 9.5);
    for cell in evidence.values_mut().flat_map(|outcome| &mut outcome.records) {
        let search = Search { pages: 12.5, walked: 3.0, blocks: 40.25, free_blocks: 2.0, waits: 0.125 };
        let search = (cell.system == "slob").then_some(search);
        cell.counts = Some(Counts { locks: 1.0, slow: 1.0, search });
    }
    let reason = of_claim(claim, &data, &evidence).reason;
    let expected = "slob looks through 12.5 pages and 40.2 free blocks for an allocation, and 12.5 % of its calls wait for its lock; wanted";
    assert!(reason.contains(expected), "{reason}");
    assert!(!reason.contains("slob-seg looks"), "{reason}");
}

#[test]
fn without_evidence_every_claim_has_a_verdict_that_names_its_command() {
    let (claims, data) = load();
    let judged = judge(&claims, &data, &Evidence::new());
    assert_eq!(judged.len(), claims.claims.len());
    for judged in judged {
        assert_eq!(judged.verdict, Verdict::NotMeasured);
        assert!(judged.reason.starts_with("`ashlar ") && judged.reason.ends_with("was not run"), "{}", judged.reason);
    }
}

#[test]
fn a_run_that_failed_says_why() {
    let (claims, data) = load();
    let claim = &claims.claims[0];
    let failed =
        Outcome { command: "ashlar bench".to_owned(), failure: Some("no memory".to_owned()), ..Outcome::default() };
    let judged = of_claim(claim, &data, &Evidence::from([(claim.run.clone(), failed)]));
    assert_eq!(judged.verdict, Verdict::NotMeasured);
    assert_eq!(judged.reason, "`ashlar bench` gave no figure for A of `slub+`: no memory");
}

#[test]
fn what_the_machine_does_not_count_cannot_be_compared() {
    let (claims, data) = load();
    let claim = claims.claims.iter().find(|claim| claim.id == "004-C-instructions").unwrap();
    let mut evidence = evidence(claim, 3.0);
    evidence.values_mut().flat_map(|outcome| &mut outcome.records).for_each(|cell| cell.median = None);
    let judged = of_claim(claim, &data, &evidence);
    assert_eq!(judged.verdict, Verdict::NotComparable);
    assert!(judged.reason.contains("does not count"), "{}", judged.reason);
}

#[test]
fn a_share_of_the_work_is_counted_as_all_of_it() {
    let (claims, data) = load();
    let claim = claims.claims.iter().find(|claim| claim.id == "004-B-seg").unwrap();
    let mut evidence = evidence(claim, 1.0);
    for cell in evidence.values_mut().flat_map(|outcome| &mut outcome.records) {
        cell.unit = "s".to_owned();
        cell.scale = (cell.system == "slob").then_some(0.1);
    }
    let judged = of_claim(claim, &data, &evidence);
    assert!((judged.measured.expect("a number") - 10.0).abs() < 1e-9, "{judged:?}");
    assert!(judged.reason.contains("(from 0.1 of the work)"), "{}", judged.reason);
}

#[test]
fn cpus_that_were_busy_follow_from_times() {
    let cell = |test: &str, figure: f64| Cell {
        test: test.to_owned(),
        median: Some(figure),
        ..cells(
            &Side {
                test: String::new(),
                system: "slob".to_owned(),
                cpus: None,
                nodes: None,
                phase: None,
                sizes: None,
                bulks: None,
                run: None,
            },
            None,
            1.0,
        )[0]
        .clone()
    };
    let records = vec![cell("hackbench", 4.0), cell("hackbench-user", 1.0), cell("hackbench-sys", 6.0)];
    let mut outcome = Outcome { records, ..Outcome::default() };
    outcome.derive();
    // A second time adds nothing.
    outcome.derive();
    let of = |test: &str| {
        outcome.records.iter().filter(|cell| cell.test == test).map(|cell| cell.median.unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((of("hackbench-cpu"), of("hackbench-cpus-utilized")), (vec![7.0], vec![1.75]));
}

#[test]
fn a_difference_that_may_be_noise_confirms_only_that_there_is_none() {
    let (claims, data) = load();
    for (id, expected) in [("001-bulk", Verdict::NotReproduced), ("001-nomerge", Verdict::Reproduced)] {
        let claim = claims.claims.iter().find(|claim| claim.id == id).unwrap();
        let mut evidence = evidence(claim, 5.0);
        evidence.values_mut().flat_map(|outcome| &mut outcome.differences).for_each(|found| found.significant = false);
        let judged = of_claim(claim, &data, &evidence);
        assert_eq!(judged.verdict, expected, "{id}");
        assert!(judged.reason.contains("below the accuracy of this run"), "{}", judged.reason);
    }
}

#[test]
fn what_a_model_says_is_marked() {
    let (claims, data) = load();
    let of = |id: &str| claims.claims.iter().find(|claim| claim.id == id).unwrap();
    let simulated = of_claim(of("000-D-contention"), &data, &evidence(of("000-D-contention"), 7.0));
    assert!(simulated.simulated && simulated.reason.starts_with("simulated: "), "{}", simulated.reason);
    assert!(!of_claim(of("000-A-small"), &data, &evidence(of("000-A-small"), 0.5)).simulated);
}

#[test]
fn only_sizes_that_both_sides_have_are_compared() {
    let (claims, data) = load();
    let claim = &claims.claims[0];
    let mut evidence = evidence(claim, 0.5);
    let records = &mut evidence.get_mut(&claim.run).unwrap().records;
    // A figure of one side alone would shift the mean.
    records.retain(|cell| !(cell.system == "slub" && cell.size == 8));
    records.iter_mut().filter(|cell| cell.size == 8).for_each(|cell| cell.median = Some(1e6));
    let found = of_claim(claim, &data, &evidence).measured.expect("a number");
    assert!((found - 0.5).abs() < 1e-9, "{found}");
}
