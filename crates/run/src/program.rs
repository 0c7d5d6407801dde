//! Which program a run was recorded by.

/// Version of the program and the number of its bits, as `run.json` and receipts have them. Raise the number by hand
/// whenever bits of training or verdicts change between releases: then a run of before is never called different.
pub const PROGRAM: &str = concat!(env!("CARGO_PKG_VERSION"), "+bits.1");
