//! Lines that are whole, and lines from which something was taken or to which something was added.

use evenkeel_run::{Labelled, Received};
use proptest::prelude::*;

use super::*;

/// A group of that outcome with answers of some lengths.
fn group(prompt: u64, outcome: PromptOutcome, base: u64, lag: u64) -> GroupRecord {
    let judged = !matches!(outcome, PromptOutcome::Invalid | PromptOutcome::DroppedInvalid);
    GroupRecord {
        prompt,
        outcome: outcome.into(),
        version: Some(base - lag.min(base)),
        newest: None,
        lengths: if judged { vec![prompt as u32 % 7 + 1, 9] } else { Vec::new() },
        invalid: if judged { Vec::new() } else { vec![0, 5] },
    }
}

fn line(step: u64, next: u64, groups: Vec<GroupRecord>) -> PromptLine {
    let sent: Vec<&GroupRecord> = groups.iter().filter(|group| group.is_sent()).collect();
    let samples = sent.iter().map(|group| group.lengths.len() as u64).sum();
    let tokens = sent.iter().flat_map(|group| group.lengths.iter().chain(&group.invalid));
    let tokens = tokens.map(|&length| u64::from(length.max(1))).sum();
    PromptLine {
        step,
        base_version: step - 1,
        next,
        waiting: Vec::new(),
        learner: Received { samples, tokens },
        groups,
    }
}

/// A run whose steps take these outcomes in data order; within a step what was trained on comes first.
fn run(steps: &[Vec<PromptOutcome>], lag: u64) -> Vec<PromptLine> {
    let mut next = 0;
    let step = |(step, outcomes): (u64, &Vec<PromptOutcome>)| {
        let numbered = outcomes.iter().zip(next..);
        let mut groups: Vec<GroupRecord> =
            numbered.map(|(outcome, number)| group(number, *outcome, step, lag)).collect();
        next += outcomes.len() as u64;
        groups.sort_by_key(|group| !group.is_sent());
        line(step + 1, next, groups)
    };
    (0..).zip(steps).map(step).collect()
}

fn audit(lines: &[PromptLine]) -> Audit {
    Audit::of(lines, lines.len() as u64)
}

fn runs() -> impl Strategy<Value = (Vec<PromptLine>, u64)> {
    let outcomes = prop::collection::vec(prop::sample::select(PromptOutcome::ALL.to_vec()), 1..9);
    (prop::collection::vec(outcomes, 1..9), 0..3_u64).prop_map(|(steps, lag)| (run(&steps, lag), lag))
}

#[test]
fn a_run_that_filters_nothing_trains_on_what_it_samples() {
    let found = audit(&run(
        &[vec![PromptOutcome::Trained; 3], vec![PromptOutcome::Trained, PromptOutcome::TrainedZeroAdvantage]],
        0,
    ));
    assert!(found.is_clean(), "{:?}", found.faults());
    assert_eq!(
        found.sentence(),
        "each of the first 5 prompts of the data order was used exactly once: 5 sent to the learner (1 of them \
         without an advantage), 0 filtered for lack of an advantage, 0 invalid; all 10 sampled answers were sent to \
         the learner"
    );
    let [of_lag] = found.lengths() else { panic!("{found:?}") };
    assert_eq!((of_lag.lag, of_lag.sampled), (0, of_lag.trained));
}

#[test]
fn what_is_filtered_or_invalid_is_counted_and_its_answers_are_among_the_sampled() {
    let found = audit(&run(
        &[vec![
            PromptOutcome::Trained,
            PromptOutcome::DroppedZeroAdvantage,
            PromptOutcome::Invalid,
            PromptOutcome::DroppedInvalid,
        ]],
        0,
    ));
    assert!(found.is_clean(), "{:?}", found.faults());
    assert!(found.sentence().contains("1 sent to the learner, 1 filtered for lack of an advantage, 2 invalid"));
    // Two of the two groups with verdicts, and one of each of the others: their second sample was not generated.
    assert!(found.sentence().ends_with("2 of the 6 sampled answers were sent to the learner"), "{}", found.sentence());
}

#[test]
fn nothing_is_clean_and_steps_without_lines_are_not() {
    assert!(audit(&[]).is_clean());
    assert_eq!(audit(&[]).sentence(), "no prompt was sampled for a step yet");
    assert_eq!(Audit::of(&[], 2).faults(), ["steps 1 to 2 have no line"]);
}

#[test]
fn prompts_that_wait_are_not_missing_unless_they_are_in_a_step_as_well() {
    let mut lines = run(&[vec![PromptOutcome::Trained; 4]], 0);
    lines[0].groups.remove(1);
    lines[0] = PromptLine { waiting: vec![1, 4], ..line(1, 5, lines[0].groups.clone()) };
    let found = audit(&lines);
    assert!(found.is_clean(), "{:?}", found.faults());
    assert!(found.sentence().contains("each of the first 3 prompts") && found.sentence().contains("2 more are still"));
    lines[0].waiting.push(2);
    assert_eq!(audit(&lines).faults(), ["prompt 2 is in step 1 and still being sampled"]);
}

#[test]
fn answers_of_versions_that_cannot_be_and_other_counts_than_the_learners_are_faults() {
    let mut lines = run(&[vec![PromptOutcome::Trained; 2], vec![PromptOutcome::Trained; 2]], 0);
    lines[1].groups[0].newest = Some(2);
    lines[1].learner.tokens += 1;
    let found = audit(&lines);
    assert_eq!(found.faults()[0], "prompt 2 of step 2 was sampled by versions 1 to 2, the step began with 1");
    assert!(found.faults()[1].starts_with("step 2 sent 4 valid samples and"), "{:?}", found.faults());
}

#[test]
fn many_faults_are_counted_and_the_first_are_told() {
    let mut lines = run(&[vec![PromptOutcome::Trained; 50]], 0);
    lines[0].groups.iter_mut().for_each(|group| group.outcome = Labelled::Unknown("lost".to_owned()));
    let found = audit(&lines);
    assert_eq!(found.faults().len(), MAX_REPORTED);
    assert!(found.sentence().ends_with("(and 50 more)"), "{}", found.sentence());
}

proptest! {
    #[test]
    fn whole_runs_are_clean_at_any_lag((lines, lag) in runs()) {
        let found = audit(&lines);
        prop_assert!(found.is_clean(), "{:?}", found.faults());
        let counted: u64 = found.outcomes().map(|(_, count)| count).sum();
        prop_assert_eq!(counted, lines.last().unwrap().next);
        prop_assert!(found.lengths().iter().all(|of_lag| of_lag.lag <= lag));
    }

    #[test]
    fn a_prompt_that_is_missing_is_found_and_named((mut lines, _) in runs(), at: prop::sample::Index) {
        let (step, place) = pick(&lines, at);
        let gone = lines[step].groups.remove(place).prompt;
        lines[step] = line(lines[step].step, lines[step].next, lines[step].groups.clone());
        let found = audit(&lines);
        prop_assert_eq!(found.faults(), [format!("prompt {gone} is in no step")]);
    }

    #[test]
    fn a_prompt_that_is_there_twice_is_found_and_named(
        (mut lines, _) in runs(),
        at: prop::sample::Index,
        to: prop::sample::Index,
    ) {
        let (step, place) = pick(&lines, at);
        let twice = lines[step].groups[place].clone();
        let to = to.index(lines.len());
        // As old as the step that it is put into.
        let twice = GroupRecord { version: Some(0), ..twice };
        lines[to].groups.push(twice.clone());
        lines[to] = line(lines[to].step, lines[to].next, lines[to].groups.clone());
        let found = audit(&lines);
        let prompt = twice.prompt;
        let wanted = match step.cmp(&to) {
            std::cmp::Ordering::Equal => format!("prompt {prompt} is in step {} twice", step + 1),
            _ => format!("prompt {prompt} is in step {} and in step {}", step.min(to) + 1, step.max(to) + 1),
        };
        prop_assert_eq!(found.faults(), [wanted]);
    }

    #[test]
    fn an_unknown_outcome_is_found_and_named((mut lines, _) in runs(), at: prop::sample::Index) {
        let (step, place) = pick(&lines, at);
        lines[step].groups[place].outcome = Labelled::Unknown("lost".to_owned());
        lines[step] = line(lines[step].step, lines[step].next, lines[step].groups.clone());
        let prompt = lines[step].groups[place].prompt;
        let found = audit(&lines);
        prop_assert_eq!(found.faults().len(), 1);
        let start = format!("the outcome of prompt {prompt} of step {} is \"lost\", allowed: trained,", step + 1);
        prop_assert!(found.faults()[0].starts_with(&start), "{:?}", found.faults());
    }

    #[test]
    fn a_step_without_a_line_is_found_and_named((mut lines, _) in runs(), at: prop::sample::Index) {
        let steps = lines.len() as u64;
        let gone = lines.remove(at.index(lines.len()));
        let found = Audit::of(&lines, steps);
        let reported = format!("step {} has no line", gone.step);
        prop_assert!(found.faults().contains(&reported), "{:?}", found.faults());
    }
}

/// The place of one of all groups.
fn pick(lines: &[PromptLine], at: prop::sample::Index) -> (usize, usize) {
    let places: Vec<(usize, usize)> = lines
        .iter()
        .enumerate()
        .flat_map(|(step, line)| (0..line.groups.len()).map(move |place| (step, place)))
        .collect();
    places[at.index(places.len())]
}
