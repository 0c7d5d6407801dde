//! From the lines of a run to what is wrong with them.

use std::collections::BTreeMap;
use std::fmt::Write;

use evenkeel_proto::Label;
use evenkeel_run::{GroupRecord, PromptLine, PromptOutcome};

use super::lengths::{LagLengths, LengthsByLag, OvertakenLengths};

/// Faults that are reported one by one.
const MAX_REPORTED: usize = 20;

/// What the lines of `prompts.jsonl` show.
#[derive(Debug, Clone, PartialEq)]
pub struct Audit {
    steps: u64,
    prompts: u64,
    waiting: u64,
    outcomes: BTreeMap<PromptOutcome, u64>,
    lengths: Vec<LagLengths>,
    overtaken: Option<OvertakenLengths>,
    faults: Faults,
}

/// What is wrong, up to a number of sentences.
#[derive(Debug, Clone, Default, PartialEq)]
struct Faults {
    reported: Vec<String>,
    count: u64,
}

impl Faults {
    fn add(&mut self, fault: String) {
        self.count += 1;
        if self.reported.len() < MAX_REPORTED {
            self.reported.push(fault);
        }
    }
}

impl Audit {
    /// Audits the lines of a run, in their order, which has done `steps` GRPO steps.
    pub fn of(lines: &[PromptLine], steps: u64) -> Self {
        let mut faults = Faults::default();
        let mut outcomes = BTreeMap::new();
        let mut lengths = LengthsByLag::default();
        check_steps(lines, steps, &mut faults);
        let mut seen: Vec<(u64, u64)> = Vec::new();
        for line in lines {
            let mut sent = (0, 0);
            for group in &line.groups {
                seen.push((group.prompt, line.step));
                let Some(outcome) = group.outcome.known() else {
                    faults.add(unknown_outcome(line, group));
                    continue;
                };
                *outcomes.entry(outcome).or_default() += 1;
                if outcome.is_sent() {
                    sent.0 += group.lengths.len() as u64;
                    // A sample that was not generated is sent as one token.
                    let tokens = group.lengths.iter().copied().chain(group.invalid.iter().map(|&length| length.max(1)));
                    sent.1 += tokens.map(u64::from).sum::<u64>();
                }
                if let Some(lag) = lag(line, group, &mut faults) {
                    lengths.add(lag, &group.lengths, outcome.is_sent(), &group.invalid);
                }
            }
            check_received(line, sent, &mut faults);
        }
        let waiting = lines.last().map_or(&[][..], |line| &line.waiting);
        let prompts = lines.last().map_or(0, |line| line.next);
        check_prompts(seen, waiting, prompts, &mut faults);
        Self {
            steps: lines.len() as u64,
            prompts,
            waiting: waiting.len() as u64,
            outcomes,
            lengths: lengths.finish(),
            overtaken: OvertakenLengths::of(lines),
            faults,
        }
    }

    /// Whether nothing is missing, doubled or otherwise wrong.
    pub fn is_clean(&self) -> bool {
        self.faults.count == 0
    }

    /// What is wrong, a sentence each; the first twenty.
    pub fn faults(&self) -> &[String] {
        &self.faults.reported
    }

    /// How many prompts had each outcome that occurs.
    pub fn outcomes(&self) -> impl Iterator<Item = (PromptOutcome, u64)> {
        self.outcomes.iter().map(|(outcome, count)| (*outcome, *count))
    }

    /// Lengths of answers for each lag that occurs, ascending.
    pub fn lengths(&self) -> &[LagLengths] {
        &self.lengths
    }

    /// Lengths of what steps took and of what they left for later ones. `None` where steps were filled in data order.
    pub fn overtaken(&self) -> Option<&OvertakenLengths> {
        self.overtaken.as_ref()
    }

    /// The result in a sentence.
    pub fn sentence(&self) -> String {
        if !self.is_clean() {
            let Faults { reported, count } = &self.faults;
            let first = reported.first().map_or("", String::as_str);
            let more = if *count > 1 { format!(" (and {} more)", count - 1) } else { String::new() };
            return format!("the record of prompts has faults: {first}{more}");
        }
        if self.steps == 0 {
            return "no prompt was sampled for a step yet".to_owned();
        }
        let count =
            |outcomes: &[PromptOutcome]| outcomes.iter().filter_map(|outcome| self.outcomes.get(outcome)).sum::<u64>();
        let without = match count(&[PromptOutcome::TrainedZeroAdvantage]) {
            0 => String::new(),
            groups => format!(" ({groups} of them without an advantage)"),
        };
        let mut text = format!(
            "each of the first {} prompts of the data order was used exactly once: {} sent to the learner{}, {} \
             filtered for lack of an advantage, {} invalid",
            self.prompts - self.waiting,
            count(&[PromptOutcome::Trained, PromptOutcome::TrainedZeroAdvantage]),
            without,
            count(&[PromptOutcome::DroppedZeroAdvantage]),
            count(&[PromptOutcome::Invalid, PromptOutcome::DroppedInvalid]),
        );
        if self.waiting > 0 {
            let _ = write!(text, "; {} more are still being sampled", self.waiting);
        }
        let answers = |of: fn(&LagLengths) -> Option<super::Lengths>| -> u64 {
            self.lengths.iter().filter_map(of).map(|lengths| lengths.answers).sum()
        };
        let sampled = answers(|of| of.sampled);
        let trained = answers(|of| of.trained);
        let _ = if trained == sampled {
            write!(text, "; all {sampled} sampled answers were sent to the learner")
        } else {
            write!(text, "; {trained} of the {sampled} sampled answers were sent to the learner")
        };
        if let Some(OvertakenLengths { taken, left }) = &self.overtaken {
            let _ = write!(
                text,
                "; in order of completion, steps took answers of {:.1} tokens on average and left answers of {:.1} for \
                later steps",
                taken.mean, left.mean
            );
        }
        text
    }
}

/// Each step must have one line, in order.
fn check_steps(lines: &[PromptLine], steps: u64, faults: &mut Faults) {
    let mut expected = 1;
    for line in lines {
        match line.step {
            step if step < expected => {
                faults.add(format!("step {step} has a line after that of step {}", expected - 1))
            }
            step => {
                missing("step", expected, step, "has no line", "have no line", faults);
                expected = step + 1;
            }
        }
    }
    missing("step", expected, steps + 1, "has no line", "have no line", faults);
}

/// Each number below `prompts` must be seen once, or wait.
fn check_prompts(mut seen: Vec<(u64, u64)>, waiting: &[u64], prompts: u64, faults: &mut Faults) {
    seen.sort_unstable();
    for pair in seen.windows(2) {
        if let [(first, before), (second, after)] = *pair
            && first == second
        {
            faults.add(if before == after {
                format!("prompt {first} is in step {before} twice")
            } else {
                format!("prompt {first} is in step {before} and in step {after}")
            });
        }
    }
    for number in waiting {
        if let Ok(at) = seen.binary_search_by_key(number, |(prompt, _)| *prompt) {
            faults.add(format!("prompt {number} is in step {} and still being sampled", seen[at].1));
        }
    }
    for (prompt, step) in &seen {
        if *prompt >= prompts {
            faults
                .add(format!("prompt {prompt} of step {step} is beyond the data order so far, which is at {prompts}"));
        }
    }
    let mut numbers: Vec<u64> = seen.into_iter().map(|(prompt, _)| prompt).chain(waiting.iter().copied()).collect();
    numbers.sort_unstable();
    let mut expected = 0;
    for number in numbers {
        missing("prompt", expected, number.min(prompts), "is in no step", "are in no step", faults);
        expected = expected.max(number.saturating_add(1));
    }
    missing("prompt", expected, prompts, "is in no step", "are in no step", faults);
}

/// Tells of numbers from `from` to before `to`, if there are any.
fn missing(what: &str, from: u64, to: u64, one: &str, several: &str, faults: &mut Faults) {
    match to.saturating_sub(from) {
        0 => {}
        1 => faults.add(format!("{what} {from} {one}")),
        _ => faults.add(format!("{what}s {from} to {} {several}", to - 1)),
    }
}

/// What was sent must be what the learner counted.
fn check_received(line: &PromptLine, (samples, tokens): (u64, u64), faults: &mut Faults) {
    let received = line.learner;
    if (samples, tokens) != (received.samples, received.tokens) {
        faults.add(format!(
            "step {} sent {samples} valid samples and {tokens} tokens, of which the learner counted {} and {}",
            line.step, received.samples, received.tokens
        ));
    }
}

/// How far a group is behind its step; `None` where nothing was generated or the versions cannot be.
fn lag(line: &PromptLine, group: &GroupRecord, faults: &mut Faults) -> Option<u64> {
    let oldest = group.version?;
    let newest = group.newest.unwrap_or(oldest);
    if newest > line.base_version || newest < oldest {
        faults.add(format!(
            "prompt {} of step {} was sampled by versions {oldest} to {newest}, the step began with {}",
            group.prompt, line.step, line.base_version
        ));
        return None;
    }
    Some(line.base_version - oldest)
}

fn unknown_outcome(line: &PromptLine, group: &GroupRecord) -> String {
    let allowed: Vec<_> = PromptOutcome::ALL.iter().map(|outcome| outcome.label()).collect();
    let GroupRecord { prompt, outcome, .. } = group;
    let allowed = allowed.join(", ");
    format!("the outcome of prompt {prompt} of step {} is {:?}, allowed: {allowed}", line.step, outcome.label())
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
