//! Requests for samples, from the weights that engines are given to the answer.

use std::time::Duration;

use evenkeel_proto::v1::{Sampling, WeightsRef};
use tokio::sync::mpsc;

use super::fake::{BASE, FakeEngine, RunningFakes};
use super::*;
use crate::admission::Admission;
use crate::error::{WEIGHTS_DIVERGED, WEIGHTS_UNPROVEN};
use crate::futures::{Futures, OperationOutcome};
use crate::sampling::{SampleJob, Sampler};
use crate::settings::TinkerSettings;

/// How the learner computes.
const ARITHMETIC: &str = "theirs";
/// Noise of an engine in f32, and of one in a narrow type.
const F32: f32 = 1e-6;
const NARROW: f32 = 0.1;

fn exact() -> FakeEngine {
    FakeEngine { arithmetic: ARITHMETIC.to_owned(), ..FakeEngine::default() }
}

fn noisy(noise: f32) -> FakeEngine {
    FakeEngine { noise, ..FakeEngine::default() }
}

fn weights(version: u64) -> Weights {
    let reference = WeightsRef::at_path(version, "sha256:a", format!("/weights/{version}"), 1);
    Weights::of(reference).unwrap()
}

/// A sampler before a learner and an engine.
struct Front {
    fakes: RunningFakes,
    futures: Futures,
    jobs: mpsc::UnboundedSender<SampleJob>,
    verdicts: Verdicts,
    asked: u32,
}

impl Front {
    async fn start(engine: FakeEngine) -> Self {
        let fakes = RunningFakes::start(engine).await;
        let settings = TinkerSettings { outage_timeout: Duration::from_secs(5), ..TinkerSettings::default() };
        let backend = Backend::connect(fakes.learner.endpoint(), fakes.generation.endpoint(), &settings).unwrap();
        let arithmetic = ARITHMETIC.to_owned();
        let model = ProvenModel { base: weights(BASE), context: 128, vocabulary: 1000, tokenizer: None, arithmetic };
        let verdicts = Verdicts::default();
        let engines = LoadedWeights::new(backend.clone(), model, &settings.proof, verdicts.clone());
        let (jobs, arriving) = mpsc::unbounded_channel();
        tokio::spawn(Sampler { backend, engines, tokenizer: None }.run(arriving));
        let futures = Futures::new(Admission::new(100, 1 << 20, 1 << 16));
        Self { fakes, futures, jobs, verdicts, asked: 0 }
    }

    /// A sample of weights of that version: whether there is one, or why not.
    async fn sample(&mut self, version: u64) -> Result<(), Failure> {
        let id = self.request(version);
        self.answer(&id).await
    }

    fn request(&mut self, version: u64) -> String {
        self.asked += 1;
        let id = format!("request-{}", self.asked);
        let room = Admission::new(9, 1 << 20, 1 << 16).receive(1).unwrap();
        let job = SampleJob {
            weights: weights(version),
            prompt: (0..40).map(|at| (self.asked * 31 + at * at * 7) % 1000).collect(),
            samples: 1,
            sampling: Sampling { seed: Some(1), ..Sampling::default() },
            stop_texts: Vec::new(),
            prompt_logprobs: false,
            deadline_ms: 10_000,
            promise: self.futures.promise(id.clone(), "session", room),
        };
        self.jobs.send(job).map_err(drop).unwrap();
        id
    }

    async fn answer(&self, id: &str) -> Result<(), Failure> {
        let outcome = self.futures.retrieve(id, Duration::from_secs(60)).await.unwrap().expect("an answer");
        match &*outcome {
            OperationOutcome::Failed(failure) => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    fn sampled(&self) -> u32 {
        self.fakes.engine().sampled
    }

    fn state(&self, version: u64) -> &'static str {
        match self.verdicts.of(version) {
            Some(Verdict::ScoresAlone(_)) => "scores alone",
            verdict => verdict.map_or("unknown", |verdict| verdict.parts().0),
        }
    }
}

#[tokio::test]
async fn honest_engines_are_sampled_from_and_verified_where_their_samples_are_tested() {
    for (engine, state) in [(exact(), "verified"), (noisy(F32), "scores alone")] {
        let mut front = Front::start(engine.clone()).await;
        for version in [20, 30, 20, BASE, 40] {
            front.sample(version).await.unwrap();
        }
        assert_eq!((front.sampled(), front.state(40)), (5, state), "{engine:?}");
    }
}

#[tokio::test]
async fn an_engine_that_keeps_its_adapter_is_found_before_it_draws_a_sample_and_is_used_again_once_it_is_mended() {
    for (engine, state) in [(exact(), "verified"), (noisy(F32), "scores alone")] {
        let mut front = Front::start(engine.clone()).await;
        front.sample(20).await.unwrap();
        front.fakes.engine().keeps = true;
        for _ in 0..2 {
            let failure = front.sample(30).await.unwrap_err();
            assert_eq!(failure.reason, Some(WEIGHTS_UNPROVEN), "{engine:?}: {failure:?}");
            assert!(failure.message.starts_with("engine a does not have the weights that it reports"), "{failure:?}");
        }
        assert_eq!((front.sampled(), front.state(30)), (1, "unknown"), "{engine:?}");
        front.fakes.engine().keeps = false;
        front.sample(30).await.unwrap();
        // After one load alone nothing shows whether an engine is one load behind.
        front.sample(40).await.unwrap();
        assert_eq!((front.sampled(), front.state(40)), (3, state), "{engine:?}");
    }
}

#[tokio::test]
async fn an_engine_to_which_no_adapter_ever_arrives_draws_nothing() {
    for engine in [exact(), noisy(F32), noisy(1e-3)] {
        let engine = FakeEngine { loaded: BASE, keeps: true, ..engine };
        let mut front = Front::start(engine.clone()).await;
        let failure = front.sample(60).await.unwrap_err();
        assert_eq!((failure.reason, front.sampled()), (Some(WEIGHTS_UNPROVEN), 0), "{engine:?}: {failure:?}");
    }
}

#[tokio::test]
async fn what_the_noise_of_an_engine_hides_is_undecided_and_said() {
    let mut front = Front::start(noisy(NARROW)).await;
    front.sample(11).await.unwrap();
    assert_eq!((front.sampled(), front.state(11)), (1, "undecided"));
}

#[tokio::test]
async fn without_room_for_published_weights_samples_are_drawn_and_weights_undecided() {
    let mut front = Front::start(FakeEngine { learner_has_no_room: true, ..noisy(F32) }).await;
    for version in [20, 20, BASE, 30] {
        front.sample(version).await.unwrap();
        assert_eq!(front.state(version), "undecided");
    }
    assert_eq!((front.sampled(), front.fakes.engine().proofs), (4, 0));
    // Once there is room, weights are proven again.
    front.fakes.engine().learner_has_no_room = false;
    for version in [40, 50] {
        front.sample(version).await.unwrap();
    }
    assert_eq!(front.state(50), "scores alone");
    front.fakes.engine().learner_has_no_room = true;
    front.sample(60).await.unwrap();
    assert_eq!(front.state(60), "undecided");
}

#[tokio::test]
async fn one_failed_proof_answers_all_that_wait_for_these_weights() {
    let mut front = Front::start(noisy(F32)).await;
    front.sample(20).await.unwrap();
    front.fakes.engine().keeps = true;
    let proofs = front.fakes.engine().proofs;
    front.sample(30).await.unwrap_err();
    let of_one = front.fakes.engine().proofs - proofs;
    let waiting: Vec<String> = (0..8).map(|_| front.request(30)).collect();
    for id in waiting {
        assert_eq!(front.answer(&id).await.unwrap_err().reason, Some(WEIGHTS_UNPROVEN));
    }
    let proofs = front.fakes.engine().proofs - proofs - of_one;
    // An engine is met as a new one after it was accused: its calibration are five more calls.
    assert!(proofs < 4 * (of_one + 5), "{proofs} calls for eight requests, {of_one} for one");
}

#[tokio::test]
async fn weights_that_have_blown_up_accuse_no_engine() {
    let mut front = Front::start(noisy(F32)).await;
    front.sample(20).await.unwrap();
    let proofs = front.fakes.engine().proofs;
    front.fakes.engine().diverged_from = Some(30);
    assert_eq!(front.sample(30).await.unwrap_err().reason, Some(WEIGHTS_DIVERGED));
    front.sample(21).await.unwrap();
    assert_eq!(front.fakes.engine().proofs - proofs, 1, "what is known of the engine is kept");
}

#[tokio::test]
async fn an_engine_that_samples_before_its_proof_leaves_the_weights_undecided_until_it_has_had_one() {
    let mut front = Front::start(exact()).await;
    front.fakes.engine().samples_as = "b".to_owned();
    front.sample(20).await.unwrap();
    assert_eq!(front.state(20), "undecided");
    front.fakes.engine().samples_as.clear();
    front.sample(20).await.unwrap();
    assert_eq!(front.state(20), "verified");
}

#[tokio::test]
async fn an_engine_that_answers_proofs_alone_with_the_right_weights_is_found_by_what_it_samples() {
    let mut front = Front::start(FakeEngine { samples_from_base: true, ..exact() }).await;
    for _ in 0..400 {
        if let Err(failure) = front.sample(20).await {
            assert_eq!(failure.reason, Some(WEIGHTS_UNPROVEN), "{failure:?}");
            assert!(failure.message.contains("2 of 2 log-probabilities of a sample are not"), "{failure:?}");
            return;
        }
    }
    panic!("not found among {} samples", front.sampled());
}
