//! What holds of every run, in whatever order anything happens, and wherever it is killed, stopped or loses its
//! learner.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::any_run::{all_rules, in_data_order, without_advantage};
use super::simulation::{Simulation, TrainedStep};
use super::{Action, BegunStep, LoopEvent, LoopState, Rules};
use crate::settings::StepOrder;

/// What a synchronous run of these rules would take for its steps: the next prompts of the data order, one step after
/// the other.
fn expected(rules: &Rules, zero_advantage: &dyn Fn(u64) -> bool) -> Vec<(Vec<u64>, Vec<u64>)> {
    let mut next = 0;
    let step = |_| {
        let mut taken = Vec::new();
        let mut dropped = Vec::new();
        let first = next;
        while (taken.len() as u64) < rules.groups && next - first < rules.prompts_limit {
            if rules.dynamic && zero_advantage(next) { &mut dropped } else { &mut taken }.push(next);
            next += 1;
        }
        taken.extend(dropped.drain(..rules.groups as usize - taken.len()));
        (taken, dropped)
    };
    (rules.origin..rules.steps).map(step).collect()
}

/// Every segment of every episode is of the version that its place says, and at most `lag` steps old.
fn check_versions(simulation: &Simulation) -> Result<(), TestCaseError> {
    let (rules, version_of) = (simulation.rules, |step| simulation.state.version_of(step));
    for (&step, done) in &simulation.done {
        let first = done.groups.iter().map(|(prompt, _)| *prompt).chain(done.dropped.iter().copied()).min().unwrap();
        let oldest = version_of((step - 1).saturating_sub(rules.lag).max(rules.origin));
        for (prompt, episodes) in &done.groups {
            for versions in episodes {
                prop_assert!(versions.is_sorted() && !versions.is_empty());
                prop_assert!(versions.iter().all(|version| (oldest..=version_of(step - 1)).contains(version)));
                if rules.order == StepOrder::Data {
                    let segments = rules.segments_of(prompt - first);
                    let places = segments.first..segments.first + versions.len() as u64;
                    prop_assert!(versions.len() <= usize::from(segments.count));
                    let wanted: Vec<u64> = places.map(|place| version_of(rules.sampled_by(step, place))).collect();
                    prop_assert_eq!(versions, &wanted, "step {}, prompt {}", step, prompt);
                }
            }
        }
    }
    Ok(())
}

/// Every prompt of the data order so far is in one step, as a group or left out, or waits.
fn check_prompts(simulation: &Simulation) -> Result<(), TestCaseError> {
    let Some(TrainedStep { next_prompt, waiting, .. }) = simulation.done.values().last() else { return Ok(()) };
    let mut all: Vec<u64> = waiting.clone();
    for done in simulation.done.values() {
        all.extend(done.groups.iter().map(|(prompt, _)| prompt).chain(&done.dropped));
    }
    all.sort_unstable();
    prop_assert_eq!(all, (0..*next_prompt).collect::<Vec<_>>());
    Ok(())
}

/// Runs to the end, and kills and resumes it `kills` times on the way; a lost learner is the same to the loop.
fn run_to_end(simulation: &mut Simulation, kills: usize) -> Result<(), TestCaseError> {
    for _ in 0..kills {
        simulation.start();
        let most = simulation.dice.below(150);
        simulation.run(most);
    }
    simulation.start();
    prop_assert_eq!(simulation.run(100_000), Some(true));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_prompt_is_lost_or_trained_twice_and_no_sample_is_older_than_the_lag(
        rules in all_rules(), seed in any::<u64>(), kills in 0..6_usize,
    ) {
        let zero_advantage = without_advantage(seed);
        let mut simulation = Simulation::new(&rules, seed, &zero_advantage);
        run_to_end(&mut simulation, kills)?;
        prop_assert_eq!(simulation.done.keys().copied().collect::<Vec<_>>(), (rules.origin + 1..=rules.steps).collect::<Vec<_>>());
        check_prompts(&simulation)?;
        check_versions(&simulation)?;
        let last = simulation.done.values().last().unwrap();
        prop_assert!(last.waiting.is_empty(), "the last step leaves nothing out");
    }

    #[test]
    fn in_data_order_every_run_trains_what_the_synchronous_run_trains_wherever_it_is_killed(
        rules in in_data_order(), seed in any::<u64>(), kills in 0..6_usize,
    ) {
        let zero_advantage = without_advantage(seed);
        let mut simulation = Simulation::new(&rules, seed, &zero_advantage);
        run_to_end(&mut simulation, kills)?;
        let numbers = |groups: &[(u64, Vec<Vec<u64>>)]| groups.iter().map(|(prompt, _)| *prompt).collect::<Vec<_>>();
        let trained: Vec<_> = simulation.done.values().map(|done| (numbers(&done.groups), done.dropped.clone())).collect();
        prop_assert_eq!(trained, expected(&rules, &zero_advantage));
    }

    #[test]
    fn the_weights_that_are_to_be_evaluated_are_evaluated_once_and_those_of_the_last_step_before_the_end(
        rules in all_rules(), seed in any::<u64>(), kills in 0..4_usize,
    ) {
        let zero_advantage = without_advantage(seed);
        let mut simulation = Simulation::new(&rules, seed, &zero_advantage);
        run_to_end(&mut simulation, kills)?;
        let due: BTreeSet<u64> = (rules.origin..=rules.steps).filter(|step| rules.is_evaluated(*step)).collect();
        prop_assert_eq!(&simulation.evaluated, &due);
    }

    #[test]
    fn a_run_that_is_stopped_again_and_again_ends_each_time_and_loses_nothing(
        rules in all_rules(), seed in any::<u64>(), abandons in any::<bool>(),
    ) {
        let zero_advantage = without_advantage(seed);
        let mut simulation = Simulation::new(&rules, seed, &zero_advantage);
        let mut completed = false;
        for _ in 0..40 {
            simulation.start();
            let before = simulation.dice.below(120);
            let mut ended = simulation.run(before);
            if ended.is_none() {
                simulation.tell(LoopEvent::Stop);
                if abandons {
                    simulation.history = Some(Vec::new());
                    simulation.abandon();
                }
                ended = simulation.run(100_000);
                prop_assert!(ended.is_some());
                let later = simulation.history.take().unwrap_or_default();
                let trains = later.iter().flat_map(|(_, actions)| actions).any(|action| matches!(action, Action::Train(_)));
                prop_assert!(!trains, "a step is trained after the run was to give it up");
                prop_assert_eq!(simulation.checkpoint.0, simulation.state.step(), "a stop keeps what is done");
            }
            completed = ended == Some(true);
            if completed {
                break;
            }
        }
        if !completed {
            simulation.start();
            prop_assert_eq!(simulation.run(100_000), Some(true));
        }
        check_prompts(&simulation)?;
        check_versions(&simulation)?;
    }

    #[test]
    fn a_state_that_is_written_and_read_back_anywhere_answers_what_follows_as_the_original_does(
        rules in all_rules(), seed in any::<u64>(), before in 0..300_usize,
    ) {
        let zero_advantage = without_advantage(seed);
        let mut simulation = Simulation::new(&rules, seed, &zero_advantage);
        simulation.start();
        simulation.run(before);
        let written = serde_json::to_string(&simulation.state).unwrap();
        simulation.history = Some(Vec::new());
        prop_assert_eq!(simulation.run(100_000), Some(true));
        let mut again: LoopState = serde_json::from_str(&written).unwrap();
        for (event, actions) in simulation.history.take().unwrap() {
            prop_assert_eq!(again.apply(&rules, event), actions);
        }
        prop_assert_eq!(again, simulation.state);
    }

    #[test]
    fn without_a_lag_nothing_is_sampled_while_the_learner_trains_or_before_the_last_step_is_being_kept(
        rules in in_data_order(), seed in any::<u64>(),
    ) {
        let rules = Rules { lag: 0, split: 0, segments: 1, ..rules };
        let zero_advantage = without_advantage(seed);
        let mut simulation = Simulation::new(&rules, seed, &zero_advantage);
        simulation.history = Some(Vec::new());
        run_to_end(&mut simulation, 0)?;
        let mut kept = rules.origin;
        let mut recorded = rules.origin;
        let mut has_report = false;
        for action in simulation.history.take().unwrap().into_iter().flat_map(|(_, actions)| actions) {
            match action {
                Action::BeginStep(BegunStep { step, .. }) => prop_assert!(step == recorded + 1 && kept == recorded),
                Action::Sample { .. } => prop_assert!(!has_report, "the learner has the step already"),
                Action::Publish { .. } => has_report = true,
                Action::Record(step) => (recorded, has_report) = (step, false),
                Action::Keep(_) => kept = recorded,
                _ => {}
            }
        }
        prop_assert_eq!(recorded, rules.steps);
    }
}

#[test]
fn a_step_that_the_simulation_trains_twice_or_leaves_out_is_noticed() {
    let rules = Rules {
        steps: 2,
        groups: 2,
        group_size: 1,
        prompts_limit: 2,
        segments: 1,
        most_in_flight: 4,
        ..Rules::default()
    };
    let mut simulation = Simulation::new(&rules, 1, &|_| false);
    run_to_end(&mut simulation, 0).unwrap();
    assert!(check_prompts(&simulation).is_ok() && check_versions(&simulation).is_ok());
    let groups = simulation.done[&1].groups.clone();
    simulation.done.get_mut(&2).unwrap().groups[0] = groups[0].clone();
    assert!(check_prompts(&simulation).is_err() && check_versions(&simulation).is_err());
}

/// A step that is being sampled when a stop is requested may need weights that the engines get only once no further
/// step begins.
#[test]
fn a_stop_at_any_moment_lets_the_engines_go_on_to_the_weights_of_the_step_that_is_finished() {
    let rules = Rules {
        lag: 2,
        steps: 5,
        groups: 2,
        group_size: 2,
        prompts_limit: 2,
        segments: 3,
        most_in_flight: 2,
        ..Rules::default()
    };
    for (seed, before) in (0..40).flat_map(|seed| (0..120).map(move |before| (seed, before))) {
        let mut simulation = Simulation::new(&rules, seed, &|_| false);
        simulation.start();
        if simulation.run(before).is_none() {
            simulation.tell(LoopEvent::Stop);
            assert!(simulation.run(1_000).is_some(), "seed {seed}, {before} events before");
        }
    }
}
