//! Audits of whole steps: honest engines are not accused, whichever group completes first; lies are found and named.

use evenkeel_seeds::Stream;

use super::*;
use crate::fake::{ANOTHER_DRAW, FakeLearner, VOCABULARY, now, policy, remarks};
use crate::proof::{ProbeText, ProofSettings};
use crate::remark::Remark;
use crate::scorer::SeededRun;

/// Groups of a step, samples of a group, tokens of a response.
const GROUPS: u32 = 4;
const SAMPLES: u32 = 8;
const TOKENS: usize = 24;

/// How an engine draws.
#[derive(Debug, Clone, Copy)]
enum Drawing {
    Honest,
    Temperature(f64),
    /// All samples of a prompt have the same random numbers.
    OneSeed,
    /// As the learner computes, but for the last bit of one token in each answer.
    OneBit,
    /// One token in each answer is not the one that its seed gives.
    OtherDraw,
}

/// How the learner and engines of these tests compute.
const ARITHMETIC: &str = "the same";

/// A group of which everything is there.
struct FakeGroup {
    number: u64,
    drawing: Drawing,
}

impl FakeGroup {
    /// Tokens of a sample with the engine's log-probabilities.
    fn drawn(&self, sample: u32) -> Vec<(u32, f64)> {
        let seed = if matches!(self.drawing, Drawing::OneSeed) { 0 } else { sample };
        let mut uniforms = Uniforms::new(u64::from(seed), Stream::SamplerAudit { step: self.number });
        let draw = |at: usize| {
            let policy = policy(&self.prompt_ids(), at);
            let drawn_from = match self.drawing {
                Drawing::Temperature(temperature) => policy.at_temperature(temperature),
                Drawing::Honest | Drawing::OneSeed | Drawing::OneBit | Drawing::OtherDraw => policy.clone(),
            };
            let id = drawn_from.draw(uniforms.at(at as u64));
            (id as u32, policy.0[id].ln())
        };
        (0..TOKENS).map(draw).collect()
    }

    fn prompt_ids(&self) -> Vec<u32> {
        vec![self.number as u32, 3, 5]
    }
}

impl AuditedGroup for FakeGroup {
    fn prompt(&self) -> u64 {
        self.number
    }

    fn sample(&self, number: u32) -> Option<AuditedSample> {
        let drawn = self.drawn(number);
        let token = |(at, &(_, log_p)): (usize, &(u32, f64))| {
            let bit = u32::from(at == 5 && matches!(self.drawing, Drawing::OneBit));
            Some(DrawnToken { log_probability: f32::from_bits((log_p as f32).to_bits() + bit), version: 4 })
        };
        // A temperature is looked for by evidence.
        let arithmetic = if matches!(self.drawing, Drawing::Temperature(_)) { "another" } else { ARITHMETIC };
        Some(AuditedSample {
            engine: "fake".to_owned(),
            arithmetic: arithmetic.to_owned(),
            prompt: self.prompt_ids(),
            response: drawn.iter().map(|(id, _)| *id).collect(),
            drawn: drawn.iter().enumerate().map(token).collect(),
            // The fake learner knows a token from another draw by this seed.
            seeded: match self.drawing {
                Drawing::OtherDraw => vec![SeededRun { first: 3, count: 1, seed: ANOTHER_DRAW }],
                _ => Vec::new(),
            },
        })
    }

    fn is_of_one_version(&self) -> bool {
        true
    }

    fn answers(&self) -> Vec<DrawnAnswer> {
        let answer = |number| DrawnAnswer { engine: "fake".to_owned(), tokens: self.drawn(number) };
        (0..SAMPLES).map(answer).collect()
    }
}

fn audit(mode: AuditMode, samples_ahead: bool) -> (Arc<SamplerAudit>, Arc<Mutex<Vec<Remark>>>) {
    let sampling = AuditedSampling {
        seed: 9,
        samples_ahead,
        first_update: GROUPS,
        group_size: SAMPLES,
        min_tokens: 0,
        distribution: SampledDistribution {
            temperature: 1.0,
            top_p: 1.0,
            top_k: 0,
            min_p: 0.0,
            end_token_ids: vec![VOCABULARY - 1],
        },
        arithmetic: LearnerArithmetic::default(),
    };
    sampling.arithmetic.set(ARITHMETIC);
    let proof = WeightsProof::new(
        ProofSettings { tolerance: Some(0.01), ..ProofSettings::default() },
        64,
        ProbeText::new(1, Vec::new(), VOCABULARY, |_| true),
        remarks().0,
    );
    let (sink, taken) = remarks();
    let settings = SamplerAuditSettings { mode, ..SamplerAuditSettings::default() };
    (SamplerAudit::new(settings, sampling, Arc::new(proof), sink), taken)
}

/// A whole step, whose groups complete in this order.
fn step(
    audit: &Arc<SamplerAudit>,
    step: u64,
    drawing: Drawing,
    order: impl Iterator<Item = u64>,
) -> Result<AuditReport, crate::fake::FakeError> {
    let learner = FakeLearner::default();
    let first = step * u64::from(GROUPS);
    let mut of_step = audit.step(step, first, true);
    for place in order {
        of_step.add(&FakeGroup { number: first + place, drawing })?;
    }
    assert!(of_step.is_ready());
    let scored = now(of_step.take_samples().expect("they are taken once").run(&learner))?;
    let report = of_step.finish(Some(scored))?;
    Ok(report.expect("the audit is on"))
}

fn run(audit: &Arc<SamplerAudit>, steps: u64, drawing: Drawing) -> Result<AuditReport, crate::fake::FakeError> {
    let mut last = AuditReport::default();
    for number in 1..=steps {
        last = step(audit, number, drawing, 0..u64::from(GROUPS))?;
    }
    Ok(last)
}

#[test]
fn an_honest_engine_is_not_accused() {
    let (audit, said) = audit(AuditMode::Stop, false);
    let report = run(&audit, 60, Drawing::Honest).unwrap();
    assert_eq!((report.sequences, report.missing, report.not_possible), (8, 0, 0));
    assert_eq!(report.tokens, 60.0 * 8.0 * TOKENS as f64);
    assert!(report.gap.is_some_and(|gap| gap < 1e-6), "{report:?}");
    assert!(report.evidence.iter().all(|(_, log)| *log < 3.0), "{report:?}");
    assert!(said.lock().unwrap().is_empty());
}

#[test]
fn another_temperature_is_found_within_a_few_steps() {
    for (temperature, words) in [(0.5, "its tokens are too likely"), (1.5, "its tokens are too unlikely")] {
        let error = run(&audit(AuditMode::Stop, false).0, 20, Drawing::Temperature(temperature)).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("of engine fake fail the audit of their temperature: log p + entropy"), "{error}");
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn one_bit_of_one_token_accuses_an_engine_that_computes_as_the_learner_does() {
    let error = run(&audit(AuditMode::Stop, false).0, 1, Drawing::OneBit).unwrap_err().to_string();
    assert!(
        error.starts_with("step 1: the samples of engine fake fail the audit of their log-probabilities"),
        "{error}"
    );
    assert!(error.contains("for token 5 of a response"), "{error}");
    // With older weights an engine may have keys and values of a version before.
    run(&audit(AuditMode::Stop, true).0, 4, Drawing::OneBit).unwrap();
    let (audit, said) = audit(AuditMode::Warn, false);
    run(&audit, 4, Drawing::OneBit).unwrap();
    assert_eq!(said.lock().unwrap().len(), 1, "{said:?}");
}

#[test]
fn so_does_a_token_that_its_seed_does_not_give() {
    let error = run(&audit(AuditMode::Stop, false).0, 1, Drawing::OtherDraw).unwrap_err().to_string();
    assert!(error.contains("fail the audit of their draws"), "{error}");
    assert!(error.contains("as token 3 of a response, where the seed that it was given"), "{error}");
}

#[test]
fn one_seed_for_a_whole_group_shows_without_any_scores() {
    let (audit, _) = audit(AuditMode::Stop, false);
    let mut of_step = audit.step(1, 4, true);
    let mut groups = 0..u64::from(GROUPS);
    let error = groups.find_map(|place| of_step.add(&FakeGroup { number: 4 + place, drawing: Drawing::OneSeed }).err());
    let error = error.expect("found").to_string();
    assert!(error.starts_with("step 1: the samples of engine fake fail the audit of their copies"), "{error}");
}

#[test]
fn where_a_failed_check_is_a_warning_it_is_said_once() {
    let (audit, said) = audit(AuditMode::Warn, false);
    let report = run(&audit, 12, Drawing::Temperature(0.5)).unwrap();
    assert!(report.evidence.iter().any(|(check, log)| *check == "temperature" && *log > 4.0), "{report:?}");
    let said = said.lock().unwrap();
    let about_temperature =
        said.iter().filter(|remark| matches!(remark, Remark::Warning(text) if text.contains("of their temperature")));
    assert_eq!(about_temperature.count(), 1, "{said:?}");
}

#[test]
fn what_is_counted_does_not_depend_on_which_group_is_complete_first() {
    let one = audit(AuditMode::Stop, false).0;
    let other = audit(AuditMode::Stop, false).0;
    for number in 1..=10 {
        let mut reports = [
            step(&one, number, Drawing::Honest, 0..u64::from(GROUPS)).unwrap(),
            step(&other, number, Drawing::Honest, (0..u64::from(GROUPS)).rev()).unwrap(),
        ];
        reports.iter_mut().for_each(|report| report.took = std::time::Duration::ZERO);
        assert_eq!(reports[0], reports[1]);
    }
}

#[test]
fn a_step_counts_once_also_where_a_run_returns_to_a_checkpoint() {
    let (audit, _) = audit(AuditMode::Stop, false);
    let counted = run(&audit, 2, Drawing::Honest).unwrap().tokens;
    assert_eq!(audit.schedule(), AuditSchedule { every: 1, first_update: GROUPS, from: 3 });
    let mut again = audit.step(2, 8, false);
    again.add(&FakeGroup { number: 8, drawing: Drawing::OneSeed }).unwrap();
    assert_eq!(again.finish(None).unwrap().unwrap().tokens, counted);
}

#[test]
fn samples_are_ready_once_their_groups_are_complete_and_at_once_where_none_are_chosen() {
    let (audit, _) = audit(AuditMode::Stop, false);
    assert!(audit.step(1, 4, false).is_ready());
    let mut of_step = audit.step(2, 8, true);
    assert!(!of_step.is_ready());
    for place in 0..u64::from(GROUPS) {
        of_step.add(&FakeGroup { number: 8 + place, drawing: Drawing::Honest }).unwrap();
    }
    assert!(of_step.is_ready() && of_step.take_samples().is_some() && of_step.take_samples().is_none());
}

#[test]
fn ahead_of_training_every_few_steps_are_scored() {
    let every = |ahead| audit(AuditMode::Stop, ahead).0.schedule().every;
    assert_eq!((every(false), every(true)), (1, SamplerAuditSettings::default().every));
}

#[test]
fn samples_that_cannot_be_scored_are_counted_and_said_once() {
    let (audit, said) = audit(AuditMode::Stop, false);
    let learner = FakeLearner { not_scored: Some("the folder is gone"), ..FakeLearner::default() };
    for number in 1..=2 {
        let mut of_step = audit.step(number, number * 4, true);
        for place in 0..u64::from(GROUPS) {
            of_step.add(&FakeGroup { number: number * 4 + place, drawing: Drawing::Honest }).unwrap();
        }
        let scored = now(of_step.take_samples().unwrap().run(&learner)).unwrap();
        let report = of_step.finish(Some(scored)).unwrap().unwrap();
        assert_eq!((report.sequences, report.not_possible), (0, 8));
    }
    let said = said.lock().unwrap();
    assert!(matches!(&said[..], [Remark::Warning(text)] if text.contains("version 4 cannot be scored")), "{said:?}");
}

#[test]
fn an_audit_that_is_off_says_nothing() {
    let (audit, _) = audit(AuditMode::Off, false);
    assert_eq!(audit.schedule().every, 0);
    let mut of_step = audit.step(1, 4, false);
    of_step.add(&FakeGroup { number: 4, drawing: Drawing::OneSeed }).unwrap();
    assert_eq!(of_step.finish(None).unwrap(), None);
}

#[test]
fn an_evaluation_is_of_the_learners_weights_or_its_engine_is_accused() {
    let look = |drawing, temperature| {
        let (audit, _) = audit(AuditMode::Stop, false);
        let answer = FakeGroup { number: 7, drawing }.sample(2).unwrap();
        let distribution =
            SampledDistribution { temperature, top_p: 1.0, top_k: 0, min_p: 0.0, end_token_ids: Vec::new() };
        now(audit.evaluation(3, &[(answer, distribution)], &FakeLearner::default())).map_err(|error| error.to_string())
    };
    assert_eq!(look(Drawing::Honest, 1.0), Ok(()));
    assert!(look(Drawing::OneBit, 1.0).unwrap_err().starts_with("step 3: the samples of engine fake"));
    assert!(look(Drawing::OtherDraw, 1.0).unwrap_err().contains("of their draws"));
    let error = look(Drawing::Honest, 0.0).unwrap_err();
    assert!(error.contains("th likeliest id as token") && error.contains("at temperature 0"), "{error}");
    // At temperature 0 nothing is truncated, whatever the settings say.
    assert_eq!(look(Drawing::OtherDraw, 0.0).unwrap_err(), look(Drawing::Honest, 0.0).unwrap_err());
    // An engine of other bits is not compared to the bit.
    assert_eq!(look(Drawing::Temperature(0.5), 1.0), Ok(()));
}
