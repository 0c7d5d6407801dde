//! Prints how often simulated honest runs are accused by the proof of weights, and how many steps it takes to find
//! faults: the tables of docs/proofs.md.
//!
//! ```text
//! cargo run --release -p evenkeel-statistics --example evidence -- honest 100000 500
//! cargo run --release -p evenkeel-statistics --example evidence -- faults 200
//! ```
//!
//! `honest RUNS STEPS` takes about five minutes on two cores; `faults RUNS` about ten.
#![allow(clippy::unwrap_used, reason = "a simulation that cannot go on may panic")]

#[path = "../tests/evidence_simulation/mod.rs"]
mod evidence_simulation;

use std::io::{Result, Write};
use std::process::ExitCode;
use std::thread;

use evidence_simulation::faults::{FAULTS, MOST_STEPS, Setting};
use evidence_simulation::honest::{Alarms, LEVELS, Pools};
use evidence_simulation::noise::SHAPES;
use evidence_simulation::{ALWAYS, BUDGET, IN_TURN, SEQUENCES, SUSPICIONS, TOKENS};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = |at: usize, default: u64| arguments.get(at).map_or(Some(default), |text| text.parse().ok());
    let written = match (arguments.first().map(String::as_str), count(1, 1_000), count(2, 500)) {
        (Some("honest"), Some(runs), Some(steps)) => honest(runs, steps as usize),
        (Some("faults"), Some(runs), Some(_)) if runs > 0 => faults(runs as usize),
        _ => {
            let _ =
                writeln!(std::io::stderr(), "allowed: honest RUNS STEPS, or faults RUNS, with whole numbers above 0");
            return ExitCode::FAILURE;
        }
    };
    written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS)
}

fn honest(runs: u64, steps: usize) -> Result<()> {
    let pools = Pools::draw(1);
    // Every part has runs of every shape.
    let parts = thread::available_parallelism().map_or(1, usize::from) as u64;
    let share = runs.div_ceil(parts);
    let found: Vec<_> = thread::scope(|scope| {
        let started: Vec<_> = (0..parts)
            .map(|part| {
                let pools = &pools;
                scope.spawn(move || pools.run(part * share..((part + 1) * share).min(runs), steps))
            })
            .collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{runs} honest runs of {steps} steps, {SEQUENCES} sequences of {TOKENS} tokens a step, {SUSPICIONS} suspicions \
         ({ALWAYS} + {IN_TURN} a step), 1 to 3 engines, the last of several joining late; movement of the first step \
         2^-10 to 2^2 of the noise, which grows tenfold in half of the runs. Allowed: {BUDGET} of the runs.\n"
    )?;
    writeln!(out, "| noise | runs | proofs | accused | nearest to its threshold | ever 10 | 100 | 1,000 | 10,000 |")?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|")?;
    let mut all = Alarms::default();
    for (at, shape) in SHAPES.iter().enumerate() {
        let mut alarms = Alarms::default();
        found.iter().for_each(|part| alarms.add(&part[at]));
        line(&mut out, shape.name, &alarms)?;
        all.add(&alarms);
    }
    line(&mut out, "all", &all)?;
    writeln!(out, "| allowed | | | {:.0} | 1 | 10 % | 1 % | 0.1 % | 0.01 % |", BUDGET * all.runs as f64)
}

fn line(out: &mut impl Write, name: &str, alarms: &Alarms) -> Result<()> {
    let percent = alarms.reached.iter().zip(LEVELS).map(|(count, _)| {
        let share = 100.0 * *count as f64 / alarms.runs.max(1) as f64;
        format!("{share:.3} %")
    });
    let percent: Vec<_> = percent.collect();
    let Alarms { runs, proofs, accused, highest, .. } = alarms;
    writeln!(out, "| {name} | {runs} | {proofs} | {accused} | {highest:.2} | {} |", percent.join(" | "))
}

fn faults(runs: usize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    // As many proofs as it takes until every suspicion has had its turn.
    let turn = ((SUSPICIONS - ALWAYS) as u64).div_ceil(IN_TURN as u64);
    writeln!(
        out,
        "Steps until a fault is found that is there from the first step on: median / 19 of 20 runs, of {runs}."
    )?;
    for (noise, name) in [(1.4e-6, "an engine in f32"), (0.01, "a quiet narrow type"), (0.047, "an engine in bf16")] {
        // An engine in f32 is tested for every suspicion at once as soon as its gap is above its noise.
        let turn = if noise < 1e-4 { 1 } else { turn };
        writeln!(
            out,
            "\n| noise {noise}: {name} | 384 tokens, 1e-6 | 1e-5 | 1e-4 | 4,096, 1e-6 | 1e-5 | 100,000, 1e-6 |"
        )?;
        writeln!(out, "|---|---|---|---|---|---|---|")?;
        for fault in &FAULTS {
            let cells: Vec<String> =
                [(384, 1e-6), (384, 1e-5), (384, 1e-4), (4_096, 1e-6), (4_096, 1e-5), (100_000, 1e-6)]
                    .map(|(tokens, learning_rate)| {
                        // So many tokens tell little more of many runs than of few.
                        let runs = if tokens > 50_000 { runs.div_ceil(10) } else { runs };
                        let [median, most] = Setting { learning_rate, tokens, noise, turn }.steps(fault, runs);
                        let text =
                            |steps: Option<u64>| steps.map_or(format!("> {MOST_STEPS}"), |steps| steps.to_string());
                        format!("{} / {}", text(median), text(most))
                    })
                    .to_vec();
            writeln!(out, "| {} | {} |", fault.name, cells.join(" | "))?;
            out.flush()?;
        }
    }
    Ok(())
}
