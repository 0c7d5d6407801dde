//! CPython in wasmtime: runs one program and reports what it did, not whether that was right.
//!
//! Every run has its own instance of one pre-instantiated component, whose memory image is copied on write. Whatever a
//! program does to its interpreter is discarded with the instance. If a program has many tests (`series`), the instance
//! is kept and its memory restored between tests.

mod engine;
mod exit_status;
mod guest;
mod memory;
mod meter;
mod pages;
mod series;
mod snapshot;
mod wasi;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wasmtime::component::{Component, ComponentExportIndex, Instance, InstancePre, Linker};
use wasmtime::{Engine, Store, UpdateDeadline};

use crate::run::{Budget, ExitStatus, ProgramSource, Run};

pub(crate) use engine::{STACK_REUSE_LIMIT, THREAD_STACK, config, engine};
use guest::GuestState;
use pages::Pages;
pub(crate) use series::{Series, SeriesStart};

/// The guest, ready to be instantiated.
pub(crate) struct Sandbox {
    engine: Engine,
    pre: InstancePre<GuestState>,
    exports: Exports,
    /// `None` if the system does not report which pages were written to.
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

impl Sandbox {
    /// Links a component that was compiled for this engine.
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
    pub(crate) fn compile(&self, source: &[u8], budget: &Budget, cancel: &CancellationToken) -> Run {
        let mut guest = match self.start(Arc::default(), budget, cancel) {
            Ok(guest) => guest,
            Err(run) => return *run,
        };
        let export = self.exports.compile;
        let result = guest.call::<(&[u8],)>(&export, (source,));
        guest.into_run(result)
    }

    /// Runs a program as a process would.
    pub(crate) fn process(
        &self,
        program: ProgramSource<'_>,
        stdin: Arc<[u8]>,
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Run {
        let stdin_bytes = stdin.len() as u64;
        let mut guest = match self.start(stdin, budget, cancel) {
            Ok(guest) => guest,
            Err(run) => return *run,
        };
        let export = self.exports.process;
        let result = guest.call::<(&[u8], &[u8], u64)>(&export, (program.text, program.code, stdin_bytes));
        guest.into_run(result)
    }

    /// Calls a function of a program.
    pub(crate) fn call(
        &self,
        program: ProgramSource<'_>,
        name: &str,
        input: &[u8],
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Run {
        let mut guest = match self.start(Arc::default(), budget, cancel) {
            Ok(guest) => guest,
            Err(run) => return *run,
        };
        let export = self.exports.call;
        let result = guest.call::<(&[u8], &[u8], &str, &[u8])>(&export, (program.text, program.code, name, input));
        guest.into_run(result)
    }

    /// An instance for a program that is loaded once and then given one test after the other.
    pub(crate) fn session(&self, budget: &Budget, cancel: &CancellationToken) -> Result<LoadedProgram<'_>, Box<Run>> {
        Ok(LoadedProgram { guest: self.start(Arc::default(), budget, cancel)?, sandbox: self, budget: *budget })
    }

    fn start(&self, stdin: Arc<[u8]>, budget: &Budget, cancel: &CancellationToken) -> Result<GuestInstance, Box<Run>> {
        let state = GuestState::new(stdin, budget, cancel.clone());
        let mut store = Store::new(&self.engine, state);
        store.limiter(|state| state);
        store.epoch_deadline_callback(|mut store| {
            store.data_mut().tick()?;
            Ok(UpdateDeadline::Continue(1))
        });
        store.set_epoch_deadline(1);
        let prepared = if budget.deterministic { store.set_fuel(store.data().meter.fuel()) } else { Ok(()) };
        let instance = prepared.and_then(|()| self.pre.instantiate(&mut store));
        match instance {
            Ok(instance) => Ok(GuestInstance { store, instance }),
            // The program has not started, so that the cause is the pool or the machine.
            Err(error) => {
                let status = match ExitStatus::of_error(&error, false) {
                    status @ (ExitStatus::Cancelled | ExitStatus::Starved) => status,
                    _ => ExitStatus::Internal(format!("no instance of the interpreter: {error:#}")),
                };
                Err(Box::new(Run::without(status)))
            }
        }
    }
}

/// A loaded program that stays for several tests.
pub(crate) struct LoadedProgram<'a> {
    guest: GuestInstance,
    sandbox: &'a Sandbox,
    budget: Budget,
}

impl LoadedProgram<'_> {
    /// Loads the program. An empty `name` means that it reads standard input.
    pub(crate) fn load(&mut self, source: &[u8], name: &str) -> Run {
        let export = self.sandbox.exports.load;
        let result = self.guest.call::<(&[u8], &str)>(&export, (source, name));
        self.guest.take_run(result)
    }

    /// [`grade`](Self::grade), which this cancels.
    pub(crate) fn continue_with(&mut self, input: &[u8], cancel: &CancellationToken) -> Run {
        self.guest.store.data_mut().cancel = cancel.clone();
        self.guest.store.set_epoch_deadline(1);
        self.grade(input)
    }

    /// Runs the loaded program on one input, with its own budget. Only after `Returned` may another test follow.
    pub(crate) fn grade(&mut self, input: &[u8]) -> Run {
        if let Err(error) = self.guest.reset_budget(&self.budget) {
            return Run::without(ExitStatus::Internal(format!("{error:#}")));
        }
        let export = self.sandbox.exports.grade;
        let result = self.guest.call::<(&[u8],)>(&export, (input,));
        self.guest.take_run(result)
    }
}

/// What an export returns: a number that says how the program ended, and a payload.
type CallResult = wasmtime::Result<((u32, Vec<u8>),)>;

struct GuestInstance {
    store: Store<GuestState>,
    instance: Instance,
}

impl GuestInstance {
    fn call<P>(&mut self, export: &ComponentExportIndex, parameters: P) -> CallResult
    where
        P: wasmtime::component::ComponentNamedList + wasmtime::component::Lower,
    {
        let function = self.instance.get_typed_func::<P, ((u32, Vec<u8>),)>(&mut self.store, export)?;
        self.store.data_mut().memory.begin();
        function.call(&mut self.store, parameters)
    }

    /// Instructions executed so far, if they are counted.
    fn instructions(&self) -> u64 {
        let left = self.store.get_fuel().ok();
        left.map_or(0, |left| self.store.data().meter.fuel().saturating_sub(left))
    }

    fn reset_budget(&mut self, budget: &Budget) -> wasmtime::Result<()> {
        let guest = self.store.data_mut();
        guest.meter = meter::Meter::start(budget.deterministic, budget.time, budget.wall);
        guest.output_left = budget.output;
        guest.stdout.clear();
        guest.stderr.clear();
        guest.memory.release_host();
        let fuel = guest.meter.fuel();
        if budget.deterministic { self.store.set_fuel(fuel) } else { Ok(()) }
    }

    fn into_run(mut self, result: CallResult) -> Run {
        self.take_run(result)
    }

    fn take_run(&mut self, result: CallResult) -> Run {
        let fuel = self.store.get_fuel().unwrap_or(0);
        let guest = self.store.data_mut();
        let worked = guest.meter.worked_ns(|| fuel);
        let cpu = Duration::from_nanos(worked);
        let status = match result {
            Ok(_) if guest.meter.within(worked).is_err() => ExitStatus::TimeLimit,
            Ok(((number, payload),)) => ExitStatus::claimed(number, payload, guest.output_left),
            Err(error) => ExitStatus::of_error(&error, guest.memory.refused),
        };
        Run {
            status,
            stdout: std::mem::take(&mut guest.stdout),
            stderr: std::mem::take(&mut guest.stderr),
            cpu,
            memory: guest.memory.peak(),
        }
    }
}
