//! Steps recomputed from a state that the run has kept, with everything compared that follows from it.

use std::collections::{BTreeSet, VecDeque};
use std::ops::RangeInclusive;

use evenkeel_run::metric::table as metric;
use evenkeel_run::rollout_name;

use super::difference::{Agreement, Precision};
use super::draws::{Drawing, DrawnAgain};
use super::error::{Deviation, ReplayError};
use super::replay::Replay;
use super::run::RecordedStep;
use super::weights::Source;

/// The steps that a recomputation takes.
#[derive(Clone, Debug)]
pub struct Recomputation {
    /// The first step that is done again.
    pub first: u64,
    /// The step that is asked for.
    pub last: u64,
    /// Where the state before the first step comes from, in words.
    pub from: String,
    /// Seconds that the updates of these steps took when they were recorded.
    pub update_seconds: f64,
    /// Published versions whose weights draw tokens of the last step before any step is done.
    published: BTreeSet<u64>,
}

/// A step that was recomputed, and is what the run recorded.
#[derive(Clone, Copy, Debug)]
pub struct RecomputedStep {
    /// Number of the step, from 1.
    pub step: u64,
    /// How close the update is to the recorded one.
    pub agreement: Agreement,
    /// Sampled tokens that were drawn again.
    pub drawn: DrawnAgain,
    /// Sampled tokens of the step.
    pub sampled_tokens: u64,
    /// Whether the weights that it made are those of the receipt; false where they were not compared.
    pub has_equal_weights: bool,
    /// Whether there is a checkpoint after it, with the same weights and moments.
    pub has_equal_checkpoint: bool,
}

impl Replay {
    /// Finds the last state from which a step can be recomputed. `draws`: whether its tokens are to be drawn again,
    /// which takes every version of the weights that sampled any.
    ///
    /// # Errors
    /// [`ReplayError::Missing`] with what the run no longer has.
    pub fn plan(&self, step: u64, draws: bool) -> Result<Recomputation, ReplayError> {
        let recorded = self.run.step(step)?;
        let nearest = self.weights.nearest(step).ok_or_else(|| self.no_weights(step))?;
        let version = self.base_version(nearest)?;
        let mut published = versions(&recorded);
        published.retain(|wanted| draws && *wanted < version);
        let first = match published.iter().find(|wanted| self.weights.published(**wanted).is_none()) {
            None => nearest,
            Some(lacking) => self.start_with(step, *lacking)?,
        };
        let version = self.base_version(first)?;
        published.retain(|wanted| *wanted < version);
        let mut update_seconds = 0.0;
        for number in first..=step {
            let (line, ..) = self.run.files(number)?;
            update_seconds += line.get(metric::UPDATE_TIME.name).unwrap_or_default();
        }
        let mut from = match first {
            1 if self.weights.checkpoint(0).is_none() => "the model that the run began with".to_owned(),
            first => format!("the checkpoint after step {}", first - 1),
        };
        if self.run.weights(version).is_none() {
            from += ", whose weights stand as they are: no receipt here has their digest";
        }
        Ok(Recomputation { first, last: step, from, update_seconds, published })
    }

    /// The last start that has weights of this version or older ones.
    fn start_with(&self, step: u64, version: u64) -> Result<u64, ReplayError> {
        for start in self.weights.starts(step) {
            if self.base_version(start)? <= version {
                return Ok(start);
            }
        }
        let kept = self.weights.described();
        let reason = format!("weights of version {version}, which drew tokens of it, are not left; {kept}");
        Err(ReplayError::missing(step, reason))
    }

    fn base_version(&self, step: u64) -> Result<u64, ReplayError> {
        let (_, prompts, _) = self.run.files(step)?;
        Ok(prompts.base_version)
    }

    /// Recomputes the steps of a plan. With `drawing`, tokens are drawn again as far as the weights that drew them pass
    /// by: all of the last step, and those of earlier ones that no older weights have drawn. `each` is told of every
    /// step that is what was recorded.
    ///
    /// # Errors
    /// [`ReplayError::Different`] for the first step that is another one, with the file; [`ReplayError::Missing`] for
    /// one that cannot be recomputed, and [`ReplayError::BeyondTolerance`] for one that another device does not
    /// reproduce.
    pub fn recompute(
        &mut self,
        plan: &Recomputation,
        drawing: Option<&Drawing>,
        mut each: impl FnMut(RecomputedStep),
    ) -> Result<(), ReplayError> {
        let mut window = VecDeque::new();
        let early = match drawing {
            Some(drawing) => self.draw_by_published(plan, drawing)?,
            None => DrawnAgain::default(),
        };
        for step in plan.first..=plan.last {
            self.fill(&mut window, step..=plan.last, drawing.is_some())?;
            if step == plan.first {
                self.begin(plan, &window)?;
            }
            if let Some(drawing) = drawing {
                self.draw(drawing, &mut window)?;
            }
            let Some((recorded, mut drawn)) = window.pop_front() else { break };
            let (_, agreement) = self.train(&recorded, true, false)?;
            if step == plan.last {
                drawn.add(early);
            }
            let is_exact = agreement == Agreement::Equal;
            each(RecomputedStep {
                step,
                agreement,
                drawn,
                sampled_tokens: sampled_tokens(&recorded),
                has_equal_weights: is_exact && self.has_recorded_weights(step)?,
                has_equal_checkpoint: is_exact && self.has_recorded_checkpoint(step)?,
            });
        }
        Ok(())
    }

    /// Reads the steps that weights at hand may have sampled: the next one, and those that were sampled ahead.
    fn fill(&self, window: &mut Window, steps: RangeInclusive<u64>, draws: bool) -> Result<(), ReplayError> {
        let ahead = if draws { self.settings.max_lag as usize } else { 0 };
        for step in steps.skip(window.len()).take((ahead + 1).saturating_sub(window.len())) {
            let recorded = self.run.step(step)?;
            refuse_other_weights(&recorded, self.settings.max_lag)?;
            window.push_back((recorded, DrawnAgain::default()));
        }
        Ok(())
    }

    /// Loads the state before the first step, whose weights must be those that the step before it made.
    fn begin(&mut self, plan: &Recomputation, window: &Window) -> Result<(), ReplayError> {
        let source = self.weights.before(plan.first).ok_or_else(|| self.no_weights(plan.first))?;
        let Some((first, _)) = window.front() else { return Err(self.no_weights(plan.first)) };
        self.load(&source, first)?;
        if self.settings.precision != Precision::Bits {
            return Ok(());
        }
        // The weights are read from there, whatever was published of the step before.
        let file = match &source {
            Source::Checkpoint(folder) | Source::Published(folder) => self.run.name_of(folder),
            Source::Model => "model".to_owned(),
        };
        match self.has_recorded_weights(plan.first - 1) {
            Err(ReplayError::Different { step, what, .. }) => Err(ReplayError::Different { step, file, what }),
            compared => compared.map(drop),
        }
    }

    /// Draws tokens of the last step again by published weights, for which no step has to be done.
    fn draw_by_published(&mut self, plan: &Recomputation, drawing: &Drawing) -> Result<DrawnAgain, ReplayError> {
        if plan.published.is_empty() {
            return Ok(DrawnAgain::default());
        }
        let recorded = self.run.step(plan.last)?;
        let mut window = VecDeque::from([(recorded, DrawnAgain::default())]);
        for &version in &plan.published {
            let source = self.weights.published(version).ok_or_else(|| self.no_weights(plan.last))?;
            self.load_version(&source, version, plan.last)?;
            self.draw(drawing, &mut window)?;
        }
        Ok(window.pop_front().map_or_else(DrawnAgain::default, |(_, drawn)| drawn))
    }

    /// Draws the tokens of steps again that the weights at hand have sampled.
    fn draw(&self, drawing: &Drawing, window: &mut Window) -> Result<(), ReplayError> {
        let version = self.learner.version();
        for (recorded, all) in window {
            let drawn = drawing.draw(&self.learner, &recorded.rollouts, version)?;
            all.add(drawn.map_err(|deviation| deviation.at(recorded.step))?);
        }
        Ok(())
    }
}

/// Steps whose tokens are drawn again, and how many were so far.
type Window = VecDeque<(RecordedStep, DrawnAgain)>;

/// Refuses tokens of weights that could not sample the step: later ones, and those beyond the largest lag.
fn refuse_other_weights(recorded: &RecordedStep, max_lag: u32) -> Result<(), ReplayError> {
    let last = recorded.base_version;
    let allowed = last.saturating_sub(max_lag.into())..=last;
    for rollout in &recorded.rollouts {
        let mut versions = rollout.segments.iter().filter_map(|segment| segment.version);
        if let Some(version) = versions.find(|version| !allowed.contains(version)) {
            let (sample, prompt, first) = (rollout.sample, rollout.group, allowed.start());
            let what = format!(
                "sample {sample} of prompt {prompt} has tokens of version {version}, allowed: {first} to {last}, by \
                 pipeline.max_lag"
            );
            return Err(Deviation { file: rollout_name(recorded.step), what }.at(recorded.step));
        }
    }
    Ok(())
}

/// The versions that sampled tokens of a step.
fn versions(recorded: &RecordedStep) -> BTreeSet<u64> {
    let segments = recorded.rollouts.iter().flat_map(|rollout| &rollout.segments);
    segments.filter_map(|segment| segment.version).collect()
}

fn sampled_tokens(recorded: &RecordedStep) -> u64 {
    let segments = recorded.rollouts.iter().flat_map(|rollout| &rollout.segments);
    segments.filter(|segment| segment.version.is_some()).map(|segment| u64::from(segment.tokens)).sum()
}
