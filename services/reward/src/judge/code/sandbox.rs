//! The sandbox of a worker, made ready when the first program comes.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evenkeel_sandbox::{CellCommand, Interpreter, Pool, PoolSettings, guest};

use crate::settings::RewardConfig;

/// How long what was missing is not looked for again: programs that come by the thousand must not each start a build.
const PATIENCE: Duration = Duration::from_secs(30);

/// How a process is started that runs programs with the interpreter of a folder, by calling [`evenkeel_sandbox::serve_cell`].
pub type Cells = fn(&Path) -> CellCommand;

pub(super) struct Sandbox {
    folder: Option<PathBuf>,
    cells: Option<Cells>,
    settings: PoolSettings,
    state: Mutex<State>,
}

enum State {
    Absent,
    Ready(Arc<Pool>),
    Failed(String, Instant),
}

impl Sandbox {
    pub(super) fn new(config: &RewardConfig, cells: Option<Cells>) -> Self {
        Self {
            folder: config.code.guest_dir.clone(),
            cells,
            settings: PoolSettings {
                workers: config.code.thread_count(),
                queue: config.max_items,
                memory_bytes: config.code.memory_bytes,
            },
            state: Mutex::new(State::Absent),
        }
    }

    /// The pool, made ready where it is not. Whoever comes meanwhile waits.
    pub(super) fn pool(&self, progress: &dyn Fn(&str)) -> Result<Arc<Pool>, String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Ready(pool) => return Ok(Arc::clone(pool)),
            State::Failed(missing, when) if when.elapsed() < PATIENCE => return Err(missing.clone()),
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
        let pool = match &self.cells {
            Some(cells) => {
                // Built and compiled once, before every cell loads it.
                drop(interpreter(1)?);
                Pool::of_cells(&cells(&folder), self.settings)
            }
            None => Pool::start(Arc::new(interpreter(self.settings.workers)?), self.settings),
        };
        Ok(Arc::new(pool.map_err(|error| error.to_string())?))
    }
}
