//! A simulated run as text: what was measured, what is predicted, and how far predictions are off
//! where they can be checked.

use core::fmt::Write as _;

use crate::experiments::simulate::plan::measured::Operation;
use crate::experiments::simulate::plan::{Run, SimRecord};
use crate::kit::measure::UNIT_OF_TICKS;
use crate::kit::terminal::{width, wrapped};
use crate::kit::{statistics, table};

pub(crate) fn render(run: &Run) -> String {
    let mut text = String::new();
    let host = &run.host;
    let _ = writeln!(
        text,
        "ashlar {} simulate: inputs measured on two of {} CPUs, {}, {}; {} objects for each CPU and pass; seed {}",
        host.ashlar_version, host.cpus, host.cpu_model, host.kernel, host.objects, run.seed
    );
    if let Some(cell) = run.inputs.first() {
        let _ = writeln!(
            text,
            "A line that moves between the two CPUs: {:.0} {UNIT_OF_TICKS}; from another node, by assumption: {} times as much",
            cell.inputs.line, cell.inputs.far
        );
        let polled = cell.inputs.polled;
        let _ = writeln!(
            text,
            "A CPU that polls a lock adds to each taking: {:.0} {UNIT_OF_TICKS} where the holder writes to the line of the lock, {:.0} where to another",
            polled.one_line, polled.apart
        );
    }
    if let Some(line) = run.line {
        let _ = writeln!(text, "Predicted for a line of {line:.0} {UNIT_OF_TICKS} (--line)");
    }
    inputs(&mut text, run);
    for test in ["D", "F"] {
        predictions(&mut text, run, test);
    }
    validation(&mut text, run);
    wrapped(&text, width())
}

fn inputs(text: &mut String, run: &Run) {
    let _ = writeln!(text, "\nMeasured inputs: {UNIT_OF_TICKS} and locks for one operation, on one node");
    let _ = writeln!(
        text,
        "(alloc, free: alone on a CPU; list, zone: locks of an allocation, and how long each is held;\n\
         remote: the free of another CPU's object; lines: cache lines that move for it)\n\
         {:<12}{:>6}{:>8}{:>13}{:>13}{:>8}{:>8}{:>7}",
        "", "bytes", "alloc", "list (hold)", "zone (hold)", "free", "remote", "lines"
    );
    for cell in &run.inputs {
        let measured = &cell.inputs.one_node;
        let Operation { alone, list_locks, list_hold, zone_locks, zone_hold, .. } = measured.alloc;
        let _ = writeln!(
            text,
            "{:<12}{:>6}{alone:>8.1}{:>13}{:>13}{:>8.1}{:>8.1}{:>7.1}",
            cell.system,
            measured.size,
            format!("{list_locks:.3} ({list_hold:.0})"),
            format!("{zone_locks:.3} ({zone_hold:.0})"),
            measured.free.alone,
            measured.remote_free,
            cell.inputs.lines(1)
        );
    }
}

fn predictions(text: &mut String, run: &Run, test: &str) {
    let what = if test == "D" { "kmalloc on all CPUs" } else { "CPU 0 frees what the others allocated" };
    let simulated: Vec<&SimRecord> = run.records.iter().filter(|r| r.simulated && r.record.test == test).collect();
    let mut machines: Vec<(usize, usize)> = simulated.iter().map(|r| (r.nodes, r.record.cpus)).collect();
    machines.sort_unstable();
    machines.dedup();
    let mut nodes: Vec<usize> = machines.iter().map(|&(nodes, _)| nodes).collect();
    nodes.dedup();
    for nodes in nodes {
        let cpus: Vec<usize> = machines.iter().filter(|m| m.0 == nodes).map(|m| m.1).collect();
        let s = if nodes == 1 { "" } else { "s" };
        let _ = writeln!(text, "\nTest {test}, SIMULATED: {what}; {nodes} node{s}; {UNIT_OF_TICKS} for one operation");
        let mut rows = vec![vec!["CPUs:".to_owned()]];
        rows[0].extend(cpus.iter().map(usize::to_string));
        for cell in &run.inputs {
            let size = cell.inputs.one_node.size;
            let figures = cpus.iter().map(|&cpus| {
                let found = simulated.iter().find(|r| {
                    r.nodes == nodes && r.record.cpus == cpus && r.record.system == cell.system && r.record.size == size
                });
                found.map_or_else(|| "-".to_owned(), |r| table::figure(r.record.median))
            });
            let name = format!("{}, {size} bytes", cell.system);
            rows.push([name].into_iter().chain(figures).collect());
        }
        table::aligned_within(text, &rows, width());
    }
}

fn validation(text: &mut String, run: &Run) {
    let _ = writeln!(text, "\nPredicted against measured, on what this machine has");
    let _ =
        writeln!(text, "{:<12}{:>8}  {:<26}{:>11}{:>11}{:>8}", "", "bytes", "test", "predicted", "measured", "error");
    for cell in &run.validation {
        let s = |number: usize| if number == 1 { "" } else { "s" };
        let test = format!("{}, {} CPU{}, {} node{}", cell.test, cell.cpus, s(cell.cpus), cell.nodes, s(cell.nodes));
        let _ = writeln!(
            text,
            "{:<12}{:>8}  {test:<26}{:>11.1}{:>11.1}{:>+7.0}%",
            cell.system, cell.size, cell.predicted, cell.measured, cell.error_percent
        );
    }
    for test in ["D", "F"] {
        let mut errors: Vec<f64> = run
            .validation
            .iter()
            .filter(|cell| cell.test == test && cell.cpus == 2)
            .map(|cell| cell.error_percent.abs())
            .collect();
        errors.sort_by(f64::total_cmp);
        if let Some(worst) = errors.last() {
            let _ = writeln!(
                text,
                "Test {test} on two CPUs: median error {:.0} %, worst {worst:.0} %, of {} cells",
                statistics::median(&errors),
                errors.len()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::experiments::simulate::plan::tests;
    use crate::experiments::simulate::table;
    #[test]
    fn predictions_are_marked_and_errors_printed() {
        let text = table::render(&tests::sample());
        for line in text.lines().filter(|line| line.starts_with("Test ") && line.contains("node")) {
            assert!(line.contains("SIMULATED"), "{line}");
        }
        assert_eq!(text.matches("SIMULATED").count(), 6, "{text}");
        assert!(text.contains("Test D on two CPUs: median error"), "{text}");
        let row = text.lines().find(|line| line.contains("F, 2 CPUs, 1 node")).unwrap();
        assert!(row.contains("60.0") && row.contains("66.0") && row.ends_with("-9%"), "{row}");
    }
}
