//! The orchestrator: it turns a recipe into prompts, rollouts, verdicts and training steps until the run is done.
//!
//! - [`Recipe`]: the orchestrator's sections of a recipe; [`ResolvedRecipe`]: the whole, resolved by the program that composes services.
//! - [`RunDirectory`]: everything that a run writes.
//! - [`Run`]: the loop over gRPC, with its [`Event`]s; the same seed gives the same metrics to the bit, also after a resume.
//! - [`serve`]: the same behind the service `evenkeel.v1.Orchestrator`.
//!
//! Nothing here normalises a reward or weighs a token (the learner does), and nothing reads a clock or a global generator to decide:
//! time is measured and reported only.
#![forbid(unsafe_code)]

mod clients;
mod data;
mod directory;
mod error;
mod events;
mod instruments;
mod load;
mod metrics;
mod recipe;
mod report;
mod rollout;
mod run;
mod server;
mod settings;
mod summary;
mod text;

pub use clients::Endpoints;
pub use directory::{METRICS_FILE, RunDirectory};
pub use error::RunError;
pub use events::{Event, Progress, RunOutcome, Subscription};
pub use load::{Cancel, LoadLimits};
pub use metrics::{MetricsLine, may_differ};
pub use recipe::{ModelSource, Recipe, RecipeReader, ResolvedRecipe, identity};
pub use report::render as render_report;
pub use run::{Run, RunHandle, RunOptions, StopMode, Stopper};
pub use server::{OrchestratorConfig, OrchestratorService, StartConfig, serve};
pub use settings::{
    CheckpointSettings, DataKind, DataSettings, Engines, EvaluationSettings, FilterSettings, InvalidRows, Overlong,
    ProgramMode, ProgramReward, RunSettings, SamplingSettings, Scalar, ServicesSettings, ShapingSettings,
    SourceSettings, WarmStartSettings,
};
pub use summary::Summary;
pub use text::Tokenizer;
