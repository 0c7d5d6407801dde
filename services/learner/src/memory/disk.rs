//! Disk space of checkpoints and published weights.

use std::path::Path;

use candle_core::DType;
use evenkeel_host::{Size, Space, free_space};

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
    /// Bytes of the samples of training steps in the run directory.
    pub rollouts: u64,
}

/// Where a run writes.
#[derive(Clone, Copy, Debug)]
pub struct RunFolders<'a> {
    /// Folder of checkpoints.
    pub checkpoints: &'a Path,
    /// Folder of published weights.
    pub weights: &'a Path,
    /// Run directory, which has the rollouts.
    pub run: &'a Path,
}

impl DiskPlan {
    /// For a model of this many parameters in files of these types. `at_once` are the most checkpoints and published
    /// versions that exist at a time, `None` where all are kept.
    pub fn new(
        parameters: u64,
        checkpoints: impl Into<DType>,
        published: impl Into<DType>,
        at_once: [Option<u64>; 2],
    ) -> Self {
        Self {
            checkpoint: checkpoint_bytes(parameters, checkpoints.into()),
            published: parameters * published.into().size_in_bytes() as u64,
            checkpoints: at_once[0],
            versions: at_once[1],
            rollouts: 0,
        }
    }

    /// Bytes of all that exist at once; `None` if all are kept.
    pub fn total(&self) -> Option<u64> {
        Some(self.checkpoint * self.checkpoints? + self.published * self.versions? + self.rollouts)
    }

    /// Bytes of the checkpoints that exist at once; of two, the fewest that a run writes, if all are kept.
    fn all_checkpoints(&self) -> u64 {
        self.checkpoint * self.checkpoints.unwrap_or(2)
    }

    fn all_versions(&self) -> u64 {
        self.published * self.versions.unwrap_or(2)
    }

    /// Why no run can begin: both folders are empty, and their disks do not hold a first checkpoint and version. What
    /// is in a folder may be that of a run that goes on, and make room.
    pub fn refusal(&self, checkpoints: &Path, weights: &Path) -> Option<String> {
        let is_empty = |folder: &Path| std::fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty(checkpoints) || !is_empty(weights) {
            return None;
        }
        let first = Self { checkpoints: Some(1), versions: Some(1), rollouts: 0, ..*self };
        let missing = first.missing(RunFolders { checkpoints, weights, run: checkpoints });
        (!missing.is_empty()).then(|| missing.join("; "))
    }

    /// Adds the rollouts of a run if its directory is seen here, on the disk of checkpoints or weights. The run's process
    /// looks at any other disk.
    #[must_use]
    pub fn with_rollouts(self, rollouts: u64, folders: RunFolders<'_>) -> Self {
        let disk = |folder: &Path| free_space(folder).ok().map(|space| space.id);
        let of_run = if folders.run.exists() { disk(folders.run) } else { None };
        let is_shared = of_run.is_some() && [folders.checkpoints, folders.weights].map(disk).contains(&of_run);
        Self { rollouts: if is_shared { rollouts } else { 0 }, ..self }
    }

    /// What does not fit on the disks of a run that has no checkpoint yet, one sentence for each disk. What is there
    /// already counts as used, since it may belong to other runs; published versions make room for new ones.
    pub fn missing(&self, folders: RunFolders<'_>) -> Vec<String> {
        let number = |count: Option<u64>| count.map_or_else(|| "2 (all are kept)".to_owned(), |n| n.to_string());
        let replaced = self.versions.map_or(0, |_| bytes_of_versions(folders.weights));
        let [checkpoint, published, rollouts] = [self.checkpoint, self.published, self.rollouts].map(Size);
        let needs = [
            (
                folders.checkpoints,
                self.all_checkpoints(),
                format!("checkpoints of {checkpoint}, {} at once", number(self.checkpoints)),
            ),
            (
                folders.weights,
                self.all_versions().saturating_sub(replaced),
                format!("published weights of {published}, {} at once", number(self.versions)),
            ),
            (folders.run, self.rollouts, format!("rollouts of {rollouts}")),
        ];
        let mut disks: Vec<Disk<'_>> = Vec::new();
        for (folder, bytes, what) in needs.into_iter().filter(|(_, bytes, _)| *bytes > 0) {
            let Ok(space) = free_space(folder) else { continue };
            match disks.iter_mut().find(|disk| disk.space.id == space.id) {
                Some(disk) => {
                    disk.needed += bytes;
                    disk.what.push(what);
                }
                None => disks.push(Disk { folder, space, needed: bytes, what: vec![what] }),
            }
        }
        disks.iter().filter(|disk| disk.needed > disk.space.free).map(Disk::sentence).collect()
    }
}

/// A disk, and what a run writes to it.
struct Disk<'a> {
    folder: &'a Path,
    space: Space,
    needed: u64,
    what: Vec<String>,
}

impl Disk<'_> {
    fn sentence(&self) -> String {
        format!(
            "the disk of {} has {} free, needed: {} for {}; to reduce that, lower checkpoint.keep, \
             checkpoint.keep_weights or run.rollouts_disk, or write weights in bf16",
            self.folder.display(),
            Size(self.space.free),
            Size(self.needed),
            self.what.join(" and ")
        )
    }
}

/// Bytes of the versions in a folder of published weights; 0 where it cannot be read.
fn bytes_of_versions(weights: &Path) -> u64 {
    let entries = |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries(weights).flat_map(|version| entries(&version.path()));
    files.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: [Option<u64>; 2] = [Some(3), Some(4)];

    #[test]
    fn a_run_takes_what_exists_at_once() {
        let plan = DiskPlan { rollouts: 500, ..DiskPlan::new(1000, DType::F32, DType::BF16, AT_ONCE) };
        assert_eq!((plan.checkpoint, plan.published), (12_000, 2000));
        assert_eq!(plan.total(), Some(3 * 12_000 + 4 * 2000 + 500));
        let all = DiskPlan::new(1000, DType::BF16, DType::F32, [None, None]);
        assert_eq!((all.checkpoint, all.published, all.total()), (6000, 4000, None));
        assert_eq!(all.all_checkpoints(), 12_000);
    }

    fn missing(plan: DiskPlan, folder: &Path) -> Vec<String> {
        let [checkpoints, weights, run] = ["checkpoints", "weights", "run"].map(|name| folder.join(name));
        plan.missing(RunFolders { checkpoints: &checkpoints, weights: &weights, run: &run })
    }

    #[test]
    fn a_disk_that_folders_share_is_named_once_with_the_space_for_all() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(missing(DiskPlan::new(1000, DType::F32, DType::BF16, AT_ONCE), folder.path()), Vec::<String>::new());
        let large = DiskPlan { rollouts: 1 << 50, ..DiskPlan::new(1 << 50, DType::F32, DType::BF16, AT_ONCE) };
        let missing = missing(large, folder.path());
        let [sentence] = &missing[..] else { panic!("{missing:?}") };
        assert!(sentence.contains(&folder.path().join("checkpoints").display().to_string()), "{sentence}");
        for words in [
            "needed: 46080.0 TiB for checkpoints of 12288.0 TiB, 3 at once and published weights of 2048.0 TiB, 4 at once",
            "and rollouts of 1024.0 TiB",
        ] {
            assert!(sentence.contains(words), "{words}: {sentence}");
        }
    }

    #[test]
    fn each_part_alone_may_be_what_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let free = free_space(folder.path()).unwrap().free;
        let nothing = DiskPlan { checkpoint: 0, published: 0, checkpoints: Some(3), versions: Some(4), rollouts: 0 };
        let parts: [(&str, DiskPlan); 3] = [
            ("checkpoints", DiskPlan { checkpoint: free / 2, ..nothing }),
            ("weights", DiskPlan { published: free / 3, ..nothing }),
            ("run", DiskPlan { rollouts: 2 * free, ..nothing }),
        ];
        for (name, plan) in parts {
            let missing = missing(plan, folder.path());
            let [sentence] = &missing[..] else { panic!("{name}: {missing:?}") };
            assert!(sentence.contains(&folder.path().join(name).display().to_string()), "{sentence}");
        }
    }

    #[test]
    fn rollouts_count_only_in_a_directory_that_is_seen_on_the_disk_of_another_folder() {
        let folder = tempfile::tempdir().unwrap();
        let plan = DiskPlan::new(1000, DType::F32, DType::BF16, AT_ONCE);
        let rollouts = |run: &Path| {
            let folders = RunFolders { checkpoints: folder.path(), weights: folder.path(), run };
            plan.with_rollouts(500, folders).rollouts
        };
        assert_eq!(rollouts(folder.path()), 500);
        assert_eq!(rollouts(&folder.path().join("of-another-pod")), 0);
        assert_eq!(rollouts(Path::new("/proc")), 0);
    }

    #[test]
    fn versions_that_are_there_make_room_for_new_ones_unless_all_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let free = free_space(folder.path()).unwrap().free;
        let version = folder.path().join("weights/step-3");
        std::fs::create_dir_all(&version).unwrap();
        // A file with a hole: it takes nothing of the disk.
        std::fs::File::create(version.join("model.safetensors")).unwrap().set_len(free).unwrap();
        let plan = |versions| DiskPlan { checkpoint: 0, published: free, checkpoints: None, versions, rollouts: 0 };
        assert_eq!(missing(plan(Some(1)), folder.path()), Vec::<String>::new());
        assert_eq!(missing(plan(Some(3)), folder.path()).len(), 1);
        assert_eq!(missing(plan(None), folder.path()).len(), 1);
    }

    #[test]
    fn a_run_that_begins_on_disks_without_room_for_its_first_checkpoint_is_refused_and_one_that_goes_on_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [checkpoints, weights] = ["checkpoints", "weights"].map(|name| folder.path().join(name));
        let refusal =
            |parameters| DiskPlan::new(parameters, DType::F32, DType::BF16, AT_ONCE).refusal(&checkpoints, &weights);
        assert_eq!(refusal(1000), None);
        let sentence = refusal(1 << 50).unwrap();
        for words in ["checkpoints of 12288.0 TiB, 1 at once", "published weights of 2048.0 TiB, 1 at once"] {
            assert!(sentence.contains(words), "{words}: {sentence}");
        }
        std::fs::create_dir_all(checkpoints.join("step-1")).unwrap();
        assert_eq!(refusal(1 << 50), None);
    }
}
