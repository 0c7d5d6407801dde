//! The worker process itself: runs one program at a time, on a thread with a deep stack, until its standard input
//! closes.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio_util::sync::CancellationToken;

use super::frame::Frame;
use super::wire;
use crate::executor::{CellExecutor, Executor};
use crate::guest::GuestError;
use crate::in_process::InProcess;
use crate::interpreter::Interpreter;
use crate::run::{Cell, ExitStatus, ProgramSource, Run};
use crate::sandbox::{STACK_REUSE_LIMIT, THREAD_STACK};

/// How often a cancellation of the running program is checked for.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs the programs that arrive on standard input and responds on standard output, until standard input closes. To be
/// called by the process that [`WorkerProcessCommand`](super::WorkerProcessCommand) starts, which must write nothing
/// else to its standard output.
///
/// # Errors
///
/// What is missing on this machine. The parent process gets the same message.
pub fn run_worker_process(folder: &Path) -> Result<(), GuestError> {
    serve(|| Interpreter::load(folder, 1, &|_| {}))
}

/// [`run_worker_process`] with room for that many sessions.
///
/// # Errors
///
/// Those of [`run_worker_process`].
pub fn run_session_process(folder: &Path, sessions: usize) -> Result<(), GuestError> {
    serve(|| Interpreter::load_counted(folder, sessions.max(1), &|_| {}))
}

fn serve(load: impl FnOnce() -> Result<Interpreter, GuestError>) -> Result<(), GuestError> {
    let parent = parent_id();
    let loaded = load();
    let interpreter = match loaded {
        Ok(interpreter) => interpreter,
        Err(error) => {
            let _ = Frame::write(&mut io::stdout(), wire::MISSING, &[error.to_string().as_bytes()]);
            return Err(error);
        }
    };
    // A failure means that the parent has exited, which also ends standard input.
    let _ = Frame::write(&mut io::stdout(), wire::READY, &[]);
    let (Ok(input), Ok(output)) = (io::stdin().as_fd().try_clone_to_owned(), io::stdout().as_fd().try_clone_to_owned())
    else {
        return Ok(());
    };
    let output = File::from(output);
    let requests =
        Mutex::new(Requests { input: BufReader::new(input.into()), cancel: CancellationToken::new(), running: false });
    thread::scope(|scope| {
        let executor = thread::Builder::new().name("evenkeel-executor".to_owned());
        if executor.spawn_scoped(scope, || execute(&interpreter, &requests, &output)).is_ok() {
            watch_for_cancellation(&requests, parent);
        }
        // Nobody waits for what is still running.
        std::process::exit(0)
    })
}

/// The parent's requests. The thread that runs programs reads them itself: handing them over from another thread would
/// take as long as a short test.
struct Requests {
    input: BufReader<File>,
    /// Cancels the running program.
    cancel: CancellationToken,
    /// Whether a program is running. Only a cancellation can arrive then.
    running: bool,
}

impl Requests {
    /// The next request. `None` once the parent has closed the pipe.
    fn next(&mut self) -> Option<(Frame, CancellationToken)> {
        loop {
            let frame = Frame::read(&mut self.input).ok()??;
            if frame.kind == wire::CANCEL {
                // The message crossed with the response.
                self.cancel.cancel();
                continue;
            }
            // The inputs of a loaded program share its cancellation.
            if frame.kind != wire::GRADE {
                self.cancel = CancellationToken::new();
            }
            self.running = !matches!(frame.kind, wire::UNLOAD | wire::END_SESSION);
            return Some((frame, self.cancel.clone()));
        }
    }

    /// Reads pending cancellations of the running program. False once the parent has closed the pipe.
    fn poll_cancellation(&mut self) -> bool {
        let has_input = |input: &BufReader<File>| {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            !input.buffer().is_empty()
                || poll(&mut [PollFd::new(input.get_ref(), PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
        };
        while self.running && has_input(&self.input) {
            match Frame::read(&mut self.input) {
                Ok(Some(frame)) if frame.kind == wire::CANCEL => self.cancel.cancel(),
                _ => return false,
            }
        }
        true
    }
}

/// Cancels running programs on request, until the parent closes the pipe or has ended: a process that it forked may
/// hold the pipe open.
fn watch_for_cancellation(requests: &Mutex<Requests>, parent: u32) {
    loop {
        thread::sleep(POLL_INTERVAL);
        if parent_id() != parent {
            return;
        }
        // If it is locked, the other thread is waiting for a request.
        if let Ok(mut requests) = requests.try_lock()
            && !requests.poll_cancellation()
        {
            return;
        }
    }
}

/// Runs programs on threads that are replaced when their stack may have grown.
fn execute(interpreter: &Interpreter, requests: &Mutex<Requests>, output: &File) {
    // A series of tests outlives the thread of a single test.
    let mut executor = InProcess::new(interpreter);
    loop {
        let more = thread::scope(|scope| {
            let thread = thread::Builder::new().name("evenkeel-guest".to_owned()).stack_size(THREAD_STACK);
            let thread = thread.spawn_scoped(scope, || execute_on_thread(&mut executor, requests, output));
            thread.map(|thread| thread.join().unwrap_or(false)).unwrap_or(false)
        });
        if !more {
            // The pipe is closed, or a thread panicked, after which a new process is safer.
            std::process::exit(0);
        }
    }
}

/// Serves requests until the stack of this thread may have grown (true) or the pipe is closed (false).
fn execute_on_thread(executor: &mut InProcess<'_>, requests: &Mutex<Requests>, mut output: &File) -> bool {
    let mut loaded = false;
    let mut stack_may_have_grown = false;
    loop {
        // A loaded program stays on its thread.
        if stack_may_have_grown && !loaded {
            return true;
        }
        let next = requests.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some((mut frame, cancel)) = next else { return false };
        if frame.kind == wire::UNLOAD {
            executor.unload();
            loaded = false;
            continue;
        }
        if frame.kind == wire::END_SESSION {
            if let Some(id) = frame.parts.first().and_then(|part| wire::read_session(part)) {
                executor.end_session(id);
            }
            continue;
        }
        // The response repeats it: an answer to another request is recognised.
        let number = frame.parts.pop().unwrap_or_default();
        let run = respond(executor, frame, &cancel, &mut loaded);
        stack_may_have_grown |= run.cpu > STACK_REUSE_LIMIT;
        let parts = wire::run(&run);
        let parts: Vec<&[u8]> = parts.iter().chain([&number]).map(Vec::as_slice).collect();
        // Before the response: the next request may follow it immediately.
        requests.lock().unwrap_or_else(PoisonError::into_inner).running = false;
        if Frame::write(&mut output, wire::RUN, &parts).is_err() {
            return false;
        }
    }
}

fn respond(executor: &mut InProcess<'_>, mut frame: Frame, cancel: &CancellationToken, loaded: &mut bool) -> Run {
    if frame.kind == wire::GRADE {
        let run = executor.grade(&frame.part(0), cancel);
        *loaded = matches!(run.status, ExitStatus::Returned(_));
        return run;
    }
    *loaded = false;
    let budget = frame.part(0);
    let source = frame.part(1);
    let Some(budget) = wire::read_budget(&budget) else {
        return Run::without(ExitStatus::Internal("a request without a budget".to_owned()));
    };
    let text = |frame: &mut Frame, part| String::from_utf8_lossy(&frame.part(part)).into_owned();
    match frame.kind {
        wire::COMPILE => executor.compile(&source, &budget, cancel),
        wire::PROCESS => {
            let program = ProgramSource { text: &source, code: &frame.part(2), many_tests: frame.part(4) == [1] };
            executor.process(program, &frame.part(3), &budget, cancel)
        }
        wire::CALL => {
            let name = text(&mut frame, 3);
            let program = ProgramSource { text: &source, code: &frame.part(2), many_tests: frame.part(5) == [1] };
            executor.call(program, &name, &frame.part(4), &budget, cancel)
        }
        wire::CELL => {
            let function = text(&mut frame, 2);
            let input = frame.part(3);
            let Some(id) = wire::read_session(&frame.part(4)) else {
                return Run::without(ExitStatus::Internal("a cell without a session".to_owned()));
            };
            executor.cell(Cell { id, driver: &source, function: &function, input: &input }, &budget, cancel)
        }
        wire::LOAD => {
            let run = executor.load(&source, &text(&mut frame, 2), &budget, cancel);
            *loaded = matches!(run.status, ExitStatus::Returned(_));
            run
        }
        kind => Run::without(ExitStatus::Internal(format!("a request of the unknown kind {kind}"))),
    }
}
