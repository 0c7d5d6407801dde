//! Cells: processes that run one program at a time for a worker of the pool.
//!
//! Threads that share one address space disturb each other: each page that a guest writes to for the first time makes the kernel
//! interrupt every core on which another thread of the process runs. With a process for each worker a short test takes half of
//! the time or less, and whatever ends a process ends one program.

mod frame;
mod loss;
mod pipe;
mod serve;
mod wire;

use std::ffi::OsString;
use std::io::{self, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use crate::place::Place;
use crate::sandbox::{Budget, Cancel, Ending, Run, Source};
use frame::Frame;
pub(crate) use loss::Loss;
use pipe::Pipe;

pub use serve::serve_cell;

/// How often a worker looks whether its program was taken back.
const LOOK: Duration = Duration::from_millis(5);
/// How long a cell may take to load the interpreter.
const START: Duration = Duration::from_secs(120);
/// How long after the wall clock's limit a cell may be silent.
const GRACE: Duration = Duration::from_secs(10);
/// How long a cell may take to give a program up that was taken back. Behind it the process is ended: whoever shuts down waits for it.
const GIVES_UP: Duration = Duration::from_secs(2);

/// How a cell is started: a program that calls [`serve_cell`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellCommand {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Why there is no cell.
#[derive(Debug)]
pub(crate) enum NotStarted {
    /// Something that another try would not find either.
    Missing(String),
    /// The process ended before it could be asked.
    Lost(Loss),
}

/// A running cell.
pub(crate) struct Cell {
    child: Child,
    input: Pipe<ChildStdin>,
    output: BufReader<Pipe<ChildStdout>>,
    /// How long it may be silent: a little more than the program's wall clock.
    patience: Duration,
    /// Why nothing can be asked of it any more.
    lost: Option<Loss>,
}

impl Cell {
    /// Starts a cell and waits until it can be asked, or until the program that it is for is taken back.
    ///
    /// # Errors
    ///
    /// What is missing on this machine, or how the process ended before it could be asked.
    pub(crate) fn start(command: &CellCommand, cancel: &Cancel) -> Result<Self, NotStarted> {
        let mut child = Command::new(&command.program)
            .args(&command.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C at a terminal is for whoever started this; a cell ends when its pipe does.
            .process_group(0)
            .spawn()
            .map_err(|error| NotStarted::Missing(format!("{}: {error}", command.program.display())))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(NotStarted::Missing("a process without pipes".to_owned()));
        };
        let (Ok(input), Ok(output)) = (Pipe::new(input, child.id()), Pipe::new(output, child.id())) else {
            return Err(NotStarted::Missing("a process whose pipes cannot be used".to_owned()));
        };
        let mut cell = Self { child, input, output: BufReader::new(output), patience: START, lost: None };
        cell.must_end_within(START);
        match cell.answer(cancel) {
            Ok(frame) if frame.kind == wire::READY => Ok(cell),
            Ok(mut frame) if frame.kind == wire::MISSING => {
                Err(NotStarted::Missing(String::from_utf8_lossy(&frame.part(0)).into_owned()))
            }
            Ok(frame) => Err(NotStarted::Missing(format!("a cell began with a message of the kind {}", frame.kind))),
            Err(error) => Err(NotStarted::Lost(Loss::of(&mut cell.child, &error))),
        }
    }

    /// Why it is of no use any more.
    pub(crate) fn lost(&self) -> Option<&Loss> {
        self.lost.as_ref()
    }

    fn ask(&mut self, kind: u32, parts: &[&[u8]], cancel: &Cancel) -> Run {
        let answer = match &self.lost {
            Some(lost) => Err(io::Error::other(lost.to_string())),
            None => {
                self.must_end_within(self.patience);
                Frame::write(&mut self.input, kind, parts).and_then(|()| self.answer(cancel))
            }
        };
        let run = answer.and_then(|frame| {
            let run = (frame.kind == wire::RUN).then(|| wire::read_run(frame)).flatten();
            run.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "an answer that is none"))
        });
        run.unwrap_or_else(|error| {
            let child = &mut self.child;
            let lost = self.lost.get_or_insert_with(|| Loss::of(child, &error));
            Run::without(Ending::Broken(lost.to_string()))
        })
    }

    /// Waits for an answer; tells the cell where the program is taken back meanwhile.
    fn answer(&mut self, cancel: &Cancel) -> io::Result<Frame> {
        let mut told = false;
        while self.output.buffer().is_empty() && !self.output.get_mut().wait(PollFlags::IN, LOOK)? {
            if cancel.is_cancelled() && !told {
                self.must_end_within(GIVES_UP);
                Frame::write(&mut self.input, wire::CANCEL, &[])?;
                told = true;
            }
        }
        Frame::read(&mut self.output)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Bounds everything that is exchanged from now on.
    fn must_end_within(&mut self, time: Duration) {
        let deadline = Instant::now() + time;
        self.input.must_end_by(deadline);
        self.output.get_mut().must_end_by(deadline);
    }
}

/// Where instructions are counted no clock decides, short of a defect.
fn patience(budget: &Budget) -> Duration {
    let wall = if budget.deterministic { budget.wall.saturating_mul(10) } else { budget.wall };
    wall.saturating_add(GRACE)
}

impl Drop for Cell {
    fn drop(&mut self) {
        // It holds nothing that could be lost, and may be in the middle of a program.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Place for Cell {
    fn compile(&mut self, source: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        self.patience = patience(budget);
        self.ask(wire::COMPILE, &[&wire::budget(budget), source], cancel)
    }

    fn process(&mut self, program: Source<'_>, stdin: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        self.patience = patience(budget);
        let parts = [&wire::budget(budget), program.text, program.code, stdin, &[u8::from(program.many)]];
        self.ask(wire::PROCESS, &parts, cancel)
    }

    fn call(&mut self, program: Source<'_>, name: &str, input: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        self.patience = patience(budget);
        let many = [u8::from(program.many)];
        let parts = [&wire::budget(budget), program.text, program.code, name.as_bytes(), input, &many];
        self.ask(wire::CALL, &parts, cancel)
    }

    fn load(&mut self, source: &[u8], name: &str, budget: &Budget, cancel: &Cancel) -> Run {
        self.patience = patience(budget);
        self.ask(wire::LOAD, &[&wire::budget(budget), source, name.as_bytes()], cancel)
    }

    fn grade(&mut self, input: &[u8], cancel: &Cancel) -> Run {
        self.ask(wire::GRADE, &[input], cancel)
    }

    fn unload(&mut self) {
        // Not answered. One that is gone is found by whoever asks next.
        if self.lost.is_none() {
            self.must_end_within(GIVES_UP);
            let _ = Frame::write(&mut self.input, wire::UNLOAD, &[]);
        }
    }
}
