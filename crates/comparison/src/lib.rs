//! Arms of runs compared seed by seed. A pure library: runs come as plain values, and what is drawn at random comes
//! from a seed.
//!
//! [`Comparison::of`] takes [`Run`]s, an arm being the varied settings, and gives
//!
//! - for each task and arm the [measures](Measure) of its runs with intervals over seeds, peaks and drops compared with
//!   chance, collapsed and failed seeds, and the columns of the paper's Table 1 for each benchmark;
//! - for each pair of arms the differences paired by seed, with a [`Finding`] only where there are enough seeds, the
//!   interval excludes zero and the exact test stands after Holm's correction;
//! - over several tasks interquartile means and probabilities of improvement;
//! - where runs lie in the plane of the paper's criterion, and whether what it expects held;
//! - bands over seeds for plots, and [conclusions](Conclusion) in plain words, by task.
//!
//! It is serialisable (`compare.json`), [`Comparison::to_text`] is its table for a terminal, and
//! [`Comparison::to_markdown`] the same for a page. docs/statistics.md has the formulas.
#![forbid(unsafe_code)]

mod across;
mod arms;
mod bands;
mod collapse;
mod comparison;
mod conclusions;
mod criterion;
mod markdown;
mod mean;
mod measure;
mod options;
mod outcome;
mod pairs;
mod run;
mod table;
mod task;
mod text;
mod validate;

pub use across::{AcrossTasks, ArmAcrossTasks, PairAcrossTasks};
pub use arms::{ArmSummary, BenchmarkSummary, ByChance, CollapsedSeed, FailedSeed, MeasureSummary, Peak};
pub use bands::{Band, BandPoint, Quantity};
pub use collapse::Collapse;
pub use comparison::Comparison;
pub use conclusions::{Conclusion, ConclusionKind};
pub use criterion::{ArmCourse, Claim, ClaimKind, Criterion, OrderedTasks, PlanePoint, Preference, Verdict};
pub use mean::Mean;
pub use measure::Measure;
pub use options::Options;
pub use outcome::PeakByChance;
pub use pairs::{FEWEST_SEEDS, Finding, PairedDifference};
pub use run::{Arm, Evaluation, Lengths, Run, RunEnd, Score, Scores};
pub use task::TaskComparison;
