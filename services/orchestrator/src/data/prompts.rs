//! Problems as the model reads them: token ids, checked once, before anything starts.

use std::collections::BTreeSet;
use std::sync::Arc;

use evenkeel_chat::PromptError;
use evenkeel_data::{
    Cancel, Cancelled, DataReport, DataSource, Dataset, EnvironmentTask, Problem, Purpose, Reason, Task, TaskKind,
};
use evenkeel_proto::FieldError;

use super::renderer::Encoder;
use super::turns::Asked;
use crate::error::RunError;
use crate::settings::{InvalidRows, Overlong, PolicySamplingSettings};

/// Most data sources that metrics are kept apart for.
pub(crate) const MAX_DATA_SOURCES: usize = 32;

/// Prompts that are rendered between two checks for cancellation.
const RENDERED_TOGETHER: usize = 1024;

/// A problem with its tokens.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    /// The name of its problem.
    pub(crate) id: Arc<str>,
    /// What answers are judged against.
    pub(crate) task: Task,
    /// Environment of a task with several turns.
    pub(crate) environment: Option<EnvironmentTask>,
    /// What the row asks, where its environment may add to the prompt.
    pub(crate) asked: Option<Arc<Asked>>,
    pub(crate) token_ids: Arc<[u32]>,
    /// What the model reads as its own teacher, where the row has a hint.
    pub(crate) hinted: Option<Arc<[u32]>>,
    /// Index of its source.
    pub(crate) source: usize,
    /// Name of the data source in metrics: the column `data_source`, or the name of its source.
    pub(crate) data_source: Arc<str>,
}

/// All problems of a run, encoded.
#[derive(Debug)]
pub(crate) struct Prompts {
    /// Name of the data in metrics.
    pub(crate) name: String,
    /// Where `train` comes from.
    pub(crate) sources: Vec<DataSource>,
    pub(crate) train: Vec<Prompt>,
    pub(crate) held_out: Vec<Prompt>,
}

/// The room that prompts have, and what becomes of those that do not fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit {
    /// The model's context, in tokens.
    pub(crate) context: usize,
    /// The longest response, in tokens.
    pub(crate) max_tokens: usize,
    pub(crate) overlong: Overlong,
    pub(crate) invalid_rows: InvalidRows,
    /// Whether hints are rendered, too.
    pub(crate) hints: bool,
}

impl Prompts {
    /// What to know about a data set with fewer problems than a step has prompts.
    pub(crate) fn too_few(&self, prompts_per_step: u32) -> Option<String> {
        let problems = self.train.len();
        (problems < prompts_per_step as usize).then(|| {
            format!(
                "{problems} problems for {prompts_per_step} prompts a step (sampling.prompts_per_step): a step asks \
                 the same problem several times"
            )
        })
    }

    /// Longest prompt and response together that are trained on, in tokens.
    pub(crate) fn training_context(&self, sampling: &PolicySamplingSettings) -> usize {
        let hinted = self.train.iter().filter_map(|prompt| prompt.hinted.as_ref());
        let longest = self.train.iter().map(|prompt| &prompt.token_ids).chain(hinted).map(|ids| ids.len()).max();
        longest.unwrap_or(0) + sampling.max_tokens as usize
    }

    /// Whether any row that is trained on has a hint.
    pub(crate) fn has_hints(&self) -> bool {
        self.train.iter().any(|prompt| prompt.hinted.is_some())
    }

    /// The kinds of tasks in it, in the order of kinds.
    pub(crate) fn kinds(&self) -> Vec<TaskKind> {
        let kinds: BTreeSet<_> = self.train.iter().chain(&self.held_out).map(|prompt| prompt.task.kind()).collect();
        kinds.into_iter().collect()
    }

    /// What the prompts to train on count as in metrics, in the order of names; none where there are too many to be
    /// kept apart.
    pub(crate) fn data_sources(&self) -> Vec<String> {
        let names: BTreeSet<_> = self.train.iter().map(|prompt| &*prompt.data_source).collect();
        if names.len() <= MAX_DATA_SOURCES { names.into_iter().map(str::to_owned).collect() } else { Vec::new() }
    }

    /// The custom verifiers that judge any of it.
    pub(crate) fn verifiers(&self) -> BTreeSet<&str> {
        self.train.iter().chain(&self.held_out).filter_map(|prompt| prompt.task.verifier()).collect()
    }

    /// The environments that any of it is done in.
    pub(crate) fn environments(&self) -> BTreeSet<&str> {
        environments(self.train.iter().chain(&self.held_out))
    }

    /// The sources of the problems to train on, in their order.
    pub(crate) fn sources_of_train(&self) -> impl Iterator<Item = usize> {
        self.train.iter().map(|prompt| prompt.source)
    }

    /// Renders and encodes a data set for a model of that context. What is left out or cut is counted in the report of
    /// the data set. `held_out_tokens`: the longest answer in an evaluation.
    ///
    /// # Errors
    /// A prompt that the chat template refuses, one without tokens, one that leaves no room for a response, where such
    /// are refused; a source without a prompt that is left.
    pub(crate) fn encode(
        dataset: &mut Dataset,
        encoder: &Encoder,
        fit: Fit,
        held_out_tokens: usize,
        cancel: Cancel<'_>,
    ) -> Result<Self, RunError> {
        let Dataset { name, sources, train, held_out, report } = dataset;
        let names: Vec<Arc<str>> = sources.iter().map(|source| source.name.as_str().into()).collect();
        let train = encode(train, &names, report, encoder, fit, cancel)?;
        let held_out_fit = Fit { max_tokens: held_out_tokens, hints: false, ..fit };
        let before: Vec<u64> = report.files.iter().map(|file| file.prompts).collect();
        let asked = encode(held_out, &names, report, encoder, held_out_fit, cancel)?;
        for (index, file) in report.files.iter_mut().enumerate().filter(|(_, file)| file.part == Purpose::Training) {
            let chosen = held_out.iter().filter(|problem| problem.origin.file == index).count() as u64;
            file.held_out = chosen - (before[index] - file.prompts);
        }
        for (index, source) in sources.iter().enumerate() {
            if !train.iter().any(|prompt| prompt.source == index) {
                let allowed =
                    format!("at least one prompt of at most {} tokens that the template renders", fit.allowed());
                let found = format!("no prompt that is left ({})", counts(report, &source.name));
                return Err(FieldError::new(format!("data source `{}`", source.name), found, allowed).into());
            }
        }
        Ok(Self { name: name.clone(), sources: sources.clone(), train, held_out: asked })
    }
}

/// The environments that prompts are done in.
pub(crate) fn environments<'a>(prompts: impl Iterator<Item = &'a Prompt>) -> BTreeSet<&'a str> {
    prompts.filter_map(|prompt| prompt.environment.as_ref()).map(|task| &*task.environment).collect()
}

impl Fit {
    /// The longest prompt, in tokens.
    fn allowed(&self) -> usize {
        self.context.saturating_sub(self.max_tokens)
    }
}

fn counts(report: &DataReport, source: &str) -> String {
    let files = report.files.iter().filter(|file| file.source == source);
    files.map(|file| file.counts()).collect::<Vec<_>>().join("; ")
}

/// Why a row whose prompt cannot be rendered yields none.
pub fn reason_of(error: &PromptError) -> Reason {
    match error {
        PromptError::ControlText { .. } => Reason::ControlText,
        _ => Reason::Unrenderable,
    }
}

/// Renders and encodes problems.
///
/// # Errors
/// As [`Prompts::encode`].
pub(crate) fn encode(
    problems: &[Problem],
    sources: &[Arc<str>],
    report: &mut DataReport,
    encoder: &Encoder,
    fit: Fit,
    cancel: Cancel<'_>,
) -> Result<Vec<Prompt>, RunError> {
    let Fit { context, max_tokens, overlong, invalid_rows, hints } = fit;
    let allowed = fit.allowed();
    let mut prompts = Vec::with_capacity(problems.len());
    let rendered = problems.chunks(RENDERED_TOGETHER).flat_map(|problems| {
        let rendered = if cancel() { Vec::new() } else { encoder.render_all(problems) };
        problems.iter().zip(rendered)
    });
    for (problem, rendered) in rendered {
        let id = &problem.id;
        let file = problem.origin.file;
        let rendered = match rendered {
            Ok(rendered) if rendered.token_ids.is_empty() => {
                Err((Reason::Unrenderable, "has 0 tokens, allowed: at least one token".to_owned()))
            }
            Ok(rendered) => match hints.then(|| encoder.render_hinted(problem)).transpose().map(Option::flatten) {
                Ok(hinted) => Ok((rendered.token_ids, hinted.map(|hinted| hinted.token_ids))),
                Err(error) => Err((reason_of(&error), format!("with its hint: {error}"))),
            },
            Err(error) => Err((reason_of(&error), error.to_string())),
        };
        let (mut token_ids, hinted) = match rendered {
            Ok(rendered) => rendered,
            Err((_, message)) if invalid_rows == InvalidRows::Refuse => {
                return Err(RunError::Prompt { id: id.to_string(), message });
            }
            Err((reason, message)) => {
                report.drop_prompt(file, reason, id, message);
                continue;
            }
        };
        let tokens = token_ids.len();
        if tokens > allowed {
            let message = format!("{tokens} tokens, allowed: at most {allowed}");
            match overlong {
                Overlong::Cut if allowed > 0 => {
                    // The end of a prompt has the question and the beginning of the response's turn.
                    token_ids.drain(..tokens - allowed);
                    report.cut(file, id, message);
                }
                Overlong::Skip => {
                    report.drop_prompt(file, Reason::TooLong, id, message);
                    continue;
                }
                Overlong::Refuse | Overlong::Cut => {
                    return Err(RunError::PromptTooLong { id: id.to_string(), tokens, allowed, context, max_tokens });
                }
            }
        }
        // Never cut, which the settings refuse: the model would lose the question alone as its teacher.
        if let Some(tokens) = hinted.as_ref().map(Vec::len).filter(|tokens| *tokens > allowed) {
            if overlong == Overlong::Skip {
                let message = format!("{tokens} tokens with its hint, allowed: at most {allowed}");
                report.drop_prompt(file, Reason::TooLong, id, message);
                continue;
            }
            let id = format!("{id} with its hint");
            return Err(RunError::PromptTooLong { id, tokens, allowed, context, max_tokens });
        }
        let source = problem.origin.source;
        let data_source = problem.data_source.clone().or_else(|| sources.get(source).cloned()).unwrap_or_default();
        prompts.push(Prompt {
            id: problem.id.to_string().into(),
            task: problem.task.clone(),
            environment: problem.environment.clone(),
            asked: encoder.asked(problem),
            token_ids: token_ids.into(),
            hinted: hinted.map(Arc::from),
            source,
            data_source,
        });
    }
    Cancelled::check(cancel)?;
    Ok(prompts)
}
