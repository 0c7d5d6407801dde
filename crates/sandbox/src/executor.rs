//! Where programs are run: in this process, or in a process of their own.

use std::sync::Arc;

use crate::interpreter::Interpreter;
use crate::sandbox::{Begun, Budget, Cancel, Ending, Run, Sandbox, Series, Session, Source};

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
    series: Option<(Key, Option<Box<Series<'a>>>)>,
}

/// Which program a series is of, and how it is run.
#[derive(PartialEq, Eq)]
struct Key {
    text: Vec<u8>,
    code: Vec<u8>,
    called: bool,
    deterministic: bool,
}

impl Key {
    fn is(&self, program: Source<'_>, called: bool, deterministic: bool) -> bool {
        (self.called, self.deterministic) == (called, deterministic)
            && self.text == program.text
            && self.code == program.code
    }
}

impl<'a> Here<'a> {
    pub(crate) fn new(interpreter: &'a Interpreter) -> Self {
        Self { interpreter, session: None, series: None }
    }

    fn sandbox(&self, deterministic: bool) -> Result<&'a Sandbox, Box<Run>> {
        self.interpreter
            .sandbox(deterministic)
            .map_err(|error| Box::new(Run::without(Ending::Broken(error.to_string()))))
    }

    /// Runs a test from where the program's definitions ended. Nothing where it has to be run from its beginning.
    fn resume(
        &mut self,
        program: Source<'_>,
        stdin: &Arc<[u8]>,
        call: Option<(&str, &[u8])>,
        budget: &Budget,
        cancel: &Cancel,
    ) -> Option<Run> {
        if !program.many || program.code.is_empty() {
            return None;
        }
        let called = call.is_some();
        // Once more where the memory of the one that there is cannot be put back.
        for _ in 0..2 {
            let known = self.series.take().filter(|(key, _)| key.is(program, called, budget.deterministic));
            let (key, series) = match known {
                Some((key, None)) => {
                    self.series = Some((key, None));
                    return None;
                }
                Some((key, Some(series))) if series.goes_on() => (key, Some(series)),
                other => {
                    // Its instance goes before there is another.
                    drop(other);
                    let sandbox = match self.sandbox(budget.deterministic) {
                        Ok(sandbox) => sandbox,
                        Err(run) => return Some(*run),
                    };
                    let (text, code) = (program.text.to_vec(), program.code.to_vec());
                    let key = Key { text, code, called, deterministic: budget.deterministic };
                    match sandbox.begin(program, called, budget, cancel) {
                        Begun::Series(series) => (key, Some(series)),
                        Begun::No => (key, None),
                        Begun::Ended(run) => return Some(*run),
                    }
                }
            };
            let (_, series) = self.series.insert((key, series));
            let run = series.as_mut()?.resume(Arc::clone(stdin), call.unwrap_or_default(), budget, cancel);
            if run.is_some() {
                return run;
            }
        }
        None
    }
}

impl Place for Here<'_> {
    fn compile(&mut self, source: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        // Another program follows.
        self.series = None;
        match self.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.compile(source, budget, cancel),
            Err(run) => *run,
        }
    }

    fn process(&mut self, program: Source<'_>, stdin: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        let stdin = Arc::from(stdin);
        if let Some(run) = self.resume(program, &stdin, None, budget, cancel) {
            return run;
        }
        match self.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.process(program, stdin, budget, cancel),
            Err(run) => *run,
        }
    }

    fn call(&mut self, program: Source<'_>, name: &str, input: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        if let Some(run) = self.resume(program, &Arc::default(), Some((name, input)), budget, cancel) {
            return run;
        }
        match self.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.call(program, name, input, budget, cancel),
            Err(run) => *run,
        }
    }

    fn load(&mut self, source: &[u8], name: &str, budget: &Budget, cancel: &Cancel) -> Run {
        // The one before gives its memory back first.
        (self.session, self.series) = (None, None);
        let sandbox = match self.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox,
            Err(run) => return *run,
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
