//! Evidence that grows with every observation and may be read after each: e-processes.
//!
//! An e-process starts at 1, and under the hypothesis that it doubts its mean never exceeds 1. So the chance that it
//! ever reaches 1/α is at most α (Ville's inequality), however often it is read and whenever the run ends. Means
//! of e-processes are e-processes again, which is how several suspicions share one budget.
//!
//! - [`Wealth`]: the capital of bets that may have begun in any round.
//! - [`SurpriseBets`], [`EventBets`]: are tokens drawn from a known distribution?
//! - [`SignBets`], [`ShareBets`]: are gaps symmetric around zero, and are large ones rare?
//! - [`Contrast`]: does an engine still have a part of other weights? [`Noise`]: how far it is off where it has the
//!   right ones.
//! - [`SmallnessBets`]: are gaps too small for an engine that still has one?
//! - [`Foresight`]: how many steps a decision takes, before there are any.
//! - [`copies`]: are equal answers as rare as their probability says?
//! - [`preferences`]: are short, long, likely or unlikely answers preferred?

mod betting;
mod contrast;
mod copies;
#[cfg(test)]
mod distributions;
mod foresight;
mod gaps;
mod noise;
mod preferences;
mod redrawn;
mod smallness;
mod wealth;

pub use betting::{EventBets, SurpriseBets, importance_weight, tokens_to_decision};
pub use contrast::{Contrast, SuspectedToken};
pub use copies::{CopyEvidence, copies};
pub use foresight::Foresight;
pub use gaps::{ShareBets, SignBets, self_normalized};
pub use noise::Noise;
pub use preferences::{PREFERENCE_BETS, Preference, REDRAWN_BET, preferences};
pub use smallness::SmallnessBets;
pub use wealth::Wealth;
