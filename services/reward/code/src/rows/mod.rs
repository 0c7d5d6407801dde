//! Tests, and the forms in which they come.

mod errata;
mod livecodebench;
mod pickle;
mod tests;

pub use errata::{Erratum, erratum};
pub use livecodebench::{BadRow, MAX_PRIVATE_BYTES, tests_of_row};
pub use pickle::{NotAPickledString, pickled_string};
pub use tests::{BadTests, Kind, Test, Tests};
