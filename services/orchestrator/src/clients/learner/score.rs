//! Scores of tokens: log-probabilities, and statistics of the distributions that they were sampled from.

use std::fmt;
use std::time::Duration;

use evenkeel_proto::v1::{
    Failure, FailureCode, SamplingDistribution, ScoreItem, ScoreResponse, ScoreWeights, SeededTokens, TokenStatistics,
};
use evenkeel_rpc::error::Reason;
use tokio_stream::StreamExt;
use tonic::Status;

use super::LearnerClient;
use crate::dependency::Dependency;
use crate::error::{Halt, RunError};

/// A sequence to score.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScoreQuery {
    /// Context; at least one id.
    pub(crate) prompt: Vec<u32>,
    /// Scored; at least one id.
    pub(crate) response: Vec<u32>,
    /// Divides the logits; above 0.
    pub(crate) temperature: f32,
    /// How the response was sampled, if statistics of that distribution are wanted.
    pub(crate) sampling: Option<SamplingDistribution>,
    /// Tokens that are to be drawn again.
    pub(crate) seeded: Vec<SeededTokens>,
    /// With `sampling`: the first tokens that were drawn without its end tokens.
    pub(crate) min_tokens: u32,
}

/// The scores of a sequence.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SequenceStatistics {
    /// One for each token of the response, without truncation.
    pub(crate) log_probabilities: Vec<f32>,
    /// If they were asked for: each list has one value for each token of the response.
    pub(crate) tokens: Option<TokenStatistics>,
    /// How long the learner computed for it.
    pub(crate) computing: Duration,
}

/// Why the learner has no scores under published weights, although nothing has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotScored {
    /// The folder of a version is no longer there. With the learner's words.
    WeightsGone(String),
    /// A second set of weights does not fit into its memory. With the learner's words.
    NoMemory(String),
}

impl NotScored {
    fn of(failure: &Failure) -> Option<Self> {
        match failure.reason.parse() {
            Ok(Reason::WeightsGone) => Some(Self::WeightsGone(failure.message.clone())),
            Ok(Reason::NoMemory) => Some(Self::NoMemory(failure.message.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for NotScored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WeightsGone(message) | Self::NoMemory(message) => f.write_str(message),
        }
    }
}

impl LearnerClient {
    /// Log-probabilities of each (prompt, response) under the weights of that version, one for each token of the
    /// response.
    pub(crate) async fn score(
        &self,
        version: u64,
        items: &[(Vec<u32>, Vec<u32>)],
        temperature: f32,
    ) -> Result<Vec<Vec<f32>>, Halt> {
        let requests = items.iter().map(|(prompt, response)| ScoreItem {
            prompt_token_ids: prompt.clone(),
            response_token_ids: response.clone(),
            temperature: Some(temperature),
            version: Some(version),
            ..ScoreItem::default()
        });
        match self.score_items(requests.collect()).await? {
            Ok(found) => Ok(found.into_iter().map(|response| response.log_probabilities).collect()),
            // It was not asked for published weights.
            Err(not_scored) => Err(refused(not_scored.to_string())),
        }
    }

    /// Scores of each sequence under published weights, in the order of the queries. Where the learner cannot have
    /// these weights, the inner result says why: no failure of the run.
    pub(crate) async fn score_published(
        &self,
        queries: &[ScoreQuery],
        weights: &ScoreWeights,
    ) -> Result<Result<Vec<SequenceStatistics>, NotScored>, Halt> {
        let requests = queries.iter().map(|query| ScoreItem {
            prompt_token_ids: query.prompt.clone(),
            response_token_ids: query.response.clone(),
            temperature: Some(query.temperature),
            weights: Some(weights.clone()),
            sampling: query.sampling.clone(),
            seeded: query.seeded.clone(),
            min_tokens: query.min_tokens,
            ..ScoreItem::default()
        });
        let found = match self.score_items(requests.collect()).await? {
            Ok(found) => found,
            Err(not_scored) => return Ok(Err(not_scored)),
        };
        let scores = queries.iter().zip(found).map(|(query, response)| {
            let tokens = query.sampling.as_ref().map(|_| response.statistics.unwrap_or_default());
            let is_drawn = |tokens: &TokenStatistics| query.seeded.is_empty() || !tokens.drawn_token_ids.is_empty();
            let complete = |tokens: &TokenStatistics| tokens.has_length(query.response.len()) && is_drawn(tokens);
            if tokens.as_ref().is_some_and(|tokens| !complete(tokens)) {
                return Err(refused("its statistics are not one for each token of each response".to_owned()));
            }
            let computing = Duration::try_from_secs_f64(response.compute_seconds).unwrap_or_default();
            Ok(SequenceStatistics { log_probabilities: response.log_probabilities, tokens, computing })
        });
        scores.collect::<Result<_, _>>().map(Ok)
    }

    /// The answer to each item, in their order. Ids are given here.
    async fn score_items(&self, mut items: Vec<ScoreItem>) -> Result<Result<Vec<ScoreResponse>, NotScored>, Halt> {
        items.iter_mut().enumerate().for_each(|(number, item)| item.id = number.to_string());
        let call = || {
            let mut client = self.client.clone();
            let items = items.clone();
            async move {
                let mut found = vec![ScoreResponse::default(); items.len()];
                let request = self.retrier.request(tokio_stream::iter(items.into_iter().map(Into::into)));
                let mut responses = client.score(request).await?.into_inner();
                while let Some(response) = responses.next().await {
                    let response = response?;
                    if let Some(failure) = &response.failure {
                        match NotScored::of(failure) {
                            Some(not_scored) => return Ok(Err(not_scored)),
                            None => return Err(status_of(failure)),
                        }
                    }
                    put(&mut found, response)?;
                }
                Ok(Ok(found))
            }
        };
        let found = self.retrier.call(Dependency::Learner, &self.endpoint, "Score", call).await?;
        let complete = |found: &Vec<ScoreResponse>| {
            let lengths = found.iter().map(|response| response.log_probabilities.len());
            lengths.eq(items.iter().map(|item| item.response_token_ids.len()))
        };
        if found.as_ref().is_ok_and(|found| !complete(found)) {
            Err(refused("its scores are not one for each token of each response".to_owned()))
        } else {
            Ok(found)
        }
    }
}

/// Puts an answer to its item.
///
/// # Errors
/// An id that the learner was not given, or has answered already: no failure that another attempt mends.
fn put(found: &mut [ScoreResponse], response: ScoreResponse) -> Result<(), Status> {
    let slot = response.id.parse().ok().and_then(|at: usize| found.get_mut(at));
    match slot.filter(|slot| slot.id.is_empty()) {
        Some(slot) => {
            *slot = response;
            Ok(())
        }
        None => {
            let id = response.id;
            Err(Status::data_loss(format!("it scored `{id}`, which it was not given or has answered already")))
        }
    }
}

fn refused(violation: String) -> Halt {
    let message = format!("its answer violates the protocol: {violation}");
    RunError::Refused { service: Dependency::Learner, what: "Score".to_owned(), message }.into()
}

/// The status of a call that has failed with one of its items.
fn status_of(failure: &Failure) -> Status {
    let message = failure.message.clone();
    match failure.code() {
        _ if failure.is_retryable() => Status::unavailable(message),
        FailureCode::FailedPrecondition => Status::failed_precondition(message),
        FailureCode::InvalidArgument => Status::invalid_argument(message),
        _ => Status::internal(message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_to_no_item_and_a_second_one_are_failures() {
        let mut found = vec![ScoreResponse::default(); 2];
        let mut answer = |id: &str, value: f32| {
            let id = id.to_owned();
            put(&mut found, ScoreResponse { id, log_probabilities: vec![value], ..ScoreResponse::default() })
        };
        assert!(answer("1", -1.0).is_ok() && answer("0", -2.0).is_ok());
        for id in ["1", "2", "x", ""] {
            assert_eq!(answer(id, -3.0).unwrap_err().code(), tonic::Code::DataLoss, "{id}");
        }
        assert_eq!(found.iter().map(|each| each.log_probabilities[0]).collect::<Vec<_>>(), [-2.0, -1.0]);
    }

    #[test]
    fn weights_that_cannot_be_had_are_an_answer_and_other_failures_are_not() {
        let failure = |code, reason: &str| Failure::new(code, reason, "why");
        let gone = failure(FailureCode::FailedPrecondition, "WEIGHTS_GONE");
        assert_eq!(NotScored::of(&gone), Some(NotScored::WeightsGone("why".to_owned())));
        let full = failure(FailureCode::ResourceExhausted, "NO_MEMORY");
        assert_eq!(NotScored::of(&full), Some(NotScored::NoMemory("why".to_owned())));
        for (code, reason) in [
            (FailureCode::FailedPrecondition, "VERSION_MISMATCH"),
            (FailureCode::ResourceExhausted, "QUEUE_FULL"),
            (FailureCode::Internal, "WEIGHTS_GONE_BY_A_LATER_VERSION"),
        ] {
            assert_eq!(NotScored::of(&failure(code, reason)), None);
        }
    }
}
