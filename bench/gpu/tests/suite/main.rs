//! The scripts and their program, on a machine without a GPU.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exit_status;
mod rehearsal;
mod stand_ins;
