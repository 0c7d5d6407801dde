//! Runs programs in this process.

use std::collections::HashMap;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::executor::{CellExecutor, Executor};
use crate::interpreter::Interpreter;
use crate::run::{Budget, Cell, ExitStatus, ProgramSource, Run};
use crate::sandbox::{LoadedProgram, Sandbox, Series, SeriesStart};

/// Runs programs in this process, on the calling thread.
pub(crate) struct InProcess<'a> {
    interpreter: &'a Interpreter,
    session: Option<LoadedProgram<'a>>,
    /// Loaded programs that run cells, by session.
    sessions: HashMap<u64, LoadedProgram<'a>>,
    /// The last program with many tests; no series if it must run from the beginning for every test.
    series: Option<(SeriesKey, Option<Box<Series<'a>>>)>,
}

/// The program of a series, and how it is run.
#[derive(PartialEq, Eq)]
struct SeriesKey {
    text: Vec<u8>,
    code: Vec<u8>,
    called: bool,
    deterministic: bool,
}

impl SeriesKey {
    fn matches(&self, program: ProgramSource<'_>, called: bool, deterministic: bool) -> bool {
        (self.called, self.deterministic) == (called, deterministic)
            && self.text == program.text
            && self.code == program.code
    }
}

impl<'a> InProcess<'a> {
    pub(crate) fn new(interpreter: &'a Interpreter) -> Self {
        Self { interpreter, session: None, sessions: HashMap::new(), series: None }
    }

    fn sandbox(&self, deterministic: bool) -> Result<&'a Sandbox, Box<Run>> {
        self.interpreter
            .sandbox(deterministic)
            .map_err(|error| Box::new(Run::without(ExitStatus::Internal(error.to_string()))))
    }

    /// Runs a test from the point after the program's definitions. `None` if the program has to run from the beginning.
    fn resume(
        &mut self,
        program: ProgramSource<'_>,
        stdin: &Arc<[u8]>,
        call: Option<(&str, &[u8])>,
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Option<Run> {
        if !program.many_tests || program.code.is_empty() {
            return None;
        }
        let called = call.is_some();
        // A second time if the memory of the existing series cannot be restored.
        for _ in 0..2 {
            let known = self.series.take().filter(|(key, _)| key.matches(program, called, budget.deterministic));
            let (key, series) = match known {
                Some((key, None)) => {
                    self.series = Some((key, None));
                    return None;
                }
                Some((key, Some(series))) if series.can_continue() => (key, Some(series)),
                other => {
                    // Free its instance before creating another.
                    drop(other);
                    let sandbox = match self.sandbox(budget.deterministic) {
                        Ok(sandbox) => sandbox,
                        Err(run) => return Some(*run),
                    };
                    let text = program.text.to_vec();
                    let code = program.code.to_vec();
                    let key = SeriesKey { text, code, called, deterministic: budget.deterministic };
                    match sandbox.start_series(program, called, budget, cancel) {
                        SeriesStart::Started(series) => (key, Some(series)),
                        SeriesStart::Unsuitable => (key, None),
                        SeriesStart::Failed(run) => return Some(*run),
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

impl Executor for InProcess<'_> {
    fn compile(&mut self, source: &[u8], budget: &Budget, cancel: &CancellationToken) -> Run {
        // A new program begins.
        self.series = None;
        match self.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.compile(source, budget, cancel),
            Err(run) => *run,
        }
    }

    fn process(
        &mut self,
        program: ProgramSource<'_>,
        stdin: &[u8],
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Run {
        let stdin = Arc::from(stdin);
        if let Some(run) = self.resume(program, &stdin, None, budget, cancel) {
            return run;
        }
        match self.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.process(program, stdin, budget, cancel),
            Err(run) => *run,
        }
    }

    fn call(
        &mut self,
        program: ProgramSource<'_>,
        name: &str,
        input: &[u8],
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Run {
        if let Some(run) = self.resume(program, &Arc::default(), Some((name, input)), budget, cancel) {
            return run;
        }
        match self.sandbox(budget.deterministic) {
            Ok(sandbox) => sandbox.call(program, name, input, budget, cancel),
            Err(run) => *run,
        }
    }

    fn load(&mut self, source: &[u8], name: &str, budget: &Budget, cancel: &CancellationToken) -> Run {
        // Free the memory of the previous program first.
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

    fn grade(&mut self, input: &[u8], _: &CancellationToken) -> Run {
        match &mut self.session {
            Some(session) => session.grade(input),
            None => Run::without(ExitStatus::Internal("no program is loaded".to_owned())),
        }
    }

    fn unload(&mut self) {
        self.session = None;
    }
}

impl CellExecutor for InProcess<'_> {
    fn cell(&mut self, cell: Cell<'_>, budget: &Budget, cancel: &CancellationToken) -> Run {
        // One that does not return is not used again.
        let mut session = match self.sessions.remove(&cell.id) {
            Some(session) => session,
            None => {
                let started = self.sandbox(budget.deterministic).and_then(|sandbox| sandbox.session(budget, cancel));
                let mut session = match started {
                    Ok(session) => session,
                    Err(run) => return *run,
                };
                let loaded = session.load(cell.driver, cell.function);
                if !matches!(loaded.status, ExitStatus::Returned(_)) {
                    return loaded;
                }
                session
            }
        };
        let run = session.continue_with(cell.input, cancel);
        if matches!(run.status, ExitStatus::Returned(_)) {
            self.sessions.insert(cell.id, session);
        }
        run
    }

    fn end_session(&mut self, id: u64) {
        self.sessions.remove(&id);
    }
}
