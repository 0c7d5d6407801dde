//! Proofs from their beginning to their verdict: honest engines are not accused, others are found and named.

use std::sync::Arc;

use super::*;
use crate::evidence::weights::ProofReport;
use crate::fake::{FakeEngines, FakeError, FakeLearner, FakeWeights, VOCABULARY, now, remarks};
use crate::fault::WeightsFault;
use crate::remark::Remark;
use crate::scorer::EngineScores;

/// Noise of an engine in f32, and of one in a narrow type.
const F32: f32 = 2e-6;
const NARROW: f32 = 0.05;

/// What an engine has when it should have a version.
type LyingEngine = fn(u64) -> FakeWeights;

fn proof() -> (WeightsProof, Arc<Mutex<Vec<Remark>>>) {
    let prompt = |number: u32| (0..40).map(|at| (number * 31 + at * at * 7 + at) % VOCABULARY).collect();
    let text = ProbeText::new(5, (0..64).map(prompt).collect(), VOCABULARY, |_| true);
    let (sink, taken) = remarks();
    (WeightsProof::new(ProofSettings::default(), 128, text, sink), taken)
}

fn groups() -> Vec<TensorGroup> {
    let named = |name: &str| TensorGroup::Named(name.to_owned());
    vec![named("embeddings"), named("mlp"), TensorGroup::Adapters]
}

/// A run of so many steps from version `first` on, whose engine has what `weights` says when it should have a version.
fn run(
    proof: &WeightsProof,
    first: u64,
    steps: u64,
    noise: f32,
    weights: impl Fn(u64) -> FakeWeights,
) -> Result<Option<ProofReport>, FakeError> {
    let learner = FakeLearner::default();
    let mut last = None;
    for version in first..=first + steps {
        if version == first {
            now(proof.begin(version, &groups(), &learner))?;
        } else {
            let answers = (0..64).map(|number| answer(version, number)).collect();
            now(proof.note(version, answers, &learner))?;
        }
        let due = proof.take_due(version).expect("the learner's scores are noted");
        last = Some(now(proof.prove(due, &learner, &FakeEngines { weights: weights(version), noise, is_f32: false }))?);
    }
    Ok(last)
}

fn answer(version: u64, number: u32) -> Vec<u32> {
    (0..80).map(|at| (number * 17 + version as u32 * 13 + at * at * 5 + at) % VOCABULARY).collect()
}

/// The message against an engine that does not have the weights, and the version where it was found.
fn fault(found: Result<Option<ProofReport>, FakeError>) -> (u64, String) {
    match found {
        Err(FakeError::Weights(WeightsFault::Unproven { version, message, .. })) => (version, message),
        other => panic!("not found: {other:?}"),
    }
}

#[test]
fn an_honest_engine_in_f32_is_proven_within_a_few_steps() {
    let (proof, said) = proof();
    let report = run(&proof, 3, 4, F32, FakeWeights::of).unwrap().unwrap();
    assert_eq!((report.engines, report.suspicions.len()), (1, 6));
    assert!(report.suspicions.iter().all(|suspicion| suspicion.excluded), "{report:?}");
    assert!(report.max_gap < 1e-5 && report.movement.is_some_and(|movement| movement > 1e-3), "{report:?}");
    let conclusion = proof.conclusion().unwrap();
    assert_eq!(conclusion, "verified on 1 engine (6 of 6 failure modes ruled out)");
    let said = said.lock().unwrap();
    assert!(matches!(&said[..], [Remark::Note(text)] if text.contains("engine fake differs")), "{said:?}");
}

#[test]
fn an_engine_that_samples_and_answers_no_proof_leaves_the_run_undecided() {
    let (proof, _) = proof();
    // Its samples may come before its first proof.
    assert_eq!(proof.note_trained(["fake"].into_iter()), 1);
    run(&proof, 3, 4, F32, FakeWeights::of).unwrap();
    assert_eq!(proof.note_trained(["fake", "fake"].into_iter()), 0);
    assert_eq!(proof.note_trained(["fake", "another"].into_iter()), 1);
    let conclusion = proof.conclusion().unwrap();
    assert_eq!(conclusion, "undecided: samples of another were trained on, which no proof has reached");
    // A return to a checkpoint forgets what was seen, and not that there was nothing to see.
    run(&proof, 7, 4, F32, FakeWeights::of).unwrap();
    assert_eq!(proof.note_trained(["fake"].into_iter()), 1);
}

#[test]
fn an_honest_engine_of_a_narrow_type_is_not_accused_and_may_stay_undecided() {
    let (proof, _) = proof();
    let report = run(&proof, 0, 40, NARROW, FakeWeights::of).unwrap().unwrap();
    assert!(report.evidence < 10.0, "{report:?}");
    let (proof, _) = self::proof();
    run(&proof, 0, 1, NARROW, FakeWeights::of).unwrap();
    let conclusion = proof.conclusion().unwrap();
    assert!(conclusion.starts_with("undecided: nothing loaded"), "{conclusion}");
}

#[test]
fn other_weights_are_found_at_the_first_look_in_f32_and_named() {
    let lies: [(LyingEngine, &str); 4] = [
        (|_| FakeWeights::of(3), "it still has the weights of version 3"),
        (|version| FakeWeights { embeddings: 3, ..FakeWeights::of(version) }, "its embeddings are still those"),
        (|version| FakeWeights { mlp: 3, ..FakeWeights::of(version) }, "its mlp are still those of version 3"),
        (|version| if version < 5 { FakeWeights::of(version) } else { FakeWeights::of(version - 1) }, "one version"),
    ];
    for (lie, words) in lies {
        let (version, message) = fault(run(&proof().0, 3, 4, F32, lie));
        assert!(message.contains(words), "{message}");
        assert!(version <= 5, "{version}: {message}");
    }
}

#[test]
fn an_engine_without_all_of_an_adapter_is_found_before_anything_is_trained() {
    for (share, words) in [(0.0, "without 100 %"), (0.5, "without 50 %"), (2.0, "adds 100 % too much")] {
        let (version, message) =
            fault(run(&proof().0, 3, 0, F32, |version| FakeWeights { adapters: share, ..FakeWeights::of(version) }));
        assert!(version == 3 && message.contains(words), "{version} {message}");
    }
}

#[test]
fn stale_weights_are_found_in_noise_with_more_steps() {
    let (version, message) = fault(run(&proof().0, 0, 60, 0.02, |_| FakeWeights::of(0)));
    assert!(version > 1 && message.contains("still has the weights of version 0"), "{version} {message}");
}

#[test]
fn an_engine_that_computes_another_model_is_refused_before_any_bet() {
    let (version, message) =
        fault(run(&proof().0, 0, 0, F32, |version| FakeWeights { model: 9, ..FakeWeights::of(version) }));
    assert!(version == 0 && message.contains("allowed: 0.25 (proof.tolerance)"), "{message}");
}

#[test]
fn an_engine_that_says_that_it_computes_in_f32_has_no_other_noise() {
    let learner = FakeLearner::default();
    let prove = |noise, engine_type| {
        let (mut proof, _) = proof();
        proof.settings.engine_type = engine_type;
        now(proof.begin(0, &groups(), &learner)).unwrap();
        let engines = FakeEngines { weights: FakeWeights::of(0), noise, is_f32: true };
        now(proof.prove(proof.take_due(0).unwrap(), &learner, &engines)).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(prove(F32, None), Ok(()));
    let error = prove(1e-3, None).unwrap_err();
    assert!(error.contains("it says that it computes in f32, and its log-probabilities"), "{error}");
    // The learner's side is rounded to what the engine is said to hold.
    assert_eq!(prove(1e-3, Some(crate::engine_type::EngineType::Bf16)), Ok(()));
}

#[test]
fn without_published_weights_the_proof_says_that_it_cannot_decide() {
    let (proof, _) = proof();
    let learner = FakeLearner { not_scored: Some("the folder is gone"), ..FakeLearner::default() };
    now(proof.begin(0, &groups(), &learner)).unwrap();
    let due = proof.take_due(0).unwrap();
    let engines = FakeEngines { weights: FakeWeights::of(0), noise: F32, is_f32: false };
    assert_eq!(now(proof.prove(due, &learner, &engines)).unwrap().movement, None);
    assert_eq!(proof.conclusion().unwrap(), "undecided: not possible here: the folder is gone");
}

#[test]
fn weights_that_have_blown_up_end_the_run() {
    let learner = FakeLearner { not_scored: Some("no room"), lower: 500.0, ..FakeLearner::default() };
    let error = now(proof().0.begin(2, &groups(), &learner)).unwrap_err();
    assert!(error.to_string().contains("the update before has blown the weights up"), "{error}");
}

#[test]
fn a_version_that_was_not_noted_is_not_proven_and_a_skipped_one_is_forgotten() {
    let (proof, _) = proof();
    assert!(proof.take_due(0).is_none());
    for version in [0, 1] {
        now(proof.begin(version, &groups(), &FakeLearner::default())).unwrap();
    }
    now(proof.note(2, Vec::new(), &FakeLearner::default())).unwrap();
    assert!(proof.take_due(2).is_some());
    assert!(proof.take_due(1).is_none());
    assert_eq!(proof.anchor(), Some(1));
    assert!(proof.is_due(0) && proof.is_due(7));
}

/// What an engine that computes as the learner does shows of version 5.
fn compared(weights: FakeWeights, noise: f32) -> Result<Option<usize>, FakeError> {
    now(proof().0.prove_equal(5, &FakeLearner::default(), &FakeEngines { weights, noise, is_f32: true }))
}

#[test]
fn an_engine_with_the_learners_arithmetic_and_weights_has_each_score_to_the_bit() {
    assert_eq!(compared(FakeWeights::of(5), 0.0).unwrap(), Some(32 * 12));
}

#[test]
fn one_that_should_have_the_learners_bits_is_found_by_any_other() {
    let lies = [
        (FakeWeights::of(4), 0.0),
        (FakeWeights { adapters: 0.0, ..FakeWeights::of(5) }, 0.0),
        (FakeWeights { mlp: 4, ..FakeWeights::of(5) }, 0.0),
        (FakeWeights::of(5), 1e-6),
    ];
    for (weights, noise) in lies {
        let (version, message) = fault(compared(weights, noise).map(|_| None));
        assert!(version == 5 && message.contains("384 tokens are not the learner's"), "{message}");
    }
}

#[test]
fn scores_that_are_missing_are_not_equal() {
    let scored = |keep: usize| {
        let scores = vec![vec![-1.0, -2.0][..keep].to_vec()];
        equal::check_equal(
            1,
            &vec![vec![-1.0, -2.0]],
            &EngineScores { engine: "a".into(), scores, is_exact: false, is_f32: true },
        )
    };
    assert!(scored(2).is_ok() && scored(1).is_err() && scored(0).is_err());
}

#[test]
fn without_published_weights_nothing_is_compared() {
    let learner = FakeLearner { not_scored: Some("the folder is gone"), ..FakeLearner::default() };
    let engines = FakeEngines { weights: FakeWeights::of(5), noise: 0.0, is_f32: true };
    assert_eq!(now(proof().0.prove_equal(5, &learner, &engines)).unwrap(), None);
}
