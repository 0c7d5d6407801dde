//! The audit of an evaluation: a few of its answers are drawn again, where the engine has the learner's bits. So the
//! weights that an accuracy is of are the learner's too, also after the last step, which trains on no further sample.

use super::SamplerAudit;
use super::sample::{AuditedSample, Difference};
use crate::scorer::{LearnerScorer, LearnerToken, SampledDistribution};

impl SamplerAudit {
    /// Answers of an evaluation that are to be looked at.
    pub fn answers(&self) -> usize {
        if self.is_on() { self.settings.sequences as usize } else { 0 }
    }

    /// Compares answers to an evaluation of the weights after a step with what the learner draws, and computes, for them.
    /// Each comes with the distribution that it was drawn from; at temperature 0 it must be the likeliest tokens.
    ///
    /// # Errors
    /// An engine that differs, unless that is a warning; what the scorer says.
    pub async fn evaluation<L: LearnerScorer>(
        &self,
        step: u64,
        answers: &[(AuditedSample, SampledDistribution)],
        learner: &L,
    ) -> Result<(), L::Error> {
        for (answer, distribution) in answers.iter().filter(|(answer, _)| self.has_the_learners_bits(answer)) {
            let is_greedy = distribution.temperature == 0.0;
            let distribution = if is_greedy { distribution.whole() } else { distribution.clone() };
            for version in answer.versions() {
                let asked = answer.prompted(!is_greedy);
                let view = match learner.view(&[asked], version, &distribution).await? {
                    Ok(views) => views.into_iter().next().unwrap_or_default(),
                    Err(not_scored) => {
                        self.say_not_possible(version, &not_scored);
                        continue;
                    }
                };
                let unlikely = if is_greedy { not_the_likeliest(answer, &view) } else { None };
                if let Some(difference) = unlikely.or_else(|| answer.difference(version, 0, &view)) {
                    self.accuse(super::of_difference(answer, step, difference))?;
                }
            }
        }
        Ok(())
    }
}

/// The first token of an answer that is not the likeliest one.
fn not_the_likeliest(answer: &AuditedSample, view: &[LearnerToken]) -> Option<Difference> {
    let sampled = answer.drawn.iter().zip(view).map(|(drawn, token)| drawn.is_some() && token.rank > 1);
    let token = sampled.into_iter().position(|unlikely| unlikely)?;
    Some(Difference::Rank { token, rank: view[token].rank })
}
