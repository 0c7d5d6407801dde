//! The worker: a bounded queue of programs, and threads that run their tests.
//!
//! A free thread takes the next test of the program that is expected to be done first, so one program's tests spread over all threads
//! that have nothing else to do. Tests that have run for a while give their place to those that wait (`queue`), and begin only where the
//! machine has the memory that they may take (`memory`). A program's first failure drops its remaining tests. Which verdict comes out does not depend on which
//! thread was faster: the failing test is the first by its index, and what ran beyond it does not count.

mod job;
mod machine;
mod memory;
mod queue;
mod worker;

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crate::cell::CellCommand;
use crate::interpreter::Interpreter;
use crate::sandbox::Cancel;
use crate::task::Task;
use crate::verdict::Verdict;

use job::Job;
use memory::Memory;
use queue::Queue;

/// What a pool is made of.
#[derive(Clone, Copy, Debug)]
pub struct PoolSettings {
    /// Tests that run at once: as many as there are cores. As many again may go on that have run for more than a second.
    pub workers: usize,
    /// Programs that may wait or run at once; one more is refused.
    pub queue: usize,
    /// Bytes of memory that all programs together may have [default: nine tenths of what the machine or its control group has left].
    pub memory_bytes: Option<u64>,
}

/// The queue is full: send the program elsewhere or later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue is full")]
pub struct Full;

/// Threads that judge programs. Dropping it cancels what waits and runs, and ends the threads.
pub struct Pool {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts threads that run programs themselves.
    ///
    /// # Errors
    ///
    /// Where the system gives no thread.
    pub fn start(interpreter: Arc<Interpreter>, settings: PoolSettings) -> std::io::Result<Self> {
        Self::of(settings, |queue, memory| worker::start(queue, memory, Arc::clone(&interpreter)))
    }

    /// Starts threads that each have a process run programs. That is twice as fast for short programs, since processes do not share
    /// the tables of their memory; and what ends a process ends one program.
    ///
    /// # Errors
    ///
    /// Where the system gives no thread. A process that does not start is found by the first program: see [`Self::judge`].
    pub fn of_cells(command: &CellCommand, settings: PoolSettings) -> std::io::Result<Self> {
        Self::of(settings, |queue, memory| worker::start_with_cell(queue, memory, command.clone()))
    }

    fn of(
        settings: PoolSettings,
        start: impl Fn(Arc<Queue>, Arc<Memory>) -> std::io::Result<JoinHandle<()>>,
    ) -> std::io::Result<Self> {
        let places = settings.workers.max(1);
        let queue = Arc::new(Queue::new(settings.queue, places));
        let memory = Arc::new(Memory::new(settings.memory_bytes, 2 * places));
        let mut pool = Self { queue: Arc::clone(&queue), threads: Vec::new() };
        for _ in 0..2 * places {
            pool.threads.push(start(Arc::clone(&queue), Arc::clone(&memory))?);
        }
        let keeper = thread::Builder::new().name("evenkeel-places".to_owned());
        pool.threads.push(keeper.spawn(move || queue.keep_room())?);
        Ok(pool)
    }

    /// Gives a program to the pool. `done` is called once with its verdict, on a thread of the pool; it must not block.
    ///
    /// # Errors
    ///
    /// [`Full`], and `done` is dropped without being called.
    pub fn submit(&self, task: Task, cancel: Cancel, done: impl FnOnce(Verdict) + Send + 'static) -> Result<(), Full> {
        self.queue.push(Job::new(task, cancel, Box::new(done)))
    }

    /// Judges one program and waits for its verdict.
    ///
    /// # Errors
    ///
    /// [`Full`].
    pub fn judge(&self, task: Task) -> Result<Verdict, Full> {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        self.submit(task, Cancel::new(), move |verdict| {
            // The receiver waits below.
            let _ = sender.send(verdict);
        })?;
        receiver.recv().map_err(|_| Full)
    }

    /// Programs that wait or run.
    #[must_use]
    pub fn load(&self) -> usize {
        self.queue.load()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing more to say.
            let _ = thread.join();
        }
    }
}
