//! Commands that serve, and those about recipes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    Engine,
    Generation,
    Reward,
    Learner,
    /// The other side of episodes with several turns.
    Environment,
    Orchestrator,
    /// One address in front of many reward workers.
    Gateway,
    /// Tinker's HTTP API, with a learner and engines behind it.
    Tinker,
    /// The agent beside engines that fetches published weights, where there is no folder that all see.
    Weights,
}

impl Service {
    /// Its name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Engine => "engine",
            Self::Generation => "generation",
            Self::Reward => "reward",
            Self::Learner => "learner",
            Self::Environment => "environment",
            Self::Orchestrator => "orchestrator",
            Self::Gateway => "gateway",
            Self::Tinker => "tinker",
            Self::Weights => "weights",
        }
    }
}

#[derive(Args)]
pub(crate) struct ServeOptions {
    /// The service.
    pub(crate) service: Service,
    /// Use the service's part of a recipe; the orchestrator starts or resumes that run. Several are merged, later ones
    /// win.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Settings of the service as TOML; the environment (EVENKEEL__KEY) and --set override them.
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Override one setting, such as `server.listen=0.0.0.0:50051`. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Serve counters and histograms for Prometheus at http://ADDRESS/metrics (the engine has them on its own port).
    /// Defaults to the environment variable EVENKEEL_METRICS.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<String>,
    /// Serve programs over HTTP as SandboxFusion does, at http://ADDRESS/run_code: short for `--set
    /// http.listen=ADDRESS`. Reward workers only.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// Send spans to an OpenTelemetry collector (OTLP over gRPC), such as http://127.0.0.1:4317: one trace per prompt
    /// and per step. Defaults to the environment variable EVENKEEL_TRACES.
    #[arg(long, value_name = "URL")]
    pub(crate) traces: Option<String>,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct ModelArguments {
    #[command(subcommand)]
    pub(crate) command: Option<ModelCommand>,
    #[command(flatten)]
    pub(crate) options: Option<ModelOptions>,
}

#[derive(Subcommand)]
pub(crate) enum ModelCommand {
    /// Copy a model whose head is its embedding for vLLM: the head is written out, so that vLLM takes it with every
    /// update. Start vLLM on the copy; the run goes on with the model itself, or with the copy. A model with a head of
    /// its own needs no copy: DIR becomes a link to it.
    Untie(UntieOptions),
    /// Import a GGUF file of llama.cpp: it becomes a Hugging Face folder with the values in f32, the tokenizer and its
    /// chat template.
    Import(ImportOptions),
    /// Write the worker extension of vLLM that proves weights exactly, by digests of the tensors that vLLM computes
    /// with: a Python file for `vllm serve --worker-extension-cls`.
    WorkerExtension(WorkerExtensionOptions),
}

#[derive(Args)]
pub(crate) struct UntieOptions {
    /// The model's folder, or hf:OWNER/NAME.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// The copy. If it is complete already, it is left as it is.
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
}

#[derive(Args)]
pub(crate) struct ImportOptions {
    /// The file.
    #[arg(value_name = "FILE.gguf")]
    pub(crate) file: PathBuf,
    /// The folder, which must be empty if it exists.
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
}

#[derive(Args)]
pub(crate) struct WorkerExtensionOptions {
    /// The file; its name without `.py` is the module that vLLM is given.
    #[arg(value_name = "FILE.py")]
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct ModelOptions {
    /// A built-in recipe or a TOML file; several are merged, later ones win [default: arithmetic].
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Override one setting of the recipe. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// The folder; it is created if it does not exist. If the recipe starts from an existing model, it becomes a link
    /// to that model.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Args)]
pub(crate) struct ConfigOptions {
    /// Only these settings or sections, such as `sampling.max_tokens`: the value, where it was written, its default and
    /// what it is.
    #[arg(value_name = "KEY", conflicts_with = "list")]
    pub(crate) keys: Vec<String>,
    /// A built-in recipe or a TOML file; several are merged, later ones win [default: arithmetic].
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Override one setting. May be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Only settings that differ from the defaults: a recipe that says the same in a few lines.
    #[arg(long, conflicts_with_all = ["keys", "list"])]
    pub(crate) changed: bool,
    /// List the built-in recipes instead.
    #[arg(long, conflicts_with_all = ["recipe", "set"])]
    pub(crate) list: bool,
}

#[derive(Args)]
pub(crate) struct HealthOptions {
    /// What to check, one after the other: http://HOST:PORT or https://HOST:PORT for the health of a gRPC server,
    /// http://HOST:PORT/PATH for a page that must return 200, such as http://127.0.0.1:8000/health of an engine.
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Check one service of a gRPC server, such as evenkeel.v1.Reward [default: the whole server].
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) service: String,
    /// Certificate authority of the servers' certificates, a PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Name in the servers' certificates [default: the host of the URL].
    #[arg(long, value_name = "NAME", requires = "ca")]
    pub(crate) server_name: Option<String>,
    /// The client's own certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub(crate) certificate: Option<PathBuf>,
    /// Its private key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
}
