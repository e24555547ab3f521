//! Each claim with made-up records on both sides of its bound.

use super::*;
use crate::experiments::reproduce::plan::claims::Side;
use crate::experiments::reproduce::plan::evidence::{Cell, Checked, Difference, Evidence, Line, Outcome, Predicted};
use crate::kit::counts::Counts;
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
        runs: 6,
        samples: vec![figure; 6],
        counts: None,
        simulated: side.cpus.is_some(),
    };
    sizes.iter().flat_map(|&size| bulks.iter().map(move |&bulk| (size, bulk))).map(of).collect()
}

/// Evidence in which the number of `claim` is `value`, whatever the fitted parameter.
pub(crate) fn evidence(claim: &Claim, value: f64) -> Evidence {
    let mut evidence = by_run(claim, &claim.run, value);
    for run in claim.fitted.iter().flat_map(|fitted| &fitted.runs) {
        evidence.extend(by_run(claim, run, value));
    }
    evidence
}

/// Evidence of one run.
fn by_run(claim: &Claim, run: &str, value: f64) -> Evidence {
    let mut evidence = Evidence::new();
    let mut put = |side: Option<&Side>, figure: f64| {
        let Some(side) = side else { return };
        let run = side.run.as_deref().unwrap_or(run);
        let outcome = evidence.entry(run.to_owned()).or_default();
        outcome.command = "ashlar test".to_owned();
        outcome.host = serde_json::json!({ "rounds": 6 });
        outcome.records.extend(cells(side, claim.sizes.as_deref(), figure));
    };
    put(claim.over.as_ref(), 100.0 * value);
    put(claim.under.as_ref(), 100.0);
    let outcome = evidence.entry(run.to_owned()).or_default();
    if let Some(sides) = &claim.difference {
        outcome.differences.push(Difference {
            system: sides.system.clone(),
            mode: sides.mode.clone(),
            base_system: sides.system.clone(),
            base_mode: sides.base.clone(),
            percent: value,
            ns: -value,
            interval_ns: Some([-value - 0.001, -value + 0.001]),
            interval_percent: Some([value - 0.001, value + 0.001]),
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
    assert!(
        one.reason.contains("slub+ A 50.0 over slub A 100 cycles = 0.500 [0.500, 0.500] (8 to 32 bytes)"),
        "{}",
        one.reason
    );
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
        let command = judged.reason.split_once("ashlar ").map(|(before, _)| before);
        assert!(matches!(command, Some("`" | "`ASHLAR_OPTIONS=min_objects=20 ")), "{}", judged.reason);
        assert!(judged.reason.ends_with("was not run"), "{}", judged.reason);
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
fn a_prediction_that_is_far_off_has_no_verdict() {
    let (claims, data) = load();
    let claim = claims.claims.iter().find(|claim| claim.id == "000-D-contention").unwrap();
    let checked = |size: usize, predicted: f64| Checked {
        test: "D".to_owned(),
        system: "slab24".to_owned(),
        size,
        cpus: 2,
        nodes: 1,
        predicted,
        measured: 100.0,
    };
    // What is off at one size and not at others is off by their mean.
    for (predicted, verdict) in [
        ([110.0, 125.0], Verdict::Reproduced),
        ([125.0, 118.0], Verdict::NotComparable),
        ([70.0, 80.0], Verdict::NotComparable),
        ([85.0, 110.0], Verdict::Reproduced),
    ] {
        let mut evidence = evidence(claim, 7.0);
        let sizes = [8, 1024];
        evidence.get_mut("simulate").unwrap().validation =
            sizes.into_iter().zip(predicted).map(|(size, predicted)| checked(size, predicted)).collect();
        let judged = of_claim(claim, &data, &evidence);
        assert_eq!(judged.verdict, verdict, "{predicted:?}: {}", judged.reason);
        assert!(judged.reason.contains("slab24 D is predicted"), "{}", judged.reason);
        assert_eq!(judged.reason.contains("has no verdict"), verdict == Verdict::NotComparable);
    }
    // One of another machine or size says nothing.
    let mut evidence = evidence(claim, 7.0);
    evidence.get_mut("simulate").unwrap().validation = vec![checked(4096, 300.0)];
    assert_eq!(of_claim(claim, &data, &evidence).verdict, Verdict::Reproduced);
}

#[test]
fn a_prediction_says_what_a_line_cost_in_its_runs() {
    let (claims, data) = load();
    let claim = claims.claims.iter().find(|claim| claim.id == "000-D-contention").unwrap();
    let mut evidence = evidence(claim, 7.0);
    let mut run = evidence["simulate"].clone();
    run.inputs = vec![Predicted { inputs: Line { line: 492.4 } }];
    let outcome = evidence.get_mut("simulate").unwrap();
    outcome.inputs = vec![Predicted { inputs: Line { line: 61.7 } }];
    let reason = |evidence: &Evidence| of_claim(claim, &data, evidence).reason;
    assert!(!reason(&evidence).contains("62 to"), "{}", reason(&evidence));
    evidence.get_mut("simulate").unwrap().repeat(run);
    assert!(reason(&evidence).contains("to the other in 62 to 492 cycles"), "{}", reason(&evidence));
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
fn a_bound_inside_the_interval_leaves_a_claim_open() {
    let (claims, data) = load();
    for claim in &claims.claims {
        let (least, most) = claim.bounds(&data);
        let bound = if least.is_finite() { least } else { most };
        let step = if claim.is_difference() { 0.2 } else { bound * 0.02 };
        let mut evidence = evidence(claim, bound);
        for outcome in evidence.values_mut() {
            // Half of the rounds lie below, half above.
            for cell in
                outcome.records.iter_mut().filter(|cell| Some(&cell.system) == claim.over.as_ref().map(|s| &s.system))
            {
                let figure = cell.median.expect("a figure");
                cell.samples = (0..6).map(|round| figure * if round % 2 == 0 { 0.98 } else { 1.02 }).collect();
            }
            for found in &mut outcome.differences {
                found.interval_percent = Some([bound - step, bound + step]);
            }
        }
        // Where both sides are of one system, its drift is in both.
        let same = claim.over.as_ref().zip(claim.under.as_ref()).is_some_and(|(a, b)| a.system == b.system);
        let judged = of_claim(claim, &data, &evidence);
        assert!(same || judged.verdict == Verdict::Open, "{}: {judged:?}", claim.id);
    }
}

#[test]
fn too_few_rounds_leave_a_claim_open() {
    let (claims, data) = load();
    let claim = &claims.claims[0];
    let mut evidence = evidence(claim, 0.1);
    for outcome in evidence.values_mut() {
        outcome.host = serde_json::json!({ "rounds": 5 });
        outcome.records.iter_mut().for_each(|cell| cell.samples.truncate(5));
    }
    let judged = of_claim(claim, &data, &evidence);
    assert_eq!((judged.verdict, judged.interval, judged.rounds), (Verdict::Open, None, 5));
    assert!(judged.reason.contains("(the interval needs 6 rounds)"), "{}", judged.reason);
    // Rounds that one process served are one.
    let mut evidence = self::evidence(claim, 0.1);
    for outcome in evidence.values_mut() {
        outcome.host = serde_json::json!({ "rounds": 6, "rounds_of_a_process": 2 });
    }
    let judged = of_claim(claim, &data, &evidence);
    assert_eq!((judged.verdict, judged.rounds), (Verdict::Open, 3));
    // Turns of one round are no rounds.
    let mut evidence = self::evidence(claim, 0.1);
    evidence.values_mut().for_each(|outcome| outcome.host = serde_json::json!({ "rounds": 3 }));
    assert_eq!(of_claim(claim, &data, &evidence).verdict, Verdict::Open);
}

#[test]
fn another_value_of_a_fitted_parameter_may_decide() {
    let (claims, data) = load();
    let of = |id: &str| claims.claims.iter().find(|claim| claim.id == id).unwrap();
    let claim = of("001-merge-pins");
    let fitted = claim.fitted.as_ref().expect("it rests on one");
    let all = evidence(claim, 3.0);
    assert_eq!(of_claim(claim, &data, &all).verdict, Verdict::Reproduced, "with any value");
    let mut other = all.clone();
    other.extend(by_run(claim, &fitted.runs[0], 0.0));
    let judged = of_claim(claim, &data, &other);
    assert_eq!(judged.verdict, Verdict::Fitted);
    let verdicts: Vec<Verdict> = judged.elsewhere.iter().map(|other| other.verdict).collect();
    assert_eq!(verdicts, [Verdict::NotReproduced, Verdict::Reproduced]);
    assert!(judged.reason.contains("the mail does not tell how many live objects"), "{}", judged.reason);
    // A value that leaves it open contradicts nothing.
    let mut other = all.clone();
    let mut open = by_run(claim, &fitted.runs[1], 1.0);
    let found = &mut open.get_mut(&fitted.runs[1]).expect("a run").differences[0];
    found.interval_percent = Some([0.0, 2.0]);
    other.extend(open);
    assert_eq!(of_claim(claim, &data, &other).verdict, Verdict::Open);
    // What was not measured with another value is not shown to be independent of it.
    let mut alone = all;
    alone.remove(&fitted.runs[1]);
    assert_eq!(of_claim(claim, &data, &alone).verdict, Verdict::Fitted);
}

#[test]
fn a_command_that_ran_several_times_has_as_many_rounds() {
    let (claims, data) = load();
    let claim = claims.claims.iter().find(|claim| claim.id == "000-D-contention").unwrap();
    let once = || {
        let mut evidence = evidence(claim, 7.0);
        for outcome in evidence.values_mut() {
            outcome.host = serde_json::Value::Null;
            outcome.records.iter_mut().for_each(|cell| cell.samples.truncate(1));
        }
        evidence
    };
    let mut evidence = once();
    assert_eq!(of_claim(claim, &data, &evidence).verdict, Verdict::Open);
    for _ in 1..6 {
        let again = once().remove(&claim.run).unwrap();
        evidence.get_mut(&claim.run).unwrap().repeat(again);
    }
    let judged = of_claim(claim, &data, &evidence);
    assert_eq!((judged.verdict, judged.rounds), (Verdict::Reproduced, 6), "{judged:?}");
}

#[test]
fn claims_that_do_not_count_say_why() {
    let (claims, data) = load();
    let of = |kind: Kind| {
        let judged = judge(&claims, &data, &Evidence::new());
        judged.into_iter().filter(|claim| claim.kind == kind).map(|claim| claim.id).collect::<Vec<_>>()
    };
    assert_eq!(
        of(Kind::Own),
        ["000-idea-2", "000-default", "001-default", "001-bulk-call", "002-flat", "003-contention"]
    );
    assert_eq!(of(Kind::ByConstruction), ["000-D-slub", "000-IA64-D-nodes", "004-search"]);
    assert_eq!(of(Kind::Repeated), ["003-text", "003-pair", "003-concurrent"]);
    assert_eq!(of(Kind::Published).len(), 48);
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
fn figures_of_larger_pages_are_marked() {
    let (claims, data) = load();
    let claim = claims.claims.iter().find(|claim| claim.id == "000-IA64-A-overall").unwrap();
    let mut evidence = evidence(claim, 0.5);
    assert_eq!(of_claim(claim, &data, &evidence).page, None);
    evidence.get_mut(&claim.run).unwrap().host["page"] = 16384.into();
    let judged = of_claim(claim, &data, &evidence);
    assert_eq!(judged.page, Some(16384));
    assert!(judged.reason.starts_with("16 KiB pages: slub A"), "{}", judged.reason);
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
