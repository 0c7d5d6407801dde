//! Sessions: an interpreter that runs one cell of Python after the other, each with the names that those before it have
//! left.
//!
//! A session is an instance of the interpreter that stays ([`LoadedProgram`](crate::sandbox::Session)), with a program
//! in it that runs cells. It is admitted by the memory that it may take, and each cell is limited by instructions, so
//! that what a cell does depends on nothing else. Threads, or the worker process of each, run one cell at a time and
//! have many sessions.

mod outcome;
mod session;
mod thread;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::guest::GuestError;
use crate::run::Budget;
use crate::worker_process::WorkerProcessCommand;

pub use outcome::CellOutcome;
pub use session::CellSession;
use thread::CellThread;

/// The program that runs cells, without the limit of their output.
const DRIVER: &str = include_str!("driver.py");
/// Name of the function in [`DRIVER`] that runs a cell.
const FUNCTION: &str = "cell";
/// Wall clock time of a cell, a backstop: see [`ProgramLimits::wall`](crate::Limits).
const WALL: Duration = Duration::from_secs(120);
/// Output of a cell beyond its limit, which the program in the interpreter keeps: a cell that writes past it is ended
/// here, in bytes.
const OUTPUT_BEYOND: u64 = 1 << 20;

/// Settings of a pool of sessions.
#[derive(Clone, Copy, Debug)]
pub struct CellSettings {
    /// Threads, each of which runs one cell at a time.
    pub threads: usize,
    /// Memory for all sessions together, in bytes: each counts with all that it may take.
    pub memory_bytes: u64,
    /// Memory of a session in bytes, beyond the interpreter's own.
    pub session_bytes: u64,
    /// Time of a cell, counted as instructions.
    pub cell_time: Duration,
    /// Output of a cell, in characters; what is more is cut, with a mark.
    pub output_chars: usize,
}

impl CellSettings {
    /// Sessions that there may be at once.
    #[must_use]
    pub fn capacity(&self) -> usize {
        usize::try_from(self.memory_bytes / self.session_bytes.max(1)).unwrap_or(usize::MAX).max(1)
    }

    /// Sessions that one thread may have.
    #[must_use]
    pub fn per_thread(&self) -> usize {
        self.capacity().div_ceil(self.threads.max(1))
    }

    fn budget(&self) -> Budget {
        let time = self.cell_time;
        let memory = self.session_bytes;
        let output = self.output_chars as u64 * 4 + OUTPUT_BEYOND;
        Budget { time, wall: WALL, memory, granted: memory, output, deterministic: true }
    }

    fn driver(&self) -> Vec<u8> {
        format!("LIMIT = {}\n{DRIVER}", self.output_chars).into_bytes()
    }
}

/// Too little memory for another session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} sessions have all the memory that there is for them")]
pub struct SessionsFull(pub usize);

/// Threads with sessions. Dropping it ends them all.
pub struct CellPool {
    threads: Vec<CellThread>,
    capacity: usize,
    open: Arc<AtomicUsize>,
    next: AtomicU64,
}

impl CellPool {
    /// A pool whose threads run cells themselves. The interpreter must have been loaded for as many programs as there
    /// may be sessions.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    #[cfg(feature = "interpreter")]
    pub fn in_process(interpreter: &Arc<crate::Interpreter>, settings: CellSettings) -> std::io::Result<Self> {
        Self::start(settings, || thread::in_process(Arc::clone(interpreter), settings))
    }

    /// A pool whose threads run cells themselves, with the guest of a folder, which is built first where it is missing.
    ///
    /// # Errors
    ///
    /// What is missing on this machine; this crate without the feature `interpreter`.
    #[cfg_attr(not(feature = "interpreter"), expect(unused_variables, reason = "nothing is run here"))]
    pub fn with_guest(folder: &Path, settings: CellSettings, progress: &dyn Fn(&str)) -> Result<Self, GuestError> {
        #[cfg(feature = "interpreter")]
        return Self::in_process(
            &Arc::new(crate::Interpreter::load_counted(folder, settings.capacity(), progress)?),
            settings,
        )
        .map_err(|error| GuestError::Worker(error.to_string()));
        #[cfg(not(feature = "interpreter"))]
        Err(GuestError::NoInterpreter)
    }

    /// A pool whose threads have cells run by a worker process each, which a crash takes down alone. The command takes
    /// the number of sessions as its last argument.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    pub fn with_worker_processes(command: &WorkerProcessCommand, settings: CellSettings) -> std::io::Result<Self> {
        let mut command = command.clone();
        command.arguments.push(settings.per_thread().to_string().into());
        Self::start(settings, || thread::with_worker_process(command.clone(), settings))
    }

    fn start(settings: CellSettings, start: impl Fn() -> std::io::Result<CellThread>) -> std::io::Result<Self> {
        let threads = (0..settings.threads.max(1)).map(|_| start()).collect::<Result<_, _>>()?;
        Ok(Self { threads, capacity: settings.capacity(), open: Arc::default(), next: AtomicU64::new(0) })
    }

    /// Begins a session with the thread that has the fewest. An interpreter starts with the session's first cell.
    ///
    /// # Errors
    ///
    /// [`SessionsFull`].
    pub fn open(&self) -> Result<CellSession, SessionsFull> {
        let entered = self
            .open
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |open| (open < self.capacity).then_some(open + 1));
        entered.map_err(|_| SessionsFull(self.capacity))?;
        let thread = self.threads.iter().min_by_key(|thread| thread.sessions()).ok_or(SessionsFull(0))?;
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(CellSession::new(id, thread, Arc::clone(&self.open)))
    }
}
