//! The proof of weights in simulated runs: how often honest ones are accused, and how soon faults are found.
//! `examples/evidence.rs` does the same with more runs.

use crate::evidence_simulation::faults::{FAULTS, Setting};
use crate::evidence_simulation::honest::{Alarms, LEVELS, Pools, number};
use crate::evidence_simulation::noise::SHAPES;
use crate::evidence_simulation::{random, threshold};
use evenkeel_statistics::evidence::{Contrast, Foresight, SignBets, SuspectedToken};

const RUNS: u64 = 1_200;

#[test]
fn honest_runs_are_accused_within_the_budget_whatever_the_shape_of_their_noise() {
    let mut all = Alarms::default();
    for (shape, alarms) in SHAPES.iter().zip(Pools::draw(1).run(0..RUNS, 100)) {
        assert_eq!(alarms.accused, 0, "{}: {alarms:?}", shape.name);
        all.add(&alarms);
    }
    assert_eq!(all.runs, RUNS);
    // At most one run in ten may ever reach 10, and so on; four and a half standard errors above that.
    for (reached, level) in all.reached.iter().zip(LEVELS) {
        let expected = RUNS as f64 / level;
        assert!((*reached as f64) < expected + 4.5 * expected.sqrt(), "{reached} reached {level}");
    }
    // The simulation can fail: some runs come to something.
    assert!(all.reached[0] > 0, "{all:?}");
}

#[test]
fn the_numbers_of_the_simulation_are_those_of_a_contrast() {
    let mut rng = random(7);
    for shape in &SHAPES {
        let mut contrast = Contrast::default();
        let mut bets = SignBets::default();
        for _ in 0..20 {
            contrast.begin_round();
            bets.begin_round();
            let mut sequence = [SuspectedToken { gap: 0.0, predicted: 0.0, weight: 1.0 }; 9];
            shape.sequence(4.0, &mut rng, &mut sequence);
            contrast.add(&sequence, shape.tolerated);
            // The simulation leaves out that a little correlation is tolerated as well, and comes to more than a
            // contrast does.
            bets.add(number(&sequence, shape.tolerated) - 0.15 * 3.0);
        }
        assert!((contrast.stale() - bets.evidence()).abs() < 1e-9, "{}", shape.name);
    }
}

#[test]
fn a_simulated_engine_without_new_weights_is_found_in_every_run() {
    // A simulation with a fault shows that no alarm above means that there is nothing to find.
    let mut rng = random(3);
    let mut sequence = [SuspectedToken { gap: 0.0, predicted: 0.0, weight: 1.0 }; 12];
    for shape in &SHAPES {
        let mut contrast = Contrast::default();
        let found = (1..50).find(|_| {
            contrast.begin_round();
            for _ in 0..32 {
                shape.sequence(1.0, &mut rng, &mut sequence);
                sequence.iter_mut().for_each(|token| token.gap += token.predicted);
                contrast.add(&sequence, shape.tolerated);
            }
            contrast.stale() >= threshold(0)
        });
        assert!(found.is_some(), "{}", shape.name);
    }
}

#[test]
fn in_f32_every_fault_is_found_within_three_looks_at_1e_6() {
    let setting = Setting { learning_rate: 1e-6, tokens: 384, noise: 1.4e-6, turn: 1 };
    for fault in &FAULTS {
        let steps = setting.steps(fault, 40);
        assert!(steps[1].is_some_and(|steps| steps <= 3), "{}: {steps:?}", fault.name);
    }
}

#[test]
fn steps_are_foreseen_within_a_factor_of_two() {
    for (learning_rate, tokens, fault) in [(1e-6, 5_000, 0), (1e-6, 5_000, 1), (1e-6, 384, 3), (1e-5, 384, 0)] {
        let fault = &FAULTS[fault];
        let setting = Setting { learning_rate, tokens, noise: 0.047, turn: 1 };
        let [_, found] = setting.steps(fault, 60);
        let foresight =
            Foresight { first_step: Foresight::first_step(learning_rate), noise: setting.noise, sequences: 32, tokens };
        let foreseen = foresight.steps(fault.part * fault.missing, 1).unwrap() as f64;
        let found = found.unwrap() as f64;
        assert!(
            found <= 2.0 * foreseen && foreseen <= 2.0 * found + 1.0,
            "{}: {found}, foreseen {foreseen}",
            fault.name
        );
    }
}
