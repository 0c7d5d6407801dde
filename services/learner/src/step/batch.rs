//! The groups of a step on their way to its updates.

use evenkeel_objective::{Advantage, GroupCounts, GroupView, MiniBatchCounts, MismatchByLag, Normalizer};

use super::equality::{ComparedTokens, Difference};
use super::group_weights::{GroupWeights, Place, PlannedResponse};
use super::lag_statistics::LagStatistics;
use super::loss::ResponseStats;
use super::mini_batch::MiniBatches;
use super::passes::{first_pass, own_of, run, scale, score, term_factors, update};
use super::report::UpdateStats;
use super::response_report::{ResponseReport, ResponseReports};
use super::results_of_ranks::{gather_difference, gather_logp, gather_stats};
use crate::error::Result;
use crate::terms::{LossTerm, TokenShare, TokenShares};
use crate::trainer::Trainer;

/// A pass of a later update takes this many times the tokens that are worth a pass: large enough that threads rarely
/// wait for the last micro-batch of a pass, small enough that progress is reported often.
const LATER_PASS: usize = 8;

/// What a step is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepPhase {
    /// Scoring responses under the weights before the first update.
    Scoring,
    /// Forward and backward passes.
    Accumulating,
    /// Clipping and the optimizer.
    Updating,
}

/// The progress of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepProgress {
    /// Groups whose gradient has been accumulated, or which have none. Each counts once, however many epochs follow.
    pub groups: usize,
    /// Trainable tokens of those groups.
    pub trainable_tokens: usize,
}

/// The groups of a step. Which passes run, over which responses and after which group, follows from the groups in their
/// order alone: a step that waits for all groups has the same bits as one that takes them as they arrive.
pub(super) struct Batch {
    mini_batches: MiniBatches,
    groups: Vec<GroupWeights>,
    /// Whether a group's gradient has been accumulated.
    accumulated: Vec<bool>,
    progress: StepProgress,
    /// Responses that wait for the number of groups, without which their mini-batch is not known.
    unassigned: Vec<PlannedResponse>,
    /// Responses of the first update that have not been through a pass.
    first: Vec<PlannedResponse>,
    /// Sums of the responses of the first update that have been.
    first_stats: Vec<ResponseStats>,
    /// Responses of later updates that have not been scored.
    unscored: Vec<PlannedResponse>,
    /// Responses of later updates that have been, and those of the first whose log-probabilities are needed.
    scored: Vec<PlannedResponse>,
    compared: ComparedTokens,
    /// The first response, of those that this rank has scored, whose log-probabilities are not the engine's.
    difference: Option<Difference>,
    /// Statistics by lag, if they are requested, and the responses that they are to be of before the first update, in
    /// the order of their passes.
    lags: Option<(LagStatistics, Vec<Place>)>,
}

impl Batch {
    /// An empty one. `groups` is the number of groups of the step, if it is known.
    pub(super) fn new(trainer: &Trainer, groups: Option<usize>) -> Self {
        Self {
            mini_batches: MiniBatches::of(trainer.settings(), trainer.version(), groups),
            groups: Vec::new(),
            accumulated: Vec::new(),
            progress: StepProgress::default(),
            unassigned: Vec::new(),
            first: Vec::new(),
            first_stats: Vec::new(),
            unscored: Vec::new(),
            scored: Vec::new(),
            compared: ComparedTokens::default(),
            difference: None,
            lags: None,
        }
    }

    /// Gathers statistics by lag from the first group on.
    pub(super) fn measure_lags(&mut self) {
        self.lags = Some(Default::default());
    }

    /// The statistics by lag, if they were requested.
    pub(super) fn take_lags(&mut self) -> Option<MismatchByLag> {
        self.lags.take().map(|(statistics, _)| statistics.finish())
    }

    /// Tokens whose log-probability was compared with the engine's; all of them are equal where the step goes on.
    pub(super) fn compared(&self) -> ComparedTokens {
        self.compared
    }

    pub(super) fn groups(&self) -> &[GroupWeights] {
        &self.groups
    }

    pub(super) fn progress(&self) -> StepProgress {
        self.progress
    }

    pub(super) fn views(&self) -> Vec<GroupView<'_>> {
        self.groups.iter().map(GroupWeights::view).collect()
    }

    /// Number of updates over the groups so far.
    pub(super) fn updates(&self) -> usize {
        let mini_batches = self.mini_batches.all(self.groups.len());
        mini_batches.iter().filter(|mini_batch| self.counts(mini_batch).groups > 0).count()
    }

    /// Adds a group, and runs passes where there is enough work.
    pub(super) fn add(
        &mut self,
        trainer: &mut Trainer,
        weights: GroupWeights,
        planned: Vec<PlannedResponse>,
    ) -> Result<()> {
        let group = self.groups.len();
        self.groups.push(weights);
        self.accumulated.push(false);
        if planned.is_empty() {
            self.mark(group);
        }
        self.assign(trainer, group, planned)
    }

    /// Runs all updates. `observe` is called before and after each of their passes.
    pub(super) fn run_updates(
        &mut self,
        trainer: &mut Trainer,
        observe: &mut dyn FnMut(StepPhase, StepProgress),
    ) -> Result<(Vec<UpdateStats>, Vec<ResponseReport>, usize)> {
        self.complete(trainer, observe)?;
        let mut responses = ResponseReports::of(&self.groups);
        self.share(trainer)?;
        let mut updates = Vec::new();
        let mut trained = 0;
        for (number, mini_batch) in self.mini_batches.all(self.groups.len()).into_iter().enumerate() {
            let counts = self.counts(&mini_batch);
            if counts.groups == 0 {
                continue;
            }
            let stats = match number {
                0 => gather_stats(trainer, std::mem::take(&mut self.first_stats))?,
                _ => {
                    let is_first_pass = self.mini_batches.is_in_first_epoch(number, self.groups.len());
                    self.accumulate(trainer, &mini_batch, counts, is_first_pass, observe)?
                }
            };
            observe(StepPhase::Updating, self.progress);
            trained += stats.len();
            let updated = update(trainer, &stats, counts)?;
            let normalizer = scale(trainer, counts);
            responses.update(&self.groups, &mini_batch, normalizer, &stats, updated.skipped.is_none());
            updates.push(updated);
        }
        Ok((updates, responses.finish(), trained))
    }

    fn assign(&mut self, trainer: &mut Trainer, group: usize, planned: Vec<PlannedResponse>) -> Result<()> {
        let is_first = self.mini_batches.is_first(group);
        // Later ones are scored before the first update only if that gives their old log-probabilities.
        if let Some(is_first) = is_first {
            self.compared.add(&planned, is_first || trainer.settings().old_logp.is_learners());
        }
        match is_first {
            None => self.unassigned.extend(planned),
            Some(true) => self.first.extend(planned),
            Some(false) => self.unscored.extend(planned),
        }
        let worth = trainer.settings().compute.tokens_worth_a_pass();
        if tokens(&self.unscored) >= worth {
            self.score(trainer)?;
        }
        let Some(factors) = self.first_factors(trainer, group + 1) else { return Ok(()) };
        match self.mini_batches.first_groups(group + 1) {
            Some(groups) if tokens(&self.first) >= worth => self.accumulate_first(trainer, factors, groups),
            _ => Ok(()),
        }
    }

    /// After the last group: what is left of the work that precedes the first update.
    fn complete(&mut self, trainer: &mut Trainer, observe: &mut dyn FnMut(StepPhase, StepProgress)) -> Result<()> {
        self.mini_batches.set_groups(self.groups.len());
        let mut unassigned = std::mem::take(&mut self.unassigned).into_iter().peekable();
        if unassigned.peek().is_some() {
            for group in 0..self.groups.len() {
                let mut planned = Vec::new();
                while let Some(response) = unassigned.next_if(|response| response.group() == group) {
                    planned.push(response);
                }
                observe(StepPhase::Scoring, self.progress);
                self.assign(trainer, group, planned)?;
            }
        }
        if !self.unscored.is_empty() {
            observe(StepPhase::Scoring, self.progress);
            self.score(trainer)?;
        }
        if !self.first.is_empty() {
            observe(StepPhase::Accumulating, self.progress);
            let factors = term_factors(trainer, self.first_counts());
            let groups = self.mini_batches.first_groups(self.groups.len()).unwrap_or(self.groups.len());
            self.accumulate_first(trainer, factors, groups)?;
        }
        Ok(())
    }

    fn score(&mut self, trainer: &mut Trainer) -> Result<()> {
        let mut responses = std::mem::take(&mut self.unscored);
        self.note(score(trainer, &mut responses)?);
        self.keep(responses);
        Ok(())
    }

    /// Keeps what a comparison has found until all ranks know of it.
    fn note(&mut self, found: Option<Difference>) {
        self.difference = Difference::first(self.difference.take(), found);
    }

    /// Keeps responses whose log-probabilities before the first update are known to the rank that has scored them.
    fn keep(&mut self, responses: Vec<PlannedResponse>) {
        if let Some((_, places)) = &mut self.lags {
            places.extend(responses.iter().map(PlannedResponse::place));
        }
        self.scored.extend(responses);
    }

    /// Makes what each rank has scored before the first update known to all, and adds it to the statistics by lag.
    ///
    /// # Errors
    /// On all ranks: the first response whose log-probabilities are not the engine's, whichever rank has scored it.
    fn share(&mut self, trainer: &Trainer) -> Result<()> {
        if let Some(difference) = gather_difference(trainer, self.difference.take())? {
            return Err(difference.into());
        }
        self.scored.sort_by_key(PlannedResponse::place);
        gather_logp(trainer, &mut self.scored)?;
        let Some((lags, places)) = &mut self.lags else { return Ok(()) };
        for place in places.drain(..) {
            let at = self.scored.partition_point(|response| response.place() < place);
            let response = &self.scored[at];
            if let Some(logp) = response.old_logp() {
                lags.add(&trainer.settings().objective, response, logp)?;
            }
        }
        Ok(())
    }

    /// Forward and backward over what waits for the first update, which takes this many groups.
    fn accumulate_first(&mut self, trainer: &mut Trainer, factors: TokenShares, groups: usize) -> Result<()> {
        let mut responses = std::mem::take(&mut self.first);
        let mini_batches = &self.mini_batches;
        let blocks = trainer.blocks(groups);
        let block = |group| blocks.of(mini_batches.position_in_first(group));
        let repeats = self.mini_batches.repeats();
        let keep = (repeats && trainer.settings().old_logp.is_learners()) || self.lags.is_some();
        let (stats, difference) = first_pass(trainer, &mut responses, block, factors, keep)?;
        self.first_stats.extend(stats);
        self.note(difference);
        responses.iter().for_each(|response| self.mark(response.group()));
        if repeats || self.lags.is_some() {
            self.keep(responses);
        }
        Ok(())
    }

    /// Forward and backward over the groups of a later update, in passes of whole groups; of several ranks each over
    /// those in its blocks. `is_first_pass`: the first that they take part in.
    fn accumulate(
        &mut self,
        trainer: &mut Trainer,
        mini_batch: &[usize],
        counts: MiniBatchCounts,
        is_first_pass: bool,
        observe: &mut dyn FnMut(StepPhase, StepProgress),
    ) -> Result<Vec<ResponseStats>> {
        let factors = term_factors(trainer, counts);
        // Against the engine's log-probabilities nothing was scored before.
        let measures = is_first_pass && self.lags.is_some() && !trainer.settings().old_logp.is_learners();
        let enough = LATER_PASS * trainer.settings().compute.tokens_worth_a_pass();
        let mut stats = Vec::new();
        let blocks = trainer.blocks(mini_batch.len());
        // In ascending order, which is that of the data.
        let block = |group| blocks.of(mini_batch.partition_point(|&other| other < group));
        let mut groups = mini_batch.iter().copied().peekable();
        let mut logp = Vec::new();
        while groups.peek().is_some() {
            let mut members = Vec::new();
            let mut length = 0;
            let mut done = Vec::new();
            while let Some(group) = groups.next_if(|_| length < enough) {
                let own = own_of(trainer, self.of_group(group).iter(), block);
                length += own.iter().map(|response| response.length()).sum::<usize>();
                members.extend(own);
                done.push(group);
            }
            observe(StepPhase::Accumulating, self.progress);
            let (of_pass, logp_of_pass) = run(trainer, &members, block, factors, measures)?;
            stats.extend(of_pass);
            logp.extend(logp_of_pass);
            done.into_iter().for_each(|group| self.mark(group));
        }
        observe(StepPhase::Accumulating, self.progress);
        if measures {
            let all = mini_batch.iter().flat_map(|&group| self.of_group(group));
            let mut measured: Vec<PlannedResponse> = all.cloned().collect();
            let own = measured.iter_mut().filter(|response| trainer.is_own(block(response.group())));
            own.zip(logp).for_each(|(response, logp)| response.set_old_logp(logp));
            gather_logp(trainer, &mut measured)?;
            let Some((lags, _)) = &mut self.lags else { return gather_stats(trainer, stats) };
            for response in &measured {
                if let Some(logp) = response.old_logp() {
                    lags.add(&trainer.settings().objective, response, logp)?;
                }
            }
        }
        gather_stats(trainer, stats)
    }

    /// The responses of a group among those that have been scored.
    fn of_group(&self, group: usize) -> &[PlannedResponse] {
        let start = self.scored.partition_point(|response| response.group() < group);
        let end = self.scored.partition_point(|response| response.group() <= group);
        &self.scored[start..end]
    }

    /// The factors of other terms in the first update, once they are known: each is the ratio of two mini-batch
    /// normalizers, which is 1 where both are the same.
    fn first_factors(&self, trainer: &Trainer, received: usize) -> Option<TokenShares> {
        let settings = trainer.settings();
        let objective = &settings.objective;
        let scaled_by = match objective.aggregation.normalizer() {
            _ if settings.reward_weight() == 0.0 => Some(TokenShare::OfBatch),
            _ if objective.advantage == Advantage::Gdpo => None,
            Normalizer::Groups => Some(TokenShare::OfGroup),
            Normalizer::Tokens => Some(TokenShare::OfBatch),
            Normalizer::Lengths => None,
        };
        let of_entropy = (objective.entropy_coefficient != 0.0).then_some(TokenShare::OfGroup);
        let mut shares = trainer.terms().iter().map(LossTerm::share).chain(of_entropy);
        if shares.all(|share| scaled_by == Some(share)) {
            return Some(TokenShares { of_group: 1.0, of_batch: 1.0 });
        }
        self.mini_batches.has_first(received).then(|| term_factors(trainer, self.first_counts()))
    }

    /// The counts of the first update, whose groups have all arrived.
    fn first_counts(&self) -> MiniBatchCounts {
        let first = (0..self.groups.len()).filter(|&group| self.mini_batches.is_first(group) == Some(true));
        first.map(|group| self.groups[group].counts).collect()
    }

    fn counts(&self, mini_batch: &[usize]) -> MiniBatchCounts {
        mini_batch.iter().map(|&group| self.groups[group].counts).collect()
    }

    fn mark(&mut self, group: usize) {
        if !std::mem::replace(&mut self.accumulated[group], true) {
            let GroupCounts { tokens, .. } = self.groups[group].counts;
            self.progress.groups += 1;
            self.progress.trainable_tokens += tokens;
        }
    }
}

/// Tokens of prompts and responses.
fn tokens(responses: &[PlannedResponse]) -> usize {
    responses.iter().map(PlannedResponse::length).sum()
}
