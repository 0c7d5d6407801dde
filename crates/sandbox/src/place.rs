//! Where programs are run: in this process, or in a process of their own.

use std::sync::Arc;

use crate::interpreter::Interpreter;
use crate::sandbox::{Budget, Cancel, Ending, Run, Session, Source};

/// Runs one program at a time and says what it did.
pub(crate) trait Place {
    /// Compiles a program without running it: what [`Source`] has as its code.
    fn compile(&mut self, source: &[u8], budget: &Budget, cancel: &Cancel) -> Run;

    /// Runs a program as a process of its own.
    fn process(&mut self, program: Source<'_>, stdin: &[u8], budget: &Budget, cancel: &Cancel) -> Run;

    /// Calls a function of a program.
    fn call(&mut self, program: Source<'_>, name: &str, input: &[u8], budget: &Budget, cancel: &Cancel) -> Run;

    /// Loads a program that stays for several inputs; with `name` empty it is one that reads standard input.
    fn load(&mut self, source: &[u8], name: &str, budget: &Budget, cancel: &Cancel) -> Run;

    /// Runs the loaded program on one input, with the budget of its loading anew. After any ending but `Returned` no other may follow.
    fn grade(&mut self, input: &[u8], cancel: &Cancel) -> Run;

    /// Gives back what a loaded program holds.
    fn unload(&mut self);
}

/// This process, on the thread that asks.
pub(crate) struct Here<'a> {
    interpreter: &'a Interpreter,
    session: Option<Session<'a>>,
}

impl<'a> Here<'a> {
    pub(crate) fn new(interpreter: &'a Interpreter) -> Self {
        Self { interpreter, session: None }
    }
}

impl Place for Here<'_> {
    fn compile(&mut self, source: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        match self.interpreter.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.compile(source, budget, cancel),
            Err(error) => Run::without(Ending::Broken(error.to_string())),
        }
    }

    fn process(&mut self, program: Source<'_>, stdin: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        match self.interpreter.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.process(program, Arc::from(stdin), budget, cancel),
            Err(error) => Run::without(Ending::Broken(error.to_string())),
        }
    }

    fn call(&mut self, program: Source<'_>, name: &str, input: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        match self.interpreter.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.call(program, name, input, budget, cancel),
            Err(error) => Run::without(Ending::Broken(error.to_string())),
        }
    }

    fn load(&mut self, source: &[u8], name: &str, budget: &Budget, cancel: &Cancel) -> Run {
        // The one before gives its memory back first.
        self.session = None;
        let sandbox = match self.interpreter.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox,
            Err(error) => return Run::without(Ending::Broken(error.to_string())),
        };
        match sandbox.session(budget, cancel) {
            Ok(session) => self.session.insert(session).load(source, name),
            Err(run) => *run,
        }
    }

    fn grade(&mut self, input: &[u8], _: &Cancel) -> Run {
        match &mut self.session {
            Some(session) => session.grade(input),
            None => Run::without(Ending::Broken("no program is loaded".to_owned())),
        }
    }

    fn unload(&mut self) {
        self.session = None;
    }
}
