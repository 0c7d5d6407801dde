//! Scores of the same tokens by every engine, as proof that they have the weights that they report.

use std::sync::Arc;

use evenkeel_proto::FieldError;
use evenkeel_proto::v1::{EngineProof, LogProbabilityMode, ProveWeightsRequest, ProveWeightsResponse, SequenceScores};
use evenkeel_rpc::deadline::Deadline;
use evenkeel_rpc::error::{Reason, ServiceError};

use super::{Updater, exact, on_each};
use crate::engine::{EngineClientError, EngineFault, ScoreRequest, SequenceScore};
use crate::pool::{EnginePool, PooledEngine};

#[derive(Debug)]
struct Proof {
    sequences: Vec<Vec<u32>>,
    temperature: f32,
    cache_salt: String,
    deadline: Deadline,
}

impl Updater {
    /// Scores sequences on every engine, between updates.
    pub(crate) async fn prove(
        &self,
        request: ProveWeightsRequest,
        call: Deadline,
    ) -> Result<ProveWeightsResponse, ServiceError> {
        let deadline = self.deadline(call, request.deadline_ms);
        let (version, sequences, temperature) = parse(request)?;
        let _turn = deadline.run(self.turn.lock()).await?;
        let current = self.pool.weights().number;
        if version != current {
            let message = format!("version is {version}, the engines' is {current}");
            return Err(ServiceError::Precondition { reason: Reason::VersionMismatch, message });
        }
        let proof = Arc::new(Proof { sequences, temperature, cache_salt: format!("proof-{version}"), deadline });
        let engines = on_each(&self.pool, |pool, engine| {
            let proof = Arc::clone(&proof);
            async move { prove_engine(&pool, &engine, &proof).await }
        });
        Ok(ProveWeightsResponse { engines: engines.await })
    }
}

fn parse(request: ProveWeightsRequest) -> Result<(u64, Vec<Vec<u32>>, f32), FieldError> {
    let version = request.version.ok_or_else(|| FieldError::missing("version", "the version that is current"))?;
    let temperature = request.temperature.ok_or_else(|| FieldError::missing("temperature", "a number above 0"))?;
    if !(temperature.is_finite() && temperature > 0.0) {
        return Err(FieldError::new("temperature", temperature, "a finite number above 0"));
    }
    let sequences: Vec<Vec<u32>> = request.sequences.into_iter().map(|sequence| sequence.token_ids).collect();
    if sequences.is_empty() {
        return Err(FieldError::missing("sequences", "at least one"));
    }
    match sequences.iter().position(|ids| ids.len() < 2) {
        Some(at) => {
            let field = format!("sequences[{at}].token_ids");
            Err(FieldError::new(field, format_args!("{} ids", sequences[at].len()), "at least two"))
        }
        None => Ok((version, sequences, temperature)),
    }
}

async fn prove_engine(pool: &EnginePool, engine: &PooledEngine, proof: &Proof) -> EngineProof {
    let scored = score(pool, engine, proof).await;
    let mode = engine.info().map_or(LogProbabilityMode::Unspecified, |info| info.log_probabilities);
    let (scores, failure) = match scored {
        Ok(scores) => (scores.into_iter().map(message).collect(), None),
        Err(error) => (Vec::new(), Some(error.failure())),
    };
    let exact = exact::prove(pool, engine, proof.deadline).await;
    EngineProof { engine: engine.name().to_owned(), scores, log_probability_mode: mode.into(), failure, exact }
}

async fn score(pool: &EnginePool, engine: &PooledEngine, proof: &Proof) -> Result<Vec<SequenceScore>, ServiceError> {
    if !pool.state(engine).0.is_serving() {
        let message = "the engine is not serving".to_owned();
        return Err(ServiceError::Unavailable { reason: Reason::NotServing, message });
    }
    // An engine that restarts meanwhile, and has not been missed yet, scores with the weights that it starts with.
    let session = pool.session(engine);
    let request = ScoreRequest {
        sequences: &proof.sequences,
        temperature: proof.temperature,
        adapter: engine.adapter_name(session.weights()),
        cache_salt: &proof.cache_salt,
    };
    let scored = proof.deadline.run(async {
        let scores = engine.client().score(request).await?;
        pool.verify_weights(engine, &session).await.map(|()| scores)
    });
    let scored = scored.await?;
    scored.map_err(|error| {
        let message = error.to_string();
        match error {
            // It answers, but not with scores: asking again does not help.
            EngineClientError::Refused { .. } | EngineClientError::InvalidResponse(_) => {
                ServiceError::Precondition { reason: Reason::NoScores, message }
            }
            // So does every engine with these weights.
            EngineClientError::NotFinite { .. } => ServiceError::DataLoss { message },
            other => {
                if other.fault() == EngineFault::Connection {
                    engine.request_check();
                }
                ServiceError::Unavailable { reason: Reason::EngineLost, message }
            }
        }
    })
}

fn message(score: SequenceScore) -> SequenceScores {
    let (sampled_token_id, sampled_log_probability) = score.sampled;
    SequenceScores { log_probabilities: score.log_probabilities, sampled_token_id, sampled_log_probability }
}
