//! Worker processes: each runs one program at a time for a thread of the pool.
//!
//! Threads that share an address space slow each other down: whenever a guest writes to a page for the first time, the
//! kernel interrupts every core that runs another thread of the process. With a worker process per pool thread a short
//! test takes half the time or less, and a crash takes down one program only.

mod frame;
mod loss;
mod pipe;
#[cfg(feature = "interpreter")]
mod serve;
mod wire;

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use tokio_util::sync::CancellationToken;

use crate::executor::{CellExecutor, Executor};
use crate::run::{Budget, Cell, ExitStatus, ProgramSource, Run};
use frame::Frame;
pub(crate) use loss::ProcessLoss;
use pipe::Pipe;

#[cfg(feature = "interpreter")]
pub use serve::{run_session_process, run_worker_process};

/// The variables that a worker process gets, and no others: a program that finds a way out of the sandbox finds no
/// credentials of the user.
const VARIABLES: [&str; 14] = [
    "EVENKEEL_GUEST_BUILDER",
    "EVENKEEL_GUEST_DIR",
    "EVENKEEL_GUEST_IMAGE",
    "EVENKEEL_PROCESS_GROUP",
    "EVENKEEL_PYTHON",
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "TMPDIR",
    "XDG_CACHE_HOME",
];
/// How often a pool thread checks for cancellation while it waits.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Time limit for loading the interpreter.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How long a response may take beyond the program's wall clock limit.
const GRACE: Duration = Duration::from_secs(10);
/// Time limit for abandoning a cancelled program. After that the process is killed, since a shutdown waits for it.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(2);

/// How to start a worker process: a program that calls `run_worker_process`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerProcessCommand {
    /// Path or name of the program.
    pub program: PathBuf,
    /// Arguments of the program.
    pub arguments: Vec<OsString>,
}

/// Why a worker process did not start.
#[derive(Debug)]
pub(crate) enum StartError {
    /// Something is missing on this machine; another attempt would fail as well.
    Missing(String),
    /// The process ended before it was ready.
    Lost(ProcessLoss),
}

/// A running worker process.
pub(crate) struct WorkerProcess {
    child: Child,
    input: Pipe<ChildStdin>,
    output: BufReader<Pipe<ChildStdout>>,
    /// How long a response may take: a little more than the program's wall clock limit.
    response_timeout: Duration,
    /// The number of the last request, which its response repeats.
    number: u64,
    /// Set once the process can no longer be used.
    lost: Option<ProcessLoss>,
}

impl WorkerProcess {
    /// Starts a process and waits until it is ready, or until the program that it was started for is cancelled.
    ///
    /// # Errors
    ///
    /// What is missing on this machine, or how the process ended before it was ready.
    pub(crate) fn start(command: &WorkerProcessCommand, cancel: &CancellationToken) -> Result<Self, StartError> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .env_clear()
            .envs(VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal is for the parent; the worker process exits when its pipe closes.
            .process_group(0)
            .spawn()
            .map_err(|error| StartError::Missing(format!("{}: {error}", command.program.display())))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(StartError::Missing("a process without pipes".to_owned()));
        };
        let (Ok(input), Ok(output)) = (Pipe::new(input, child.id()), Pipe::new(output, child.id())) else {
            return Err(StartError::Missing("a process whose pipes cannot be used".to_owned()));
        };
        let output = BufReader::new(output);
        let mut process = Self { child, input, output, response_timeout: START_TIMEOUT, number: 0, lost: None };
        process.set_timeout(START_TIMEOUT);
        match process.response(cancel) {
            Ok(frame) if frame.kind == wire::READY => Ok(process),
            Ok(mut frame) if frame.kind == wire::MISSING => {
                Err(StartError::Missing(String::from_utf8_lossy(&frame.part(0)).into_owned()))
            }
            Ok(frame) => {
                Err(StartError::Missing(format!("the first message of a worker process has the kind {}", frame.kind)))
            }
            Err(error) => Err(StartError::Lost(ProcessLoss::of(&mut process.child, &error))),
        }
    }

    /// How the process was lost, if it was.
    pub(crate) fn lost(&self) -> Option<&ProcessLoss> {
        self.lost.as_ref()
    }

    fn request(&mut self, kind: u32, parts: &[&[u8]], cancel: &CancellationToken) -> Run {
        self.number += 1;
        let number = wire::number(self.number);
        let response = match &self.lost {
            Some(lost) => Err(io::Error::other(lost.to_string())),
            None => {
                self.set_timeout(self.response_timeout);
                let parts = [parts, &[&number]].concat();
                Frame::write(&mut self.input, kind, &parts).and_then(|()| self.response(cancel))
            }
        };
        let run = response.and_then(|mut frame| {
            if frame.parts.pop().as_ref() != Some(&number) {
                let message = "a response to another request";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            let run = (frame.kind == wire::RUN).then(|| wire::read_run(frame)).flatten();
            run.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an invalid response"))
        });
        run.unwrap_or_else(|error| {
            let child = &mut self.child;
            let lost = self.lost.get_or_insert_with(|| ProcessLoss::of(child, &error));
            Run::without(ExitStatus::Internal(lost.to_string()))
        })
    }

    /// Waits for a response; forwards a cancellation to the process.
    fn response(&mut self, cancel: &CancellationToken) -> io::Result<Frame> {
        let mut forwarded = false;
        while self.output.buffer().is_empty() && !self.output.get_mut().wait(PollFlags::IN, POLL_INTERVAL)? {
            if cancel.is_cancelled() && !forwarded {
                self.set_timeout(CANCEL_TIMEOUT);
                Frame::write(&mut self.input, wire::CANCEL, &[])?;
                forwarded = true;
            }
        }
        Frame::read(&mut self.output)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Limits all communication from now on.
    fn set_timeout(&mut self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        self.input.set_deadline(deadline);
        self.output.get_mut().set_deadline(deadline);
    }
}

/// With counted instructions no clock decides, so that this limit only catches defects.
fn response_timeout(budget: &Budget) -> Duration {
    let wall = if budget.deterministic { budget.wall.saturating_mul(10) } else { budget.wall };
    wall.saturating_add(GRACE)
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        // The process has no state worth keeping, and may be in the middle of a program.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Executor for WorkerProcess {
    fn compile(&mut self, source: &[u8], budget: &Budget, cancel: &CancellationToken) -> Run {
        self.response_timeout = response_timeout(budget);
        self.request(wire::COMPILE, &[&wire::budget(budget), source], cancel)
    }

    fn process(
        &mut self,
        program: ProgramSource<'_>,
        stdin: &[u8],
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Run {
        self.response_timeout = response_timeout(budget);
        let parts = [&wire::budget(budget), program.text, program.code, stdin, &[u8::from(program.many_tests)]];
        self.request(wire::PROCESS, &parts, cancel)
    }

    fn call(
        &mut self,
        program: ProgramSource<'_>,
        name: &str,
        input: &[u8],
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Run {
        self.response_timeout = response_timeout(budget);
        let many_tests = [u8::from(program.many_tests)];
        let parts = [&wire::budget(budget), program.text, program.code, name.as_bytes(), input, &many_tests];
        self.request(wire::CALL, &parts, cancel)
    }

    fn load(&mut self, source: &[u8], name: &str, budget: &Budget, cancel: &CancellationToken) -> Run {
        self.response_timeout = response_timeout(budget);
        self.request(wire::LOAD, &[&wire::budget(budget), source, name.as_bytes()], cancel)
    }

    fn grade(&mut self, input: &[u8], cancel: &CancellationToken) -> Run {
        self.request(wire::GRADE, &[input], cancel)
    }

    fn unload(&mut self) {
        // There is no response. The next request notices a lost process.
        if self.lost.is_none() {
            self.set_timeout(CANCEL_TIMEOUT);
            let _ = Frame::write(&mut self.input, wire::UNLOAD, &[]);
        }
    }
}

impl CellExecutor for WorkerProcess {
    fn cell(&mut self, cell: Cell<'_>, budget: &Budget, cancel: &CancellationToken) -> Run {
        self.response_timeout = response_timeout(budget);
        let id = wire::session(cell.id);
        let function = cell.function.as_bytes();
        let parts = [&wire::budget(budget), cell.driver, function, cell.input, &id];
        self.request(wire::CELL, &parts, cancel)
    }

    fn end_session(&mut self, id: u64) {
        // There is no response. The next request notices a lost process.
        if self.lost.is_none() {
            self.set_timeout(CANCEL_TIMEOUT);
            let _ = Frame::write(&mut self.input, wire::END_SESSION, &[&wire::session(id)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that says what is in a file, whatever it is asked.
    fn saying(frames: &[(u32, Vec<Vec<u8>>)]) -> (tempfile::NamedTempFile, WorkerProcess) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        for (kind, parts) in frames {
            let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
            Frame::write(&mut file, *kind, &parts).unwrap();
        }
        let arguments = ["-c".into(), "cat \"$0\"; cat >/dev/null".into(), file.path().into()];
        let command = WorkerProcessCommand { program: "sh".into(), arguments: arguments.into() };
        let process = WorkerProcess::start(&command, &CancellationToken::new()).ok().unwrap();
        (file, process)
    }

    fn response(stdout: &str, number: u64) -> (u32, Vec<Vec<u8>>) {
        let run = Run { stdout: stdout.into(), ..Run::without(ExitStatus::Exited(0)) };
        (wire::RUN, wire::run(&run).into_iter().chain([wire::number(number)]).collect())
    }

    #[test]
    fn a_worker_process_gets_the_variables_that_it_needs_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let seen = folder.path().join("seen");
        Frame::write(&mut std::fs::File::create(&ready).unwrap(), wire::READY, &[]).unwrap();
        let script = "env >\"$1\"; cat \"$0\"; cat >/dev/null";
        let arguments = ["-c".into(), script.into(), ready.into(), seen.clone().into()];
        let command = WorkerProcessCommand { program: "sh".into(), arguments: arguments.into() };
        let _process = WorkerProcess::start(&command, &CancellationToken::new()).ok().unwrap();
        let own: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
        let withheld: Vec<_> = own.iter().filter(|name| !VARIABLES.contains(&name.as_str())).collect();
        assert!(!withheld.is_empty(), "there are others: {own:?}");
        let seen = std::fs::read_to_string(seen).unwrap();
        for line in seen.lines() {
            let name = line.split('=').next().unwrap();
            // Those of the shell itself.
            assert!(VARIABLES.contains(&name) || ["PWD", "OLDPWD", "SHLVL", "_"].contains(&name), "{line}");
        }
        assert!(seen.contains("PATH="), "{seen}");
    }

    #[test]
    fn a_second_answer_to_a_request_is_not_taken_for_that_of_the_next() {
        let ready = (wire::READY, Vec::new());
        let (_file, mut process) = saying(&[ready, response("first", 1), response("again", 1), response("third", 2)]);
        let mut ask = || process.grade(b"", &CancellationToken::new());
        assert_eq!(ask().stdout, b"first");
        let second = ask();
        let ExitStatus::Internal(error) = &second.status else { panic!("{:?}", second.status) };
        assert!(error.contains("a response to another request") && second.stdout.is_empty(), "{error}");
        assert!(process.lost().is_some(), "nothing more is asked of it");
    }
}
