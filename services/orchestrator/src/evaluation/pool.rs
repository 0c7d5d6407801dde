//! All benchmarks of an evaluation in one pool of samples in flight.

use std::path::Path;
use std::sync::Arc;

use evenkeel_proto::v1::WeightsRef;

use super::answer::Answer;
use super::answer_file::AnswerFile;
use super::benchmark::Benchmarks;
use super::manifest::Manifest;
use super::scores::Scores;
use crate::error::{Halt, RunError};
use crate::rollout::{RolloutContext, RolloutScheduler, RolloutSpec};

/// What is evaluated.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// GRPO steps done.
    pub(crate) step: u64,
    /// The weights that must answer; `None`: those that the engines have.
    pub(crate) weights: Option<WeightsRef>,
    /// What tells the weights apart from others.
    pub(crate) digest: String,
}

/// A benchmark's answers so far.
struct Progress {
    file: AnswerFile,
    scores: Scores,
}

/// Samples, verifies and writes what the folder does not have yet. Answers that are there are not sampled again, where they are answers of
/// the same weights to the same problems under the same settings; a problem with an answer that has no verdict is asked again.
///
/// # Errors
/// A service that stays away, a disk that stays full, more samples that took too long than may be left out, a stop.
pub(crate) async fn evaluate(
    rollouts: &Arc<RolloutContext>,
    benchmarks: &Benchmarks,
    asked: &Asked,
    folder: &Path,
) -> Result<Vec<Scores>, Halt> {
    let services = rollouts.services();
    let retrier = services.retrier();
    let mut opened = None;
    retrier.write(folder, || open(benchmarks, asked, rollouts.seed(), folder).map(|open| opened = Some(open))).await?;
    let mut all = opened.unwrap_or_default();

    let spec = RolloutSpec { weights: asked.weights.clone(), for_training: false };
    let mut scheduler = RolloutScheduler::new(Arc::clone(rollouts), spec);
    let mut missing = 0;
    for (benchmark, progress) in benchmarks.iter().zip(&all) {
        for (_, plan) in benchmark.plans(asked.step).filter(|(index, _)| !progress.scores.has(*index)) {
            scheduler.add(plan);
            missing += 1;
        }
    }
    for _ in 0..missing {
        let group = scheduler.next_group().await?;
        let place = benchmarks.place(group.number());
        let placed = place.and_then(|(which, index)| Some((benchmarks.iter().nth(which)?, all.get_mut(which)?, index)));
        let Some((benchmark, progress, index)) = placed else {
            return Err(RunError::Defect(format!("group {} belongs to no benchmark", group.number())).into());
        };
        let answers = Answer::of_group(benchmark, index, &group, rollouts.tokenizer())?;
        let path = progress.file.path().to_owned();
        retrier.write(&path, || progress.file.append(index, &answers)).await?;
        progress.scores.add(index, &answers);
    }
    scheduler.check_late(&format!("evaluation at step {}", asked.step))?;
    for progress in &all {
        retrier.write(progress.file.path(), || progress.file.finish()).await?;
    }
    Ok(all.into_iter().map(|progress| progress.scores).collect())
}

/// Refuses a folder with answers to anything else: outside of a run nobody else would miss them.
///
/// # Errors
/// [`RunError::Directory`].
pub(crate) fn refuse_other(benchmarks: &Benchmarks, asked: &Asked, seed: u64, folder: &Path) -> Result<(), RunError> {
    let manifest = Manifest::new(asked.step, &asked.digest, seed, benchmarks.iter());
    match Manifest::read(folder).and_then(|before| before.difference(&manifest)) {
        None => Ok(()),
        Some(other) => {
            let message =
                format!("has answers to another evaluation ({other}), allowed: the same one, or a new folder");
            Err(RunError::directory(folder, message))
        }
    }
}

/// Opens the files of all benchmarks, without what is no answer to what is asked now.
fn open(benchmarks: &Benchmarks, asked: &Asked, seed: u64, folder: &Path) -> Result<Vec<Progress>, RunError> {
    std::fs::create_dir_all(folder).map_err(RunError::file(folder))?;
    let manifest = Manifest::new(asked.step, &asked.digest, seed, benchmarks.iter());
    let before = Manifest::read(folder);
    let mut all = Vec::new();
    for benchmark in benchmarks.iter() {
        let name = benchmark.file();
        let (mut file, mut groups) = AnswerFile::open(folder, &name)?;
        if !before.as_ref().is_some_and(|before| before.shares(&manifest, &name)) {
            file.clear()?;
            groups.clear();
        }
        let mut scores = Scores::new(&benchmark.name, benchmark.samples(), benchmark.in_average);
        let is_whole = |answers: &[Answer]| answers.iter().all(|answer| answer.verdict.is_valid());
        for (index, answers) in groups.iter().filter(|(_, answers)| is_whole(answers)) {
            scores.add(*index, answers);
        }
        all.push(Progress { file, scores });
    }
    // Last: until it is there, the files are not taken for answers to what is asked.
    manifest.write(folder)?;
    Ok(all)
}
