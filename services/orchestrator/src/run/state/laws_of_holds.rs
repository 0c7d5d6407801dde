//! What holds of the groups on their way to the learner: none goes before its audit, all go in their order, once.

use std::collections::BTreeMap;

use evenkeel_trust::AuditSchedule;
use proptest::prelude::*;

use super::any_run::{all_rules, ensure, histories, without_advantage};
use super::simulation::{History, Simulation};
use super::{Action, BegunStep, LoopEvent, Rules};

/// What the learner has of a step, and what keeps the rest from it.
#[derive(Default)]
struct Delivered {
    /// Prompts of the groups that the learner has, and of those that wait.
    sent: Vec<u64>,
    held: Vec<u64>,
    is_audited: bool,
    is_scoring: bool,
    is_scored: bool,
    is_sampled: bool,
    is_ended: bool,
}

impl Delivered {
    /// Whether the learner may have the group at this place.
    fn may_send(&self, rules: &Rules, index: usize) -> bool {
        let waits_for_audit = self.is_audited && !self.is_scored && index + 1 >= rules.audits.first_update as usize;
        !waits_for_audit && (self.is_sampled || !rules.engines_sleep)
    }

    fn take(&mut self, rules: &Rules, prompt: u64, index: usize, is_held: bool) -> Result<(), &'static str> {
        ensure(index == self.sent.len() + self.held.len(), "a group has a place that is not the next one")?;
        ensure(is_held || self.held.is_empty(), "a group overtakes one that waits")?;
        ensure(is_held != self.may_send(rules, index), "a group is sent before its audit, or waits for nothing")?;
        if is_held { &mut self.held } else { &mut self.sent }.push(prompt);
        Ok(())
    }

    fn audit(&mut self, rules: &Rules) -> Result<(), &'static str> {
        ensure(self.is_audited, "a step is audited that has no chosen samples")?;
        ensure(!std::mem::replace(&mut self.is_scoring, true), "a step is audited twice")?;
        ensure(self.is_sampled || !rules.engines_sleep, "a step is audited before engines sleep")
    }

    fn release(&mut self, rules: &Rules) -> Result<(), &'static str> {
        ensure(!self.held.is_empty(), "a step is released that holds nothing")?;
        ensure(self.may_send(rules, usize::MAX - 1), "a step is released before its audit")?;
        self.sent.append(&mut self.held);
        Ok(())
    }

    fn end(&mut self, rules: &Rules) -> Result<(), &'static str> {
        ensure(!std::mem::replace(&mut self.is_ended, true), "a step ends twice")?;
        ensure(self.is_sampled, "a step ends that is not sampled")?;
        ensure(self.is_scored || !self.is_audited, "a step ends before its audit")?;
        ensure(self.held.is_empty() || !self.is_audited, "a group waits although its audit is over")?;
        self.sent.append(&mut self.held);
        ensure(self.sent.len() as u64 == rules.groups, "a step ends before its last group is sent")
    }
}

/// Goes through a history, and says what is wrong with it.
fn check(rules: &Rules, history: &History) -> Result<(), &'static str> {
    let mut steps: BTreeMap<u64, Delivered> = BTreeMap::new();
    for (event, actions) in history {
        match event {
            LoopEvent::Sampled(step) => of(&mut steps, *step)?.is_sampled = true,
            LoopEvent::Audited(step) => of(&mut steps, *step)?.is_scored = true,
            _ => {}
        }
        for action in actions {
            match *action {
                Action::BeginStep(BegunStep { step, is_audited, .. }) => {
                    steps.insert(step, Delivered { is_audited, ..Delivered::default() });
                }
                Action::Take { step, prompt, index, is_held } => {
                    of(&mut steps, step)?.take(rules, prompt, index as usize, is_held)?;
                }
                Action::Audit(step) => of(&mut steps, step)?.audit(rules)?,
                Action::Release(step) => of(&mut steps, step)?.release(rules)?,
                Action::EndStep(step) => {
                    ensure(
                        steps.range(..step).all(|(_, earlier)| earlier.is_ended),
                        "a step ends before earlier ones",
                    )?;
                    of(&mut steps, step)?.end(rules)?;
                }
                Action::Record(step) => ensure(of(&mut steps, step)?.is_ended, "a step is recorded before it ends")?,
                _ => {}
            }
        }
    }
    let in_order = |step: &Delivered| step.sent.is_sorted() || rules.dynamic || !rules.is_in_data_order();
    ensure(steps.values().all(in_order), "groups are not in data order")
}

fn of(steps: &mut BTreeMap<u64, Delivered>, step: u64) -> Result<&mut Delivered, &'static str> {
    steps.get_mut(&step).ok_or("a step has not begun")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_group_is_sent_before_its_audit_and_all_of_them_are_sent_once_in_their_order(
        rules in all_rules(), seed in any::<u64>(), kills in 0..4_usize,
    ) {
        let zero_advantage = without_advantage(seed);
        let mut simulation = Simulation::new(&rules, seed, &zero_advantage);
        for (_, history) in histories(&mut simulation, kills) {
            prop_assert_eq!(check(&rules, &history), Ok(()));
        }
    }
}

/// A run of two steps of three groups, whose last two wait for the audit.
fn audited_run(change: impl Fn(&mut History)) -> Result<(), &'static str> {
    let rules = Rules {
        lag: 1,
        steps: 2,
        groups: 3,
        group_size: 1,
        prompts_limit: 3,
        segments: 1,
        most_in_flight: 9,
        audits: AuditSchedule { is_on: true, first_update: 2, from: 0 },
        ..Rules::default()
    };
    let of_seed = |seed| histories(&mut Simulation::new(&rules, seed, &|_| false), 0).remove(0).1;
    let mut history = (0..1000).map(of_seed).find(shows_all).expect("a seed that shows all that is changed here");
    assert_eq!(check(&rules, &history), Ok(()));
    change(&mut history);
    check(&rules, &history)
}

/// Whether groups are there before the scores that they wait for, and the second step ends before the first is recorded.
fn shows_all(history: &History) -> bool {
    let all: Vec<_> = history.iter().flat_map(|(_, actions)| actions).collect();
    let place = |wanted: Action| all.iter().position(|action| **action == wanted);
    let waits = all.iter().any(|action| matches!(action, Action::Release(_)));
    waits && place(Action::EndStep(2)) < place(Action::Record(1))
}

/// Changes the first action that is such a one.
fn change_first(
    history: &mut History,
    is_such: impl Fn(&Action) -> bool,
    change: impl FnOnce(&mut Vec<Action>, usize),
) {
    let mut with = history.iter_mut().filter_map(|(_, actions)| {
        let at = actions.iter().position(&is_such)?;
        Some((actions, at))
    });
    let (actions, at) = with.next().expect("the run has such an action");
    change(actions, at);
}

#[test]
fn a_group_that_is_sent_too_early_or_out_of_order_is_noticed() {
    let is_held = |action: &Action| matches!(action, Action::Take { is_held: true, .. });
    let early = audited_run(|history| {
        change_first(history, is_held, |actions, at| {
            if let Action::Take { is_held, .. } = &mut actions[at] {
                *is_held = false;
            }
        });
    });
    assert_eq!(early, Err("a group is sent before its audit, or waits for nothing"));
    let next = audited_run(|history| {
        change_first(history, is_held, |actions, at| {
            if let Action::Take { index, .. } = &mut actions[at] {
                *index += 1;
            }
        });
    });
    assert_eq!(next, Err("a group has a place that is not the next one"));
    let swapped = audited_run(|history| {
        let mut takes = history.iter_mut().flat_map(|(_, actions)| actions).filter_map(|action| match action {
            Action::Take { prompt, .. } => Some(prompt),
            _ => None,
        });
        std::mem::swap(takes.next().unwrap(), takes.next().unwrap());
    });
    assert_eq!(swapped, Err("groups are not in data order"));
}

#[test]
fn a_release_that_is_missing_comes_twice_or_comes_too_early_is_noticed() {
    let is_release = |action: &Action| matches!(action, Action::Release(_));
    let missing = audited_run(|history| change_first(history, is_release, |actions, at| drop(actions.remove(at))));
    assert_eq!(missing, Err("a group waits although its audit is over"));
    let twice = audited_run(|history| {
        change_first(history, is_release, |actions, at| actions.insert(at, actions[at].clone()));
    });
    assert_eq!(twice, Err("a step is released that holds nothing"));
    let early = audited_run(|history| {
        let is_held = |action: &Action| matches!(action, Action::Take { is_held: true, .. });
        change_first(history, is_held, |actions, at| {
            let Action::Take { step, .. } = actions[at] else { return };
            actions.insert(at + 1, Action::Release(step));
        });
    });
    assert_eq!(early, Err("a step is released before its audit"));
}

#[test]
fn a_step_that_is_audited_twice_or_without_samples_is_noticed() {
    let is_audit = |action: &Action| matches!(action, Action::Audit(_));
    let twice = audited_run(|history| {
        change_first(history, is_audit, |actions, at| actions.insert(at, actions[at].clone()));
    });
    assert_eq!(twice, Err("a step is audited twice"));
    let is_begin = |action: &Action| matches!(action, Action::BeginStep(_));
    let without = audited_run(|history| {
        change_first(history, is_begin, |actions, at| {
            if let Action::BeginStep(begun) = &mut actions[at] {
                begun.is_audited = false;
            }
        });
    });
    assert!(without.is_err(), "{without:?}");
}

#[test]
fn a_step_that_ends_before_its_last_group_or_before_an_earlier_step_is_noticed() {
    let is_end = |action: &Action| matches!(action, Action::EndStep(_));
    let without_group = audited_run(|history| {
        let is_last = |action: &Action| matches!(action, Action::Take { index: 2, .. });
        change_first(history, is_last, |actions, at| drop(actions.remove(at)));
    });
    assert_eq!(without_group, Err("a step ends before its last group is sent"));
    let overtaken = audited_run(|history| change_first(history, is_end, |actions, at| drop(actions.remove(at))));
    assert_eq!(overtaken, Err("a step ends before earlier ones"));
    let never = audited_run(|history| {
        history.iter_mut().for_each(|(_, actions)| actions.retain(|action| !is_end(action)));
    });
    assert_eq!(never, Err("a step is recorded before it ends"));
    let twice = audited_run(|history| {
        change_first(history, is_end, |actions, at| actions.insert(at, actions[at].clone()));
    });
    assert_eq!(twice, Err("a step ends twice"));
}
