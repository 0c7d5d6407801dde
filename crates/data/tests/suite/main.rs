//! Rows of files, and problems that are made.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod parquet;
mod word_problems;
