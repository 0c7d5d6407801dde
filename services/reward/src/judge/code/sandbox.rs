//! The sandbox of a worker, prepared when the first program arrives.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_config::ByteSize;
use evenkeel_sandbox::{Interpreter, Pool, PoolSettings, WorkerProcessCommand, guest};
use evenkeel_telemetry::on_scrape;

use crate::settings::RewardSettings;

/// Delay before another attempt after a failure: thousands of programs must not start a build each.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// How to start a worker process with the interpreter of a folder: a program that calls [`evenkeel_sandbox::run_worker_process`].
pub type WorkerProcesses = fn(&Path) -> WorkerProcessCommand;

pub(super) struct Sandbox {
    folder: Option<PathBuf>,
    processes: Option<WorkerProcesses>,
    settings: PoolSettings,
    state: Mutex<State>,
}

enum State {
    Absent,
    Ready(Arc<Pool>),
    Failed(String, Instant),
}

impl Sandbox {
    pub(super) fn new(config: &RewardSettings, processes: Option<WorkerProcesses>) -> Self {
        Self {
            folder: config.code.guest_dir.clone(),
            processes,
            settings: PoolSettings {
                workers: config.code.thread_count(),
                queue: config.max_items,
                memory_bytes: config.code.memory.map(ByteSize::bytes),
            },
            state: Mutex::new(State::Absent),
        }
    }

    /// The pool, which is started if necessary. Concurrent calls wait for that.
    pub(super) fn pool(&self, progress: &dyn Fn(&str)) -> Result<Arc<Pool>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Ready(pool) => return Ok(Arc::clone(pool)),
            State::Failed(missing, when) if when.elapsed() < RETRY_DELAY => return Err(missing.clone()),
            State::Failed(..) | State::Absent => {}
        }
        match self.start(progress) {
            Ok(pool) => {
                *state = State::Ready(Arc::clone(&pool));
                Ok(pool)
            }
            Err(missing) => {
                tracing::error!("programs cannot be judged: {missing}");
                *state = State::Failed(missing.clone(), Instant::now());
                Err(missing)
            }
        }
    }

    fn start(&self, progress: &dyn Fn(&str)) -> Result<Arc<Pool>, String> {
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => guest::default_folder().map_err(|error| error.to_string())?,
        };
        let interpreter = |workers| Interpreter::load(&folder, workers, progress).map_err(|error| error.to_string());
        let pool = match &self.processes {
            Some(command) => {
                // Built and compiled once, before every worker process loads it.
                drop(interpreter(1)?);
                Pool::with_worker_processes(&command(&folder), self.settings)
            }
            None => Pool::in_process(Arc::new(interpreter(self.settings.workers)?), self.settings),
        };
        let pool = Arc::new(pool.map_err(|error| error.to_string())?);
        watch(&pool);
        Ok(pool)
    }
}

/// Has the use of a pool read each time the metrics are asked for, while there is the pool.
fn watch(pool: &Arc<Pool>) {
    let pool = Arc::downgrade(pool);
    on_scrape(move || {
        let Some(pool) = pool.upgrade() else { return false };
        let usage = pool.usage();
        metrics::gauge!("evenkeel_sandbox_programs").set(usage.programs as f64);
        metrics::gauge!("evenkeel_sandbox_worker_processes").set(usage.processes as f64);
        metrics::counter!("evenkeel_sandbox_process_starts_total").absolute(usage.processes_started);
        metrics::counter!("evenkeel_sandbox_process_losses_total").absolute(usage.processes_lost);
        true
    });
}
