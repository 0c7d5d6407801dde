//! The pool that runs the programs of a worker, started when the first one arrives.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_config::ByteSize;
use evenkeel_sandbox::guest::GuestError;
use evenkeel_sandbox::{Interpreter, Pool, PoolSettings, WorkerProcessCommand, guest};
use evenkeel_telemetry::on_scrape;

use crate::settings::RewardSettings;

/// Delay before another attempt after a failure: thousands of programs must not start a build each.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// How to start a worker process with the interpreter of a folder: a program that calls
/// [`evenkeel_sandbox::run_worker_process`].
pub type WorkerProcesses = fn(&Path) -> WorkerProcessCommand;

/// Why a worker cannot run programs.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SandboxError {
    /// The interpreter cannot be built, or not be loaded.
    #[error(transparent)]
    Guest(Arc<GuestError>),
    /// A thread or a worker process cannot be started.
    #[error(transparent)]
    Pool(Arc<io::Error>),
}

impl From<GuestError> for SandboxError {
    fn from(error: GuestError) -> Self {
        Self::Guest(Arc::new(error))
    }
}

/// A pool that is started when it is first asked for.
pub(super) struct LazyPool {
    folder: Option<PathBuf>,
    processes: Option<WorkerProcesses>,
    settings: PoolSettings,
    state: Mutex<LazyState>,
}

enum LazyState {
    Absent,
    Ready(Arc<Pool>),
    Failed(SandboxError, Instant),
}

impl LazyPool {
    pub(super) fn new(settings: &RewardSettings, processes: Option<WorkerProcesses>) -> Self {
        Self {
            folder: settings.code.guest_dir.clone(),
            processes,
            settings: PoolSettings {
                workers: settings.code.thread_count(),
                queue: settings.max_items,
                memory_bytes: settings.code.memory.map(ByteSize::bytes),
            },
            state: Mutex::new(LazyState::Absent),
        }
    }

    /// The pool, which is started if necessary. Concurrent calls wait for that.
    pub(super) fn get(&self, progress: &dyn Fn(&str)) -> Result<Arc<Pool>, SandboxError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            LazyState::Ready(pool) => return Ok(Arc::clone(pool)),
            LazyState::Failed(error, when) if when.elapsed() < RETRY_DELAY => return Err(error.clone()),
            LazyState::Failed(..) | LazyState::Absent => {}
        }
        match self.start(progress) {
            Ok(pool) => {
                *state = LazyState::Ready(Arc::clone(&pool));
                Ok(pool)
            }
            Err(error) => {
                tracing::error!("programs cannot be judged: {error}");
                *state = LazyState::Failed(error.clone(), Instant::now());
                Err(error)
            }
        }
    }

    fn start(&self, progress: &dyn Fn(&str)) -> Result<Arc<Pool>, SandboxError> {
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => guest::default_folder()?,
        };
        let interpreter = |workers| Interpreter::load(&folder, workers, progress);
        let pool = match &self.processes {
            Some(command) => {
                // Built and compiled once, before every worker process loads it.
                drop(interpreter(1)?);
                Pool::with_worker_processes(&command(&folder), self.settings)
            }
            None => Pool::in_process(Arc::new(interpreter(self.settings.workers)?), self.settings),
        };
        let pool = Arc::new(pool.map_err(|error| SandboxError::Pool(Arc::new(error)))?);
        watch(&pool);
        Ok(pool)
    }
}

/// Reports pool usage on every scrape, as long as the pool exists.
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
