//! CPython in wasmtime: runs one program and says what it did, never whether that was right.
//!
//! Every run has an instance of its own, made from one pre-instantiated component whose memory is shared until it is written to. What
//! a program did to its interpreter goes with the instance; or, where many tests of a program follow each other (`series`), the memory is
//! made again what it was before.

mod cancel;
mod ending;
mod engine;
mod guest;
mod memory;
mod meter;
mod pages;
mod series;
mod snapshot;
mod stop;
mod wasi;

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, Linker};
use wasmtime::{Engine, Store, UpdateDeadline};

pub use cancel::Cancel;
pub(crate) use ending::Ending;
pub(crate) use engine::{FILLS_STACK, THREAD_STACK, config, engine};
pub(crate) use guest::Budget;
use guest::Guest;
use pages::Pages;
pub(crate) use series::{Begun, Series};

/// The guest, ready to be instantiated.
pub(crate) struct Sandbox {
    engine: Engine,
    pre: InstancePre<Guest>,
    exports: Exports,
    /// Nothing where the system does not say which pages were written to.
    pages: Option<Pages>,
}

struct Exports {
    compile: ComponentExportIndex,
    process: ComponentExportIndex,
    call: ComponentExportIndex,
    prepare: ComponentExportIndex,
    resume: ComponentExportIndex,
    load: ComponentExportIndex,
    grade: ComponentExportIndex,
}

/// A program, and what compiling it gave where that was done before.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    pub text: &'a [u8],
    /// Nothing where it was not.
    pub code: &'a [u8],
    /// Many tests follow, so that it is worth while to begin the program for all of them: see [`Series`].
    pub many: bool,
}

/// What a run did.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub ending: Ending,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// Time that the program worked.
    pub cpu: Duration,
    /// Most memory above the interpreter's own, bytes.
    pub memory: u64,
}

impl Run {
    /// One that did nothing.
    pub(crate) fn without(ending: Ending) -> Self {
        Self { ending, stdout: Vec::new(), stderr: Vec::new(), cpu: Duration::ZERO, memory: 0 }
    }
}

impl Sandbox {
    /// Prepares a component that was compiled for this engine.
    pub(crate) fn new(engine: &Engine, component: &Component) -> wasmtime::Result<Self> {
        let mut linker = Linker::new(engine);
        wasi::link(&mut linker, component)?;
        let pre = linker.instantiate_pre(component)?;
        let export = |name: &str| {
            component
                .get_export_index(None, name)
                .ok_or_else(|| wasmtime::format_err!("the guest does not export `{name}`"))
        };
        let exports = Exports {
            compile: export("compile")?,
            process: export("process")?,
            call: export("call")?,
            prepare: export("prepare")?,
            resume: export("resume")?,
            load: export("load")?,
            grade: export("grade")?,
        };
        Ok(Self { engine: engine.clone(), pre, exports, pages: Pages::open() })
    }

    /// Compiles a program without running it.
    pub(crate) fn compile(&self, source: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        let mut guest = match self.start(Arc::default(), budget, cancel) {
            Ok(guest) => guest,
            Err(run) => return *run,
        };
        let export = self.exports.compile;
        let answer = guest.call::<(&[u8],)>(&export, (source,));
        guest.end(answer)
    }

    /// Runs a program as a process of its own.
    pub(crate) fn process(&self, program: Source<'_>, stdin: Arc<[u8]>, budget: &Budget, cancel: &Cancel) -> Run {
        let stdin_bytes = stdin.len() as u64;
        let mut guest = match self.start(stdin, budget, cancel) {
            Ok(guest) => guest,
            Err(run) => return *run,
        };
        let export = self.exports.process;
        let answer = guest.call::<(&[u8], &[u8], u64)>(&export, (program.text, program.code, stdin_bytes));
        guest.end(answer)
    }

    /// Calls a function of a program.
    pub(crate) fn call(&self, program: Source<'_>, name: &str, input: &[u8], budget: &Budget, cancel: &Cancel) -> Run {
        let mut guest = match self.start(Arc::default(), budget, cancel) {
            Ok(guest) => guest,
            Err(run) => return *run,
        };
        let export = self.exports.call;
        let answer = guest.call::<(&[u8], &[u8], &str, &[u8])>(&export, (program.text, program.code, name, input));
        guest.end(answer)
    }

    /// An instance for a program that is loaded once and given one test after the other.
    pub(crate) fn session(&self, budget: &Budget, cancel: &Cancel) -> Result<Session<'_>, Box<Run>> {
        Ok(Session { guest: self.start(Arc::default(), budget, cancel)?, sandbox: self, budget: *budget })
    }

    fn start(&self, stdin: Arc<[u8]>, budget: &Budget, cancel: &Cancel) -> Result<Running, Box<Run>> {
        let guest = Guest::new(stdin, budget, cancel.clone());
        let mut store = Store::new(&self.engine, guest);
        store.limiter(|guest| guest);
        store.epoch_deadline_callback(|mut store| {
            store.data_mut().tick()?;
            Ok(UpdateDeadline::Continue(1))
        });
        store.set_epoch_deadline(1);
        let prepared = if budget.deterministic { store.set_fuel(store.data().meter.fuel()) } else { Ok(()) };
        let instance = prepared.and_then(|()| self.pre.instantiate(&mut store));
        match instance {
            Ok(instance) => Ok(Running { store, instance }),
            // Instances are limited by the pool and by the machine, not by the program, which has not begun.
            Err(error) => {
                let ending = match Ending::stopped(&error, false) {
                    stopped @ (Ending::Cancelled | Ending::Starved) => stopped,
                    _ => Ending::Broken(format!("no instance of the interpreter: {error:#}")),
                };
                Err(Box::new(Run::without(ending)))
            }
        }
    }
}

/// A program that was loaded, and stays for several tests.
pub(crate) struct Session<'a> {
    guest: Running,
    sandbox: &'a Sandbox,
    budget: Budget,
}

impl Session<'_> {
    /// Loads the program; with `name` empty it is one that reads standard input.
    pub(crate) fn load(&mut self, source: &[u8], name: &str) -> Run {
        let export = self.sandbox.exports.load;
        let answer = self.guest.call::<(&[u8], &str)>(&export, (source, name));
        self.guest.take(answer)
    }

    /// Runs the loaded program on one input, with a budget of its own. After any ending but `Returned` no other test may follow.
    pub(crate) fn grade(&mut self, input: &[u8]) -> Run {
        if let Err(error) = self.guest.renew(&self.budget) {
            return Run::without(Ending::Broken(format!("{error:#}")));
        }
        let export = self.sandbox.exports.grade;
        let answer = self.guest.call::<(&[u8],)>(&export, (input,));
        self.guest.take(answer)
    }
}

type Answer = wasmtime::Result<((u32, Vec<u8>),)>;

struct Running {
    store: Store<Guest>,
    instance: Instance,
}

impl Running {
    fn call<P>(&mut self, export: &ComponentExportIndex, parameters: P) -> Answer
    where
        P: wasmtime::component::ComponentNamedList + wasmtime::component::Lower,
    {
        let function = self.instance.get_typed_func::<P, ((u32, Vec<u8>),)>(&mut self.store, export)?;
        self.store.data_mut().memory.begin();
        function.call(&mut self.store, parameters)
    }

    /// Instructions so far, where they are counted.
    fn instructions(&self) -> u64 {
        let left = self.store.get_fuel().ok();
        left.map_or(0, |left| self.store.data().meter.fuel().saturating_sub(left))
    }

    fn renew(&mut self, budget: &Budget) -> wasmtime::Result<()> {
        let guest = self.store.data_mut();
        guest.meter = meter::Meter::start(budget.deterministic, budget.time, budget.wall);
        guest.output_left = budget.output;
        guest.stdout.clear();
        guest.stderr.clear();
        guest.memory.release();
        let fuel = guest.meter.fuel();
        if budget.deterministic { self.store.set_fuel(fuel) } else { Ok(()) }
    }

    fn end(mut self, answer: Answer) -> Run {
        self.take(answer)
    }

    fn take(&mut self, answer: Answer) -> Run {
        let fuel = self.store.get_fuel().unwrap_or(0);
        let guest = self.store.data_mut();
        let worked = guest.meter.worked_ns(|| fuel);
        let cpu = Duration::from_nanos(worked);
        let ending = match answer {
            Ok(_) if guest.meter.within(worked).is_err() => Ending::TimeLimit,
            Ok(((status, rest),)) => Ending::claimed(status, rest, guest.output_left),
            Err(error) => Ending::stopped(&error, guest.memory.refused),
        };
        Run {
            ending,
            stdout: std::mem::take(&mut guest.stdout),
            stderr: std::mem::take(&mut guest.stderr),
            cpu,
            memory: guest.memory.peak(),
        }
    }
}
