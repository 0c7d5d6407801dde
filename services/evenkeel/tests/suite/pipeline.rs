//! Sampling ahead of training, with the real services: the same bits in one process and five, killed or not.

use std::path::Path;
use std::process::Command;

use crate::support::{
    Process, Processes, count_lines, lines, resume, small, succeed, summary, train, wait_for, written_model,
};

/// Settings with which a run may have a lag: which policy is in the denominator, and weights that engines may be brought back to.
const SAMPLED_BEFORE: [&str; 2] = ["learner.old_logp=proximal", "checkpoint.keep_weights=3"];

fn lagging(out: &Path, max_lag: u32) -> Command {
    let mut command = train(out);
    let lag = format!("pipeline.max_lag={max_lag}");
    let others = SAMPLED_BEFORE.iter().filter(|_| max_lag > 0).map(|setting| (*setting).to_owned());
    for setting in std::iter::once(lag).chain(others) {
        command.args(["--set", &setting]);
    }
    command
}

#[test]
fn a_lag_of_0_is_the_run_without_the_section_and_larger_ones_are_others() {
    let dir = tempfile::tempdir().unwrap();
    let [without, zero, one] = ["without", "zero", "one"].map(|name| dir.path().join(name));
    succeed(train(&without));
    succeed(lagging(&zero, 0));
    succeed(lagging(&one, 1));
    assert_eq!(lines(&zero), lines(&without));
    assert_ne!(lines(&one), lines(&without));
}

#[test]
fn a_run_with_a_lag_agrees_to_the_bit_in_one_process_in_five_and_killed() {
    let dir = tempfile::tempdir().unwrap();
    let [whole, killed] = ["whole", "killed"].map(|name| dir.path().join(name));
    succeed(lagging(&whole, 2));

    let metrics = killed.join("metrics.jsonl");
    let mut process = Process::start(lagging(&killed, 2));
    for steps in [1, 3, 5] {
        wait_for("steps", || count_lines(&metrics) >= steps);
        process.kill();
        process = Process::start(resume(&killed));
    }
    drop(process);
    succeed(resume(&killed));
    assert_eq!(lines(&killed), lines(&whole));

    let model = written_model(dir.path());
    let recipe = dir.path().join("small.toml");
    let text = std::fs::read_to_string(small()).unwrap().replace("[checkpoint]\n", "[checkpoint]\nkeep_weights = 3\n");
    std::fs::write(&recipe, format!("{text}\n[pipeline]\nmax_lag = 2\n\n[learner]\nold_logp = \"proximal\"\n"))
        .unwrap();
    let _services = Processes::start(dir.path(), &recipe, &model, &[]);
    let run = dir.path().join("runs/small");
    wait_for("the run's end", || summary(&run).is_some_and(|summary| summary["state"] == "completed"));
    assert_eq!(lines(&run), lines(&whole));
}
