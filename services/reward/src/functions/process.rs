//! A process that calls the functions of a file, started again after it has ended.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use evenkeel_child::{ChildLimits, FramedProcess, PIPE};
use evenkeel_host::FileDigest;
use evenkeel_proto::NoReward;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::process::Command;
use tokio::time::timeout;

use crate::settings::FunctionSettings;

/// The program that calls the functions.
const CALLER: &str = include_str!("../../python/evenkeel_functions.py");
/// How much longer than a call its answer may take: calls that are awaited end by themselves.
const GRACE: Duration = Duration::from_secs(1);

/// Most items of one call.
const MAX_BATCH: usize = 64;

/// How the processes of a file are started.
#[derive(Debug)]
pub(super) struct Launch {
    pub(super) path: PathBuf,
    /// The file's digest when the worker was started.
    digest: String,
    python: PathBuf,
    limits: ChildLimits,
    functions: Vec<String>,
    prompt_fields: Vec<String>,
    answer_fields: Vec<String>,
    timeout: Duration,
}

/// What a process says of its file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Hello {
    pub(super) functions: Vec<String>,
    /// Whether it takes several items at once.
    pub(super) batch: bool,
}

impl Hello {
    /// How many items a call takes at once.
    pub(super) fn most_items(&self) -> usize {
        if self.batch { MAX_BATCH } else { 1 }
    }
}

/// What functions made of one item, by their names.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Called {
    /// A value, or `None` where a function gave none.
    pub(super) values: BTreeMap<String, Option<f64>>,
    /// A reason code, and the reason in words.
    pub(super) errors: BTreeMap<String, (String, String)>,
    /// Further numbers that the function returned.
    pub(super) extras: BTreeMap<String, f64>,
}

/// Why there is no answer, also in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) reason: NoReward,
    pub(super) detail: String,
}

/// A process, if one runs.
pub(super) struct FunctionProcess {
    launch: Arc<Launch>,
    running: Option<FramedProcess>,
}

impl Launch {
    /// # Errors
    /// A file that cannot be read, as a message.
    pub(super) fn of(settings: &FunctionSettings) -> Result<Self, String> {
        let digest = FileDigest::of(&settings.path).map_err(|error| error.to_string())?.to_string();
        Ok(Self {
            path: settings.path.clone(),
            digest,
            python: settings.python.clone(),
            limits: ChildLimits {
                keep_variables: settings.keep_variables.clone(),
                max_memory: settings.max_memory.bytes(),
            },
            functions: settings.functions.keys().cloned().collect(),
            prompt_fields: settings.prompt_fields.clone(),
            answer_fields: settings.answer_fields.clone(),
            timeout: settings.timeout,
        })
    }
}

impl FunctionProcess {
    pub(super) fn new(launch: Arc<Launch>) -> Self {
        Self { launch, running: None }
    }

    /// Starts it. Returns what it says of its file.
    pub(super) async fn start(&mut self) -> Result<Hello, Gone> {
        let Launch { path, digest, python, limits, functions, prompt_fields, answer_fields, .. } = &*self.launch;
        let now = FileDigest::of(path).map(|digest| digest.to_string());
        if now.as_ref().ok() != Some(digest) {
            let detail = format!("{} is not the file that the run was begun with", path.display());
            return Err(Gone { reason: NoReward::FileChanged, detail });
        }
        let mut command = Command::new(python);
        // The path is for those who look at processes.
        command.args(["-u", "-c"]).arg(format!("{PIPE}\n{CALLER}")).arg(path);
        let settings = json!({
            "path": path, "functions": functions, "prompt_fields": prompt_fields, "answer_fields": answer_fields,
        });
        let started = FramedProcess::start(command, limits, &settings, &path.display().to_string()).await;
        let (running, hello) = started.map_err(|detail| Gone { reason: NoReward::FileFails, detail })?;
        self.running = Some(running);
        Ok(hello)
    }

    /// Calls the functions with items, each a JSON object.
    pub(super) async fn judge(&mut self, items: &[Box<RawValue>]) -> Result<Vec<Called>, Gone> {
        if self.running.is_none() {
            self.start().await?;
        }
        let limit = self.launch.timeout;
        let items: Vec<&str> = items.iter().map(|item| item.get()).collect();
        let request = format!(r#"{{"timeout": {}, "items": [{}]}}"#, limit.as_secs_f64(), items.join(","));
        let crashed = |detail: String| Gone { reason: NoReward::Crashed, detail };
        // Whatever is no answer to this request ends the process, with all that it has started.
        let Some(mut running) = self.running.take() else { return Err(crashed("there is no process".to_owned())) };
        let answer = match timeout(limit + GRACE, running.ask(request.as_bytes())).await {
            Err(_) => {
                let detail = format!("a call took longer than {}", evenkeel_config::human(limit));
                return Err(Gone { reason: NoReward::Timeout, detail });
            }
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::InvalidData => {
                return Err(crashed(format!("the process of the reward functions gave {error}")));
            }
            Ok(Err(_)) => {
                let end = running.answers.end().await;
                return Err(crashed(format!("the process of the reward functions {end}")));
            }
            Ok(Ok(answer)) => answer,
        };
        let called = serde_json::from_slice::<Vec<Called>>(&answer).map_err(|error| crashed(error.to_string()))?;
        if called.len() != items.len() {
            return Err(crashed(format!("{} answers came for {} completions", called.len(), items.len())));
        }
        self.running = Some(running);
        Ok(called)
    }
}
