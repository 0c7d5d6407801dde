//! What holds of weights that are late or lost: a sample gets back the version that it began with, as long as it is
//! allowed, and engines go back and forth no more than they must.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::any_run::{all_rules, ensure, histories, without_advantage};
use super::simulation::{History, Simulation};
use super::{Action, EpisodeId, LoopEvent, Rules};

/// Which weights the engines have, and who needs which.
#[derive(Default)]
struct Needs {
    /// The version of the segment of each episode that is being sampled.
    in_flight: BTreeMap<EpisodeId, u64>,
    evaluating: Option<u64>,
    published: BTreeSet<u64>,
    /// The version that the run started with; earlier ones are published.
    first: u64,
    /// The weights that the run moves the engines to, and those that it has moved them to.
    newest: Option<u64>,
    target: Option<u64>,
    /// Requests that are not answered, with the version that they began with.
    requests: BTreeMap<u64, Option<u64>>,
    restoring: Option<u64>,
}

impl Needs {
    fn happens(&mut self, event: &LoopEvent) -> Result<(), &'static str> {
        match event {
            LoopEvent::SegmentEnded(episode) | LoopEvent::ResponseEnded(episode) => {
                self.in_flight.remove(episode);
            }
            LoopEvent::Evaluated { .. } => self.evaluating = None,
            LoopEvent::EnginesUpdated { version } => {
                self.target = Some(*version);
                self.newest = self.newest.max(self.target);
            }
            LoopEvent::Published(weights) => drop(self.published.insert(weights.version())),
            LoopEvent::WeightsMissing { request, version, .. } => {
                ensure(self.requests.insert(*request, *version).is_none(), "two requests have one number")?;
            }
            LoopEvent::Restored { version } => {
                ensure(self.restoring.take() == Some(*version), "weights are restored that no request has asked for")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn is_published(&self, version: u64) -> bool {
        version <= self.first || self.published.contains(&version)
    }

    fn is_asked(&mut self, action: &Action) -> Result<(), &'static str> {
        match action {
            Action::Sample { episode, version: Some(version), .. } => {
                ensure(self.is_published(*version), "weights sample that are not published")?;
                self.in_flight.insert(*episode, *version);
            }
            Action::Evaluate { version } => self.evaluating = Some(*version),
            Action::UpdateEngines { version } => {
                ensure(self.is_published(*version), "engines get weights that are not published")?;
                self.newest = Some(*version);
            }
            Action::Restore { request, version } => self.restore(*request, *version)?,
            Action::Answer { request, .. } => {
                ensure(self.requests.remove(request).is_some(), "a request is answered twice")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn restore(&mut self, request: u64, version: u64) -> Result<(), &'static str> {
        let asked = self.requests.get(&request).ok_or("weights are restored for nobody")?;
        ensure(asked.or(self.target) == Some(version), "another version is restored than the sample began with")?;
        ensure(self.restoring.replace(version).is_none(), "two versions are restored at once")?;
        let needed: BTreeSet<u64> =
            self.in_flight.values().copied().chain(self.evaluating).chain(self.newest).collect();
        ensure(needed.contains(&version), "a version is restored that is not allowed any more")?;
        ensure(needed.first() == Some(&version), "a version is restored while samples of an earlier one are in flight")
    }
}

/// Goes through a history, and says what is wrong with it.
fn check(first: u64, history: &History) -> Result<Needs, &'static str> {
    let mut needs = Needs { first, ..Needs::default() };
    for (event, actions) in history {
        needs.happens(event)?;
        actions.iter().try_for_each(|action| needs.is_asked(action))?;
    }
    Ok(needs)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sample_gets_back_the_version_that_it_began_with_as_long_as_that_is_allowed(
        rules in all_rules(), seed in any::<u64>(), kills in 0..4_usize,
    ) {
        let zero_advantage = without_advantage(seed);
        let mut simulation = Simulation::new(&rules, seed, &zero_advantage);
        let mut last = None;
        for (first, history) in histories(&mut simulation, kills) {
            last = Some(check(first, &history).map_err(TestCaseError::fail)?);
        }
        prop_assert!(last.is_some_and(|needs| needs.requests.is_empty()), "a request is not answered");
    }
}

/// A run in which samples of several versions lose their weights.
fn run_with_losses(change: impl Fn(&mut History)) -> Result<(), &'static str> {
    let rules = Rules {
        lag: 2,
        steps: 6,
        groups: 3,
        group_size: 2,
        prompts_limit: 3,
        segments: 2,
        most_in_flight: 9,
        ..Rules::default()
    };
    let mut simulation = Simulation::new(&rules, 5, &|_| false);
    let (first, mut history) = histories(&mut simulation, 0).remove(0);
    assert_eq!(check(first, &history).map(drop), Ok(()));
    change(&mut history);
    check(first, &history).map(drop)
}

/// Changes the first restore, the request that it is for, and what is asked for before it.
fn change_restore(change: impl Fn(&mut u64, &mut u64, &mut Vec<Action>)) -> Result<(), &'static str> {
    run_with_losses(|history| {
        let restores = |(_, actions): &(LoopEvent, Vec<Action>)| match actions[..] {
            [Action::Restore { request, .. }] => Some(request),
            _ => None,
        };
        let (at, request) =
            history.iter().enumerate().skip(40).find_map(|(at, entry)| Some((at, restores(entry)?))).unwrap();
        let (before, after) = history.split_at_mut(at);
        // It may be answered by the event that it comes with.
        let mut actions = std::mem::take(&mut after[0].1);
        let asks = std::iter::once(&mut after[0]).chain(before.iter_mut().rev()).find_map(|(event, _)| match event {
            LoopEvent::WeightsMissing { request: asked, version: Some(version), .. } if *asked == request => {
                Some(version)
            }
            _ => None,
        });
        let mut others = Vec::new();
        if let Action::Restore { version, .. } = &mut actions[0] {
            change(asks.unwrap(), version, &mut others);
        }
        after[0].1 = others.into_iter().chain(actions).collect();
    })
}

#[test]
fn another_version_than_the_one_that_was_lost_and_one_that_is_not_allowed_any_more_are_noticed() {
    let other = change_restore(|_, restored, _| *restored += 1);
    assert_eq!(other, Err("another version is restored than the sample began with"));
    let gone = change_restore(|asked, restored, _| {
        *asked = 0;
        *restored = 0;
    });
    assert_eq!(gone, Err("a version is restored that is not allowed any more"));
}

#[test]
fn a_restore_that_overtakes_samples_of_an_earlier_version_is_noticed() {
    let overtakes = change_restore(|_, restored, others| {
        let episode = EpisodeId { prompt: u64::MAX, sample: 0 };
        others.push(Action::Sample { episode, version: Some(*restored - 1), segment: 0, is_last: true });
    });
    assert_eq!(overtakes, Err("a version is restored while samples of an earlier one are in flight"));
}

#[test]
fn a_request_that_is_answered_twice_is_noticed() {
    let twice = run_with_losses(|history| {
        let is_answer = |action: &Action| matches!(action, Action::Answer { .. });
        let answers = history.iter_mut().map(|(_, actions)| actions).find(|actions| actions.iter().any(is_answer));
        let answers = answers.unwrap();
        let again: Vec<Action> = answers.iter().filter(|action| is_answer(action)).cloned().collect();
        answers.extend(again);
    });
    assert_eq!(twice, Err("a request is answered twice"));
}

#[test]
fn weights_that_sample_before_they_are_published_are_noticed() {
    let unpublished = run_with_losses(|history| history.retain(|(event, _)| !matches!(event, LoopEvent::Published(_))));
    assert_eq!(unpublished, Err("engines get weights that are not published"));
    let early = run_with_losses(|history| {
        let episode = EpisodeId { prompt: u64::MAX, sample: 0 };
        let sample = Action::Sample { episode, version: Some(8), segment: 0, is_last: true };
        history[0].1.push(sample);
    });
    assert_eq!(early, Err("weights sample that are not published"));
}
