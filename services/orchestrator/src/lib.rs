//! The orchestrator: the training loop over prompts, rollouts, verdicts and training steps.
//!
//! - [`LoopSettings`]: the orchestrator's sections of a recipe; [`ResolvedRecipe`]: the whole recipe, resolved by the program that
//!   composes the services.
//! - [`RunDirectory`]: everything that a run writes.
//! - [`start_run`]: the loop over gRPC, with its [`Event`]s. The same seed gives bit-identical metrics, also after a resume.
//! - [`serve`]: runs behind the service `evenkeel.v1.Orchestrator`.
//!
//! Advantages and token weights belong to the learner. No decision depends on a clock or a global random generator; time is only
//! measured and reported.
#![forbid(unsafe_code)]

mod audit;
mod clients;
mod data;
mod dependency;
mod directory;
mod error;
mod evaluation;
mod event_words;
mod events;
mod inputs;
mod instruments;
mod labelled;
mod live;
mod load;
mod metrics;
mod overviews;
mod page;
mod recipe;
mod report;
mod rollout;
mod run;
mod run_update;
mod sample_stream;
mod server;
mod settings;
mod stored;
mod summary;
mod tensorboard;
mod text;

pub use audit::{Audit, LagLengths, Lengths, OvertakenLengths, PromptOutcome};
pub use clients::Endpoints;
pub use dependency::Dependency;
pub use directory::{ForkOrigin, METRICS_FILE, RUN_FILE, RunDirectory, RunRecord, flat_settings};
pub use error::{CheckpointError, Incompatible, RunError, StateProblem};
pub use evaluation::{Answer, AnswerReader, AnswerVerdict, list_answers};
pub use events::{Activity, Event, RunOutcome, RunProgress, Subscription};
pub use inputs::{AcceptedChanges, Rules};
pub use instruments::SERIES;
pub use labelled::Labelled;
pub use live::LiveRun;
pub use load::LoadLimits;
pub use metrics::{MetricsLine, at_k, may_differ};
pub use overviews::{RunOverview, SkippedDirectory, overviews};
pub use page::PageServer;
pub use recipe::{ModelSource, RecipeReader, ResolvedRecipe, identity, recipe_stem, rules};
pub use report::render as render_report;
pub use run::{EvaluationHandle, EvaluationRequest, RunHandle, RunOptions, StopWhen, Stopper, check_model, start_run};
pub use run_update::{LineCursor, RunUpdate, run_update};
pub use server::{OrchestratorService, OrchestratorSettings, StartSettings, serve};
pub use settings::{
    AVERAGE, AnswerSampling, AuditMode, BenchmarkSettings, CheckpointSettings, CopiedAnswers, DataKind, DataSettings,
    EnginesWhileTraining, EvaluationSettings, FilterSettings, InvalidRows, LoopSettings, Overlong, PageSettings,
    PipelineSettings, PolicySamplingSettings, ProgramMode, ProgramReward, ProgramWording, ProofSettings, RunSettings,
    SamplerAuditSettings, Scalar, ServicesSettings, ShapingSettings, SourceSettings, StepOrder, TrailsSettings,
    VerifierSettings, WarmStartSettings,
};
pub use stored::did_all_steps;
pub use summary::{BenchmarkSummary, BenchmarkValue, ProofState, Summary, WeightsProof};
pub use text::Tokenizer;
