//! Audits of whole steps: honest engines are not accused, whichever group completes first; lies are found and named.

use std::time::Duration;

use evenkeel_seeds::Stream;

use super::*;
use crate::fake::{ANOTHER_DRAW, FakeLearner, VOCABULARY, early_policy, now, policy, remarks};
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
    /// The first tokens are drawn without the end token, one of them with this many of the last bits changed.
    Early {
        bits: u32,
    },
}

/// Tokens before which an answer cannot end, where it has `Drawing::Early`.
const MIN_TOKENS: usize = 8;

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
            let policy = early_policy(&self.prompt_ids(), at, self.early());
            let drawn_from = match self.drawing {
                Drawing::Temperature(temperature) => policy.at_temperature(temperature),
                _ => policy.clone(),
            };
            let id = drawn_from.draw(uniforms.at(at as u64));
            (id as u32, policy.0[id].ln())
        };
        (0..TOKENS).map(draw).collect()
    }

    fn early(&self) -> usize {
        if matches!(self.drawing, Drawing::Early { .. }) { MIN_TOKENS } else { 0 }
    }

    fn prompt_ids(&self) -> Vec<u32> {
        vec![self.number as u32, 3, 5]
    }
}

impl AuditedGroup for FakeGroup {
    fn prompt(&self) -> u64 {
        self.number
    }

    fn sequences(&self, _number: u32) -> u32 {
        1
    }

    fn sample(&self, number: u32, _sequence: u32) -> Vec<AuditedSample> {
        let drawn = self.drawn(number);
        let token = |(at, &(_, log_p)): (usize, &(u32, f64))| {
            let bits = match self.drawing {
                Drawing::OneBit if at == 5 => 1,
                Drawing::Early { bits } if at == 5 => bits,
                _ => 0,
            };
            Some(DrawnToken { log_probability: f32::from_bits((log_p as f32).to_bits() + bits), version: 4 })
        };
        // A temperature is looked for by evidence.
        let arithmetic = if matches!(self.drawing, Drawing::Temperature(_)) { "another" } else { ARITHMETIC };
        vec![AuditedSample {
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
            early: self.early(),
        }]
    }

    fn is_of_one_version(&self) -> bool {
        true
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn answers(&self) -> Vec<DrawnAnswer> {
        let answer = |number| DrawnAnswer { engine: "fake".to_owned(), tokens: self.drawn(number) };
        (0..SAMPLES).map(answer).collect()
    }
}

/// A group of which one version has drawn only a part, so that nobody sees which of its answers are missing.
struct PartialGroup(FakeGroup);

impl AuditedGroup for PartialGroup {
    fn prompt(&self) -> u64 {
        self.0.prompt()
    }

    fn sequences(&self, number: u32) -> u32 {
        self.0.sequences(number)
    }

    fn sample(&self, number: u32, sequence: u32) -> Vec<AuditedSample> {
        self.0.sample(number, sequence)
    }

    fn is_of_one_version(&self) -> bool {
        false
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn answers(&self) -> Vec<DrawnAnswer> {
        self.0.answers()
    }
}

/// A group of episodes of two sequences each, of which the last could not be generated.
struct EpisodesGroup {
    number: u64,
    /// How the second sequences are drawn.
    later: Drawing,
}

impl AuditedGroup for EpisodesGroup {
    fn prompt(&self) -> u64 {
        self.number
    }

    fn sequences(&self, number: u32) -> u32 {
        if number + 1 < SAMPLES { 2 } else { 0 }
    }

    fn sample(&self, number: u32, sequence: u32) -> Vec<AuditedSample> {
        let drawing = if sequence == 0 { Drawing::Honest } else { self.later };
        let group = FakeGroup { number: self.number, drawing };
        if sequence < self.sequences(number) { group.sample(number, 0) } else { Vec::new() }
    }

    fn is_of_one_version(&self) -> bool {
        true
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn answers(&self) -> Vec<DrawnAnswer> {
        Vec::new()
    }
}

/// A group of answers of which the longer begin with a 1, with a chance of one half: short ones alone, or each second
/// one.
struct LengthsGroup {
    number: u64,
    has_short_alone: bool,
}

impl AuditedGroup for LengthsGroup {
    fn prompt(&self) -> u64 {
        self.number
    }

    fn sequences(&self, _number: u32) -> u32 {
        1
    }

    fn sample(&self, _number: u32, _sequence: u32) -> Vec<AuditedSample> {
        Vec::new()
    }

    fn is_of_one_version(&self) -> bool {
        true
    }

    fn is_whole(&self) -> bool {
        true
    }

    fn answers(&self) -> Vec<DrawnAnswer> {
        let token = |id| (id, 0.5_f64.ln());
        let answer = |number: u32| {
            let is_long = number == 1 || (number.is_multiple_of(2) && !self.has_short_alone);
            // Different ends, so that answers are no copies.
            let rest = (0..if is_long { 12 } else { 3 }).map(|at| (2 + number * 12 + at, 0.001_f64.ln()));
            let tokens = std::iter::once(token(u32::from(is_long))).chain(rest).collect();
            DrawnAnswer { engine: "fake".to_owned(), tokens }
        };
        (0..SAMPLES).map(answer).collect()
    }
}

/// Audits of all samples.
fn audit(mode: AuditMode, samples_ahead: bool) -> (Arc<SamplerAudit>, Arc<Mutex<Vec<Remark>>>) {
    let sequences = GROUPS * SAMPLES;
    audit_with(
        SamplerAuditSettings { mode, sequences, every: 1, nonce: Some(5), ..Default::default() },
        samples_ahead,
        false,
    )
}

fn audit_with(
    settings: SamplerAuditSettings,
    samples_ahead: bool,
    grows: bool,
) -> (Arc<SamplerAudit>, Arc<Mutex<Vec<Remark>>>) {
    audit_of(settings, AuditedSampling { samples_ahead, grows, ..sampling() })
}

fn sampling() -> AuditedSampling {
    let sampling = AuditedSampling {
        seed: 9,
        samples_ahead: false,
        groups: GROUPS,
        first_update: GROUPS,
        group_size: SAMPLES,
        grows: false,
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
    sampling
}

fn audit_of(settings: SamplerAuditSettings, sampling: AuditedSampling) -> (Arc<SamplerAudit>, Arc<Mutex<Vec<Remark>>>) {
    let proof = WeightsProof::new(
        ProofSettings { tolerance: Some(0.01), ..ProofSettings::default() },
        64,
        ProbeText::new(1, Vec::new(), VOCABULARY, |_| true),
        remarks().0,
    );
    let (sink, taken) = remarks();
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
    let report = run(&audit, 15, Drawing::Honest).unwrap();
    assert_eq!((report.sequences, report.missing, report.not_possible), (32, 0, 0));
    assert_eq!(report.tokens, 15.0 * 32.0 * TOKENS as f64);
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
    // Also ahead of training, by the weights that have drawn them.
    let error = run(&audit(AuditMode::Stop, true).0, 4, Drawing::OneBit).unwrap_err().to_string();
    assert!(error.contains("for token 5 of a response"), "{error}");
    let (audit, said) = audit(AuditMode::Warn, false);
    run(&audit, 4, Drawing::OneBit).unwrap();
    assert_eq!(said.lock().unwrap().len(), 1, "{said:?}");
}

#[test]
fn so_does_one_bit_of_a_token_that_was_drawn_without_the_end_token() {
    let audit = || {
        let settings = SamplerAuditSettings { sequences: GROUPS * SAMPLES, nonce: Some(5), ..Default::default() };
        audit_of(settings, AuditedSampling { min_tokens: MIN_TOKENS as u32, ..sampling() }).0
    };
    run(&audit(), 4, Drawing::Early { bits: 0 }).unwrap();
    let error = run(&audit(), 1, Drawing::Early { bits: 1 }).unwrap_err().to_string();
    assert!(error.contains("for token 5 of a response"), "{error}");
    // Where nobody knows how the first tokens were drawn, they are not compared.
    run(&audit(), 1, Drawing::OneBit).unwrap();
}

#[test]
fn tokens_that_others_put_into_a_response_do_not_count_for_its_least_tokens() {
    let group = FakeGroup { number: 3, drawing: Drawing::Honest };
    let mut sample = group.sample(0, 0).remove(0);
    sample.drawn[1..9].fill(None);
    let response = sample.response.iter().enumerate();
    let view: Vec<_> = response.map(|(at, &id)| policy(&sample.prompt, at).view(id as usize)).collect();
    let with_bit = |at: usize| {
        let mut sample = sample.clone();
        let token = sample.drawn[at].as_mut().unwrap();
        token.log_probability = f32::from_bits(token.log_probability.to_bits() + 1);
        sample.difference(4, 8, &view).is_some()
    };
    // Before the token 15 a version has drawn seven, before the next one eight.
    assert_eq!([0, 10, 15, 16, 20].map(with_bit), [false, false, false, true, true]);
    let tokens = sample.tokens(4, 8, &view, &sampling().distribution, &mut || 0.5);
    assert_eq!(tokens.len(), TOKENS - 16);
}

#[test]
fn so_does_a_token_that_its_seed_does_not_give() {
    let error = run(&audit(AuditMode::Stop, false).0, 1, Drawing::OtherDraw).unwrap_err().to_string();
    assert!(error.contains("fail the audit of their draws"), "{error}");
    assert!(error.contains("as token 3 of a response, where the seed that it was given"), "{error}");
}

#[test]
fn the_time_that_the_learner_computes_is_not_waiting_and_the_rest_of_a_call_is() {
    let report = |computing| {
        let (audit, _) = audit(AuditMode::Stop, false);
        let mut of_step = audit.step(1, 4, true);
        for place in 0..u64::from(GROUPS) {
            of_step.add(&FakeGroup { number: 4 + place, drawing: Drawing::Honest }).unwrap();
        }
        let learner = FakeLearner { computing, ..FakeLearner::default() };
        let scored = now(of_step.take_samples().unwrap().run(&learner)).unwrap();
        of_step.finish(Some(scored)).unwrap().unwrap()
    };
    let hour = Duration::from_secs(3600);
    assert_eq!((report(hour).computing, report(hour).waiting), (hour, Duration::ZERO));
    let none = report(Duration::ZERO);
    assert!(none.computing == Duration::ZERO && none.waiting > Duration::ZERO);
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
fn short_answers_alone_are_found_when_their_step_ends_unless_groups_are_partial() {
    let run = |has_short_alone, is_partial| {
        let (audit, _) = audit(AuditMode::Stop, false);
        (1..200).find_map(|number| {
            let mut of_step = audit.step(number, 4 * number, false);
            if is_partial && number == 1 {
                of_step.add(&PartialGroup(FakeGroup { number: 4, drawing: Drawing::Honest })).unwrap();
            }
            for place in 1..u64::from(GROUPS) {
                let group = LengthsGroup { number: 4 * number + place, has_short_alone };
                of_step.add(&group).expect("groups that are complete early are no fair choice");
            }
            of_step.finish(None).err()
        })
    };
    let fault = run(true, false).expect("found");
    assert_eq!(fault.check, "answers");
    assert_eq!(run(false, false), None);
    assert_eq!(run(true, true), None);
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
        reports.iter_mut().for_each(|report| report.waiting = Duration::ZERO);
        assert_eq!(reports[0], reports[1]);
    }
}

#[test]
fn a_step_counts_once_also_where_a_run_returns_to_a_checkpoint() {
    let (audit, _) = audit(AuditMode::Stop, false);
    let counted = run(&audit, 2, Drawing::Honest).unwrap().tokens;
    assert_eq!(audit.schedule(), AuditSchedule { is_on: true, first_update: GROUPS, from: 3 });
    let mut again = audit.step(2, 8, false);
    again.add(&FakeGroup { number: 8, drawing: Drawing::OneSeed }).unwrap();
    assert_eq!(again.finish(None).unwrap().unwrap().tokens, counted);
}

#[test]
fn a_step_that_was_interrupted_before_its_audit_ended_is_audited_when_it_is_repeated() {
    let (audit, _) = audit(AuditMode::Stop, false);
    run(&audit, 2, Drawing::Honest).unwrap();
    drop(audit.step(3, 12, true));
    assert_eq!(audit.schedule().from, 3);
    assert!(step(&audit, 3, Drawing::OneSeed, 0..u64::from(GROUPS)).is_err());
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
fn ahead_of_training_a_step_in_so_many_is_scored_and_nobody_can_foretell_which() {
    let scored = |samples_ahead| {
        let (audit, _) = audit_with(SamplerAuditSettings::default(), samples_ahead, false);
        (1..401).filter(|&step| !audit.step(step, 4 * step, true).is_ready()).collect::<Vec<_>>()
    };
    let some = scored(true);
    // 100 expected, with a standard deviation of 9.
    assert!((50..150).contains(&some.len()), "{some:?}");
    assert_ne!(some, scored(true));
    // Of 8 samples on average there is none once in 10,000 steps.
    assert!(scored(false).len() >= 397);
}

#[test]
fn prompts_that_are_tried_in_place_of_others_are_audited_like_the_rest() {
    let settings = SamplerAuditSettings { sequences: GROUPS * SAMPLES, nonce: Some(5), ..Default::default() };
    let (audit, _) = audit_with(settings, false, true);
    let mut of_step = audit.step(1, 4, true);
    for place in [0, 1, 2, 3, 9] {
        of_step.add(&FakeGroup { number: 4 + place, drawing: Drawing::Honest }).unwrap();
        assert!(!of_step.is_ready(), "there may be more");
    }
    let scored = now(of_step.take_samples().unwrap().run(&FakeLearner::default())).unwrap();
    assert_eq!(of_step.finish(Some(scored)).unwrap().unwrap().sequences, 5 * u64::from(SAMPLES));
}

#[test]
fn a_lie_in_a_later_mini_batch_is_found_though_its_update_is_not_the_first() {
    let settings = SamplerAuditSettings { sequences: GROUPS * SAMPLES, nonce: Some(5), ..Default::default() };
    let (audit, _) = audit_of(settings, AuditedSampling { first_update: 1, ..sampling() });
    assert_eq!(audit.schedule().first_update, 1, "the group that waits for what is found here");
    let mut of_step = audit.step(1, 4, true);
    for place in 0..u64::from(GROUPS) {
        let is_last = place + 1 == u64::from(GROUPS);
        let drawing = if is_last { Drawing::OneBit } else { Drawing::Honest };
        of_step.add(&FakeGroup { number: 4 + place, drawing }).unwrap();
    }
    let error = now(of_step.take_samples().unwrap().run(&FakeLearner::default())).unwrap_err().to_string();
    assert!(error.starts_with("step 1: ") && error.contains("for token 5 of a response"), "{error}");
}

#[test]
fn later_sequences_of_episodes_are_audited_and_those_that_could_not_be_generated_are_counted() {
    let look = |later| {
        let (audit, _) = audit(AuditMode::Stop, false);
        let mut of_step = audit.step(1, 4, true);
        for place in 0..u64::from(GROUPS) {
            of_step.add(&EpisodesGroup { number: 4 + place, later }).unwrap();
        }
        let scored = now(of_step.take_samples().unwrap().run(&FakeLearner::default()));
        scored.map(|scored| of_step.finish(Some(scored)).unwrap().unwrap()).map_err(|error| error.to_string())
    };
    let report = look(Drawing::Honest).unwrap();
    assert_eq!((report.sequences, report.missing), (u64::from(2 * GROUPS * (SAMPLES - 1)), u64::from(GROUPS)));
    let error = look(Drawing::OneBit).unwrap_err();
    assert!(error.contains("for token 5 of a response"), "{error}");
}

#[test]
fn each_step_draws_a_nonce_of_its_own_which_is_told_when_it_is_over() {
    let (audit, _) = audit_with(SamplerAuditSettings::default(), false, false);
    let nonce = |step| audit.step(step, 4, true).finish(None).unwrap().unwrap().nonce.unwrap();
    let nonces = [nonce(1), nonce(2), nonce(3)];
    assert!(nonces[0] != nonces[1] && nonces[1] != nonces[2], "{nonces:?}");
}

#[test]
fn answers_of_an_evaluation_are_each_chosen_by_a_secret_number() {
    let (secret, _) = audit_with(SamplerAuditSettings::default(), false, false);
    let chosen = || {
        let mut choice = secret.answers(3);
        choice.among(400);
        let all = (0..100).flat_map(|problem| (0..4).map(move |answer| (problem, answer)));
        all.filter(|(problem, answer)| choice.takes(*problem, *answer, 0)).collect::<Vec<_>>()
    };
    let several: Vec<_> = (0..100).map(|_| chosen()).collect();
    // 16 of 400 are expected each time, with a standard deviation of 40 in all.
    let count: usize = several.iter().map(Vec::len).sum();
    assert!((1400..1800).contains(&count), "{count}");
    assert_ne!(several[0], several[1]);
    let (fixed, _) = audit(AuditMode::Stop, false);
    let mut choice = fixed.answers(3);
    choice.among(16);
    assert!((0..16).all(|problem| choice.takes(problem, 0, 0)), "all where there are fewer");
    assert!(!AnswerChoice::default().takes(0, 0, 0));
}

#[test]
fn every_sequence_of_an_evaluated_episode_may_be_chosen_and_those_that_could_not_be_generated_are_counted() {
    let look = |later| {
        let (audit, _) = audit_with(SamplerAuditSettings::default(), false, false);
        let mut choice = audit.answers(3);
        choice.among(1);
        let answers = choice.take(&EpisodesGroup { number: 7, later }, SAMPLES);
        let distribution = SampledDistribution { end_token_ids: Vec::new(), ..sampling().distribution };
        let answers: Vec<_> = answers.into_iter().map(|answer| (answer, distribution.clone())).collect();
        now(audit.evaluation(3, &choice, &answers, &FakeLearner::default())).map_err(|error| error.to_string())
    };
    let report = look(Drawing::Honest).unwrap();
    // All sequences are chosen, and the last episode has none.
    assert_eq!((report.audited, report.not_possible), (u64::from(2 * (SAMPLES - 1)), 1));
    assert!(!report.is_verified());
    assert!(look(Drawing::OneBit).unwrap_err().contains("for token 5 of a response"));
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
        assert_eq!((report.sequences, report.not_possible), (0, 32));
    }
    let said = said.lock().unwrap();
    assert!(matches!(&said[..], [Remark::Warning(text)] if text.contains("version 4 cannot be scored")), "{said:?}");
}

#[test]
fn an_audit_that_is_off_says_nothing() {
    let (audit, _) = audit(AuditMode::Off, false);
    assert!(!audit.schedule().is_on);
    let mut of_step = audit.step(1, 4, false);
    of_step.add(&FakeGroup { number: 4, drawing: Drawing::OneSeed }).unwrap();
    assert_eq!(of_step.finish(None).unwrap(), None);
}

/// The audit of an evaluation whose only problem has this answer.
fn evaluation(
    audit: &Arc<SamplerAudit>,
    step: u64,
    answers: Vec<AuditedSample>,
    temperature: f32,
) -> Result<EvaluationReport, String> {
    let distribution = SampledDistribution { temperature, top_p: 1.0, top_k: 0, min_p: 0.0, end_token_ids: Vec::new() };
    let answers: Vec<_> = answers.into_iter().map(|answer| (answer, distribution.clone())).collect();
    let learner = FakeLearner::default();
    let choice = audit.answers(step);
    now(audit.evaluation(step, &choice, &answers, &learner)).map_err(|error| error.to_string())
}

#[test]
fn an_evaluation_is_of_the_learners_weights_or_its_engine_is_accused() {
    let look = |drawing, temperature| {
        let (audit, _) = audit(AuditMode::Stop, false);
        let answer = FakeGroup { number: 7, drawing }.sample(2, 0).remove(0);
        evaluation(&audit, 3, vec![answer], temperature).map(|report| report.audited)
    };
    assert_eq!(look(Drawing::Honest, 1.0), Ok(1));
    assert!(look(Drawing::OneBit, 1.0).unwrap_err().starts_with("step 3: the samples of engine fake"));
    assert!(look(Drawing::OtherDraw, 1.0).unwrap_err().contains("of their draws"));
    let error = look(Drawing::Honest, 0.0).unwrap_err();
    assert!(error.contains("th likeliest id as token") && error.contains("at temperature 0"), "{error}");
    // At temperature 0 nothing is truncated, whatever the settings say.
    assert_eq!(look(Drawing::OtherDraw, 0.0).unwrap_err(), look(Drawing::Honest, 0.0).unwrap_err());
    // An engine of other bits is not compared to the bit.
    assert_eq!(look(Drawing::Temperature(0.5), 1.0), Ok(1));
}

/// An answer of an engine that names no arithmetic, made of the likeliest tokens or of these.
fn unnamed(number: u64, likeliest: bool) -> AuditedSample {
    let group = FakeGroup { number, drawing: Drawing::Honest };
    let mut answer = AuditedSample { arithmetic: String::new(), ..group.sample(1, 0).remove(0) };
    for (at, (id, drawn)) in answer.response.iter_mut().zip(&mut answer.drawn).enumerate().filter(|_| likeliest) {
        let policy = policy(&group.prompt_ids(), at);
        let best = (0..policy.0.len()).max_by(|one, other| policy.0[*one].total_cmp(&policy.0[*other])).unwrap();
        *id = best as u32;
        *drawn = Some(DrawnToken { log_probability: policy.0[best].ln() as f32, version: 4 });
    }
    answer
}

#[test]
fn answers_at_temperature_0_of_another_engine_must_be_the_likeliest_ones() {
    let (honest, _) = audit_with(SamplerAuditSettings::default(), false, false);
    for step in 0..20 {
        let answers = (0..8).map(|number| unnamed(8 * step + number, true)).collect();
        let report = evaluation(&honest, step, answers, 0.0).unwrap();
        assert!(report.is_verified() && report.audited == 8, "{report:?}");
    }
    let (lying, _) = audit_with(SamplerAuditSettings::default(), false, false);
    let made_up =
        |step| evaluation(&lying, step, (0..8).map(|number| unnamed(8 * step + number, false)).collect(), 0.0);
    let error = (0..2).find_map(|step| made_up(step).err()).expect("found in the second evaluation");
    assert!(error.contains("at temperature 0 have a token that is not the likeliest"), "{error}");
}

#[test]
fn noise_at_a_low_temperature_is_larger_by_as_much() {
    let accused = |temperature: f32| {
        let (audit, _) = audit_with(SamplerAuditSettings::default(), false, false);
        (0..20).any(|step| {
            let noisy = |number| {
                let group = FakeGroup { number, drawing: Drawing::Honest };
                let mut answer = AuditedSample { arithmetic: String::new(), ..group.sample(1, 0).remove(0) };
                for (at, (id, drawn)) in answer.response.iter().zip(&mut answer.drawn).enumerate() {
                    let policy = policy(&group.prompt_ids(), at);
                    let log_p = policy.at_temperature(f64::from(temperature)).0[*id as usize].ln();
                    let noise = if at % 2 == 0 { 2e-3 } else { -2e-3 };
                    *drawn = Some(DrawnToken { log_probability: (log_p + noise) as f32, version: 4 });
                }
                answer
            };
            evaluation(&audit, step, (0..8).map(|number| noisy(8 * step + number)).collect(), temperature)
                .is_err_and(|error| error.contains("log-probabilities"))
        })
    };
    assert!(accused(1.0));
    assert!(!accused(0.3));
}

#[test]
fn an_evaluation_counts_once_and_is_verified_only_where_answers_were_looked_at_in_secret() {
    let (audit, _) = audit_with(SamplerAuditSettings::default(), false, false);
    assert!(!evaluation(&audit, 1, Vec::new(), 0.0).unwrap().is_verified());
    for _ in 0..50 {
        // Its engine gives the same answers again, which are no more evidence than the first.
        evaluation(&audit, 1, vec![unnamed(3, false)], 0.0).unwrap();
    }
    let (foretold, _) = audit_with(SamplerAuditSettings { nonce: Some(5), ..Default::default() }, false, false);
    let report = evaluation(&foretold, 1, vec![unnamed(3, true)], 0.0).unwrap();
    assert!(report.audited == 1 && !report.is_verified(), "{report:?}");
}

#[test]
fn an_engine_that_says_that_it_computes_in_f32_is_no_further_off() {
    let answer = |off: f32| {
        let mut answer = AuditedSample { arithmetic: "another".to_owned(), ..unnamed(3, true) };
        answer.drawn.iter_mut().flatten().for_each(|drawn| drawn.log_probability += off);
        vec![answer]
    };
    for samples_ahead in [false, true] {
        let (audit, _) = audit_with(SamplerAuditSettings::default(), samples_ahead, false);
        assert!(evaluation(&audit, 1, answer(1e-5), 1.0).unwrap().is_verified());
        let error = evaluation(&audit, 2, answer(1e-3), 1.0).unwrap_err();
        assert!(error.contains("it says that it computes in f32 (another)"), "{error}");
    }
    // A learner in a narrower type is as far from it.
    let narrow = AuditedSampling { arithmetic: LearnerArithmetic::default(), ..sampling() };
    let (audit, _) = audit_of(SamplerAuditSettings::default(), narrow);
    assert!(evaluation(&audit, 1, answer(1e-3), 1.0).unwrap().is_verified());
}
