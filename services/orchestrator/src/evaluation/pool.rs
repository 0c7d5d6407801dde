//! All benchmarks of an evaluation in one pool of samples in flight.

use std::path::Path;
use std::sync::Arc;

use evenkeel_proto::SamplingSettings;
use evenkeel_proto::v1::WeightsRef;
use evenkeel_run::{AnswerFile, EvaluationAnswer, EvaluationManifest};
use evenkeel_trust::{AnswerChoice, AuditedSample, SampledDistribution};

use super::benchmark::Benchmarks;
use super::group_answers::answers_of;
use super::scores::Scores;
use crate::error::{Halt, RunError};
use crate::rollout::{RolloutContext, RolloutScheduler, SampledGroup};

#[derive(Debug, Clone)]
pub(crate) struct EvaluationTarget {
    pub(crate) step: u64,
    /// The weights that must answer; `None`: those that the engines have.
    pub(crate) weights: Option<WeightsRef>,
    /// What tells the weights apart from others.
    pub(crate) digest: String,
}

/// Answers that are audited, which are chosen before anything is sampled.
#[derive(Debug, Default)]
pub(crate) struct AuditedAnswers {
    /// Answers that are wanted.
    pub(crate) choice: AnswerChoice,
    /// Each with the distribution that it was drawn from.
    pub(crate) taken: Vec<(AuditedSample, SampledDistribution)>,
    /// Problems with answers from before, which are not looked at.
    pub(crate) earlier: u64,
}

impl AuditedAnswers {
    /// Takes the chosen answers of a group.
    fn take(&mut self, group: &SampledGroup, sampling: &SamplingSettings) {
        let distribution = SampledDistribution {
            temperature: sampling.temperature,
            top_p: sampling.top_p,
            top_k: sampling.top_k,
            min_p: sampling.min_p,
            end_token_ids: Vec::new(),
        };
        let taken = self.choice.take(group, group.samples().len() as u32);
        self.taken.extend(taken.into_iter().map(|answer| (answer, distribution.clone())));
    }
}

/// A benchmark's answers so far.
struct BenchmarkFile {
    file: AnswerFile,
    scores: Scores,
}

/// Samples, verifies and writes what the folder does not have yet. Existing answers are not sampled again, where they
/// are answers of the same weights to the same problems under the same settings; a problem with an answer that has no
/// verdict is sampled again.
///
/// `None` where a stop after the step was requested meanwhile: the rest is sampled when the evaluation continues.
///
/// # Errors
/// A service that stays away, a disk that stays full, more samples that took too long than may be left out, an
/// immediate stop.
pub(crate) async fn evaluate(
    rollouts: &Arc<RolloutContext>,
    benchmarks: &Benchmarks,
    asked: &EvaluationTarget,
    folder: &Path,
    audited: &mut AuditedAnswers,
) -> Result<Option<Vec<Scores>>, Halt> {
    let services = rollouts.services();
    let retrier = services.retrier();
    let mut opened = None;
    retrier.write(folder, || open(benchmarks, asked, rollouts.seed(), folder).map(|open| opened = Some(open))).await?;
    let mut all = opened.unwrap_or_default();

    let mut scheduler = RolloutScheduler::new(Arc::clone(rollouts), asked.weights.clone());
    let mut missing = 0_u64;
    let mut answers = 0_u64;
    // The longest answers first, so that engines are not left with a few of them at the end.
    let mut order: Vec<_> = benchmarks.iter().zip(&all).collect();
    order.sort_by_key(|(benchmark, _)| std::cmp::Reverse(benchmark.sampling().max_tokens));
    for (benchmark, progress) in order {
        for (index, request) in benchmark.requests(asked.step) {
            if progress.scores.has(index) {
                audited.earlier += 1;
                continue;
            }
            missing += 1;
            answers += u64::from(benchmark.samples());
            scheduler.add(request);
        }
    }
    audited.choice.among(answers);
    for _ in 0..missing {
        let group = tokio::select! {
            biased;
            halt = services.stop().now() => return Err(halt),
            _ = services.stop().any() => return Ok(None),
            group = scheduler.next_group() => group?,
        };
        // A verdict that a judge's budget denied would be missing for good in a file that says that it is complete.
        if services.stop().used_budget().is_some() {
            return Ok(None);
        }
        let index = benchmarks.index_of(group.number());
        let found = index.and_then(|(which, index)| Some((benchmarks.iter().nth(which)?, all.get_mut(which)?, index)));
        let Some((benchmark, progress, index)) = found else {
            return Err(RunError::Defect(format!("group {} belongs to no benchmark", group.number())).into());
        };
        audited.take(&group, benchmark.sampling());
        let answers = answers_of(benchmark, index, &group, rollouts.tokenizer())?;
        let path = progress.file.path().to_owned();
        retrier.write(&path, || progress.file.append(index, &answers)).await?;
        progress.scores.add(index, &answers);
    }
    let what = format!("evaluation at step {}", asked.step);
    scheduler.dropped_samples().check_late(&what, services.settings())?;
    scheduler.dropped_samples().check_invalid(&what, services.settings())?;
    for progress in &all {
        retrier.write(progress.file.path(), || progress.file.finish()).await?;
    }
    Ok(Some(all.into_iter().map(|progress| progress.scores).collect()))
}

/// Refuses a folder with answers to anything else: outside of a run nobody else would miss them.
///
/// # Errors
/// [`RunError::Directory`].
pub(crate) fn refuse_other(
    benchmarks: &Benchmarks,
    asked: &EvaluationTarget,
    seed: u64,
    folder: &Path,
) -> Result<(), RunError> {
    let manifest = EvaluationManifest::new(asked.step, &asked.digest, seed, benchmarks.asked());
    match EvaluationManifest::read(folder).and_then(|before| before.difference(&manifest)) {
        None => Ok(()),
        Some(other) => {
            let message =
                format!("has answers to another evaluation ({other}), allowed: the same one, or a new folder");
            Err(RunError::directory(folder, message))
        }
    }
}

/// Opens the files of all benchmarks, without answers to anything but what is evaluated now.
fn open(
    benchmarks: &Benchmarks,
    asked: &EvaluationTarget,
    seed: u64,
    folder: &Path,
) -> Result<Vec<BenchmarkFile>, RunError> {
    std::fs::create_dir_all(folder).map_err(RunError::file(folder))?;
    let manifest = EvaluationManifest::new(asked.step, &asked.digest, seed, benchmarks.asked());
    let before = EvaluationManifest::read(folder);
    let mut all = Vec::new();
    for benchmark in benchmarks.iter() {
        let name = benchmark.file();
        let (mut file, mut groups) = AnswerFile::open(folder, &name)?;
        if !before.as_ref().is_some_and(|before| before.shares(&manifest, &name)) {
            file.clear()?;
            groups.clear();
        }
        let scores = Scores::new(&benchmark.name, benchmark.samples(), benchmark.in_average);
        let mut scores = scores.by_source(benchmark.sources());
        let is_whole = |answers: &[EvaluationAnswer]| answers.iter().all(|answer| answer.verdict.is_valid());
        for (index, answers) in groups.iter().filter(|(_, answers)| is_whole(answers)) {
            scores.add(*index, answers);
        }
        all.push(BenchmarkFile { file, scores });
    }
    // Last: until it exists, the files are not taken for answers to what is evaluated.
    manifest.write(folder)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::EvaluationJudge;
    use super::super::benchmark::tests::benchmarks;
    use super::*;

    fn asked(step: u64, digest: &str) -> EvaluationTarget {
        EvaluationTarget { step, weights: None, digest: digest.to_owned() }
    }

    fn answer(index: u64, verdict: &str) -> EvaluationAnswer {
        serde_json::from_value(serde_json::json!({
            "benchmark": "a", "problem": "p", "index": index, "sample": 0, "prompt": "", "text": "", "token_ids": [1],
            "finish_reason": "stop", "verdict": verdict, "reason": "", "score": (verdict == "correct").then_some(1.0),
        }))
        .unwrap()
    }

    /// The problems that a folder has answers to, once it is opened for that.
    fn kept(folder: &Path, benchmarks: &Benchmarks, asked: &EvaluationTarget, seed: u64) -> Vec<u64> {
        let opened = open(benchmarks, asked, seed, folder).unwrap();
        (0..9).filter(|index| opened[0].scores.has(*index)).collect()
    }

    #[test]
    fn answers_count_for_the_same_weights_problems_and_seed_only() {
        let of_three = benchmarks("a", 3);
        type Open<'a> = &'a dyn Fn(&Path) -> Vec<u64>;
        let others: [(Open, &str); 4] = [
            (&|folder| kept(folder, &of_three, &asked(20, "other"), 1), "other weights"),
            (&|folder| kept(folder, &of_three, &asked(40, "weights"), 1), "another step"),
            (&|folder| kept(folder, &of_three, &asked(20, "weights"), 2), "another seed"),
            (&|folder| kept(folder, &benchmarks("a", 4), &asked(20, "weights"), 1), "another problem"),
        ];
        for (open_as, what) in others {
            let dir = tempfile::tempdir().unwrap();
            let mut opened = open(&of_three, &asked(20, "weights"), 1, dir.path()).unwrap();
            opened[0].file.append(0, &[answer(0, "correct")]).unwrap();
            opened[0].file.append(1, &[answer(1, "invalid")]).unwrap();
            let same = kept(dir.path(), &of_three, &asked(20, "weights"), 1);
            assert_eq!(same, [0], "what has no verdict is asked again");
            assert_eq!(open_as(dir.path()), [0; 0], "{what}");
            assert_eq!(kept(dir.path(), &of_three, &asked(20, "weights"), 1), [0; 0], "they were removed");
        }
    }

    #[test]
    fn answers_of_another_judge_are_refused_where_it_judges_them() {
        let dir = tempfile::tempdir().unwrap();
        let judged = |digest: &str, undecided: bool| {
            let mut benchmarks = benchmarks("a", 3);
            benchmarks.judged_by(&EvaluationJudge { digest: digest.to_owned(), undecided }, |_| false);
            benchmarks
        };
        let refused = |benchmarks: &Benchmarks| {
            refuse_other(benchmarks, &asked(0, "w"), 1, dir.path()).err().map(|error| error.to_string())
        };
        open(&benchmarks("a", 3), &asked(0, "w"), 1, dir.path()).unwrap();
        assert_eq!(refused(&judged("one", false)), None, "it judges none of them");
        open(&judged("one", true), &asked(0, "w"), 1, dir.path()).unwrap();
        assert_eq!(refused(&judged("one", true)), None);
        let error = refused(&judged("two", true)).unwrap();
        assert!(error.contains("another judge, or another rubric, for benchmark `a`"), "{error}");
    }

    #[test]
    fn outside_of_a_run_answers_to_something_else_are_refused_by_what_differs() {
        let dir = tempfile::tempdir().unwrap();
        let (one, refused) = (benchmarks("a", 3), |benchmarks: &Benchmarks, digest: &str, seed: u64| {
            refuse_other(benchmarks, &asked(0, digest), seed, dir.path()).err().map(|error| error.to_string())
        });
        assert_eq!(refused(&one, "w", 1), None, "an empty folder may be used by any evaluation");
        open(&one, &asked(0, "w"), 1, dir.path()).unwrap();
        assert_eq!(refused(&one, "w", 1), None);
        for (found, words) in [
            (refused(&one, "other", 1), "another model, or other weights"),
            (refused(&one, "w", 2), "seed 1, not 2"),
            (refused(&benchmarks("a", 2), "w", 1), "other problems or prompts in benchmark `a`"),
            (refused(&benchmarks("b", 3), "w", 1), "with benchmark `a`"),
        ] {
            let found = found.unwrap();
            assert!(found.contains(words), "{found}");
        }
    }
}
