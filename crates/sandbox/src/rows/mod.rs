//! Tests and their formats.

mod errata;
mod inflate;
mod list;
mod livecodebench;
mod pickle;
mod tests;

pub use errata::{Erratum, erratum};
pub use livecodebench::{BadRow, LiveCodeBenchRow, MAX_PRIVATE_BYTES, tests_of_row};
pub use pickle::{NotAPickledString, PickledString};
pub use tests::{BadTests, Test, TestKind, Tests};
