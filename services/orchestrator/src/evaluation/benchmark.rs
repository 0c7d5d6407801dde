//! What an evaluation asks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use evenkeel_data::{Cancel, Dataset, Problem, Task, TaskKind};
use evenkeel_host::sha256;
use evenkeel_proto::{FieldError, Purpose, SamplingSettings};
use evenkeel_run::AskedBenchmark;

use crate::data::{Encoder, Fit, Prompt, encode, environments};
use crate::error::RunError;
use crate::rollout::{GroupRequest, GroupSampling};
use crate::settings::{AnswerSampling, LoopSettings};

/// The numbers of a benchmark's groups: its own half, so that samples do not depend on which other benchmarks are
/// evaluated.
const HALF: u32 = 32;

/// Problems that are evaluated together and reported under one name.
#[derive(Debug)]
pub(crate) struct Benchmark {
    pub(super) name: String,
    prompts: Vec<Prompt>,
    sampling: Arc<GroupSampling>,
    /// The upper half of the numbers of its groups; 0 for held-out problems.
    half: u64,
    /// Whether it counts in the average.
    pub(super) in_average: bool,
    /// Digest of what decides the verdicts of the judge that judges its answers, where that may change.
    judge: Option<String>,
}

/// The judge of an evaluation. Answers are kept for one that decides likewise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationJudge {
    /// Digest of what decides its verdicts.
    pub digest: String,
    /// Whether it also decides mathematical answers that the rule leaves undecided.
    pub undecided: bool,
}

/// Everything that an evaluation asks.
#[derive(Debug)]
pub(crate) struct Benchmarks(Vec<Benchmark>);

/// Renders and encodes the problems of the named benchmarks.
///
/// # Errors
/// Answers that do not fit the context; prompts that are refused; a benchmark without a prompt that is left.
pub(crate) fn named_prompts(
    problems: &[Vec<Problem>],
    settings: &LoopSettings,
    dataset: &mut Dataset,
    encoder: &Encoder,
    context: usize,
    cancel: Cancel<'_>,
) -> Result<Vec<Vec<Prompt>>, RunError> {
    let evaluation = &settings.evaluation;
    let data = &settings.data;
    let mut all = Vec::new();
    for (index, (benchmark, problems)) in evaluation.benchmarks.iter().zip(problems).enumerate() {
        let field = |name: &str| format!("evaluation.benchmarks[{index}].{name}");
        let max_tokens = evaluation.sampling_of(benchmark, &settings.sampling).max_tokens as usize;
        if max_tokens >= context {
            let allowed = format!("below the model's context, which is {context}, prompt and response together");
            return Err(FieldError::new(field("max_tokens"), max_tokens, allowed).into());
        }
        let (overlong, invalid_rows) = (data.overlong, data.invalid_rows);
        let fit = Fit { context, max_tokens, overlong, invalid_rows, hints: false };
        let prompts = encode(problems, &[benchmark.name().into()], &mut dataset.report, encoder, fit, cancel).map_err(
            |error| match error {
                error @ (RunError::PromptTooLong { .. } | RunError::Prompt { .. }) => {
                    RunError::Benchmark { name: benchmark.name().to_owned(), source: Box::new(error) }
                }
                other => other,
            },
        )?;
        if prompts.is_empty() {
            let allowed = "at least one prompt that the template renders and that leaves room for a response";
            return Err(FieldError::new(field("files"), "0 prompts", allowed).into());
        }
        all.push(prompts);
    }
    Ok(all)
}

impl Benchmarks {
    /// The held-out problems of the training data under its name, and the named benchmarks with their prompts.
    ///
    /// # Errors
    /// Two benchmarks with the same name.
    pub(crate) fn new(
        settings: &LoopSettings,
        (data, held_out): (&str, &[Prompt]),
        named: Vec<Vec<Prompt>>,
    ) -> Result<Self, RunError> {
        let evaluation = &settings.evaluation;
        let training = &settings.sampling;
        let group = |sampling: AnswerSampling| {
            Arc::new(GroupSampling {
                settings: SamplingSettings {
                    temperature: sampling.temperature,
                    top_p: sampling.top_p,
                    stop_token_ids: training.stop_token_ids.clone(),
                    seeded: training.seeded,
                    ..SamplingSettings::plain(sampling.max_tokens, 0)
                },
                samples: sampling.samples,
            })
        };
        let held_out: Vec<Prompt> = held_out.iter().take(evaluation.problems as usize).cloned().collect();
        let mut all = Vec::new();
        if !held_out.is_empty() {
            let sampling = group(evaluation.sampling(training));
            all.push(Benchmark {
                name: data.to_owned(),
                prompts: held_out,
                sampling,
                half: 0,
                in_average: false,
                judge: None,
            });
        }
        for (index, (benchmark, prompts)) in evaluation.benchmarks.iter().zip(named).enumerate() {
            let name = benchmark.name();
            let sampling = group(evaluation.sampling_of(benchmark, training));
            let half = u64::from(evenkeel_seeds::upper_half(&name));
            // Held-out problems have the name of the data. A collision is practically impossible, but would be silent.
            if let Some(other) = all.iter().find(|other| other.half == half || file_name(&other.name) == name) {
                let field = format!("evaluation.benchmarks[{index}].name");
                let allowed = format!("a name that does not collide with `{}`, which is evaluated as well", other.name);
                return Err(FieldError::quoted(field, name, allowed).into());
            }
            all.push(Benchmark { name, prompts, sampling, half, in_average: true, judge: None });
        }
        Ok(Self(all))
    }

    /// Notes by which judge the answers are judged that it judges: those of the verifiers that it is.
    pub(crate) fn judged_by(&mut self, judge: &EvaluationJudge, is_judge: impl Fn(&str) -> bool) {
        for benchmark in &mut self.0 {
            let judges = |task: &Task| {
                task.verifier().is_some_and(&is_judge) || judge.undecided && task.kind() == TaskKind::Math
            };
            if benchmark.prompts.iter().any(|prompt| judges(&prompt.task)) {
                benchmark.judge = Some(judge.digest.clone());
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, Benchmark> {
        self.0.iter()
    }

    /// How each is asked, by the name of its file of answers.
    pub(super) fn asked(&self) -> BTreeMap<String, AskedBenchmark> {
        let asked = |benchmark: &Benchmark| {
            let sampling = benchmark.sampling();
            AskedBenchmark {
                problems: benchmark.problems(),
                samples: benchmark.samples(),
                temperature: sampling.temperature,
                top_p: sampling.top_p,
                max_tokens: sampling.max_tokens,
                stop_token_ids: sampling.stop_token_ids.clone(),
                digest: benchmark.digest(),
                judge: benchmark.judge.clone(),
            }
        };
        self.iter().map(|benchmark| (benchmark.file(), asked(benchmark))).collect()
    }

    /// Longest prompt and response together, in tokens.
    pub(crate) fn context_tokens(&self) -> usize {
        let longest_sample = |benchmark: &Benchmark| {
            let longest = benchmark.prompts.iter().map(|prompt| prompt.token_ids.len()).max().unwrap_or(0);
            longest + benchmark.sampling.settings.max_tokens as usize
        };
        self.0.iter().map(longest_sample).max().unwrap_or(0)
    }

    /// The kinds of tasks in it.
    pub(crate) fn kinds(&self) -> BTreeSet<TaskKind> {
        self.0.iter().flat_map(|benchmark| &benchmark.prompts).map(|prompt| prompt.task.kind()).collect()
    }

    /// The custom verifiers that judge any of it.
    pub(crate) fn verifiers(&self) -> BTreeSet<&str> {
        self.0.iter().flat_map(|benchmark| &benchmark.prompts).filter_map(|prompt| prompt.task.verifier()).collect()
    }

    /// The environments that any of it is done in.
    pub(crate) fn environments(&self) -> BTreeSet<&str> {
        environments(self.0.iter().flat_map(|benchmark| &benchmark.prompts))
    }

    /// The index of the benchmark that a group belongs to, and its own in it.
    pub(super) fn index_of(&self, number: u64) -> Option<(usize, u64)> {
        let benchmark = self.0.iter().position(|benchmark| benchmark.half == number >> HALF)?;
        Some((benchmark, number & u64::from(u32::MAX)))
    }
}

impl Benchmark {
    /// Samples for each problem.
    pub(super) fn samples(&self) -> u32 {
        self.sampling.samples
    }

    pub(super) fn sampling(&self) -> &SamplingSettings {
        &self.sampling.settings
    }

    pub(super) fn problems(&self) -> usize {
        self.prompts.len()
    }

    /// Name of a problem.
    pub(super) fn problem(&self, index: u64) -> &str {
        usize::try_from(index).ok().and_then(|index| self.prompts.get(index)).map_or("", |prompt| &prompt.id)
    }

    /// What each problem counts as in metrics by data source.
    pub(super) fn sources(&self) -> Vec<Arc<str>> {
        self.prompts.iter().map(|prompt| Arc::clone(&prompt.data_source)).collect()
    }

    /// The name as a file may have it: data may have any name without a slash.
    pub(super) fn file(&self) -> String {
        file_name(&self.name)
    }

    /// What an evaluation asks for, by the indices of its problems.
    pub(super) fn requests(&self, step: u64) -> impl Iterator<Item = (u64, GroupRequest)> {
        (0..).zip(&self.prompts).map(move |(index, prompt)| {
            let number = self.half << HALF | index;
            (index, GroupRequest::new(Purpose::Eval, step, number, (index, prompt), &self.sampling))
        })
    }

    /// Digest of the evaluated problems, in their order.
    pub(super) fn digest(&self) -> String {
        let mut text = String::new();
        for prompt in &self.prompts {
            let golds: Vec<&str> = prompt.task.golds().collect();
            text +=
                &format!("{:?} {} {golds:?} {:?}\n", prompt.task.kind(), prompt.task.question_id(), prompt.token_ids);
        }
        sha256(text)
    }
}

fn file_name(name: &str) -> String {
    let good = |character: char| character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.');
    name.chars().map(|character| if good(character) { character } else { '_' }).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A benchmark of that many problems, one sample for each.
    pub(in crate::evaluation) fn benchmarks(name: &str, problems: u32) -> Benchmarks {
        let prompt = |number: u32| Prompt {
            id: format!("p{number}").into(),
            task: Task::math(["1".to_owned()]).unwrap(),
            environment: None,
            asked: None,
            token_ids: vec![number].into(),
            hinted: None,
            source: 0,
            data_source: "a".into(),
        };
        let sampling = GroupSampling { settings: SamplingSettings::plain(4, 0), samples: 1 };
        Benchmarks(vec![Benchmark {
            name: name.to_owned(),
            prompts: (0..problems).map(prompt).collect(),
            sampling: sampling.into(),
            half: evenkeel_seeds::upper_half(name).into(),
            in_average: true,
            judge: None,
        }])
    }

    #[test]
    fn a_group_is_found_again_by_its_number() {
        let benchmarks = benchmarks("a", 3);
        let requests: Vec<_> = benchmarks.0[0].requests(7).collect();
        assert_eq!(requests.len(), 3);
        for (index, request) in requests {
            assert_eq!(benchmarks.index_of(request.number()), Some((0, index)));
        }
        assert_eq!((benchmarks.index_of(2), benchmarks.context_tokens()), (None, 5));
    }

    #[test]
    fn any_name_of_data_names_a_file() {
        assert_eq!(file_name("DAPO Math (17k)"), "DAPO_Math__17k_");
    }
}
