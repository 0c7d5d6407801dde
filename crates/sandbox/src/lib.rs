//! Runs model-written Python against tests, in CPython inside wasmtime.
//!
//! From the outside in: a [`Pool`] takes [`ProgramTask`]s (a [`ProgramSubmission`], [`rows::Tests`], a [`Mode`],
//! [`ProgramLimits`]) and returns a [`ProgramVerdict`] on each. [`extract`] finds the program of a completion, `judge`
//! runs its tests and turns what it did into outcomes, with [`compare`] for its outputs. An `executor` runs a program,
//! in this process or in a worker process ([`WorkerProcessCommand`]), by means of `sandbox`: an instance of the
//! interpreter in wasmtime. [`guest`] finds the compiled interpreter and has it built if it is missing. Without the
//! feature `interpreter` there are pools of worker processes alone, which another program runs: none of wasmtime is
//! compiled.
//!
//! For every program:
//! - Expected outputs never enter the guest. Whatever the guest reports is a claim about outputs; the verdict is
//!   reached here.
//! - The guest has no capabilities: no files, no network, no environment, and only a clock that counts its own time.
//! - Nothing survives a test: it runs in a new instance (in LiveCodeBench mode one per program), made from a memory
//!   image that is copied on write, or in the instance of the previous test with its memory restored byte for byte.
//! - Time is CPU time of the thread that runs the program, so that a loaded machine changes no verdict;
//!   [`ProgramLimits::deterministic`] counts instructions instead.
//! - A fault that is not the program's own is [`ProgramOutcome::Invalid`] and has no reward.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use evenkeel_sandbox::rows::{TestKind, Test, Tests};
//! use evenkeel_sandbox::{Interpreter, Pool, PoolSettings, ProgramSubmission, ProgramTask, guest};
//!
//! let interpreter = Interpreter::load(&guest::default_folder()?, 2, &|line| println!("{line}"))?;
//! let pool = Pool::in_process(Arc::new(interpreter), PoolSettings { workers: 2, queue: 1000, memory_bytes: None })?;
//! let test = Test::new(TestKind::Stdin, "1 2", "3");
//! let tests = Arc::new(Tests::new(vec![test], None)?);
//! let program = ProgramSubmission::Program("print(sum(map(int, input().split())))".to_owned());
//! assert!(pool.judge(ProgramTask::new(program, tests))?.passed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod compare;
pub mod extract;
pub mod guest;
pub mod rows;

mod cells;
mod executor;
#[cfg(feature = "interpreter")]
mod in_process;
#[cfg(feature = "interpreter")]
mod interpreter;
mod judge;
mod limits;
mod outcome;
mod pool;
mod processes;
mod reason;
mod run;
#[cfg(feature = "interpreter")]
mod sandbox;
mod task;
mod verdict;
mod worker_process;

pub use cells::{CellOutcome, CellPool, CellSession, CellSettings, SessionsFull};
#[cfg(feature = "interpreter")]
pub use interpreter::Interpreter;
pub use limits::ProgramLimits;
pub use outcome::{Invalid, ProgramOutcome};
pub use pool::{Pool, PoolSettings, PoolUsage, QueueFull};
pub use processes::{WorkerProcesses, builder_process, prepare_processes};
pub use reason::Reason;
pub use task::{Mode, ProgramSubmission, ProgramTask, RewardRule};
pub use verdict::{EXCERPT_BYTES, GraderResult, ProgramOutput, ProgramVerdict};
pub use worker_process::WorkerProcessCommand;
#[cfg(feature = "interpreter")]
pub use worker_process::{run_session_process, run_worker_process};
