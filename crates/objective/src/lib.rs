//! Objectives of reinforcement learning from verifiable rewards in the manner of GRPO: from whole groups of responses
//! to one weight for each trainable token, to the policy loss and to its gradient with respect to each log-probability,
//! in closed form. It works on plain slices of f32 or f64 with all arithmetic in f64; it knows no tensor library, reads
//! no clock and allocates nothing for a token.
//!
//! How the token terms of a loss are summed decides what a model learns about length. "Balanced Aggregation:
//! Understanding and Fixing Aggregation Bias in GRPO" (arXiv 2605.04077) describes and fixes the bias; this crate
//! implements its rules and those of other systems, and its measures of the bias.
//!
//! - [`Settings`] select what is computed: names with aliases, ranges, and [`Settings::formula`] for the log.
//! - [`GroupTerms`] has what depends on one group alone ([`advantages`], [`group_weights`], [`regularizer_weights`]);
//!   [`MiniBatchCounts`] gives the mini-batch normalizer that turns its parts into weights, so that a learner can start
//!   before the mini-batch, the groups of one update, is complete.
//! - [`response_loss`], [`response_kl`] and, for terms of the caller's own, [`response_term`] take one response; any
//!   split into micro-batches gives the same sums.
//! - [`MismatchByLag`] measures how far the policy of a step is from those that sampled its tokens.
//! - [`batch_loss`] computes all of this for a mini-batch in memory; [`Quantities`] measures a step.
//! - [`validate_batch`] and its parts check external input. The arithmetic itself never panics.
//!
//! Each family of formulas is one file, with every formula next to its gradient and its source: advantages in
//! `advantage.rs`, aggregation rules in `aggregation.rs`, policy terms in `policy.rs`, corrections in `correction.rs`,
//! KL estimators in `kl.rs`; what has a file of its own is named there (`dppo.rs`, `gdpo.rs`, `luspo.rs`, `maxrl.rs`,
//! `sapo.rs`, `sides.rs`).
//!
//! ```
//! use evenkeel_objective::{Aggregation, Response, ResponseTokens, Settings, batch_loss, validate_batch};
//!
//! let settings = Settings { aggregation: Aggregation::Balanced, ..Settings::default() };
//! // A short wrong answer and a long right one, before the first update: the old weights are the weights.
//! const SHORT: &[f32] = &[-0.7, -0.1];
//! const LONG: &[f32] = &[-0.2, -1.3, -0.4, -0.9, -0.1, -0.3];
//! let response = |reward, logp, mask| Response {
//!     reward,
//!     valid: true,
//!     tokens: ResponseTokens { mask, logp, old_logp: logp, rollout_logp: None },
//!     reference_logp: None,
//! };
//! let groups = vec![vec![response(0.0, SHORT, &[true; 2]), response(1.0, LONG, &[true; 6])]];
//!
//! validate_batch(&settings, &groups)?;
//! let balanced = batch_loss(&settings, &groups)?;
//! assert!(balanced.loss.abs() < 1e-12, "both sides pull alike, whatever their lengths");
//! assert!(balanced.gradients[0][1].iter().all(|&g| g < 0.0), "the right answer becomes more likely");
//!
//! let token = batch_loss(&Settings { aggregation: Aggregation::Token, ..settings }, &groups)?;
//! assert!(token.loss < -0.4, "the longer side pulls three times as hard");
//! # Ok::<(), evenkeel_objective::Error>(())
//! ```
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod advantage;
mod aggregation;
mod batch;
mod by_length;
mod correction;
mod distillation;
mod dppo;
mod error;
mod exp;
mod gdpo;
mod histogram;
mod kl;
mod log_ratio;
mod loss;
mod luspo;
mod maxrl;
mod mismatch;
mod names;
mod phi;
mod policy;
mod quantities;
mod real;
mod regularizer;
mod sapo;
mod settings;
mod sides;
mod summed;
mod tokens;
mod validate;
mod weights;

pub use advantage::{Advantage, MAX_REWARD, advantages};
pub use aggregation::{Aggregation, Constants, Normalizer};
pub use batch::{BatchLoss, Response, batch_loss, batch_loss_of_components};
pub use by_length::{ByLength, QUARTERS};
pub use correction::Correction;
pub use distillation::{Distillation, response_distillation};
pub use error::{Error, Location, validate_length};
pub use gdpo::{RewardComponent, component_advantages};
pub use kl::KlEstimator;
pub use log_ratio::MAX_LOG_RATIO;
pub use loss::{PolicyStats, response_loss};
pub use mismatch::{LagRun, Mismatch, MismatchByLag};
pub use policy::PolicyTerm;
pub use quantities::{GroupView, Pull, Quantities};
pub use real::Real;
pub use regularizer::{TermStats, response_kl, response_term};
pub use settings::{Settings, SideRatio};
pub use sides::SideDial;
pub use summed::{BalancedResponse, RatioBounds, SummedLoss, SummedStats, SummedTokens, balance, summed_loss};
pub use tokens::{ResponseTokens, trainable_tokens};
pub use validate::{LOGP_TOLERANCE, validate_batch, validate_group, validate_logp};
pub use weights::{GroupCounts, GroupTerms, MiniBatchCounts, group_weights, regularizer_weights};
