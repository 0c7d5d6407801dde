//! The peak of a GPU's memory in training, beside the plan.

use anyhow::Result;
use candle_core::Device;
use evenkeel_host::available_memory;
use evenkeel_learner::{Learner, MeasuredMemory, MemoryPlan, Response, ResponseGroup};
use evenkeel_model::{GpuMemory, empty_cache, reset_peak_memory};
use serde_json::json;

use crate::report::ReportPart;
use crate::shapes::{Case, cases, random};

/// Micro-batches of the step that is trained: more than one, so that what stays of one beside the next counts.
const MICRO_BATCHES: usize = 2;

/// A step of the whole learner on every case: its peak beside its plan.
pub(crate) fn compare(part: &mut ReportPart<'_>, device: &Device) -> Result<()> {
    for case in cases() {
        part.attempt(case.title(), |part| {
            // What cases before have left behind.
            empty_cache(device)?;
            one(part, &case.on(device)?, device)
        });
    }
    Ok(())
}

fn one(part: &mut ReportPart<'_>, case: &Case, device: &Device) -> Result<()> {
    let settings = case.settings(device.is_cuda());
    let plan = MemoryPlan::on(device, &case.config, &settings, case.length)?;
    if let Some(reason) = too_much_of_the_host(plan.host_total(), available_memory()) {
        part.fact(json!({"what": "memory", "model": case.name, "moments": case.moments.name(), "skipped": reason}));
        return Ok(());
    }
    reset_peak_memory(device)?;
    let mut learner = Learner::new(case.config.clone(), random(&case.config, device)?, settings)?;
    learner.train(full_groups(case))?;
    record(part, case, &plan, learner.gpu_memory());
    Ok(())
}

/// Why moments in the host's memory are not tried.
fn too_much_of_the_host(needed: u64, available: Option<u64>) -> Option<String> {
    let available = available.filter(|&available| available < needed)?;
    Some(format!("the host has {available} bytes, the moments take {needed}"))
}

/// Nothing is measured on a CPU: there the plan is that of a GPU for the same tiny shapes.
fn record(part: &mut ReportPart<'_>, case: &Case, plan: &MemoryPlan, memory: Option<GpuMemory>) {
    let measured = memory.and_then(|memory| MeasuredMemory::of(plan, memory));
    let beside = memory.map(|memory| memory.total.saturating_sub(memory.free + memory.held));
    let name = case.title();
    part.fact(json!({
        "what": "memory", "model": case.name, "sequences": case.sequences, "length": case.length, "moments": case.moments.name(),
        "planned_bytes": plan.pooled(), "peak_bytes": measured.map(|measured| measured.peak),
        "peak_by_plan": measured.map(|measured| measured.ratio()), "outside_of_the_pool_bytes": beside,
    }));
    if let Some(measured) = measured {
        let what = format!("{name}: peak of memory by its plan");
        part.check(&*what, measured.ratio(), 1.0);
        part.check_least(what, measured.ratio(), MeasuredMemory::LEAST);
    }
}

/// Groups whose responses fill the micro-batches of a step, each with an advantage.
fn full_groups(case: &Case) -> Vec<ResponseGroup> {
    let groups = (0..MICRO_BATCHES).map(|number| {
        let responses = case.ids().into_iter().enumerate().map(|(at, ids)| {
            // The first token is the prompt's.
            let tokens = ids[1..].to_vec();
            let reward = (at % 2) as f64;
            Response {
                mask: vec![true; tokens.len()],
                rollout_logp: vec![-1.0; tokens.len()],
                tokens,
                raw_reward: reward,
                reward,
                components: Default::default(),
                valid: true,
                ..Response::default()
            }
        });
        ResponseGroup { id: number.to_string(), prompt: vec![1], hinted_prompt: None, responses: responses.collect() }
    });
    groups.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// What is recorded of a peak that is so many percent of the plan.
    fn recorded(percent: u64) -> (serde_json::Value, Vec<bool>) {
        let [case, ..] = cases().map(|case| case.on(&Device::Cpu).unwrap());
        let plan = MemoryPlan::of(&case.config, &case.settings(false), case.length).unwrap();
        let peak = plan.pooled() / 100 * percent;
        let memory = GpuMemory { total: 100 << 30, free: 60 << 30, held: 38 << 30, peak };
        let mut part = ReportPart::new(Path::new("."), "memory");
        record(&mut part, &case, &plan, (percent > 0).then_some(memory));
        part.into_results()
    }

    #[test]
    fn a_peak_above_its_plan_or_more_than_a_tenth_below_fails_and_none_is_only_said() {
        for (percent, verdicts) in [
            (100, vec![true, true]),
            (91, vec![true, true]),
            (89, vec![true, false]),
            (101, vec![false, true]),
            (0, vec![]),
        ] {
            let (fact, found) = recorded(percent);
            assert_eq!(found, verdicts, "{percent} %: {fact}");
            assert_eq!(fact["peak_bytes"].is_null(), percent == 0, "{fact}");
        }
        assert_eq!(recorded(100).0["outside_of_the_pool_bytes"], 2u64 << 30);
    }

    #[test]
    fn groups_fill_micro_batches_to_the_token() {
        for case in cases().map(|case| case.on(&Device::Cpu).unwrap()) {
            for group in full_groups(&case) {
                let tokens: usize = group.responses.iter().map(|response| response.tokens.len()).sum();
                assert_eq!(tokens, case.tokens(), "{}", case.name);
            }
        }
    }

    #[test]
    fn moments_beyond_the_hosts_memory_are_not_tried() {
        assert_eq!(too_much_of_the_host(10, Some(10)), None);
        assert_eq!(too_much_of_the_host(10, None), None);
        assert_eq!(too_much_of_the_host(10, Some(9)).unwrap(), "the host has 9 bytes, the moments take 10");
    }
}
