//! The environment service: the other side of episodes with several turns.
//!
//! One stream carries many episodes, each with a state of its own (`evenkeel_environment::session`). An episode whose
//! worker is lost begins again elsewhere: nothing of it is kept. A fault that is not the model's own (an invalid task,
//! a full worker, a deadline) ends the episode without a result: it must not be trained on as if the model had failed.
//!
//! [`bind`] creates a server from [`EnvironmentSettings`], in a process of its own or on loopback within another.
//! `service` implements the gRPC API, `stream` serves one call of it, `episode` is the task of one episode. `catalog`
//! has the environments of the worker; `played` says who plays an episode: the program itself, the sandbox
//! (`sandboxed`), a Python file of the user's own (`program`), an OpenEnv server (`openenv`), or an agent that asks the
//! model by itself (`agent`). `rewards` adds up what turns have earned.
#![forbid(unsafe_code)]

mod action;
mod agent;
mod catalog;
mod counts;
mod episode;
mod error;
mod failure;
mod openenv;
mod played;
mod program;
mod rewards;
mod sandboxed;
mod score;
mod series;
mod service;
mod settings;
mod start;
mod stream;

pub use error::EnvironmentError;
pub use program::{BRIDGE, BRIDGE_FILE};
pub use sandboxed::WorkerProcesses;
pub use series::SERIES;
pub use settings::{EnvironmentSettings, SandboxSettings};
pub use start::{bind, bind_with_worker_processes};
