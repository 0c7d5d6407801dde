//! Five processes: the same run as one.

use std::path::{Path, PathBuf};

use crate::support::{Processes, determined_head, lines, small, succeed, summary, train, wait_for, written_model};

/// The directories of a run of one process, and of the same run of five, whose learner has its checkpoints in
/// `checkpoints` of the folder.
pub(crate) fn one_and_five(folder: &Path) -> [PathBuf; 2] {
    let alone = folder.join("alone");
    succeed(train(&alone));
    let model = written_model(folder);
    let _services = Processes::start(folder, &small(), &model, &[]);
    let run = folder.join("runs/small");
    wait_for("the run's end", || summary(&run).is_some_and(|summary| summary["state"] == "completed"));
    [alone, run]
}

#[test]
fn a_run_with_each_service_in_its_own_process_agrees_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let [alone, run] = one_and_five(dir.path());
    assert_eq!(lines(&run), lines(&alone));
    assert_eq!(determined_head(&run), determined_head(&alone));
}
