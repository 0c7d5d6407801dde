//! `receipt.jsonl`: a hash chain over everything that a run did, a line for each GRPO step.
//!
//! The chain has two parts. The *determined* part is what seed and inputs decide; its head is equal for two honest runs
//! of one seed. The *observed* part is what only this run saw: digests of its files, proofs, engines. The whole head covers
//! the determined part as well.
//!
//! # Canonical encoding
//! A line is one JSON object without spaces, in the order of the fields of [`ReceiptLine`]. With `D` and `O` for the JSON
//! texts of its two parts and `‖` for "followed by", each head is `sha256:` and the 64 hex digits of the SHA-256 of
//!
//! ```text
//! determined  previous determined head ‖ "\n" ‖ kind ‖ " " ‖ step ‖ "\n" ‖ D      (unchanged in a line without D)
//! whole       previous whole head ‖ "\n" ‖ determined head ‖ "\n" ‖ kind ‖ " " ‖ step ‖ "\n" ‖ O
//! ```
//!
//! Before the first line both heads are empty, or in a forked run those of its parent. The digests of a step's prompts,
//! tokens, verdicts and advantages are taken over numbers (64 bits, little-endian), texts after their length, and floats
//! as their bits after a byte that says whether there is one ([`StepDigests`] has the order of the fields). Groups and
//! samples are sorted by their numbers, so that the order in which they finished does not count.

mod canonical;
mod file;
mod line;
mod step_digests;

pub use file::{ReceiptFile, read_receipt, receipt_up_to};
pub use line::{
    AuditSeen, Determined, Heads, LineKind, Observed, Parent, ProofSeen, ReceiptLine, StepContent, receipt_text,
};
pub use step_digests::{StepDigests, tokens_digest};
