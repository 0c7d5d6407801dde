//! Prints the tables of docs/statistics.md: how often intervals of 95 % have the true value in them.
//!
//! ```text
//! cargo run --release -p evenkeel-statistics --example coverage -- 10000
//! cargo run --release -p evenkeel-statistics --example coverage -- 100000 means
//! ```
//!
//! The number is that of simulated experiments for each entry (10,000 by default); after it one of the tables: `means`,
//! `tasks` or `improvement` (by default all, of which `tasks` takes minutes).
#![allow(clippy::unwrap_used, reason = "a simulation that cannot go on may panic")]

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use std::io::{Result, StdoutLock, Write};
use std::process::ExitCode;

use simulation::{COUNTS, Coverage, DIFFERENCES, MeanInterval};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let experiments = arguments.next().unwrap_or_else(|| "10000".to_owned());
    let table = arguments.next();
    let mut out = std::io::stdout().lock();
    let Some(experiments) = experiments.parse().ok().filter(|count| *count > 0) else {
        let _ = writeln!(std::io::stderr(), "experiments is {experiments}, allowed: a whole number above 0");
        return ExitCode::FAILURE;
    };
    let written = match table.as_deref() {
        None => [means, tasks, improvement].iter().try_for_each(|table| table(&mut out, experiments)),
        Some("means") => means(&mut out, experiments),
        Some("tasks") => tasks(&mut out, experiments),
        Some("improvement") => improvement(&mut out, experiments),
        Some(other) => {
            let _ = writeln!(std::io::stderr(), "table is {other}, allowed: means, tasks, improvement");
            return ExitCode::FAILURE;
        }
    };
    written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn means(out: &mut StdoutLock, experiments: usize) -> Result<()> {
    writeln!(out, "{experiments} experiments for each entry, standard error {:.2} %\n", standard_error(experiments))?;
    writeln!(out, "| interval of the mean | differences | 3 seeds | 5 | 8 | 16 |\n|---|---|---|---|---|---|")?;
    let methods: [(&str, MeanInterval); 3] = [
        ("Student's t", simulation::student),
        ("studentised bootstrap", simulation::studentised),
        ("percentile bootstrap", simulation::percentile),
    ];
    for (method, interval) in methods {
        for differences in &DIFFERENCES {
            let cells = COUNTS.map(|count| cell(simulation::of_mean(differences, count, interval, experiments)));
            writeln!(out, "| {method} | {} | {} |", differences.name, cells.join(" | "))?;
        }
    }
    Ok(())
}

fn tasks(out: &mut StdoutLock, experiments: usize) -> Result<()> {
    writeln!(out, "\n| interquartile mean of 4 tasks | scores | tasks apart | 3 runs | 5 | 8 | 16 |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for (method, percentiles) in [("corrected", false), ("percentiles", true)] {
        for (differences, apart) in [(0, 0.0), (0, 1.0), (0, 20.0), (1, 0.0), (1, 20.0), (2, 20.0)] {
            let differences = &DIFFERENCES[differences];
            let truth = simulation::true_interquartile_mean(differences, apart);
            let coverage =
                |runs| simulation::of_interquartile_mean(differences, (runs, apart), truth, percentiles, experiments);
            let cells = COUNTS.map(|runs| cell(coverage(runs)));
            writeln!(out, "| {method} | {} | {apart} | {} |", differences.name, cells.join(" | "))?;
        }
    }
    Ok(())
}

fn improvement(out: &mut StdoutLock, experiments: usize) -> Result<()> {
    writeln!(out, "\n| probability of improvement | tasks | means apart | 3 runs | 5 | 8 | 16 |")?;
    writeln!(out, "|---|---|---|---|---|---|---|")?;
    for (method, percentiles) in [("Newcombe", false), ("percentiles", true)] {
        for (tasks, shift) in [(1, 0.0), (1, 1.0), (1, 2.0), (4, 0.0), (4, 1.0), (4, 2.0)] {
            let coverage = |runs| simulation::of_improvement(tasks, runs, shift, percentiles, experiments);
            let cells = COUNTS.map(|runs| cell(coverage(runs)));
            writeln!(out, "| {method} | {tasks} | {shift} | {} |", cells.join(" | "))?;
        }
    }
    Ok(())
}

fn standard_error(experiments: usize) -> f64 {
    100.0 * (0.95_f64 * 0.05 / experiments as f64).sqrt()
}

/// The coverage in percent; where some experiments have no interval, with the share of those that have.
fn cell(coverage: Coverage) -> String {
    let share = coverage.intervals as f64 / coverage.experiments as f64;
    if coverage.intervals == 0 {
        "–".to_owned()
    } else if share < 0.9995 {
        format!("{:.1} (of {:.1})", 100.0 * coverage.share(), 100.0 * share)
    } else {
        format!("{:.1}", 100.0 * coverage.share())
    }
}
