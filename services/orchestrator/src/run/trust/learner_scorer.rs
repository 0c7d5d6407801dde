//! The learner of a run as trust asks it.

use evenkeel_proto::BASE_GROUP;
use evenkeel_proto::v1::{ReplacedTensors, SamplingDistribution, ScoreWeights, SeededTokens, TokenStatistics};
use evenkeel_trust::{
    LearnerScorer, LearnerToken, LearnerView, NotScored, PromptedResponse, PublishedWeights, SampledDistribution,
    SeededRun, TensorGroup, TokenScores,
};

use crate::clients::{LearnerClient, ScoreQuery};
use crate::error::Halt;

/// Scores tokens with the learner of a run.
pub(in crate::run) struct RunLearner<'a>(pub(in crate::run) &'a LearnerClient);

impl LearnerScorer for RunLearner<'_> {
    type Error = Halt;

    async fn score(
        &self,
        sequences: &[Vec<u32>],
        weights: &PublishedWeights,
    ) -> Result<Result<TokenScores, NotScored>, Halt> {
        let query = |ids: &Vec<u32>| ScoreQuery {
            prompt: ids[..1].to_vec(),
            response: ids[1..].to_vec(),
            temperature: 1.0,
            sampling: None,
            seeded: Vec::new(),
            min_tokens: 0,
        };
        let queries: Vec<_> = sequences.iter().map(query).collect();
        let scores = self.0.score_published(&queries, &score_weights(weights)).await?;
        let scores = scores.map(|all| all.into_iter().map(|sequence| sequence.log_probabilities).collect());
        Ok(scores.map_err(|reason| NotScored(reason.to_string())))
    }

    async fn score_in_memory(&self, sequences: &[Vec<u32>], version: u64) -> Result<TokenScores, Halt> {
        let items: Vec<_> = sequences.iter().map(|ids| (ids[..1].to_vec(), ids[1..].to_vec())).collect();
        self.0.score(version, &items, 1.0).await
    }

    async fn view(
        &self,
        responses: &[PromptedResponse<'_>],
        weights: &PublishedWeights,
        distribution: &SampledDistribution,
    ) -> Result<Result<LearnerView, NotScored>, Halt> {
        let query = |response: &PromptedResponse<'_>| ScoreQuery {
            prompt: response.prompt.to_vec(),
            response: response.response.to_vec(),
            temperature: distribution.temperature,
            sampling: Some(SamplingDistribution {
                top_p: Some(distribution.top_p),
                top_k: Some(distribution.top_k),
                min_p: Some(distribution.min_p),
                end_token_ids: distribution.end_token_ids.clone(),
            }),
            seeded: response.seeded.iter().map(seeded_tokens).collect(),
            min_tokens: response.early as u32,
        };
        let queries: Vec<_> = responses.iter().map(query).collect();
        let scores = self.0.score_published(&queries, &score_weights(weights)).await?;
        let view = scores.map(|all| LearnerView {
            responses: all.iter().map(|sequence| view(&sequence.tokens)).collect(),
            computing: all.iter().map(|sequence| sequence.computing).sum(),
        });
        Ok(view.map_err(|reason| NotScored(reason.to_string())))
    }
}

fn score_weights(weights: &PublishedWeights) -> ScoreWeights {
    ScoreWeights {
        version: weights.version,
        replaced: weights.replaced.as_ref().map(|replaced| ReplacedTensors {
            group: match &replaced.group {
                TensorGroup::Adapters => BASE_GROUP.to_owned(),
                TensorGroup::Named(name) => name.clone(),
            },
            version: replaced.version,
        }),
        rounded_to: weights.rounded_to.map(|kind| kind.name().to_owned()).unwrap_or_default(),
    }
}

fn seeded_tokens(run: &SeededRun) -> SeededTokens {
    SeededTokens { first: run.first as u32, count: run.count as u32, seed: run.seed }
}

/// Each token of a response. The client has checked that each list has a value for each of them.
fn view(statistics: &Option<TokenStatistics>) -> Vec<LearnerToken> {
    let Some(statistics) = statistics else { return Vec::new() };
    (0..statistics.log_probabilities.len()).filter_map(|at| token(statistics, at)).collect()
}

/// `None` where the statistics lack the token.
fn token(statistics: &TokenStatistics, at: usize) -> Option<LearnerToken> {
    let get = |list: &[f32]| list.get(at).copied().map(f64::from);
    Some(LearnerToken {
        log_probability: get(&statistics.log_probabilities)?,
        entropy: get(&statistics.entropies)?,
        variance: get(&statistics.variances)?,
        surprise: get(&statistics.surprises)?,
        less_likely: get(&statistics.less_likely)?,
        equally_likely: get(&statistics.equally_likely)?,
        rank: *statistics.ranks.get(at)?,
        beyond_rank_5: get(&statistics.beyond_rank_5)?,
        beyond_rank_50: get(&statistics.beyond_rank_50)?,
        largest_log_probability: get(&statistics.largest_log_probabilities)?,
        below_hundredth: get(&statistics.below_hundredth)?,
        below_floor: get(&statistics.below_floor)?,
        end_probability: get(&statistics.end_probabilities)?,
        drawn: statistics.drawn_token_ids.get(at).copied(),
    })
}
