//! The orchestrator: the training loop over prompts, rollouts, verdicts and training steps.
//!
//! - [`LoopSettings`]: the orchestrator's sections of a recipe; [`ResolvedRecipe`]: the whole recipe, resolved by the
//!   program that composes the services.
//! - [`start_run`]: the loop over gRPC, with its [`Event`]s, in a [`RunDirectory`](evenkeel_run::RunDirectory). An
//!   equal seed gives bit-identical metrics, also after a resume.
//! - [`serve`]: runs behind the service `evenkeel.v1.Orchestrator`.
//!
//! Advantages and token weights belong to the learner. No decision depends on a clock or a global random generator;
//! time is only measured and reported.
#![forbid(unsafe_code)]

mod clients;
mod data;
mod dependency;
mod error;
mod evaluation;
mod event_words;
mod events;
mod inputs;
mod instruments;
mod live;
mod load;
mod page;
mod recipe;
mod rejudge;
mod rollout;
mod run;
mod sample_stream;
mod server;
mod settings;
mod text;
mod trial;

pub use clients::{Endpoints, describe_environments};
pub use data::{Encoder, hint_of, reason_of};
pub use dependency::Dependency;
pub use error::{CheckpointError, Incompatible, RunError, StateProblem};
pub use evaluation::EvaluationJudge;
pub use evenkeel_environment::{Descriptions, EnvironmentOrigin};
pub use events::{Activity, Event, RunOutcome, RunProgress, Subscription};
pub use instruments::series;
pub use live::LiveRun;
pub use load::LoadLimits;
pub use page::PageServer;
pub use recipe::{ModelSource, RecipeReader, ResolvedRecipe, identity, rules};
pub use rejudge::{JudgedAgain, Rejudge, Repeats};
pub use run::{
    EvaluationHandle, EvaluationRequest, RunHandle, RunOptions, StartNeeds, StopWhen, Stopper, changed_inputs,
    check_model, check_start, rejudge, start_run,
};
pub use server::{OrchestratorService, OrchestratorSettings, StartSettings, serve};
pub use settings::{
    AnswerSampling, AuditMode, BenchmarkSettings, CheckpointSettings, ControlTextInRows, CopiedAnswers, CorrectRule,
    DataKind, DataSettings, EarlierTurns, EnginesWhileTraining, EvaluationSettings, FilterSettings, InvalidRows,
    KeptRollouts, LoopSettings, OnError, Overlong, PageSettings, PipelineSettings, PolicySamplingSettings, ProgramMode,
    ProgramReward, ProgramWording, ProofSettings, RunSettings, SamplerAuditSettings, Scalar, ServicesSettings,
    ShapingSettings, SourceSettings, StepOrder, ToolCallSetting, ToolsSetting, TrailsSettings, TurnsSettings,
    VerifierSettings, WarmStartSettings, WordProblemsSettings,
};
pub use text::Tokenizer;
pub use trial::{TrialFinding, TrialRows};
