//! Commands that serve, and those about recipes.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Service {
    Engine,
    Generation,
    Reward,
    Learner,
    /// Plays the environment's side of episodes with several turns.
    Environment,
    Orchestrator,
    /// One address in front of many reward workers.
    Gateway,
    /// Tinker's HTTP API, with a learner and engines behind it.
    Tinker,
    /// Fetches published weights for engines that do not share a folder with the learner.
    Weights,
}

impl Service {
    /// Name on the command line.
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
    /// engine, generation, reward, learner, environment, orchestrator, gateway, tinker, weights.
    #[arg(value_name = "NAME", hide_possible_values = true)]
    pub(crate) service: Service,
    /// Use the service's part of a recipe; may be repeated.
    ///
    /// The orchestrator starts or resumes that run. Later recipes override earlier ones.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Settings of the service as TOML.
    ///
    /// Environment variables (EVENKEEL__KEY) and --set override them.
    #[arg(long, value_name = "FILE.toml")]
    pub(crate) config: Option<PathBuf>,
    /// Override one setting, such as server.listen=0.0.0.0:50051.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Serve Prometheus metrics at http://ADDRESS/metrics.
    ///
    /// The engine has them on its own port. The default is the environment variable EVENKEEL_METRICS.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) metrics: Option<String>,
    /// Serve SandboxFusion's /run_code at ADDRESS (reward only).
    ///
    /// Short for `--set http.listen=ADDRESS`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) http: Option<String>,
    /// Send traces to an OpenTelemetry collector (OTLP over gRPC).
    ///
    /// Such as http://127.0.0.1:4317. There is one trace per prompt and per step. The default is the environment
    /// variable EVENKEEL_TRACES.
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
    /// Copy a model whose output head is tied to its embedding, for vLLM.
    ///
    /// vLLM does not reload a tied head. Start vLLM on the copy; train the model or the copy. If the model's head is
    /// separate, DIR becomes a link to the model.
    #[command(after_help = "  evenkeel model untie hf:HuggingFaceTB/SmolLM2-135M-Instruct untied")]
    Untie(UntieOptions),
    /// Import a GGUF file of llama.cpp as a Hugging Face folder.
    ///
    /// The folder has the weights in f32, the tokenizer and the chat template.
    #[command(after_help = "  evenkeel model import model.gguf model")]
    Import(ImportOptions),
    /// Write the worker extension with which vLLM's weights are verified exactly.
    ///
    /// The Python file, for `vllm serve --worker-extension-cls`, computes digests of the tensors that vLLM uses.
    #[command(after_help = "  evenkeel model worker-extension evenkeel_worker.py")]
    WorkerExtension(WorkerExtensionOptions),
}

#[derive(Args)]
pub(crate) struct UntieOptions {
    /// The model's folder, or hf:OWNER/NAME.
    #[arg(value_name = "MODEL")]
    pub(crate) model: PathBuf,
    /// Folder of the copy; a complete copy is left as it is.
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
}

#[derive(Args)]
pub(crate) struct ImportOptions {
    /// The GGUF file.
    #[arg(value_name = "FILE.gguf")]
    pub(crate) file: PathBuf,
    /// Folder to write; it must be empty or new.
    #[arg(value_name = "DIR")]
    pub(crate) to: PathBuf,
}

#[derive(Args)]
pub(crate) struct WorkerExtensionOptions {
    /// File to write.
    ///
    /// The file name without `.py` is the module that vLLM is given.
    #[arg(value_name = "FILE.py")]
    pub(crate) file: PathBuf,
}

#[derive(Args)]
pub(crate) struct ModelOptions {
    /// Built-in recipe or TOML file; later ones win [default: arithmetic]
    ///
    /// May be repeated.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Override one setting of the recipe; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Folder of the model, which is created.
    ///
    /// If the recipe starts from an existing model, the folder becomes a link to that model.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

#[derive(Args)]
pub(crate) struct ConfigOptions {
    /// Only these settings or sections, such as sampling.max_tokens.
    ///
    /// Each is printed with its value, where it was written, its default and its documentation.
    #[arg(value_name = "KEY", conflicts_with = "list")]
    pub(crate) keys: Vec<String>,
    /// Built-in recipe or TOML file; later ones win [default: arithmetic]
    ///
    /// May be repeated.
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub(crate) recipe: Vec<String>,
    /// Override one setting of the recipe; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Only settings that differ from the defaults: a short, equal recipe.
    #[arg(long, conflicts_with_all = ["keys", "list"])]
    pub(crate) changed: bool,
    /// List the built-in recipes instead.
    #[arg(long, conflicts_with_all = ["recipe", "set"])]
    pub(crate) list: bool,
}

#[derive(Args)]
pub(crate) struct HealthOptions {
    /// Servers to check, one after the other.
    ///
    /// http://HOST:PORT or https://HOST:PORT asks the health service of a gRPC server. A URL with a path, such as
    /// http://127.0.0.1:8000/health of an engine, must return 200.
    #[arg(required = true, value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// Service of a gRPC server, such as evenkeel.v1.Reward [default: all]
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    pub(crate) service: String,
    /// Certificate authority of the servers' certificates, a PEM file.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
    /// Name in the servers' certificates [default: the host of the URL]
    #[arg(long, value_name = "NAME", requires = "ca")]
    pub(crate) server_name: Option<String>,
    /// The client's own certificate, a PEM file.
    #[arg(long, value_name = "FILE", requires_all = ["ca", "key"])]
    pub(crate) certificate: Option<PathBuf>,
    /// The client's private key, a PEM file.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub(crate) key: Option<PathBuf>,
}
