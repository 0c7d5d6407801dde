//! Batches whose updates were skipped, dumped for inspection.

use std::path::{Path, PathBuf};

use evenkeel_proto::v1::TrainKind;
use serde::Serialize;

use crate::error::{LearnerError, Result};
use crate::files::write_file;

/// Batches kept; further ones are not written, so that a run that goes on like this does not fill the disk.
const MAX_BATCHES: usize = 20;

/// Writes batches whose updates were skipped.
pub(super) struct SkippedBatches {
    folder: PathBuf,
}

impl SkippedBatches {
    /// The folder is created with the first batch.
    pub(super) fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Writes the groups or examples of a step whose update was skipped, one as JSON on each line, and logs where. A
    /// failure to write is logged: it must not hide why the update was skipped.
    pub(super) fn write(&self, run_id: &str, kind: TrainKind, step: u64, batch: &[impl Serialize]) {
        match self.try_write(&file_name(run_id, kind, step), batch) {
            Ok(Some(path)) => tracing::warn!(path = %path.display(), "batch of a skipped update written"),
            Ok(None) => tracing::warn!(
                folder = %self.folder.display(),
                "batch of a skipped update not written: the folder has {MAX_BATCHES}"
            ),
            Err(error) => tracing::error!(%error, "batch of a skipped update not written"),
        }
    }

    fn try_write(&self, name: &str, batch: &[impl Serialize]) -> Result<Option<PathBuf>> {
        std::fs::create_dir_all(&self.folder).map_err(LearnerError::file(&self.folder))?;
        let path = self.folder.join(name);
        if !path.exists() && count(&self.folder)? >= MAX_BATCHES {
            return Ok(None);
        }
        let mut text = String::new();
        for part in batch {
            // JSON has no NaN: a number that is not finite becomes null.
            text.push_str(&serde_json::to_string(part).expect("numbers and strings serialise"));
            text.push('\n');
        }
        write_file(&path, text.as_bytes())?;
        Ok(Some(path))
    }
}

/// A name for any run: what a file name may not have is replaced.
fn file_name(run_id: &str, kind: TrainKind, step: u64) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' };
    let kind = if kind == TrainKind::Supervised { "supervised-" } else { "" };
    format!("{}-{kind}step-{step:06}.jsonl", run_id.chars().map(safe).collect::<String>())
}

fn count(folder: &Path) -> Result<usize> {
    Ok(std::fs::read_dir(folder).map_err(LearnerError::file(folder))?.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Example, ResponseGroup};

    fn groups() -> Vec<ResponseGroup> {
        (0..2)
            .map(|n| ResponseGroup { id: format!("g{n}"), prompt: vec![n], hinted_prompt: None, responses: Vec::new() })
            .collect()
    }

    #[test]
    fn a_batch_is_one_group_a_line_in_a_file_of_its_run_and_step() {
        let folder = tempfile::tempdir().unwrap();
        let skipped_batches = SkippedBatches::new(folder.path().join("skipped"));
        skipped_batches.write("../run", TrainKind::Grpo, 7, &groups());
        let text = std::fs::read_to_string(folder.path().join("skipped/___run-step-000007.jsonl")).unwrap();
        let ids: Vec<String> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["id"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(ids, ["g0", "g1"]);
    }

    #[test]
    fn examples_of_a_warm_start_have_a_name_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let skipped_batches = SkippedBatches::new(folder.path().to_owned());
        skipped_batches.write("run", TrainKind::Grpo, 7, &groups());
        skipped_batches.write("run", TrainKind::Supervised, 7, &[Example { prompt: vec![2], response: vec![3, 1] }]);
        let text = std::fs::read_to_string(folder.path().join("run-supervised-step-000007.jsonl")).unwrap();
        assert_eq!(text, "{\"prompt\":[2],\"response\":[3,1]}\n");
        assert_eq!(count(folder.path()).unwrap(), 2);
    }

    #[test]
    fn the_number_of_batches_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let skipped_batches = SkippedBatches::new(folder.path().to_owned());
        (0..30).for_each(|step| skipped_batches.write("run", TrainKind::Grpo, step, &groups()));
        assert_eq!(count(folder.path()).unwrap(), MAX_BATCHES);
    }
}
