//! What a recipe needs to start, as far as it can be told without a service: one function, which a run and its dry run
//! call.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use evenkeel_data::{Cancel, Cancelled, DataReport, TaskKind};
use evenkeel_model_folder::{ConfigFile, Folder};
use evenkeel_proto::FieldError;
use evenkeel_run::Input;

use crate::clients::Endpoints;
use crate::data::{Demonstrations, Encoder, Fit, Prompts, benchmark_problems, dataset};
use crate::error::RunError;
use crate::evaluation::{Benchmarks, named_prompts};
use crate::inputs::{Known, of_data, of_environments, of_model, of_rewards, of_teacher};
use crate::load::{LoadLimits, Loading};
use crate::recipe::ResolvedRecipe;
use crate::rejudge::{Rejudge, Repeats};
use crate::settings::{DataSettings, LoopSettings};
use crate::text::Tokenizer;
use crate::trial::TrialRows;

/// A recipe whose files are read and fit each other.
pub(in crate::run) struct Checked {
    /// With the token at which a turn of the chat template ends.
    pub(super) settings: LoopSettings,
    /// What the user should know about settings and data.
    pub(super) notes: Vec<String>,
    pub(super) encoder: Encoder,
    pub(super) vocabulary_size: u32,
    /// Tokens that the model can take at once.
    pub(super) context: usize,
    pub(super) prompts: Prompts,
    pub(super) benchmarks: Benchmarks,
    pub(super) demonstrations: Option<Demonstrations>,
    /// What became of the rows of the data.
    pub(super) report: DataReport,
    /// As [`ResolvedRecipe::reward_files`].
    reward_files: Vec<PathBuf>,
    /// With those of the custom verifiers that the data needs.
    pub(super) endpoints: Endpoints,
    folder: Folder,
    teacher: Option<Folder>,
}

/// What a run would ask of its services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartNeeds {
    /// Longest prompt and response together, in tokens, of training and of evaluations.
    pub context_tokens: usize,
    /// Kinds of tasks in the data.
    pub kinds: Vec<TaskKind>,
    /// Custom verifiers that judge any of it.
    pub verifiers: BTreeSet<String>,
}

impl Checked {
    /// Reads everything that a recipe names but the weights of its model. A fresh model is created below `folder`.
    ///
    /// # Errors
    /// Whatever is wrong with it: settings, data, benchmarks, tokenizer, prompts, demonstrations, verifiers.
    pub(in crate::run) fn of(
        resolved: &ResolvedRecipe,
        folder: &Path,
        endpoints: &Endpoints,
        loading: &Loading,
    ) -> Result<Self, RunError> {
        let mut settings = resolved.settings.clone();
        evenkeel_config::Settings::validate(&settings)?;
        loading.limits.validate_run(&settings)?;
        let seed = settings.run.seed;
        let held_out = settings.evaluation.problems;
        let limits = loading.limits.data();
        let cancel: Cancel<'_> = &|| loading.cancel.is_cancelled();
        let mut dataset = dataset(&settings.data, seed, held_out, &limits, cancel)?;
        let asked = benchmark_problems(&settings, &mut dataset, &limits, cancel)?;
        Cancelled::check(cancel)?;
        let folder = resolved.model_folder(folder, &loading.limits)?;
        let folder = loading.model_folder(&folder);
        let config = ConfigFile::read(&folder)?;
        let tokenizer = Tokenizer::of(&folder, &config)?;
        let context = config.max_position_embeddings()? as usize;
        let vocabulary_size = config.vocab_size()?;
        if let Some(id) = settings.sampling.stop_token_ids.iter().find(|&&id| id >= vocabulary_size) {
            let allowed = format!("ids below vocab_size of config.json, which is {vocabulary_size}");
            return Err(FieldError::new("sampling.stop_token_ids", id, allowed).into());
        }
        let max_tokens = settings.sampling.max_tokens as usize;
        let DataSettings { overlong, invalid_rows, .. } = settings.data;
        let fit = Fit { context, max_tokens, overlong, invalid_rows, hints: true };
        let encoder = Encoder::new(&folder, tokenizer, &settings, &endpoints.described)?;
        let held_out_tokens = settings.evaluation.sampling(&settings.sampling).max_tokens as usize;
        let prompts = Prompts::encode(&mut dataset, &encoder, fit, held_out_tokens, cancel)?;
        if let Some(hint) = settings.data.hint.as_ref().filter(|_| !prompts.has_hints()) {
            let allowed = "absent where no row that is trained on has a text in its column `hint`";
            return Err(FieldError::quoted("data.hint", hint, allowed).into());
        }
        let named = named_prompts(&asked, &settings, &mut dataset, &encoder, context, cancel)?;
        let demonstrations = match settings.warm_start.steps {
            0 => None,
            steps => {
                let demonstrations = Demonstrations::of(&dataset, seed, steps, context)?;
                demonstrations.check(&encoder, cancel)?;
                Some(demonstrations)
            }
        };
        let notes = stop_at_end_of_turn(&mut settings, &encoder.tokenizer)
            .into_iter()
            .chain(settings.pipeline.note())
            .chain(settings.run.rollouts_note(&settings.sampling))
            .chain(settings.audit_note())
            .collect();
        if resolved.learns_from_rewards && prompts.kinds().into_iter().any(|kind| kind == TaskKind::Unjudged) {
            let allowed = "another verifier where rewards count: rows without a verdict go with \
                           learner.distillation.reward_weight = 0";
            return Err(FieldError::quoted("the verifier of a row", "none", allowed).into());
        }
        let benchmarks = Benchmarks::new(&settings, (&prompts.name, &prompts.held_out), named)?;
        let needed = &prompts.verifiers() | &benchmarks.verifiers();
        refuse_idle_verifiers(&settings.data, &needed)?;
        require_environments(endpoints, &(&prompts.environments() | &benchmarks.environments()))?;
        let endpoints = with_verifiers(endpoints, &settings.data, &needed, &loading.limits)?;
        let report = dataset.report;
        Ok(Self {
            settings,
            notes,
            encoder,
            vocabulary_size,
            context,
            prompts,
            benchmarks,
            demonstrations,
            report,
            reward_files: resolved.reward_files.clone(),
            endpoints,
            folder,
            teacher: resolved.teacher.as_deref().map(|teacher| loading.model_folder(teacher)),
        })
    }

    /// What is in the files, by their digests, which are noted in the report of the data as well.
    ///
    /// # Errors
    /// A file that cannot be read any more; no longer wanted.
    pub(super) fn inputs(&mut self, known: Known<'_>) -> Result<Vec<Input>, RunError> {
        let mut found = of_data(&mut self.report, known)?;
        found.extend(of_model(&self.folder, known)?);
        if let Some(teacher) = &self.teacher {
            found.extend(of_teacher(teacher, known)?);
        }
        let verifiers = self.settings.data.verifiers.values();
        let of_verifiers = verifiers.filter_map(|verifier| verifier.path.as_deref());
        found.extend(of_rewards(of_verifiers.chain(self.reward_files.iter().map(PathBuf::as_path)), known)?);
        found.extend(of_environments(&self.endpoints.described));
        Ok(found)
    }

    /// The rows with which the user's own code can be tried.
    pub(in crate::run) fn trial_rows(&self) -> TrialRows {
        TrialRows::of(&self.prompts, self.encoder.tokenizer.clone(), self.settings.clone())
    }

    /// Judges recorded answers against its rows, with the verifiers of its endpoints.
    pub(in crate::run) fn rejudge(self, repeats: Repeats) -> Result<Rejudge, RunError> {
        Rejudge::of(self.prompts, self.encoder.tokenizer, self.settings, &self.endpoints, repeats)
    }

    /// What the run would ask of its services.
    pub(in crate::run) fn needs(&self) -> StartNeeds {
        let prompts = &self.prompts;
        let benchmarks = &self.benchmarks;
        let mut kinds: BTreeSet<_> = benchmarks.kinds().into_iter().collect();
        kinds.extend(prompts.kinds());
        let verifiers = &prompts.verifiers() | &benchmarks.verifiers();
        StartNeeds {
            context_tokens: prompts.training_context(&self.settings.sampling).max(benchmarks.context_tokens()),
            kinds: kinds.into_iter().collect(),
            verifiers: verifiers.into_iter().map(str::to_owned).collect(),
        }
    }
}

/// A verifier that judges nothing was declared for something.
fn refuse_idle_verifiers(data: &DataSettings, needed: &BTreeSet<&str>) -> Result<(), RunError> {
    match data.verifiers.keys().find(|name| !needed.contains(name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let allowed = format!(
                "one that judges some: data.verifier = \"{name}\" for all rows, data.verifiers.{name}.data_sources for \
                 those of a `data_source`, or \"verifier\": \"{name}\" in the rows themselves"
            );
            Err(FieldError::new(format!("data.verifiers.{name}"), "a verifier of no row of the data", allowed).into())
        }
    }
}

/// Refuses tasks that are done in an environment where no worker has any.
pub(in crate::run) fn require_environments(endpoints: &Endpoints, needed: &BTreeSet<&str>) -> Result<(), RunError> {
    if needed.is_empty() || !endpoints.environment.is_empty() {
        return Ok(());
    }
    let needed: Vec<_> = needed.iter().copied().collect();
    let allowed = format!("the addresses of environment workers, since tasks are done in {}", needed.join(", "));
    Err(FieldError::missing("endpoints.environment", allowed).into())
}

/// The addresses of the custom verifiers that the data needs, in addition to those of the services.
pub(in crate::run) fn with_verifiers(
    endpoints: &Endpoints,
    data: &DataSettings,
    needed: &BTreeSet<&str>,
    limits: &LoadLimits,
) -> Result<Endpoints, RunError> {
    let mut verifiers = BTreeMap::new();
    for &name in needed {
        let field = || format!("data.verifiers.{name}.endpoints");
        let in_recipe = data.verifiers.get(name).map(|verifier| &verifier.endpoints).filter(|urls| !urls.is_empty());
        let urls = match (endpoints.verifiers.get(name), in_recipe) {
            (Some(urls), _) => urls,
            (None, Some(urls)) if limits.verifier_addresses => urls,
            (None, Some(urls)) => {
                let allowed = "absent: this server takes no addresses from recipes (limits.verifier_addresses), and \
                    its endpoints.verifiers has no such name";
                return Err(FieldError::new(field(), urls.join(", "), allowed).into());
            }
            (None, None) => return Err(FieldError::missing(field(), "the addresses of its workers").into()),
        };
        verifiers.insert(name.to_owned(), urls.clone());
    }
    Ok(Endpoints { verifiers, ..endpoints.clone() })
}

/// Engines that read the model's files do not know where a turn of its chat template ends. Says so where it makes a
/// difference.
pub(in crate::run) fn stop_at_end_of_turn(settings: &mut LoopSettings, tokenizer: &Tokenizer) -> Option<String> {
    let stops = &mut settings.sampling.stop_token_ids;
    let id = tokenizer.end_of_turn().filter(|id| !stops.contains(id))?;
    stops.push(id);
    let token = tokenizer.token(id);
    Some(format!(
        "responses also end at {token} ({id}), the end of a chat turn, which eos_token and eos_token_id do not name"
    ))
}
