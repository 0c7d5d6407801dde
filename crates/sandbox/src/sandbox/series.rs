//! The tests of one program, one after the other: each goes on from where the program's definitions ended.
//!
//! `prepare` begins the program, `resume` goes on with the input of a test. Both together are one test, in an instance of its own or
//! not: where the memory of the instance can be put back as `prepare` left it, the next test has the same instance, and what it finds is
//! byte for byte what it would have found in another one. What `prepare` took is counted for every test.

use std::io;
use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wasmtime::ValRaw;
use wasmtime::component::__internal::{CanonicalAbiInfo, InstanceType, InterfaceType, LowerContext};
use wasmtime::component::{ComponentType, Lower};

use super::guest::{Budget, Guest};
use super::pages::Pages;
use super::snapshot::Snapshot;
use super::{Cancel, Ending, Run, Running, Sandbox, Source};

/// Time that a program's beginning may take. Where it takes longer every test has it to itself.
const PREPARING: Duration = Duration::from_secs(1);
/// What the guest's `prepare` asks the host by itself: once for the time.
const OWN_QUESTIONS: u32 = 1;
/// Tests in one instance. Each leaves the handles of its streams in the host's table.
const MOST_TESTS: u32 = 1000;
/// Alarms that a test may have set where another follows it.
const MOST_ALARMS: usize = 1000;

/// Whether a program can be begun for several tests.
pub(crate) enum Begun<'a> {
    Series(Box<Series<'a>>),
    /// It does something that another test would see, or that cannot be done beforehand.
    No,
    /// There is no answer, and no fault of the program's.
    Ended(Box<Run>),
}

/// A program that was begun.
pub(crate) struct Series<'a> {
    running: Running,
    sandbox: &'a Sandbox,
    memory: Mutex<Memory<'a>>,
    /// What its beginning took: nanoseconds of CPU time, and instructions.
    cpu_ns: u64,
    instructions: u64,
    tests: u32,
    /// Another test may follow.
    goes_on: bool,
}

/// The memory of the instance.
struct Memory<'a> {
    pages: Option<&'a Pages>,
    snapshot: Option<Snapshot>,
    failed: Option<io::Error>,
}

impl Sandbox {
    /// Begins a program: for a function that is `called` its whole module, otherwise what it defines before it does anything.
    pub(crate) fn begin(&self, program: Source<'_>, called: bool, budget: &Budget, cancel: &Cancel) -> Begun<'_> {
        let budget = Budget { time: budget.time.min(PREPARING), ..*budget };
        let mut running = match self.start(Arc::default(), &budget, cancel) {
            Ok(running) => running,
            Err(run) => return Begun::Ended(run),
        };
        let export = self.exports.prepare;
        let answer = running.call::<(&[u8], &[u8], bool)>(&export, (program.text, program.code, called));
        let run = running.take(answer);
        match run.ending {
            Ending::Returned(_) => {}
            Ending::Cancelled | Ending::Starved | Ending::Crowded | Ending::Broken(_) => {
                return Begun::Ended(Box::new(run));
            }
            _ => return Begun::No,
        }
        let instructions = running.instructions();
        let guest = running.store.data();
        if guest.asked != OWN_QUESTIONS || guest.memory.has_grown() {
            return Begun::No;
        }
        let cpu_ns = guest.meter.cpu_ns();
        let memory = Mutex::new(Memory { pages: self.pages.as_ref(), snapshot: None, failed: None });
        Begun::Series(Box::new(Series {
            running,
            sandbox: self,
            memory,
            cpu_ns,
            instructions,
            tests: 0,
            goes_on: true,
        }))
    }
}

impl Series<'_> {
    /// Whether another test may follow.
    pub(crate) fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Runs a test: with standard input, or with the `name` of a function and its `input`. Nothing where the instance could not be made
    /// what it was: the program has not seen the test.
    pub(crate) fn resume(
        &mut self,
        stdin: Arc<[u8]>,
        (name, input): (&str, &[u8]),
        budget: &Budget,
        cancel: &Cancel,
    ) -> Option<Run> {
        self.goes_on = false;
        let stdin_bytes = stdin.len() as u64;
        let store = &mut self.running.store;
        *store.data_mut() = Guest::new(stdin, budget, cancel.clone());
        store.data_mut().meter.goes_on_after(self.cpu_ns);
        if budget.deterministic {
            let fuel = store.data().meter.fuel().saturating_sub(self.instructions);
            if let Err(error) = store.set_fuel(fuel) {
                return Some(Run::without(Ending::Broken(format!("{error:#}"))));
            }
        }
        store.set_epoch_deadline(1);
        let beginning = Beginning { memory: &self.memory, stdin_bytes };
        let export = self.sandbox.exports.resume;
        let answer = self.running.call::<(Beginning<'_, '_>, &str, &[u8])>(&export, (beginning, name, input));
        let whole = answer.is_ok();
        let memory = self.memory.get_mut().unwrap_or_else(PoisonError::into_inner);
        if memory.failed.is_some() && self.tests > 0 {
            return None;
        }
        let run = self.running.take(answer);
        let guest = self.running.store.data();
        self.tests += 1;
        self.goes_on = whole
            && memory.snapshot.is_some()
            && memory.failed.is_none()
            && !guest.memory.has_grown()
            && guest.alarms.len() <= MOST_ALARMS
            && self.tests < MOST_TESTS;
        Some(run)
    }
}

impl Memory<'_> {
    /// The first time, keeps what there is; every other time, puts it back.
    fn begin(&mut self, memory: &mut [u8]) -> io::Result<()> {
        let Some(pages) = self.pages else { return Ok(()) };
        match &mut self.snapshot {
            Some(snapshot) => snapshot.put_back(pages, memory),
            None => {
                self.snapshot = Some(Snapshot::take(pages, memory)?);
                Ok(())
            }
        }
    }
}

/// The first argument of `resume`, which is passed when the memory is as `prepare` left it: arguments are the moment at which wasmtime
/// gives a component's memory to the host, all of it, and before the component itself does anything.
#[derive(Clone, Copy)]
struct Beginning<'a, 'm> {
    memory: &'a Mutex<Memory<'m>>,
    stdin_bytes: u64,
}

impl Beginning<'_, '_> {
    fn begin(&self, memory: &mut [u8]) -> wasmtime::Result<()> {
        let mut state = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let first = state.snapshot.is_none();
        if let Err(error) = state.begin(memory) {
            state.failed = Some(error);
            // The first test needs nothing to be put back.
            wasmtime::ensure!(first, "the memory cannot be put back");
        }
        Ok(())
    }
}

// SAFETY: it is a `u64` to the component, by that type's own description and with its own functions.
#[allow(unsafe_code)]
unsafe impl ComponentType for Beginning<'_, '_> {
    type Lower = <u64 as ComponentType>::Lower;

    const ABI: CanonicalAbiInfo = <u64 as ComponentType>::ABI;

    fn typecheck(ty: &InterfaceType, types: &InstanceType<'_>) -> wasmtime::Result<()> {
        <u64 as ComponentType>::typecheck(ty, types)
    }
}

// SAFETY: as above. The memory is written to before any argument is.
#[allow(unsafe_code)]
unsafe impl Lower for Beginning<'_, '_> {
    fn linear_lower_to_flat<T>(
        &self,
        context: &mut LowerContext<'_, T>,
        ty: InterfaceType,
        flat: &mut MaybeUninit<ValRaw>,
    ) -> wasmtime::Result<()> {
        self.begin(context.as_slice_mut())?;
        self.stdin_bytes.linear_lower_to_flat(context, ty, flat)
    }

    fn linear_lower_to_memory<T>(
        &self,
        _: &mut LowerContext<'_, T>,
        _: InterfaceType,
        _: usize,
    ) -> wasmtime::Result<()> {
        wasmtime::bail!("the first argument of `resume` is passed by itself")
    }
}
