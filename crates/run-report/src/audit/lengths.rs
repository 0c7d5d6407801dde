//! Lengths of responses: of those that were trained on, compared with those that were sampled.

use std::collections::BTreeMap;

use evenkeel_run::{GroupRecord, PromptLine};

/// Lengths of some responses in tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lengths {
    pub answers: u64,
    pub mean: f64,
    /// The lengths below which a quarter, half and three quarters of them lie, with linear interpolation.
    pub quartiles: [f64; 3],
}

impl Lengths {
    /// `None` for no responses.
    fn of(mut lengths: Vec<u32>) -> Option<Self> {
        lengths.sort_unstable();
        let last = lengths.len().checked_sub(1)?;
        let quartile = |quarter: usize| {
            let at = (last * quarter) as f64 / 4.0;
            let [low, high] = [at.floor(), at.ceil()].map(|index| f64::from(lengths[index as usize]));
            low + (at - at.floor()) * (high - low)
        };
        let sum: u64 = lengths.iter().copied().map(u64::from).sum();
        let mean = sum as f64 / lengths.len() as f64;
        Some(Self { answers: lengths.len() as u64, mean, quartiles: [1, 2, 3].map(quartile) })
    }
}

/// The responses of one lag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LagLengths {
    /// Versions that their oldest token is behind the step that they were for.
    pub lag: u64,
    /// All that were generated.
    pub sampled: Option<Lengths>,
    /// The responses that the learner was trained on: with a verdict, and in a group that was not dropped.
    pub trained: Option<Lengths>,
}

/// What filling steps in order of completion did to lengths.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OvertakenLengths {
    /// Responses in the steps that left prompts for a later step although they took later prompts.
    pub taken: Lengths,
    /// The responses to the prompts that they left, once for each step that did.
    pub left: Lengths,
}

impl OvertakenLengths {
    /// `None` where no step left a prompt whose responses are known by now.
    pub(super) fn of(lines: &[PromptLine]) -> Option<Self> {
        if lines.iter().all(|line| line.waiting.is_empty()) {
            return None;
        }
        let groups = lines.iter().flat_map(|line| &line.groups);
        let known: BTreeMap<u64, &GroupRecord> = groups.map(|group| (group.prompt, group)).collect();
        let mut taken = Vec::new();
        let mut left = Vec::new();
        for line in lines.iter().filter(|line| !line.waiting.is_empty()) {
            let sent = line.groups.iter().filter(|group| group.is_sent());
            taken.extend(sent.flat_map(GroupRecord::answers));
            left.extend(line.waiting.iter().filter_map(|prompt| known.get(prompt)).flat_map(|group| group.answers()));
        }
        Some(Self { taken: Lengths::of(taken)?, left: Lengths::of(left)? })
    }
}

/// Gathers lengths by lag.
#[derive(Debug, Default)]
pub(super) struct LengthsByLag {
    by_lag: BTreeMap<u64, (Vec<u32>, Vec<u32>)>,
}

impl LengthsByLag {
    /// Adds the responses of a group: those with a verdict, which were trained on or not, and those without.
    pub(super) fn add(&mut self, lag: u64, judged: &[u32], are_trained: bool, others: &[u32]) {
        let (sampled, trained) = self.by_lag.entry(lag).or_default();
        sampled.extend_from_slice(judged);
        // 0 stands for a sample that was not generated.
        sampled.extend(others.iter().filter(|length| **length > 0));
        if are_trained {
            trained.extend_from_slice(judged);
        }
    }

    pub(super) fn finish(self) -> Vec<LagLengths> {
        let of_lag = |(lag, (sampled, trained))| LagLengths {
            lag,
            sampled: Lengths::of(sampled),
            trained: Lengths::of(trained),
        };
        self.by_lag.into_iter().map(of_lag).collect()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_run::PromptOutcome;

    use super::*;

    #[test]
    fn quartiles_are_those_of_numpy() {
        let lengths = Lengths::of(vec![40, 10, 20, 35]).unwrap();
        // numpy.percentile([10, 20, 35, 40], [25, 50, 75])
        assert_eq!(lengths, Lengths { answers: 4, mean: 26.25, quartiles: [17.5, 27.5, 36.25] });
        assert_eq!(Lengths::of(vec![7]).unwrap().quartiles, [7.0; 3]);
        assert_eq!(Lengths::of(vec![]), None);
    }

    #[test]
    fn what_a_step_left_for_later_ones_has_the_lengths_that_it_turned_out_to_have() {
        let group = |prompt, length| GroupRecord {
            prompt,
            outcome: PromptOutcome::Trained.into(),
            version: None,
            newest: None,
            lengths: vec![length; 2],
            invalid: Vec::new(),
        };
        let line = |step, waiting: &[u64], groups| PromptLine {
            step,
            waiting: waiting.to_vec(),
            groups,
            ..PromptLine::default()
        };
        let lines = [
            line(0, &[1], vec![group(0, 10), group(2, 20)]),
            line(1, &[1, 9], vec![group(3, 30)]),
            line(2, &[], vec![group(1, 80)]),
        ];
        let found = OvertakenLengths::of(&lines).unwrap();
        assert_eq!((found.taken.answers, found.taken.mean), (6, 20.0), "step 2 left nothing");
        assert_eq!(
            (found.left.answers, found.left.mean),
            (4, 80.0),
            "both steps left prompt 1, and 9 is not answered yet"
        );
        assert_eq!(OvertakenLengths::of(&lines[2..]), None);
    }

    #[test]
    fn an_answer_without_a_verdict_was_sampled_and_not_trained_on() {
        let mut by_lag = LengthsByLag::default();
        by_lag.add(1, &[10, 30], true, &[0, 80]);
        by_lag.add(1, &[50], false, &[]);
        by_lag.add(0, &[5], true, &[]);
        let found = by_lag.finish();
        let answers = |lengths: Option<Lengths>| lengths.map(|lengths| (lengths.answers, lengths.mean));
        assert_eq!(
            (found[0].lag, answers(found[0].sampled), answers(found[0].trained)),
            (0, Some((1, 5.0)), Some((1, 5.0)))
        );
        assert_eq!(
            (found[1].lag, answers(found[1].sampled), answers(found[1].trained)),
            (1, Some((4, 42.5)), Some((2, 20.0)))
        );
    }
}
