//! The paper's criterion (arXiv 2605.04077): where runs lie in the plane of length variation and length gap, which rule
//! it prefers there, and whether that held.
//!
//! [`plane`] has the plane and the convention that this program reads the criterion by, since the paper gives no
//! threshold; [`claims`] judges what follows for the arms of one task, [`order`] what follows for two tasks from their
//! order alone, without any threshold; [`no_worse`] tests whether an arm is no worse than another.

mod claims;
mod no_worse;
mod order;
mod plane;

use evenkeel_errors::FieldError;
use serde::{Deserialize, Serialize};

pub use claims::{Claim, ClaimKind, Verdict};
pub use no_worse::NoWorse;
pub use order::OrderedTasks;
pub(crate) use order::{TaskInPlane, between_tasks};
pub use plane::{PlanePoint, Preference};

use crate::arms::ArmSummary;
use crate::measure::Measure;
use crate::options::Options;
use crate::pairs::PairedDifference;
use crate::run::{Lengths, Run};

/// Training steps at either end of a run whose mean is its place.
const ENDS: usize = 10;

/// A task in the plane, and what the criterion's expectations became.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    /// The task's place in the plane at the start: mean over all runs of their first ten steps, before the arms part.
    pub start: PlanePoint,
    /// What the criterion prefers there.
    pub preference: Preference,
    /// Course of each arm with known lengths.
    pub arms: Vec<ArmCourse>,
    /// What follows for the arms, and whether it held. Empty without arms that differ in their rule alone.
    pub claims: Vec<Claim>,
}

/// An arm in the plane.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmCourse {
    /// The arm, by position among the task's arms.
    pub arm: usize,
    /// The arm's place in the plane at the end: mean over its runs of their last ten steps.
    pub end: PlanePoint,
    /// What the criterion prefers there.
    pub preference: Preference,
    /// Lengths at each step that all runs of the arm have, as means over these runs.
    pub course: Vec<Lengths>,
}

impl Criterion {
    /// Checks the criterion on a task's finished runs, grouped by arm. `None` where none of them knows its lengths.
    ///
    /// # Errors
    /// Values that are not finite.
    pub(crate) fn of(
        runs: &[Vec<&Run>],
        arms: &[ArmSummary],
        pairs: &[PairedDifference],
        primary: Option<Measure>,
        options: &Options,
    ) -> Result<Option<Self>, FieldError> {
        let runs_with_lengths = || runs.iter().flatten().filter(|run| !run.lengths.is_empty());
        let start = PlanePoint::mean(
            runs_with_lengths().filter_map(|run| PlanePoint::of(&run.lengths[..ENDS.min(run.lengths.len())])),
        );
        let Some(start) = start else { return Ok(None) };
        let course = |(arm, runs): (usize, &Vec<&Run>)| {
            let known: Vec<&[Lengths]> =
                runs.iter().map(|run| run.lengths.as_slice()).filter(|known| !known.is_empty()).collect();
            let ends = known.iter().filter_map(|known| PlanePoint::of(&known[known.len().saturating_sub(ENDS)..]));
            let end = PlanePoint::mean(ends)?;
            Some(ArmCourse { arm, end, preference: end.preference(), course: plane::mean_course(&known) })
        };
        let preference = start.preference();
        let judged = claims::Judged { arms, pairs, options };
        let claims = primary.map(|measure| judged.claims(preference, measure)).transpose()?.unwrap_or_default();
        Ok(Some(Self { start, preference, arms: runs.iter().enumerate().filter_map(course).collect(), claims }))
    }
}
