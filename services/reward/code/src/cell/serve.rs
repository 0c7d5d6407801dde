//! The cell's own side: one program at a time, on a thread with a deep stack, until nobody asks any more.

use std::io::{self, BufReader, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;

use super::frame::Frame;
use super::wire;
use crate::guest::GuestError;
use crate::interpreter::Interpreter;
use crate::place::{Here, Place};
use crate::sandbox::{Cancel, Ending, FILLS_STACK, Run, Source, THREAD_STACK};

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
    let current: Arc<Mutex<Cancel>> = Arc::default();
    let (sender, receiver) = mpsc::channel();
    let running = Arc::clone(&current);
    let worker = thread::Builder::new().name("evenkeel-cell".to_owned());
    let worker = worker.spawn(move || work(&interpreter, receiver, &running));
    if worker.is_err() {
        return Ok(());
    }
    let mut input = BufReader::new(io::stdin());
    while let Ok(Some(frame)) = Frame::read(&mut input) {
        if frame.kind == wire::CANCEL {
            current.lock().unwrap_or_else(PoisonError::into_inner).cancel();
        } else {
            // Inputs of a loaded program are taken back with it.
            if frame.kind != wire::GRADE {
                *current.lock().unwrap_or_else(PoisonError::into_inner) = Cancel::new();
            }
            if sender.send(frame).is_err() {
                break;
            }
        }
    }
    // Whatever still runs, nobody waits for it.
    std::process::exit(0)
}

/// Runs what is asked for, on threads that are replaced when their stack may be full.
fn work(interpreter: &Interpreter, asked: mpsc::Receiver<Frame>, cancel: &Mutex<Cancel>) {
    let asked = Mutex::new(asked);
    loop {
        let more = thread::scope(|scope| {
            let thread = thread::Builder::new().name("evenkeel-guest".to_owned()).stack_size(THREAD_STACK);
            let thread = thread.spawn_scoped(scope, || shift(interpreter, &asked, cancel));
            thread.map(|thread| thread.join().unwrap_or(false)).unwrap_or(false)
        });
        if !more {
            // The asking side is closed, or a thread panicked: a fresh process is better than this one.
            std::process::exit(0);
        }
    }
}

/// One thread's work: whether there is more.
fn shift(interpreter: &Interpreter, asked: &Mutex<mpsc::Receiver<Frame>>, cancel: &Mutex<Cancel>) -> bool {
    let asked = asked.lock().unwrap_or_else(PoisonError::into_inner);
    let mut place = Here::new(interpreter);
    let mut loaded = false;
    let mut worked = false;
    loop {
        // A loaded program stays on its thread.
        if worked && !loaded {
            return true;
        }
        let Ok(frame) = asked.recv() else { return false };
        if frame.kind == wire::UNLOAD {
            place.unload();
            loaded = false;
            continue;
        }
        let cancel = cancel.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let run = answer(&mut place, frame, &cancel, &mut loaded);
        worked |= run.cpu > FILLS_STACK;
        let parts = wire::run(&run);
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let mut output = io::stdout().lock();
        if Frame::write(&mut output, wire::RUN, &parts).and_then(|()| output.flush()).is_err() {
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
