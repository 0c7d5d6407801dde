//! Disk space of checkpoints and published weights.

use std::path::Path;

use candle_core::DType;
use evenkeel_host::{Size, free_space};

/// Bytes of a checkpoint's weights and moments.
pub(crate) fn checkpoint_bytes(parameters: u64, dtype: DType) -> u64 {
    3 * parameters * dtype.size_in_bytes() as u64
}

/// The disk space that a run needs at once: a new folder is complete before an old one is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskPlan {
    /// Bytes of a checkpoint.
    pub checkpoint: u64,
    /// Bytes of a published version.
    pub published: u64,
    /// Most checkpoints that exist at once; `None` if all are kept.
    pub checkpoints: Option<u64>,
    /// Most published versions that exist at once; `None` if all are kept.
    pub versions: Option<u64>,
}

impl DiskPlan {
    /// For a model of this many parameters in files of these types. `kept` are the checkpoints and the versions that
    /// are kept once another has been written, 0 for all.
    pub fn new(parameters: u64, checkpoints: impl Into<DType>, published: impl Into<DType>, kept: [u64; 2]) -> Self {
        let [checkpoints_at_a_time, versions] = kept.map(|kept| (kept > 0).then_some(kept + 1));
        Self {
            checkpoint: checkpoint_bytes(parameters, checkpoints.into()),
            published: parameters * published.into().size_in_bytes() as u64,
            checkpoints: checkpoints_at_a_time,
            versions,
        }
    }

    /// Bytes of all that exist at once; `None` if all are kept.
    pub fn total(&self) -> Option<u64> {
        Some(self.checkpoint * self.checkpoints? + self.published * self.versions?)
    }

    /// Bytes of the checkpoints that exist at once; of two, the fewest that a run writes, if all are kept.
    fn all_checkpoints(&self) -> u64 {
        self.checkpoint * self.checkpoints.unwrap_or(2)
    }

    fn all_versions(&self) -> u64 {
        self.published * self.versions.unwrap_or(2)
    }

    /// Why no run can begin: both folders are empty, and their disks do not hold its first checkpoint and version. What
    /// is in a folder may be that of a run that goes on, and make room.
    pub fn refusal(&self, checkpoints: &Path, weights: &Path) -> Option<String> {
        let is_empty = |folder: &Path| std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty(checkpoints) || !is_empty(weights) {
            return None;
        }
        let missing = Self { checkpoints: Some(1), versions: Some(1), ..*self }.missing(checkpoints, weights);
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    /// What does not fit on the disks of these folders, one sentence for each disk. What is there already counts as
    /// used: it may belong to other runs.
    pub fn missing(&self, checkpoints: &Path, weights: &Path) -> Vec<String> {
        let (Ok(for_checkpoints), Ok(for_weights)) = (free_space(checkpoints), free_space(weights)) else {
            return Vec::new();
        };
        let number = |count: Option<u64>| count.map_or_else(|| "2 (all are kept)".to_owned(), |n| n.to_string());
        let of_checkpoints = (
            self.all_checkpoints(),
            format!("checkpoints of {}, {} at once", Size(self.checkpoint), number(self.checkpoints)),
        );
        let of_weights = (
            self.all_versions(),
            format!("published weights of {}, {} at once", Size(self.published), number(self.versions)),
        );
        let disks = if for_checkpoints.id == for_weights.id {
            let bytes = of_checkpoints.0 + of_weights.0;
            let what = format!("{} and {}", of_checkpoints.1, of_weights.1);
            vec![(checkpoints, for_checkpoints.free, bytes, what)]
        } else {
            vec![
                (checkpoints, for_checkpoints.free, of_checkpoints.0, of_checkpoints.1),
                (weights, for_weights.free, of_weights.0, of_weights.1),
            ]
        };
        let short = disks.into_iter().filter(|(_, free, bytes, _)| bytes > free);
        short
            .map(|(path, free, bytes, what)| {
                format!(
                    "the disk of {} has {} free, needed: {} for {what}; to reduce that, keep fewer or write them in \
                    bf16",
                    path.display(),
                    Size(free),
                    Size(bytes)
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_one_is_written_before_an_old_one_is_removed() {
        let plan = DiskPlan::new(1000, DType::F32, DType::BF16, [2, 3]);
        assert_eq!((plan.checkpoint, plan.published), (12_000, 2000));
        assert_eq!((plan.all_checkpoints(), plan.all_versions()), (3 * 12_000, 4 * 2000));
        let all = DiskPlan::new(1000, DType::BF16, DType::F32, [0, 0]);
        assert_eq!((all.checkpoint, all.published, all.checkpoints), (6000, 4000, None));
        assert_eq!(all.all_checkpoints(), 12_000);
    }

    #[test]
    fn a_disk_that_both_share_is_named_once_with_the_space_for_both() {
        let folder = tempfile::tempdir().unwrap();
        let checkpoints = folder.path().join("checkpoints");
        let weights = folder.path().join("weights");
        let small = DiskPlan::new(1000, DType::F32, DType::BF16, [2, 2]);
        assert_eq!(small.missing(&checkpoints, &weights), Vec::<String>::new());
        let large = DiskPlan::new(1 << 50, DType::F32, DType::BF16, [2, 2]);
        let missing = large.missing(&checkpoints, &weights);
        let [sentence] = &missing[..] else { panic!("{missing:?}") };
        assert!(sentence.contains(&checkpoints.display().to_string()), "{sentence}");
        for words in ["3 at once", "checkpoints of 12288.0 TiB", "published weights of 2048.0 TiB"] {
            assert!(sentence.contains(words), "{words}: {sentence}");
        }
    }

    #[test]
    fn a_run_that_begins_on_disks_without_room_for_its_first_checkpoint_is_refused_and_one_that_goes_on_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [checkpoints, weights] = ["checkpoints", "weights"].map(|name| folder.path().join(name));
        let refusal =
            |parameters| DiskPlan::new(parameters, DType::F32, DType::BF16, [2, 2]).refusal(&checkpoints, &weights);
        assert_eq!(refusal(1000), None);
        let sentence = refusal(1 << 50).unwrap();
        for words in ["checkpoints of 12288.0 TiB, 1 at once", "published weights of 2048.0 TiB, 1 at once"] {
            assert!(sentence.contains(words), "{words}: {sentence}");
        }
        std::fs::create_dir_all(checkpoints.join("step-1")).unwrap();
        assert_eq!(refusal(1 << 50), None);
    }
}
