//! Five processes: the same run as one.

use crate::support::{Processes, lines, small, succeed, summary, train, wait_for, written_model};

#[test]
fn a_run_with_each_service_in_its_own_process_agrees_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("alone");
    succeed(train(&alone));

    let model = written_model(dir.path());
    let _services = Processes::start(dir.path(), &small(), &model, &[]);
    let run = dir.path().join("runs/small");
    wait_for("the run's end", || summary(&run).is_some_and(|summary| summary["state"] == "completed"));
    assert_eq!(lines(&run), lines(&alone));
}
