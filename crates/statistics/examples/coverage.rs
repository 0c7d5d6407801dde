//! Prints the tables of docs/statistics.md: how often intervals of 95 % have the true value in them.
//!
//! ```text
//! cargo run --release -p evenkeel-statistics --example coverage -- 100000
//! ```
//!
//! The number is that of simulated experiments for each entry (10,000 by default).

#[path = "../tests/simulation/mod.rs"]
mod simulation;

use std::io::Write;
use std::process::ExitCode;

use simulation::{COUNTS, Coverage, DIFFERENCES, MeanInterval};

fn main() -> ExitCode {
    let argument = std::env::args().nth(1).unwrap_or_else(|| "10000".to_owned());
    let mut out = std::io::stdout().lock();
    let Some(experiments) = argument.parse().ok().filter(|count| *count > 0) else {
        let _ = writeln!(std::io::stderr(), "experiments is {argument}, allowed: a whole number above 0");
        return ExitCode::FAILURE;
    };
    match tables(&mut out, experiments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn tables(out: &mut impl Write, experiments: usize) -> std::io::Result<()> {
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
    writeln!(
        out,
        "\n| interquartile mean of 4 tasks | scores | tasks apart | 3 runs | 5 | 8 | 16 |\n|---|---|---|---|---|---|---|"
    )?;
    for (method, percentiles) in [("corrected", false), ("percentiles", true)] {
        for (differences, apart) in [(0, 0.0), (0, 1.0), (0, 20.0), (1, 0.0), (1, 20.0), (2, 20.0)] {
            let differences = &DIFFERENCES[differences];
            let truth = simulation::true_interquartile_mean(differences, apart);
            let of =
                |runs| simulation::of_interquartile_mean(differences, (runs, apart), truth, percentiles, experiments);
            let cells = COUNTS.map(|runs| cell(of(runs)));
            writeln!(out, "| {method} | {} | {apart} | {} |", differences.name, cells.join(" | "))?;
        }
    }
    writeln!(
        out,
        "\n| probability of improvement | tasks | means apart | 3 runs | 5 | 8 | 16 |\n|---|---|---|---|---|---|---|"
    )?;
    for (method, percentiles) in [("Newcombe", false), ("percentiles", true)] {
        for (tasks, shift) in [(1, 0.0), (1, 1.0), (1, 2.0), (4, 0.0), (4, 1.0), (4, 2.0)] {
            let of = |runs| simulation::of_improvement(tasks, runs, shift, percentiles, experiments);
            let cells = COUNTS.map(|runs| cell(of(runs)));
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
