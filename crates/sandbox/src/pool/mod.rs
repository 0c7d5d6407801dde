//! A bounded queue of programs, and threads that run their tests.
//!
//! A free thread takes the next test of the program that is expected to finish first, so that the tests of one program
//! spread over all idle threads. Tests that run long yield to those that wait (`queue`), and a test starts only when
//! the machine has the memory that it may use (`memory`). A program's first failure drops its remaining tests. The
//! verdict does not depend on which thread was faster: the failing test is the first by index, and tests after it do
//! not count.

#[cfg(feature = "interpreter")]
mod in_process;
mod job;
mod memory;
mod queue;
mod thread;
mod usage;

use std::path::Path;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use tokio_util::sync::CancellationToken;

use crate::guest::GuestError;
#[cfg(feature = "interpreter")]
use crate::interpreter::Interpreter;
use crate::task::ProgramTask;
use crate::verdict::ProgramVerdict;
use crate::worker_process::WorkerProcessCommand;

use job::Job;
use memory::MemoryBudget;
use queue::Queue;
use usage::ProcessCounts;

pub use usage::PoolUsage;

/// Settings of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolSettings {
    /// Tests that run at once, normally the number of cores. As many again may continue after they have run for more
    /// than a second.
    pub workers: usize,
    /// Programs that may be queued or running; further ones are refused.
    pub queue: usize,
    /// Memory for all programs together, in bytes [default: nine tenths of what is available to the machine or its
    /// control group].
    pub memory_bytes: Option<u64>,
}

/// The queue is full: submit the program elsewhere or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub struct QueueFull;

/// Threads that judge programs. Dropping the pool cancels all programs and joins the threads.
pub struct Pool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
    processes: Arc<ProcessCounts>,
}

impl Pool {
    /// A pool whose threads run programs themselves.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread.
    #[cfg(feature = "interpreter")]
    pub fn in_process(interpreter: Arc<Interpreter>, settings: PoolSettings) -> std::io::Result<Self> {
        Self::start(settings, |queue, memory, _| in_process::start(queue, memory, Arc::clone(&interpreter)))
    }

    /// A pool whose threads run programs themselves, with the guest of a folder, which is built first where it is
    /// missing.
    ///
    /// # Errors
    ///
    /// What is missing on this machine; this crate without the feature `interpreter`.
    #[cfg_attr(not(feature = "interpreter"), expect(unused_variables, reason = "nothing is run here"))]
    pub fn with_guest(folder: &Path, settings: PoolSettings, progress: &dyn Fn(&str)) -> Result<Self, GuestError> {
        #[cfg(feature = "interpreter")]
        return Self::in_process(Arc::new(Interpreter::load(folder, settings.workers, progress)?), settings)
            .map_err(|error| GuestError::Worker(error.to_string()));
        #[cfg(not(feature = "interpreter"))]
        Err(GuestError::NoInterpreter)
    }

    /// A pool whose threads run programs in a worker process each. For short programs that is twice as fast, since
    /// processes do not share page tables; and a crash takes down one program only.
    ///
    /// # Errors
    ///
    /// The system cannot start a thread. A process that does not start shows in the verdict on the first program: see
    /// [`Self::judge`].
    pub fn with_worker_processes(command: &WorkerProcessCommand, settings: PoolSettings) -> std::io::Result<Self> {
        let start = |queue, memory, counts| thread::with_worker_process(queue, memory, counts, command.clone());
        Self::start(settings, start)
    }

    fn start(
        settings: PoolSettings,
        start_thread: impl Fn(Arc<Queue>, Arc<MemoryBudget>, Arc<ProcessCounts>) -> std::io::Result<JoinHandle<()>>,
    ) -> std::io::Result<Self> {
        let slots = settings.workers.max(1);
        // A thread for each slot of either kind: see `queue`.
        let threads = 2 * slots;
        let queue = Arc::new(Queue::new(settings.queue, slots));
        let memory = Arc::new(MemoryBudget::new(settings.memory_bytes, threads));
        let processes = Arc::<ProcessCounts>::default();
        let mut pool = Self { queue: Arc::clone(&queue), threads: Vec::new(), processes: Arc::clone(&processes) };
        for _ in 0..threads {
            pool.threads.push(start_thread(Arc::clone(&queue), Arc::clone(&memory), Arc::clone(&processes))?);
        }
        let preemption = Builder::new().name("evenkeel-preempt".to_owned());
        pool.threads.push(preemption.spawn(move || queue.preempt_until_closed())?);
        Ok(pool)
    }

    /// Submits a program. `done` is called once with its verdict, on a thread of the pool; it must not block.
    ///
    /// # Errors
    ///
    /// [`QueueFull`], and `done` is dropped without being called.
    pub fn submit(
        &self,
        task: ProgramTask,
        cancel: CancellationToken,
        done: impl FnOnce(ProgramVerdict) + Send + 'static,
    ) -> Result<(), QueueFull> {
        self.queue.push(Job::new(task, cancel, Box::new(done)))
    }

    /// Judges one program and waits for its verdict.
    ///
    /// # Errors
    ///
    /// [`QueueFull`].
    pub fn judge(&self, task: ProgramTask) -> Result<ProgramVerdict, QueueFull> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.submit(task, CancellationToken::new(), move |verdict| {
            // The receiver waits below.
            let _ = sender.send(verdict);
        })?;
        receiver.recv().map_err(|_| QueueFull)
    }

    /// Cancels all programs and refuses further ones. Dropping the pool waits for its threads, too.
    pub fn close(&self) {
        self.queue.close();
    }

    /// Number of programs that are queued or running.
    #[must_use]
    pub fn load(&self) -> usize {
        self.queue.load()
    }

    /// What the pool is doing, and how many of its processes were lost.
    #[must_use]
    pub fn usage(&self) -> PoolUsage {
        self.processes.usage(self.load())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked needs no further handling.
            let _ = thread.join();
        }
    }
}
