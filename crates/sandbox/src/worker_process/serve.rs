//! The cell's own side: one program at a time, on a thread with a deep stack, until nobody asks any more.

use std::fs::File;
use std::io::{self, BufReader};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::frame::Frame;
use super::wire;
use crate::guest::GuestError;
use crate::interpreter::Interpreter;
use crate::place::{Here, Place};
use crate::sandbox::{Cancel, Ending, FILLS_STACK, Run, Source, THREAD_STACK};

/// How often it is looked whether a program that runs was taken back.
const LOOK: Duration = Duration::from_millis(5);

/// Runs the programs that come on standard input and answers on standard output, until standard input ends. For the process that
/// [`CellCommand`](super::CellCommand) starts, which must write nothing else to its standard output.
///
/// # Errors
///
/// Says what is missing on this machine; whoever asked is told as well.
pub fn serve_cell(folder: &Path) -> Result<(), GuestError> {
    let loaded = Interpreter::load(folder, 1, &|_| {});
    let interpreter = match loaded {
        Ok(interpreter) => interpreter,
        Err(error) => {
            let _ = Frame::write(&mut io::stdout(), wire::MISSING, &[error.to_string().as_bytes()]);
            return Err(error);
        }
    };
    // Whoever asked is gone where its pipe is closed; there is nobody to be told then, or later on.
    let _ = Frame::write(&mut io::stdout(), wire::READY, &[]);
    let (Ok(input), Ok(output)) = (io::stdin().as_fd().try_clone_to_owned(), io::stdout().as_fd().try_clone_to_owned())
    else {
        return Ok(());
    };
    let output = File::from(output);
    let asked = Mutex::new(Asked { input: BufReader::new(input.into()), cancel: Cancel::new(), running: false });
    thread::scope(|scope| {
        let worker = thread::Builder::new().name("evenkeel-cell".to_owned());
        if worker.spawn_scoped(scope, || work(&interpreter, &asked, &output)).is_ok() {
            watch(&asked);
        }
        // Whatever still runs, nobody waits for it.
        std::process::exit(0)
    })
}

/// What a worker asks of this cell. The thread that runs programs waits for it itself: another one in between would take as long as a
/// short test.
struct Asked {
    input: BufReader<File>,
    /// Takes back the program that runs.
    cancel: Cancel,
    /// A program runs: nothing comes now but its end.
    running: bool,
}

impl Asked {
    /// The next thing to do; nothing once nobody asks any more.
    fn next(&mut self) -> Option<(Frame, Cancel)> {
        loop {
            let frame = Frame::read(&mut self.input).ok()??;
            if frame.kind == wire::CANCEL {
                // It was under way when the answer was.
                self.cancel.cancel();
                continue;
            }
            // Inputs of a loaded program are taken back with it.
            if frame.kind != wire::GRADE {
                self.cancel = Cancel::new();
            }
            self.running = frame.kind != wire::UNLOAD;
            return Some((frame, self.cancel.clone()));
        }
    }

    /// Looks whether the program that runs was taken back: false once nobody asks any more.
    fn look(&mut self) -> bool {
        let comes = |input: &BufReader<File>| {
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            !input.buffer().is_empty()
                || poll(&mut [PollFd::new(input.get_ref(), PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
        };
        while self.running && comes(&self.input) {
            match Frame::read(&mut self.input) {
                Ok(Some(frame)) if frame.kind == wire::CANCEL => self.cancel.cancel(),
                _ => return false,
            }
        }
        true
    }
}

/// Takes programs back that run, until nobody asks any more.
fn watch(asked: &Mutex<Asked>) {
    loop {
        thread::sleep(LOOK);
        // Where it is taken the other thread waits for something to do.
        if let Ok(mut asked) = asked.try_lock()
            && !asked.look()
        {
            return;
        }
    }
}

/// Runs what is asked for, on threads that are replaced when their stack may be full.
fn work(interpreter: &Interpreter, asked: &Mutex<Asked>, output: &File) {
    // What was begun for many tests outlives the thread of one.
    let mut place = Here::new(interpreter);
    loop {
        let more = thread::scope(|scope| {
            let thread = thread::Builder::new().name("evenkeel-guest".to_owned()).stack_size(THREAD_STACK);
            let thread = thread.spawn_scoped(scope, || shift(&mut place, asked, output));
            thread.map(|thread| thread.join().unwrap_or(false)).unwrap_or(false)
        });
        if !more {
            // The asking side is closed, or a thread panicked: a fresh process is better than this one.
            std::process::exit(0);
        }
    }
}

/// One thread's work: whether there is more.
fn shift(place: &mut Here<'_>, asked: &Mutex<Asked>, mut output: &File) -> bool {
    let mut loaded = false;
    let mut worked = false;
    loop {
        // A loaded program stays on its thread.
        if worked && !loaded {
            return true;
        }
        let next = asked.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some((frame, cancel)) = next else { return false };
        if frame.kind == wire::UNLOAD {
            place.unload();
            loaded = false;
            continue;
        }
        let run = answer(place, frame, &cancel, &mut loaded);
        worked |= run.cpu > FILLS_STACK;
        let parts = wire::run(&run);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        // Nothing is asked before this is answered, but then at once.
        asked.lock().unwrap_or_else(PoisonError::into_inner).running = false;
        if Frame::write(&mut output, wire::RUN, &parts).is_err() {
            return false;
        }
    }
}

fn answer(place: &mut Here<'_>, mut frame: Frame, cancel: &Cancel, loaded: &mut bool) -> Run {
    if frame.kind == wire::GRADE {
        let run = place.grade(&frame.part(0), cancel);
        *loaded = matches!(run.ending, Ending::Returned(_));
        return run;
    }
    *loaded = false;
    let (budget, source) = (frame.part(0), frame.part(1));
    let Some(budget) = wire::read_budget(&budget) else {
        return Run::without(Ending::Broken("a message without a budget".to_owned()));
    };
    let text = |frame: &mut Frame, part| String::from_utf8_lossy(&frame.part(part)).into_owned();
    match frame.kind {
        wire::COMPILE => place.compile(&source, &budget, cancel),
        wire::PROCESS => {
            let program = Source { text: &source, code: &frame.part(2), many: frame.part(4) == [1] };
            place.process(program, &frame.part(3), &budget, cancel)
        }
        wire::CALL => {
            let name = text(&mut frame, 3);
            let program = Source { text: &source, code: &frame.part(2), many: frame.part(5) == [1] };
            place.call(program, &name, &frame.part(4), &budget, cancel)
        }
        wire::LOAD => {
            let run = place.load(&source, &text(&mut frame, 2), &budget, cancel);
            *loaded = matches!(run.ending, Ending::Returned(_));
            run
        }
        kind => Run::without(Ending::Broken(format!("a message of the unknown kind {kind}"))),
    }
}
