//! States for tests of what holds them.

use super::simulation::Simulation;
use super::{LoopState, Rules};

/// A run that is some steps in, with a lag of two: later steps are being sampled.
pub(in crate::run) fn two_steps_in_flight() -> LoopState {
    let rules = Rules {
        lag: 2,
        steps: 20,
        groups: 4,
        group_size: 2,
        prompts_limit: 4,
        segments: 1,
        most_in_flight: 64,
        ..Rules::default()
    };
    let mut simulation = Simulation::new(&rules, 3, &|_| false);
    simulation.start();
    while simulation.state.step() < 4 || simulation.state.unfinished().next().is_none() {
        simulation.run(1);
    }
    simulation.state
}

/// A run whose first step has very many samples.
pub(in crate::run) fn many_in_flight() -> LoopState {
    let rules = Rules {
        steps: 2,
        groups: 30_000,
        group_size: 16,
        prompts_limit: 30_000,
        segments: 1,
        most_in_flight: 64,
        ..Rules::default()
    };
    let mut simulation = Simulation::new(&rules, 3, &|_| false);
    simulation.start_untested();
    simulation.state
}
