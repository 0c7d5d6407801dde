//! `python`: programs in the sandbox, in an interpreter that lasts over the turns of an episode. A turn without a call
//! ends the episode: it has the final answer, which the verifier of the task judges.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use evenkeel_environment::{Description, PYTHON, StepResult, Tool, answered, read_call};
use evenkeel_proto::v1::{AssistantMessage, EpisodeFailure, ToolCall};
use evenkeel_sandbox::guest::{self, Form};
use evenkeel_sandbox::{CellOutcome, CellPool, CellSession, CellSettings, WorkerProcesses, prepare_processes};
use serde_json::json;
use tokio::sync::{OnceCell, oneshot};

use crate::failure::Failure;
use crate::settings::SandboxSettings;

/// Observation of a program without output.
const SILENT: &str = "(no output)";

/// Sessions of all episodes, started with the first one.
pub(crate) struct Sandbox {
    settings: SandboxSettings,
    processes: Option<WorkerProcesses>,
    pool: OnceCell<Pool>,
}

/// The pool is dropped on a thread of its own: its threads may be at work.
struct Pool(Mutex<Option<CellPool>>);

impl Drop for Pool {
    fn drop(&mut self) {
        let pool = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        std::thread::spawn(move || drop(pool));
    }
}

/// An episode with an interpreter.
pub(crate) struct SandboxEpisode(CellSession);

impl Sandbox {
    pub(crate) fn new(settings: &SandboxSettings, processes: Option<WorkerProcesses>) -> Self {
        Self { settings: settings.clone(), processes, pool: OnceCell::new() }
    }

    /// What the model is told of it.
    pub(crate) fn description() -> Description {
        let parameters = json!({
            "type": "object",
            "properties": {"code": {"type": "string", "description": "such as print(sum(range(10)))"}},
            "required": ["code"],
        });
        let description = "Runs Python code in an interpreter that keeps its variables between calls. Gives what the \
                           code prints and the value of its last expression. There are no files and no network.";
        Description {
            name: PYTHON.to_owned(),
            system_prompt: "Compute with the tool `python`, then give the final answer within \\boxed{}.".to_owned(),
            user_speaks: false,
            tools: vec![Tool { name: PYTHON.to_owned(), description: description.to_owned(), parameters }],
            digest: String::new(),
            is_agent: false,
        }
    }

    /// Begins an episode.
    ///
    /// # Errors
    /// No memory for another interpreter; one that cannot be built or started.
    pub(crate) async fn open(&self) -> Result<SandboxEpisode, Failure> {
        let pool = self.pool.get_or_try_init(|| self.start()).await?;
        let pool = pool.0.lock().unwrap_or_else(PoisonError::into_inner);
        let pool = pool.as_ref().ok_or_else(|| Failure::crashed("the sandbox has ended"))?;
        let opened = pool.open().map_err(|full| Failure::new(EpisodeFailure::Overloaded, full.to_string()))?;
        Ok(SandboxEpisode(opened))
    }

    async fn start(&self) -> Result<Pool, Failure> {
        let settings = self.settings.clone();
        let processes = self.processes;
        // The interpreter may have to be built, which takes a minute, and goes on where an episode waits no longer.
        let started = tokio::task::spawn_blocking(move || start(&settings, processes)).await;
        let started = started.map_err(|error| Failure::new(EpisodeFailure::Internal, error.to_string()))?;
        started.map(|pool| Pool(Mutex::new(Some(pool)))).map_err(|error| {
            tracing::error!("programs cannot be run: {error}");
            Failure::crashed(format!("programs cannot be run: {error}"))
        })
    }
}

fn start(settings: &SandboxSettings, processes: Option<WorkerProcesses>) -> Result<CellPool, String> {
    let text = |error: guest::GuestError| error.to_string();
    let folder: PathBuf = match &settings.guest_dir {
        Some(folder) => folder.clone(),
        None => guest::default_folder().map_err(text)?,
    };
    let cells: CellSettings = settings.cells();
    let progress = |line: &str| tracing::info!("{line}");
    match processes {
        Some(processes) => {
            // Built once, before every worker process loads it.
            let command = prepare_processes(&folder, Form::Counted, processes, &progress).map_err(text)?;
            CellPool::with_worker_processes(&command, cells).map_err(|error| error.to_string())
        }
        None => CellPool::with_guest(&folder, cells, &progress).map_err(text),
    }
}

impl SandboxEpisode {
    /// Runs the programs of a turn, one after the other. What a program does wrong is an observation.
    pub(crate) async fn step(&mut self, tools: &[Tool], message: &AssistantMessage) -> Result<StepResult, Failure> {
        let mut step = StepResult { done: message.tool_calls.is_empty(), ..StepResult::default() };
        for call in &message.tool_calls {
            let said = match code(tools, call) {
                Ok(code) => self.run(code).await?,
                Err(error) => {
                    step.tool_errors += 1;
                    format!("error: {error}")
                }
            };
            step.messages.push(answered(call, said));
        }
        Ok(step)
    }

    async fn run(&self, code: String) -> Result<String, Failure> {
        let (sender, receiver) = oneshot::channel();
        self.0.run(code, move |outcome| drop(sender.send(outcome)));
        match receiver.await {
            Ok(CellOutcome::Ran { text, .. }) if text.is_empty() => Ok(SILENT.to_owned()),
            Ok(CellOutcome::Ran { text, .. }) => Ok(text.trim_end_matches('\n').to_owned()),
            Ok(CellOutcome::Ended { mut text, why }) => {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                Ok(format!(
                    "{text}error: the program was ended: {why}. The interpreter starts anew, without its variables."
                ))
            }
            Ok(CellOutcome::Lost(why)) => Err(Failure::crashed(why)),
            Err(_) => Err(Failure::crashed("the sandbox has ended")),
        }
    }
}

fn code(tools: &[Tool], call: &ToolCall) -> Result<String, String> {
    let arguments = read_call(tools, call)?;
    let code = arguments.get("code").and_then(|code| code.as_str());
    code.map(str::to_owned).ok_or_else(|| "`code` is required, a text".to_owned())
}
