//! The samples of training steps that a page shows: groups of the newest step that is kept, and how problems were
//! solved over time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use evenkeel_run::{Rollout, RolloutReader, list_rollouts};

/// Groups that are shown.
const GROUPS: usize = 4;
/// Samples of a group that are shown.
const SAMPLES: usize = 16;
/// Bytes of texts of a step after which no more samples of it are read.
const MOST_TEXT: usize = 16 << 20;
/// Bytes of files that are read for the course of problems: of a longer run, steps at regular distances are read.
const MOST_BYTES: u64 = 48 << 20;
/// Steps that are read for it at most.
const MOST_STEPS: usize = 500;

/// What a page shows of training.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrainingSamples {
    /// The step that it is of, from 1; 0 for none.
    pub(super) step: u64,
    /// Some of its groups, by how much their rewards differ, each with its samples.
    pub(super) groups: Vec<Vec<Rollout>>,
    /// Number of groups in the step, and of those whose rewards differ.
    pub(super) differing: (usize, usize),
    /// Length and class of every answer of it.
    pub(super) lengths: Vec<(Class, u32)>,
    /// The shaped reward of every sample of it that has one.
    pub(super) rewards: Vec<f64>,
    /// How each problem was solved, by step.
    pub(super) problems: BTreeMap<u64, Course>,
    /// Steps that are kept, and how many of them the courses are of.
    pub(super) steps: (usize, usize),
}

/// The outcome of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Correct,
    NotCorrect,
    /// The answer has a reward, and nobody says whether it is correct.
    Scored,
    Unjudged,
}

impl Class {
    pub(super) fn of(rollout: &Rollout) -> Self {
        match (rollout.verdict.is_valid(), rollout.verdict.correct()) {
            (false, _) => Self::Unjudged,
            (true, Some(true)) => Self::Correct,
            (true, Some(false)) => Self::NotCorrect,
            (true, None) => Self::Scored,
        }
    }
}

/// How a problem was solved over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Course {
    pub(super) name: String,
    /// Step, correct answers, answers of which that is known.
    pub(super) seen: Vec<(u64, u32, u32)>,
}

impl Course {
    /// The share of correct answers of one time.
    pub(super) fn rate((_, correct, known): (u64, u32, u32)) -> f64 {
        f64::from(correct) / f64::from(known.max(1))
    }

    /// How far it went from the first to the last time.
    pub(super) fn change(&self) -> f64 {
        let rate = |seen: Option<&(u64, u32, u32)>| seen.map_or(0.0, |seen| Self::rate(*seen));
        rate(self.seen.last()) - rate(self.seen.first())
    }
}

/// What was read of one step.
#[derive(Debug, Default)]
struct StepSolved {
    bytes: u64,
    /// Name, correct answers and answers with a known verdict, by problem.
    problems: BTreeMap<u64, (String, u32, u32)>,
}

/// The samples of a directory, of which each file is read once.
#[derive(Debug, Default)]
pub struct TrainingCache(Mutex<Cached>);

#[derive(Debug, Default)]
struct Cached {
    solved: BTreeMap<u64, StepSolved>,
    /// Step and size of the file that this is of.
    newest: Option<(u64, u64)>,
    samples: Arc<TrainingSamples>,
}

impl TrainingCache {
    /// The samples as they are. Files that cannot be read are left out: they are no reason to have no page.
    pub fn get(&self, directory: &Path) -> Arc<TrainingSamples> {
        let files: BTreeMap<u64, (PathBuf, u64)> = list_rollouts(directory)
            .unwrap_or_default()
            .into_iter()
            .filter_map(|(step, path)| Some((step, (path.clone(), std::fs::metadata(&path).ok()?.len()))))
            .collect();
        let mut cached = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = files.last_key_value().map(|(step, (_, bytes))| (*step, *bytes));
        if cached.newest != newest {
            cached.samples = Arc::new(cached.read(&files));
            cached.newest = newest;
        }
        Arc::clone(&cached.samples)
    }
}

impl Cached {
    fn read(&mut self, files: &BTreeMap<u64, (PathBuf, u64)>) -> TrainingSamples {
        let Some((&step, (path, _))) = files.last_key_value() else { return TrainingSamples::default() };
        let rollouts: Vec<Rollout> = read(path).collect();
        let chosen = chosen(files);
        self.solved.retain(|step, solved| chosen.get(step) == Some(&solved.bytes));
        for (other, bytes) in &chosen {
            self.solved.entry(*other).or_insert_with(|| {
                if *other == step {
                    solved(*bytes, rollouts.iter())
                } else {
                    solved(*bytes, read(&files[other].0).collect::<Vec<_>>().iter())
                }
            });
        }
        let mut problems: BTreeMap<u64, Course> = BTreeMap::new();
        for (step, solved) in &self.solved {
            for (index, (name, correct, known)) in &solved.problems {
                let course = problems.entry(*index).or_default();
                course.name.clone_from(name);
                course.seen.push((*step, *correct, *known));
            }
        }
        let lengths = rollouts.iter().filter(|it| it.tokens > 0).map(|it| (Class::of(it), it.tokens)).collect();
        let rewards = rollouts.iter().filter_map(|rollout| rollout.shaped_reward).collect();
        let (groups, differing) = differing(rollouts);
        TrainingSamples { step, lengths, rewards, groups, differing, problems, steps: (files.len(), chosen.len()) }
    }
}

fn read(path: &Path) -> impl Iterator<Item = Rollout> + use<> {
    let reader = RolloutReader::open(path).ok();
    let mut left = MOST_TEXT;
    let fits = move |rollout: &Rollout| {
        let bytes = rollout.text.len() + rollout.prompt.len();
        let had_room = left > 0;
        left = left.saturating_sub(bytes);
        had_room
    };
    reader.into_iter().flatten().map_while(Result::ok).take_while(fits)
}

/// The steps of which the courses of problems are made, with the size of each: evenly spread, and the newest. A step
/// that was chosen stays chosen until twice as many are kept, so that its file is read once.
fn chosen(files: &BTreeMap<u64, (PathBuf, u64)>) -> BTreeMap<u64, u64> {
    let total: u64 = files.values().map(|(_, bytes)| bytes).sum();
    let least = (total / MOST_BYTES).max((files.len() / MOST_STEPS) as u64) + 1;
    let stride = least.next_power_of_two();
    let newest = files.last_key_value().map(|(step, _)| *step);
    let is_chosen = |step: u64| step.is_multiple_of(stride) || Some(step) == newest;
    files.iter().filter(|(step, _)| is_chosen(**step)).map(|(step, (_, bytes))| (*step, *bytes)).collect()
}

fn solved<'a>(bytes: u64, rollouts: impl Iterator<Item = &'a Rollout>) -> StepSolved {
    let mut problems: BTreeMap<u64, (String, u32, u32)> = BTreeMap::new();
    for rollout in rollouts {
        let Some(is_correct) = rollout.verdict.correct() else { continue };
        let (_, correct, known) = problems.entry(rollout.index).or_insert_with(|| (rollout.problem.clone(), 0, 0));
        *correct += u32::from(is_correct);
        *known += 1;
    }
    StepSolved { bytes, problems }
}

/// The groups whose rewards differ most, in the order of the step; of equal ones the first. Those whose rewards are
/// equal are not shown, unless there is no other: then one is. Also how many groups there are, and in how many of them
/// rewards differ.
fn differing(rollouts: Vec<Rollout>) -> (Vec<Vec<Rollout>>, (usize, usize)) {
    let mut groups: Vec<Vec<Rollout>> = Vec::new();
    for rollout in rollouts {
        match groups.last_mut().filter(|group| group.first().is_some_and(|first| first.group == rollout.group)) {
            Some(group) => group.push(rollout),
            None => groups.push(vec![rollout]),
        }
    }
    let spread: Vec<f64> = groups.iter().map(|group| variance(group)).collect();
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by(|a, b| spread[*b].total_cmp(&spread[*a]));
    let differ = spread.iter().filter(|spread| **spread > 0.0).count();
    let all = groups.len();
    order.truncate(differ.clamp(1, GROUPS));
    order.sort_unstable();
    let mut taken = |at: usize| {
        let mut group = std::mem::take(&mut groups[at]);
        group.truncate(SAMPLES);
        group
    };
    (order.into_iter().map(&mut taken).collect(), (all, differ))
}

/// The variance of the rewards of a group that advantages are made of.
fn variance(group: &[Rollout]) -> f64 {
    let rewards: Vec<f64> = group.iter().filter_map(|rollout| rollout.shaped_reward).collect();
    let mean = rewards.iter().sum::<f64>() / rewards.len().max(1) as f64;
    let equal = rewards.windows(2).all(|pair| pair[0] == pair[1]);
    if equal { 0.0 } else { rewards.iter().map(|reward| (reward - mean).powi(2)).sum::<f64>() / rewards.len() as f64 }
}

#[cfg(test)]
pub(super) mod tests {
    use evenkeel_run::{RolloutFolder, encode_rollouts};
    use serde_json::json;

    use super::*;

    /// A sample of a problem, right or wrong.
    pub(in crate::report) fn rollout(step: u64, index: u64, sample: u32, right: bool) -> Rollout {
        serde_json::from_value(json!({
            "step": step, "group": step * 10 + index, "sample": sample, "problem": format!("p#{index}"), "index": index,
            "data_source": "sums", "prompt": "1+1=", "gold": ["2"], "text": "<b>2</b>", "tokens": 5 + sample,
            "finish_reason": "stop", "verdict": if right { "correct" } else { "incorrect" }, "reason": "equal",
            "detail": "", "extracted": "2", "reward": if right { 1.0 } else { 0.0 },
            "shaped_reward": if right { 1.0 } else { -1.0 }, "advantage": 0.5, "weight": 0.25, "not_trained": null,
            "group_outcome": "trained", "rollout_log_probability": -0.5, "log_probability": -0.5, "ratio": 1.0,
            "segments": [{"version": step - 1, "tokens": 5 + sample}],
        }))
        .unwrap()
    }

    /// Steps in which problem 0 is solved more and more, problem 1 never and problem 2 always.
    pub(in crate::report) fn kept(directory: &Path, steps: u64) {
        let mut folder = RolloutFolder::open(directory, u64::MAX).unwrap();
        for step in 1..=steps {
            let right = |index: u64, sample: u32| index == 2 || (index == 0 && u64::from(sample) < step);
            let samples = (0..3).flat_map(|index| (0..4).map(move |sample| (index, sample)));
            let rollouts: Vec<_> =
                samples.map(|(index, sample)| rollout(step, index, sample, right(index, sample))).collect();
            folder.write(step, &encode_rollouts(&rollouts).unwrap(), |_| false).unwrap();
        }
    }

    #[test]
    fn the_newest_step_is_shown_and_each_problem_has_its_course() {
        let dir = tempfile::tempdir().unwrap();
        let cache = TrainingCache::default();
        assert_eq!(*cache.get(dir.path()), TrainingSamples::default());
        kept(dir.path(), 2);
        let samples = cache.get(dir.path());
        assert_eq!((samples.step, samples.steps, samples.lengths.len(), samples.rewards.len()), (2, (2, 2), 12, 12));
        assert_eq!(samples.problems[&0].seen, [(1, 1, 4), (2, 2, 4)]);
        assert_eq!((samples.problems[&0].change(), samples.problems[&1].change()), (0.25, 0.0));
        let shown: Vec<_> = samples.groups.iter().map(|group| (group[0].index, group.len())).collect();
        assert_eq!((shown, samples.differing), (vec![(0, 4)], (3, 1)), "all other groups have equal rewards");
        assert!(Arc::ptr_eq(&samples, &cache.get(dir.path())), "nothing is read twice");
        kept(dir.path(), 3);
        assert_eq!(cache.get(dir.path()).step, 3);
    }

    #[test]
    fn a_damaged_file_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        kept(dir.path(), 2);
        std::fs::write(dir.path().join("rollouts/step-2.jsonl.zst"), "words").unwrap();
        let samples = TrainingCache::default().get(dir.path());
        assert_eq!((samples.step, samples.groups.len(), samples.problems[&0].seen.len()), (2, 0, 1));
    }

    #[test]
    fn of_a_long_run_the_courses_are_of_evenly_spread_steps() {
        let files = |steps: u64, bytes| (1..=steps).map(|step| (step, (PathBuf::new(), bytes))).collect();
        assert_eq!(chosen(&files(400, 1000)).len(), 400);
        let of_long = chosen(&files(5001, 1000));
        assert!(of_long.len() <= MOST_STEPS && of_long.contains_key(&5001), "{}", of_long.len());
        let of_large = chosen(&files(1000, 30 << 20));
        assert!(of_large.values().sum::<u64>() <= MOST_BYTES + (30 << 20));
    }
}
