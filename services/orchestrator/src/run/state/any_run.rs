//! Any rules that settings allow, and what happens in a run by them: what laws are tested on.

use evenkeel_trust::AuditSchedule;
use proptest::prelude::*;

use super::Rules;
use super::simulation::{Dice, History, Simulation};
use crate::settings::{EvaluationSteps, StepOrder};

/// Which prompts have no advantage, by the rules of a seed: about a third.
pub(super) fn without_advantage(seed: u64) -> impl Fn(u64) -> bool {
    move |prompt| Dice(seed.wrapping_add(prompt.wrapping_mul(0x9e37_79b9_7f4a_7c15))).below(3) == 0
}

/// All rules that settings allow, small.
pub(super) fn all_rules() -> impl Strategy<Value = Rules> {
    let shape = (0..4_u64, 1..7_u64, 0..3_u64, 2..5_u64, 1..4_u32, any::<bool>());
    let ahead = (0..4_u64, 1..5_u8, 1..9_usize, any::<bool>(), 0..3_u64, any::<bool>(), any::<bool>());
    let holds = (any::<bool>(), 1..5_u32, 0..5_u64, any::<bool>());
    (shape, ahead, holds).prop_map(|(shape, ahead, holds)| {
        let (lag, steps, origin, groups, group_size, dynamic) = shape;
        let (split, segments, most_in_flight, by_completion, every, ends, keeps_best) = ahead;
        let (is_audited, first_update, audited_from, engines_sleep) = holds;
        let order = if by_completion && lag > 0 { StepOrder::Completion } else { StepOrder::Data };
        let split = if lag > 0 && order == StepOrder::Data { split.min(groups - 1) } else { 0 };
        let most_segments = match (order, dynamic, lag) {
            (StepOrder::Completion, ..) | (_, _, 0) => 1,
            (_, true, _) if split > 0 => 1,
            (_, true, _) => 2,
            (_, _, lag) => lag + u64::from(split == 0),
        };
        Rules {
            order,
            lag,
            steps: origin + steps,
            origin,
            groups,
            group_size,
            dynamic,
            prompts_limit: if dynamic { groups + 3 } else { groups },
            split,
            segments: segments.min(most_segments as u8).max(1),
            most_in_flight,
            evaluations: (every > 0).then(|| EvaluationSteps { before: ends, after: ends, every: every - 1 }),
            keeps_best,
            engines_sleep: engines_sleep && lag == 0,
            audits: AuditSchedule {
                is_on: is_audited && order == StepOrder::Data,
                first_update: first_update.min(groups as u32),
                from: audited_from,
            },
        }
    })
}

pub(super) fn in_data_order() -> impl Strategy<Value = Rules> {
    all_rules().prop_map(|rules| match rules.order {
        StepOrder::Data => rules,
        StepOrder::Completion => Rules { order: StepOrder::Data, ..rules },
    })
}

/// What happened from each start of a run to its end, with the version of the weights that it started with.
pub(super) fn histories(simulation: &mut Simulation, kills: usize) -> Vec<(u64, History)> {
    let mut histories = Vec::new();
    for left in (0..=kills).rev() {
        simulation.start();
        simulation.history = Some(Vec::new());
        let newest = simulation.state.version();
        let most = if left > 0 { simulation.dice.below(150) } else { 100_000 };
        simulation.run(most);
        histories.extend(simulation.history.take().map(|history| (newest, history)));
    }
    histories
}

/// What a law asks for.
pub(super) fn ensure(holds: bool, otherwise: &'static str) -> Result<(), &'static str> {
    if holds { Ok(()) } else { Err(otherwise) }
}
