//! Model-written Python against tests, in CPython inside wasmtime.
//!
//! From the outside in: a [`Pool`] takes [`Task`]s (an answer, [`rows::Tests`], a [`Mode`], [`Limits`]) and gives a [`Verdict`] on each;
//! `judge` runs a program's tests and says what came of them; `sandbox` runs one program in a fresh instance of the interpreter and
//! says what it did; [`compare`] decides whether an output is the expected one; [`guest`] builds the interpreter once and finds it
//! afterwards. Programs run on threads of the pool, or each in a process beside it ([`CellCommand`]).
//!
//! What holds for every program:
//! - Expected outputs never enter the guest. Whatever the guest says is a claim about outputs; the verdict is made here.
//! - The guest has no capability: no file, no network, no environment, no clock but one that counts its own time.
//! - Nothing survives: every test has an instance of its own (in the reference grader's mode every program), made from one memory
//!   image that is shared until it is written to; or that of the test before, with its memory put back byte for byte.
//! - Time is CPU time of the thread that runs the program, so that a loaded machine changes no verdict; [`Limits::deterministic`]
//!   counts instructions instead.
//! - What is not the program's fault is [`Outcome::Invalid`] and has no reward.
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use evenkeel_sandbox::rows::{Kind, Test, Tests};
//! use evenkeel_sandbox::{Answer, Interpreter, Pool, PoolSettings, Task, guest};
//!
//! let interpreter = Interpreter::load(&guest::default_folder()?, 2, &|line| println!("{line}"))?;
//! let pool = Pool::start(Arc::new(interpreter), PoolSettings { workers: 2, queue: 1000, memory_bytes: None })?;
//! let test = Test { kind: Kind::Stdin, input: "1 2".to_owned(), output: "3".to_owned() };
//! let tests = Arc::new(Tests::new(vec![test], None)?);
//! let program = Answer::Program("print(sum(map(int, input().split())))".to_owned());
//! assert!(pool.judge(Task::new(program, tests))?.passed());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

pub mod compare;
pub mod extract;
pub mod guest;
pub mod rows;

mod cell;
mod interpreter;
mod judge;
mod limits;
mod place;
mod pool;
mod sandbox;
mod task;
mod verdict;

pub use cell::{CellCommand, serve_cell};
pub use interpreter::Interpreter;
pub use limits::Limits;
pub use pool::{Full, Pool, PoolSettings};
pub use sandbox::Cancel;
pub use task::{Answer, Mode, RewardRule, Task};
pub use verdict::{EXCERPT_BYTES, GraderResult, Invalid, Outcome, Verdict};
