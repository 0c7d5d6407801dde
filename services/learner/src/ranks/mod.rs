//! Ranks: several processes that divide the work of each step, and reach the bits of one.
//!
//! Each rank has all weights, and the optimizer's moments of its part of them ([`Division`]). It runs the passes of its
//! part of the blocks of an update; their sums go to the rank that has the moments of the parameter, which adds them in
//! the order that one process has, updates, and gives the new weights to all others. [`Collective`] is what carries all
//! that: between threads ([`InProcess`]), or between processes over the streams of one connection each to rank 0
//! ([`Streams`]).
//!
//! Nobody goes on with numbers that were changed: each message has a checksum (`message`), and ranks compare their
//! weights before and after each update.

mod bytes;
mod collective;
mod division;
mod in_process;
mod message;
mod streams;

pub(crate) use bytes::{ByteReader, ByteWriter, checksum_of};
pub use collective::{Collective, RankError};
pub use division::Division;
pub use in_process::InProcess;
pub(crate) use message::{is_whole, sealed};
pub(crate) use streams::{FAILED, Inbox, Link, OUTCOME, Streams};
