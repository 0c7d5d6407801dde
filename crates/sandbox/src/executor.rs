//! Executors run programs: [`InProcess`](crate::in_process::InProcess) in this process or, as
//! [`WorkerProcess`](crate::worker_process::WorkerProcess), in another one.

use tokio_util::sync::CancellationToken;

use crate::run::{Budget, Cell, ProgramSource, Run};

/// Runs one program at a time and reports what it did.
pub(crate) trait Executor {
    /// Compiles a program without running it, to the code of a [`ProgramSource`].
    fn compile(&mut self, source: &[u8], budget: &Budget, cancel: &CancellationToken) -> Run;

    /// Runs a program as a process would.
    fn process(&mut self, program: ProgramSource<'_>, stdin: &[u8], budget: &Budget, cancel: &CancellationToken)
    -> Run;

    /// Calls a function of a program.
    fn call(
        &mut self,
        program: ProgramSource<'_>,
        name: &str,
        input: &[u8],
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Run;

    /// Loads a program for several inputs. An empty `name` means that it reads standard input.
    fn load(&mut self, source: &[u8], name: &str, budget: &Budget, cancel: &CancellationToken) -> Run;

    /// Runs the loaded program on one input, with a new budget like that of loading it. Only after `Returned` may
    /// another input follow.
    fn grade(&mut self, input: &[u8], cancel: &CancellationToken) -> Run;

    /// Frees the loaded program.
    fn unload(&mut self);
}

/// Runs the cells of many sessions, one at a time.
pub(crate) trait CellExecutor {
    /// Runs a cell in its session, which begins with its first cell, and again after one that did not return.
    fn cell(&mut self, cell: Cell<'_>, budget: &Budget, cancel: &CancellationToken) -> Run;

    /// Frees what a session holds.
    fn end_session(&mut self, id: u64);

    /// How all sessions were lost since this was last asked, if they were.
    fn loss(&mut self) -> Option<String> {
        None
    }
}
