//! The documentation, held against the program: reference pages are written from the code, and every command and every
//! recipe of a page is one that the program takes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod blocks;
mod command;
mod names;
mod pages;
mod reference;
mod settings;
mod shell;
mod tools;

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
