//! A series: the tests of one program in one instance, each continued from the point after the program's definitions.
//!
//! `prepare` runs the definitions, `resume` continues with the input of a test. Before each test the memory of the
//! instance is restored to its state after `prepare`, so that the test finds byte for byte what it would find in an
//! instance of its own. The cost of `prepare` is charged to every test.

use std::io;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use wasmtime::ValRaw;
use wasmtime::component::__internal::{CanonicalAbiInfo, InstanceType, InterfaceType, LowerContext};
use wasmtime::component::{ComponentType, Lower};

use super::guest::GuestState;
use super::pages::Pages;
use super::snapshot::Snapshot;
use super::{GuestInstance, Sandbox};
use crate::run::{Budget, ExitStatus, ProgramSource, Run};

/// Time limit for the definitions of a program. If they take longer, every test runs the whole program.
const PREPARE_TIMEOUT: Duration = Duration::from_secs(1);
/// Host calls that `prepare` makes on its own account: it reads the clock once.
const PREPARE_HOST_CALLS: u32 = 1;
/// Tests per instance: each leaves the handles of its streams in the host's table.
const MAX_TESTS: u32 = 1000;
/// Alarms that a test may set in an instance that is used again.
const MAX_ALARMS: usize = 1000;

/// The result of starting a series.
pub(crate) enum SeriesStart<'a> {
    Started(Box<Series<'a>>),
    /// The definitions do something that would not be the same for every test. The program has to run from the
    /// beginning for each.
    Unsuitable,
    /// There is no result, through no fault of the program.
    Failed(Box<Run>),
}

/// A program whose definitions were run.
pub(crate) struct Series<'a> {
    instance: GuestInstance,
    sandbox: &'a Sandbox,
    memory: Mutex<SeriesMemory<'a>>,
    /// CPU time of the definitions, in nanoseconds.
    cpu_ns: u64,
    /// Instructions of the definitions, if they are counted.
    instructions: u64,
    tests: u32,
    can_continue: bool,
}

/// The memory of the instance after `prepare`.
struct SeriesMemory<'a> {
    pages: Option<&'a Pages>,
    snapshot: Option<Snapshot>,
    error: Option<io::Error>,
}

impl Sandbox {
    /// Runs the definitions of a program: the whole module if a function is `called`, otherwise the definitions at its
    /// beginning.
    pub(crate) fn start_series(
        &self,
        program: ProgramSource<'_>,
        called: bool,
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> SeriesStart<'_> {
        let budget = Budget { time: budget.time.min(PREPARE_TIMEOUT), ..*budget };
        let mut instance = match self.start(Arc::default(), &budget, cancel) {
            Ok(instance) => instance,
            Err(run) => return SeriesStart::Failed(run),
        };
        let export = self.exports.prepare;
        let result = instance.call::<(&[u8], &[u8], bool)>(&export, (program.text, program.code, called));
        let run = instance.take_run(result);
        match run.status {
            ExitStatus::Returned(_) => {}
            ExitStatus::Cancelled | ExitStatus::Starved | ExitStatus::NeedsMemory | ExitStatus::Internal(_) => {
                return SeriesStart::Failed(Box::new(run));
            }
            _ => return SeriesStart::Unsuitable,
        }
        let instructions = instance.instructions();
        let guest = instance.store.data();
        if guest.host_calls != PREPARE_HOST_CALLS || guest.memory.has_grown() {
            return SeriesStart::Unsuitable;
        }
        let cpu_ns = guest.meter.cpu_ns();
        let memory = Mutex::new(SeriesMemory { pages: self.pages.as_ref(), snapshot: None, error: None });
        SeriesStart::Started(Box::new(Series {
            instance,
            sandbox: self,
            memory,
            cpu_ns,
            instructions,
            tests: 0,
            can_continue: true,
        }))
    }
}

impl Series<'_> {
    /// Whether another test may follow.
    pub(crate) fn can_continue(&self) -> bool {
        self.can_continue
    }

    /// Runs a test: with standard input, or with the `name` of a function and its `input`. `None` if the memory could
    /// not be restored; the program has not seen the test then.
    pub(crate) fn resume(
        &mut self,
        stdin: Arc<[u8]>,
        (name, input): (&str, &[u8]),
        budget: &Budget,
        cancel: &CancellationToken,
    ) -> Option<Run> {
        self.can_continue = false;
        let stdin_bytes = stdin.len() as u64;
        let store = &mut self.instance.store;
        *store.data_mut() = GuestState::new(stdin, budget, cancel.clone());
        store.data_mut().meter.charge_cpu(self.cpu_ns);
        if budget.deterministic {
            let fuel = store.data().meter.fuel().saturating_sub(self.instructions);
            if let Err(error) = store.set_fuel(fuel) {
                return Some(Run::without(ExitStatus::Internal(format!("{error:#}"))));
            }
        }
        store.set_epoch_deadline(1);
        let stdin_length = RestoringLength { memory: &self.memory, bytes: stdin_bytes };
        let export = self.sandbox.exports.resume;
        let result = self.instance.call::<(RestoringLength<'_, '_>, &str, &[u8])>(&export, (stdin_length, name, input));
        let returned = result.is_ok();
        let memory = self.memory.get_mut().unwrap_or_else(PoisonError::into_inner);
        if memory.error.is_some() && self.tests > 0 {
            return None;
        }
        let run = self.instance.take_run(result);
        let guest = self.instance.store.data();
        self.tests += 1;
        self.can_continue = returned
            && memory.snapshot.is_some()
            && memory.error.is_none()
            && !guest.memory.has_grown()
            && guest.alarms.len() <= MAX_ALARMS
            && self.tests < MAX_TESTS;
        Some(run)
    }
}

impl SeriesMemory<'_> {
    /// Takes a snapshot the first time, and restores it every other time.
    fn restore(&mut self, memory: &mut [u8]) -> io::Result<()> {
        let Some(pages) = self.pages else { return Ok(()) };
        match &mut self.snapshot {
            Some(snapshot) => snapshot.restore(pages, memory),
            None => {
                self.snapshot = Some(Snapshot::take(pages, memory)?);
                Ok(())
            }
        }
    }
}

/// The first argument of `resume`, the length of standard input. Passing it restores the memory: lowering an argument
/// is the point at which wasmtime gives the host access to the whole memory of a component, before the component itself
/// runs.
#[derive(Clone, Copy)]
struct RestoringLength<'a, 'm> {
    memory: &'a Mutex<SeriesMemory<'m>>,
    bytes: u64,
}

impl RestoringLength<'_, '_> {
    fn restore(&self, memory: &mut [u8]) -> wasmtime::Result<()> {
        let mut state = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let first = state.snapshot.is_none();
        if let Err(error) = state.restore(memory) {
            state.error = Some(error);
            // For the first test there is nothing to restore.
            wasmtime::ensure!(first, "the memory cannot be restored");
        }
        Ok(())
    }
}

// SAFETY: to the component it is a `u64`: type, layout and type check are those of `u64`.
#[allow(unsafe_code)]
unsafe impl ComponentType for RestoringLength<'_, '_> {
    type Lower = <u64 as ComponentType>::Lower;

    const ABI: CanonicalAbiInfo = <u64 as ComponentType>::ABI;

    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> wasmtime::Result<()> {
        <u64 as ComponentType>::typecheck(ty, types)
    }
}

// SAFETY: as above. The memory is restored before any argument is written to it.
#[allow(unsafe_code)]
unsafe impl Lower for RestoringLength<'_, '_> {
    fn linear_lower_to_flat<T>(
        &self,
        context: &mut LowerContext<'_, T>,
        ty: InterfaceType,
        flat: &mut MaybeUninit<ValRaw>,
    ) -> wasmtime::Result<()> {
        self.restore(context.as_slice_mut())?;
        self.bytes.linear_lower_to_flat(context, ty, flat)
    }

    fn linear_lower_to_memory<T>(
        &self,
        _: &mut LowerContext<'_, T>,
        _: InterfaceType,
        _: usize,
    ) -> wasmtime::Result<()> {
        wasmtime::bail!("the first argument of `resume` is passed as a flat value")
    }
}
