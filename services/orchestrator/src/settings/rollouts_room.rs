//! What the samples of training steps take on the disk, said before the run.

use std::path::Path;

use evenkeel_host::{Size, free_space};

use super::{KeptRollouts, PolicySamplingSettings, RunSettings};

/// Bytes of an answer's token in a file of rollouts, compressed; about four of its text before.
const BYTES_PER_TOKEN: f64 = 1.4;
/// Bytes of a token's id and log-probability.
const BYTES_PER_LOGGED_TOKEN: f64 = 5.0;
/// Bytes of a sample besides its tokens.
const BYTES_PER_SAMPLE: f64 = 90.0;

impl RunSettings {
    /// What a run says before it starts of the room that its rollouts take; `None` where none are kept.
    pub fn rollouts_note(&self, sampling: &PolicySamplingSettings) -> Option<String> {
        let which = match self.rollouts {
            _ if self.steps == 0 => return None,
            KeptRollouts::Off => return None,
            KeptRollouts::All => "the samples".to_owned(),
            KeptRollouts::Groups(1) => "the samples of 1 group".to_owned(),
            KeptRollouts::Groups(groups) => format!("the samples of {groups} groups"),
        };
        let a_step = self.rollouts_a_step(sampling);
        let all = a_step.saturating_mul(self.steps);
        let bound = self.rollouts_disk.bytes();
        let thinned = if all > bound {
            format!("after which old steps are thinned out; all answers in full would take about {}", size(all))
        } else {
            format!("of which answers in full take about {}", size(all))
        };
        Some(format!(
            "{which} of every step are kept in rollouts/ in the run directory: up to about {} per step, at most {} in \
             total (run.rollouts_disk), {thinned}",
            size(a_step),
            self.rollouts_disk
        ))
    }

    /// Bytes that the rollouts of a run take at most: those of all steps, if answers are as long as they may be, within
    /// `rollouts_disk`.
    pub fn rollouts_bytes(&self, sampling: &PolicySamplingSettings) -> u64 {
        self.rollouts_a_step(sampling).saturating_mul(self.steps).min(self.rollouts_disk.bytes())
    }

    fn rollouts_a_step(&self, sampling: &PolicySamplingSettings) -> u64 {
        let tried = sampling.prompts_limit();
        let groups = match self.rollouts {
            KeptRollouts::Off => 0,
            KeptRollouts::All => tried,
            KeptRollouts::Groups(groups) => u64::from(groups).min(tried),
        };
        let samples = groups as f64 * f64::from(sampling.group_size);
        let per_token = BYTES_PER_TOKEN + if self.rollout_tokens { BYTES_PER_LOGGED_TOKEN } else { 0.0 };
        (samples * (f64::from(sampling.max_tokens) * per_token + BYTES_PER_SAMPLE)) as u64
    }
}

/// Why the disk of a run directory does not hold this many bytes of rollouts; `None` where it does, or is unknown.
pub(crate) fn too_small_for_rollouts(directory: &Path, bytes: u64) -> Option<String> {
    let free = free_space(directory).ok()?.free;
    (bytes > free).then(|| {
        format!(
            "the disk of {} has {} free, needed: {} for rollouts; to reduce that, lower run.rollouts_disk",
            directory.display(),
            size(free),
            size(bytes)
        )
    })
}

fn size(bytes: u64) -> String {
    Size(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use evenkeel_config::ByteSize;

    use super::*;

    #[test]
    fn the_room_is_said_before_the_run() {
        let sampling = PolicySamplingSettings { max_tokens: 20_480, ..PolicySamplingSettings::default() };
        let note = |run: RunSettings| run.rollouts_note(&sampling);
        let all = note(RunSettings { steps: 5000, ..RunSettings::default() }).unwrap();
        assert!(
            all.contains("at most 10GiB in total") && all.contains("after which old steps are thinned out"),
            "{all}"
        );
        let few = note(RunSettings { rollouts: KeptRollouts::Groups(2), steps: 5, ..RunSettings::default() }).unwrap();
        assert!(few.starts_with("the samples of 2 groups of every step") && !few.contains("thinned"), "{few}");
        assert_eq!(note(RunSettings { rollouts: KeptRollouts::Off, ..RunSettings::default() }), None);
        assert_eq!(note(RunSettings { steps: 0, ..RunSettings::default() }), None);
        assert_eq!(RunSettings::default().rollouts_disk, ByteSize::gib(10));
    }

    #[test]
    fn a_disk_without_room_for_rollouts_is_named_with_what_it_has_and_what_they_take() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(too_small_for_rollouts(folder.path(), 1), None);
        let sentence = too_small_for_rollouts(folder.path(), 1 << 60).unwrap();
        assert!(sentence.starts_with(&format!("the disk of {} has ", folder.path().display())), "{sentence}");
        assert!(sentence.contains(" free, needed: 1048576.0 TiB for rollouts; "), "{sentence}");
    }

    #[test]
    fn the_room_is_that_of_all_steps_within_its_bound() {
        let sampling = PolicySamplingSettings { max_tokens: 20_480, ..PolicySamplingSettings::default() };
        let bytes = |run: RunSettings| run.rollouts_bytes(&sampling);
        assert_eq!(bytes(RunSettings { steps: 5000, ..RunSettings::default() }), 10 << 30);
        let few = |steps| bytes(RunSettings { rollouts: KeptRollouts::Groups(2), steps, ..RunSettings::default() });
        assert!(few(1) > 0);
        assert_eq!(few(5), 5 * few(1));
        assert_eq!(bytes(RunSettings { rollouts: KeptRollouts::Off, ..RunSettings::default() }), 0);
    }
}
