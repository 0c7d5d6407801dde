//! An evaluation without a run: the engines as they are, no learner.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use evenkeel_data::Dataset;
use evenkeel_environment::Descriptions;
use evenkeel_host::sha256;
use evenkeel_model_folder::{ConfigFile, Folder, name, weights_digest};
use evenkeel_proto::v1::{PauseMode, RunState, StepKind, WeightsRef};
use evenkeel_run::{DATA_FILE, Lock, MetricsLine, replace};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::preflight::Preflight;
use super::run_loop::{require_environments, stop_at_end_of_turn, with_verifiers};
use super::{StopOnDrop, StopWhen, Stopper};
use crate::clients::{Endpoints, Services, Stop};
use crate::data::{Encoder, benchmark_problems};
use crate::error::{Halt, Incompatible, RunError};
use crate::evaluation::{
    AuditedAnswers, Benchmarks, EvaluationJudge, EvaluationTarget, evaluate, named_prompts, refuse_other, write_scores,
};
use crate::events::{Events, RunProgress, Subscription};
use crate::load::LoadLimits;
use crate::rollout::{EngineWeights, RolloutContext};
use crate::settings::LoopSettings;
use crate::text::Tokenizer;

/// The metrics of a finished evaluation.
const RESULTS_FILE: &str = "results.json";
/// An evaluation of no run asks before the first step.
const STEP: u64 = 0;
/// Version of the adapter that it asks, if any.
const VERSION: u64 = 0;

/// What an evaluation without a run needs. The settings used are `evaluation.benchmarks`, `data`, `services`,
/// `sampling.max_tokens`, `sampling.stop_token_ids` and `run.seed`.
#[derive(Debug, Clone)]
pub struct EvaluationRequest {
    pub settings: LoopSettings,
    /// Folder with the tokenizer and the chat template of the model that the engines serve.
    pub model: PathBuf,
    /// Folder with a LoRA adapter of that model, which the engines compute beside it; absent: they answer as they are.
    pub adapter: Option<PathBuf>,
    /// Where answers go. A folder that has answers of the same evaluation is continued.
    pub output: PathBuf,
    pub generation: String,
    pub reward: Vec<String>,
    /// Environment workers; none where no task is done in an environment.
    pub environment: Vec<String>,
    /// What they say of environments that do not come with the program:
    /// [`describe_environments`](crate::describe_environments).
    pub described: Descriptions,
    /// Addresses of custom verifiers by name, beside those in `data.verifiers`.
    pub verifiers: BTreeMap<String, Vec<String>>,
    /// The judge of the reward service, if it has one.
    pub judge: Option<EvaluationJudge>,
}

/// An evaluation in a task of its own. Dropping it stops it; what was answered is kept.
pub struct EvaluationHandle {
    events: Events,
    stop: StopOnDrop,
    notes: Vec<String>,
    task: JoinHandle<Result<Option<MetricsLine>, RunError>>,
}

impl EvaluationRequest {
    /// Checks everything that needs no service, and starts. Must be called within a Tokio runtime; the services may
    /// still be starting.
    ///
    /// # Errors
    /// Benchmarks or a model that cannot be used; a folder with answers to another evaluation, or that another process
    /// writes to.
    pub fn start(self) -> Result<EvaluationHandle, RunError> {
        let Self { mut settings, model, adapter, output, generation, reward, environment, described, verifiers, judge } =
            self;
        settings.evaluation.problems = 0;
        evenkeel_config::Settings::validate(&settings)?;
        std::fs::create_dir_all(&output).map_err(RunError::file(&output))?;
        let lock = Lock::take(&output)?;

        let folder = Folder::new(&model);
        let config = ConfigFile::read(&folder)?;
        let tokenizer = Tokenizer::of(&folder, &config)?;
        let context = config.max_position_embeddings()? as usize;
        let vocabulary_size = config.vocab_size()?;
        let (mut dataset, cancel) = (Dataset::empty(), || false);
        let problems = benchmark_problems(&settings, &mut dataset, &LoadLimits::unbounded().data(), &cancel)?;
        let encoder = Encoder::new(&folder, tokenizer.clone(), &settings, &described)?;
        let prompts = named_prompts(&problems, &settings, &mut dataset, &encoder, context, &cancel)?;
        let notes =
            stop_at_end_of_turn(&mut settings, &tokenizer).into_iter().chain(dataset.report.warning()).collect();
        let mut benchmarks = Benchmarks::new(&settings, ("", &[]), prompts)?;
        if let Some(judge) = &judge {
            let verifiers = &settings.data.verifiers;
            benchmarks.judged_by(judge, |name| verifiers.get(name).is_some_and(|verifier| verifier.judge));
        }
        let adapter = adapter.as_deref().map(published).transpose()?;
        let beside = adapter.as_ref().map_or("", |adapter| &adapter.digest);
        let asked = EvaluationTarget { step: STEP, weights: None, digest: fingerprint(&model, beside)? };
        refuse_other(&benchmarks, &asked, settings.run.seed, &output)?;
        let report =
            serde_json::to_string_pretty(&dataset.report).map_err(|error| RunError::Defect(error.to_string()))?;
        replace(&output.join(DATA_FILE), &(report + "\n"))?;

        let events = Events::new(0);
        let stop = Stop::new();
        let endpoints = Endpoints { generation, reward, learner: String::new(), environment, described, verifiers };
        let needed = benchmarks.verifiers();
        require_environments(&endpoints, &benchmarks.environments())?;
        let endpoints = with_verifiers(&endpoints, &settings.data, &needed, &LoadLimits::unbounded())?;
        let services = Services::without_learner(&endpoints, &settings.services, events.clone(), stop.clone())?;
        let services = Arc::new(services);
        let preflight =
            Preflight::of_evaluation(Arc::clone(&services), vocabulary_size, &tokenizer, &benchmarks, &settings);
        let engines = EngineWeights::new();
        let text = (tokenizer, Arc::clone(&encoder.episodes));
        let rollouts = RolloutContext::new(Arc::clone(&services), engines, text, "eval", vocabulary_size, &settings);
        let task = EvaluationTask {
            preflight,
            services,
            adapter,
            rollouts: Arc::new(rollouts),
            benchmarks,
            asked,
            output,
            events: events.clone(),
        };
        let task = tokio::spawn(async move {
            let _lock = lock;
            task.run().await
        });
        Ok(EvaluationHandle { events, stop: StopOnDrop(stop), notes, task })
    }
}

/// What the task of an evaluation owns.
struct EvaluationTask {
    preflight: Preflight,
    services: Arc<Services>,
    /// The weights that the engines get first, if any.
    adapter: Option<WeightsRef>,
    rollouts: Arc<RolloutContext>,
    benchmarks: Benchmarks,
    asked: EvaluationTarget,
    output: PathBuf,
    events: Events,
}

impl EvaluationTask {
    /// Metrics of the evaluation, or `None` where it was stopped.
    async fn run(self) -> Result<Option<MetricsLine>, RunError> {
        let result = self.evaluate().await;
        let (state, result) = match result {
            Ok(Some(line)) => (RunState::Completed, Ok(Some(line))),
            Ok(None) | Err(Halt::Stop) => (
                RunState::Stopped,
                self.services
                    .stop()
                    .used_budget()
                    .map_or(Ok(None), |limit| Err(RunError::JudgeBudget { limit: limit.to_owned() })),
            ),
            Err(Halt::Error(error)) => (RunState::Failed, Err(error)),
            Err(Halt::LearnerLost(message)) => (RunState::Failed, Err(RunError::Defect(message))),
        };
        let message = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
        self.events.ended(state, message);
        result
    }

    async fn evaluate(&self) -> Result<Option<MetricsLine>, Halt> {
        self.preflight.run().await?;
        if let Some(adapter) = &self.adapter {
            let status = self.services.generation().status().await?;
            if !status.takes_adapters {
                return Err(RunError::from(Incompatible::Adapters { missing: status.adapters_missing }).into());
            }
            self.services.generation().update_weights(adapter, PauseMode::Unspecified).await?;
        }
        let began = Instant::now();
        self.events.enter_phase(RunState::Evaluating);
        // There is no learner to compare with.
        let mut unaudited = AuditedAnswers::default();
        let scores = evaluate(&self.rollouts, &self.benchmarks, &self.asked, &self.output, &mut unaudited).await?;
        let Some(scores) = scores else { return Ok(None) };
        let mut line = MetricsLine::new(StepKind::Evaluation, STEP, 0);
        write_scores(&mut line, &scores, began.elapsed());
        replace(&self.output.join(RESULTS_FILE), &(line.to_json() + "\n"))?;
        Ok(Some(line))
    }
}

impl EvaluationHandle {
    /// What the user should know about the model and the data.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Progress of the evaluation, for progress bars.
    pub fn progress(&self) -> watch::Receiver<RunProgress> {
        self.events.progress()
    }

    /// Events of the evaluation, from now on: services that it waits for, warnings.
    pub fn subscribe(&self) -> Subscription {
        self.events.subscribe()
    }

    /// Stops it from elsewhere, such as a task that waits for a signal.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.stop.0.clone())
    }

    /// Stops it now; it can be continued.
    pub fn stop(&self) {
        self.stopper().stop(StopWhen::Now);
    }

    /// Waits for its end: the metrics, or `None` where it was stopped.
    ///
    /// # Errors
    /// Why it ended. Every answer until then is kept.
    pub async fn join(mut self) -> Result<Option<MetricsLine>, RunError> {
        match (&mut self.task).await {
            Ok(result) => result,
            Err(error) => Err(RunError::Defect(error.to_string())),
        }
    }
}

/// An adapter in a folder, as the weights of the only version that is evaluated.
fn published(adapter: &Path) -> Result<WeightsRef, RunError> {
    let path = std::fs::canonicalize(adapter).map_err(RunError::file(adapter))?;
    let digest = weights_digest(&Folder::new(&path))?;
    Ok(WeightsRef::at_path(VERSION, digest, path.display().to_string(), 0))
}

/// What tells a model folder from others, and from itself with other weights, without reading the weights; `beside` is
/// the digest of an adapter.
fn fingerprint(model: &Path, beside: &str) -> Result<String, RunError> {
    let path = std::fs::canonicalize(model).map_err(RunError::file(model))?;
    let mut text = format!("{}\n{beside}", path.display());
    let mut files: Vec<_> = std::fs::read_dir(&path).map_err(RunError::file(&path))?.flatten().collect();
    files.sort_by_key(std::fs::DirEntry::file_name);
    for file in files {
        let name = file.file_name().to_string_lossy().into_owned();
        let is_weights = name.ends_with(".safetensors") || [name::CONFIG, name::TOKENIZER].contains(&name.as_str());
        if let (true, Ok(data)) = (is_weights, std::fs::metadata(file.path())) {
            let written = data.modified().unwrap_or(SystemTime::UNIX_EPOCH).duration_since(UNIX_EPOCH);
            text += &format!("{name} {} {}\n", data.len(), written.unwrap_or_default().as_nanos());
        }
    }
    Ok(sha256(text))
}
