//! `ashlar-lab bench`: tests A to F of the kernel's slab test module, in one process for each
//! system.
//!
//! `plan` asks the processes in turn, so that the systems are interleaved. `child` holds the timed
//! loops, compiled once for each system. `table` prints the table of the SLUB mail of 2007, or the
//! lines of the kernel's test module.

pub(crate) mod args;
pub(crate) mod child;
mod plan;
mod table;
mod targets;

use crate::experiments::kernel_tests::args::{Irq, KernelTestsArgs, Style, Test};
use crate::experiments::kernel_tests::table::Columns;
use crate::kit::error::LabError;
use crate::kit::output::{self, create};
use crate::kit::published::Published;
use crate::kit::record::Report;
use crate::kit::terminal::width;
use crate::kit::{csv, measure};
use crate::systems::{self, linux, traits};

/// `ashlar bench`.
pub(crate) fn run(args: &KernelTestsArgs) -> Result<(), LabError> {
    if let Some(page) = args.page {
        page.take_over()?;
    }
    // Outputs are opened before the run: a wrong path must not cost two minutes.
    let json = args.json.as_deref().map(|path| create("--json", path)).transpose()?;
    let csv = args.csv.as_deref().map(|path| create("--csv", path)).transpose()?;

    if args.published && args.style == Style::Kernel {
        return Err(LabError::option(
            "--published",
            "has no place among the lines of `--style kernel`; expected `table`",
        ));
    }

    // The targets are bounds on the steady state. A first pass would miss or meet them by its page
    // faults.
    if args.check_targets && args.first_pass {
        return Err(LabError::option(
            "--first-pass",
            "cannot be judged by --check-targets, whose bounds are on the steady state; expected one of the two",
        ));
    }

    let (mut run, failures) = match &args.from {
        Some(path) => (Report::load(path)?, Vec::new()),
        None => measure(args)?,
    };
    if let (true, true, Some(path)) = (args.check_targets, run.host.first_pass, &args.from) {
        let error = format!(
            "{} was written by --first-pass, which --check-targets cannot judge: its bounds are on the steady state",
            path.display()
        );
        return Err(LabError::option("--from", error));
    }

    if args.published {
        run.published = Some(Published::load().map_err(LabError::Failed)?);
    }
    if let Some(file) = json {
        serde_json::to_writer_pretty(file, &run).map_err(|error| LabError::Failed(format!("--json: {error}")))?;
    }
    if let Some(file) = csv {
        csv::write(file, &run).map_err(|error| LabError::Failed(format!("--csv: {error}")))?;
    }
    let columns = columns(args);
    let mut text = table::header(&run, columns);
    text += &match args.style {
        Style::Table => table::render(&run, args.by, columns),
        Style::Kernel => table::kernel::render(&run, args.by),
    };
    let verdict = args.check_targets.then(|| targets::check(&run, args.by));
    if let Some(verdict) = &verdict {
        text += &verdict.text;
    }
    output::print(&text)?;

    if !failures.is_empty() {
        return Err(LabError::several(&failures));
    }
    match verdict {
        Some(verdict) if !verdict.passed => Err(LabError::TargetsMissed),
        _ => Ok(()),
    }
}

/// Which systems the table shows: all that were asked for by name, else those that fit.
fn columns(args: &KernelTestsArgs) -> Columns {
    match (args.wide, &*args.systems) {
        (true, _) => Columns::All,
        (false, "all") => Columns::Fitting(width()),
        (false, _) => Columns::Parts(width()),
    }
}

/// Runs the tests and returns the records, with a line for each system that failed on the way.
fn measure(args: &KernelTestsArgs) -> Result<(Report, Vec<String>), LabError> {
    let systems = systems::select(&args.systems)?;
    let allowed = measure::allowed_cpus();
    let mut tests = if args.tests.is_empty() { Test::ALL.to_vec() } else { args.tests.clone() };
    tests.sort_unstable();
    tests.dedup();
    let plan = plan::Plan {
        tests,
        systems,
        sizes: args.sizes.0.clone(),
        objects: args.objects as usize,
        cpus: args.cpus.map_or(allowed.len(), usize::from),
        allowed: allowed.len(),
        nodes: args.nodes.map(usize::from),
        irq: args.irq.map(Irq::value),
        fragmented: args.fragmented.map(|objects| objects as usize),
        first_pass: args.first_pass,
        rounds: args.rounds as usize,
    };
    if let Some(size) = plan.sizes.iter().find(|&&size| plan.fragmented.is_some() && size <= traits::LESS) {
        let less = traits::LESS;
        return Err(LabError::option("--fragmented", format_args!("size {size}: expected sizes above {less} bytes")));
    }
    for info in plan.systems.iter().filter(|info| info.kind == systems::Kind::Linux) {
        if plan.fragmented.is_some() {
            let error = format_args!("the kernel `{}` has no fragmented heap; expected other systems", info.id);
            return Err(LabError::option("--fragmented", error));
        }
        if plan.first_pass {
            let error =
                format_args!("the kernel `{}` cannot start anew for each figure; expected other systems", info.id);
            return Err(LabError::option("--first-pass", error));
        }
        linux::part(&plan.letters(), &plan.sizes, plan.objects)
            .map_err(|error| LabError::option("--systems", format_args!("`{}`: {error}", info.id)))?;
    }
    let outcome = plan::run(&plan)?;
    let host = plan::describe::describe(&plan, &outcome.notes);
    Ok((Report { host, records: outcome.records, published: None }, outcome.failures))
}
