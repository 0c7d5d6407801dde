//! Arms of runs: planned, read from their directories, compared seed by seed, and shown.
//!
//! A [`Study`] or a [`ComparisonRequest`] says what is compared, [`ComparisonPlan`] makes the arms, [`StoredRun`] reads
//! a run, and [`write_results`] writes the files of a comparison. What recipes mean comes from the caller
//! ([`ComparedRecipes`]): nothing here knows a service, and nothing starts a process.
//!
//! The comparison itself is pure: runs come as plain values, and what is drawn at random comes from a seed.
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
mod existing;
mod late_loss;
mod markdown;
mod mean;
mod measure;
mod options;
mod outcome;
mod pairs;
mod plan;
mod recipes;
mod report;
mod run;
mod stored_run;
mod table;
mod table_one;
mod task;
mod text;
mod training;
mod validate;

pub use across::{AcrossTasks, ArmAcrossTasks, PairAcrossTasks};
pub use arms::{
    ArmSummary, BenchmarkSummary, ByChance, CollapsedSeed, FailedSeed, MeasureSummary, OtherReadings, Peak,
};
pub use bands::{Band, BandPoint, Quantity};
pub use collapse::Collapse;
pub use comparison::Comparison;
pub use conclusions::{Conclusion, ConclusionKind};
pub use criterion::{ArmCourse, Claim, ClaimKind, Criterion, NoWorse, OrderedTasks, PlanePoint, Preference, Verdict};
pub use existing::{Existing, holds_runs};
pub use late_loss::LateLoss;
pub use mean::Mean;
pub use measure::Measure;
pub use options::Options;
pub use outcome::PeakByChance;
pub use pairs::{FEWEST_SEEDS, Finding, PairedDifference};
pub use plan::{ComparisonPlan, ComparisonRequest, PlannedArm, SEEDS, Study, StudyChanges, StudyRequest, Varied};
pub use recipes::{ComparedRecipes, ComparedSettings};
pub use report::{HTML, write_results, write_tasks};
pub use run::{Arm, Evaluation, Lengths, Run, RunEnd, Score, Scores, Setting};
pub use stored_run::StoredRun;
pub use table_one::{BenchmarkOverTasks, Columns, OverTasks, Published, TableOne, TableOneRow};
pub use task::TaskComparison;
pub use training::Training;
