//! Whether the memory suffices.

use evenkeel_learner::{FirstFit, MemoryPlan};
use evenkeel_model::Recompute;
use evenkeel_model::folder::StoredParameters;
use evenkeel_proto::FieldError;

use super::super::findings::Findings;
use super::super::units::gib;
use super::{BATCH, Memory, asleep_bytes};
use crate::recipe::Recipe;

/// What is wrong with the device, or with the memory that it or the host has.
pub(in crate::dry_run) fn check(recipe: &Recipe, memory: &Memory, findings: &mut Findings) {
    if let Err(error) = recipe.learner.compute.open() {
        findings.problem(format!("learner.{error}"));
    }
    if let Some(said) = &memory.no_answer {
        findings.note(said.clone());
    }
    if let Some(Err(error)) = &memory.plan {
        findings.problem(format!("learner's memory cannot be planned: {error}"));
        return;
    }
    match (&memory.plan, memory.available_bytes) {
        (Some(Ok(plan)), Some(available)) => check_gpu(recipe, memory, plan, available, findings),
        (_, None) => {
            let device = &memory.device;
            let needed = gib(memory.needed_bytes);
            findings.note(format!("the memory of {device} is unknown here: {needed} are needed"));
            if let (Some(resident), true) = (memory.resident_bytes, asleep_bytes(recipe, None) > 0) {
                findings.note(format!("{} of {device} stay with the learner while engines are awake", gib(resident)));
            }
        }
        (_, Some(available)) if memory.needed_bytes > available => {
            let needed = gib(memory.needed_bytes);
            let room = available;
            let available = gib(available);
            let batch = memory.parts.iter().filter(|part| part.what == BATCH).map(|part| part.bytes).sum::<u64>();
            if batch > room / 2 {
                let found = format!("{} for the samples of a step, of {available} in all", gib(batch));
                let allowed =
                    "fewer sampling.prompts_per_step, sampling.group_size or sampling.max_tokens, or more memory";
                findings.problem(FieldError::new("samples of a step", found, allowed));
                return;
            }
            let way_out = match recipe.learner.compute.recompute {
                Recompute::Full => "fewer learner.compute.threads or gradient_blocks, a smaller model, or more memory",
                _ => {
                    "learner.compute.recompute = full, fewer learner.compute.threads or gradient_blocks, a smaller \
                     model, or more memory"
                }
            };
            let found = format!("{}, which has {available} of about {needed} that are needed", memory.device);
            findings.problem(FieldError::new("learner.compute.device", found, way_out));
        }
        _ => {}
    }
}

fn check_gpu(recipe: &Recipe, memory: &Memory, plan: &MemoryPlan, available: u64, findings: &mut Findings) {
    let asleep = memory.needed_bytes - plan.total();
    // The batch is in host memory too.
    let host = memory.host_available_bytes.map(|host| {
        let others: u64 = memory.host_parts.iter().map(|part| part.bytes).sum::<u64>() - plan.host_total();
        host.saturating_sub(others)
    });
    let free = available.saturating_sub(asleep);
    if let Err(error) = plan.validate(free, host, &recipe.learner) {
        findings.problem(format!("learner: {error}{}", what_fits(recipe, memory, free, host)));
    }
    if asleep > 0 {
        let room = available.saturating_sub(plan.resident());
        findings.note(format!(
            "{} of {} stay with the learner while engines are awake: an engine on it has {}, {:.0} % of the device \
             (vLLM's --gpu-memory-utilization)",
            gib(plan.resident()),
            memory.device,
            gib(room),
            (100.0 * room as f64 / available as f64).floor()
        ));
    }
}

/// The first settings with which training fits.
fn what_fits(recipe: &Recipe, memory: &Memory, free: u64, host: Option<u64>) -> String {
    let Some((config, longest)) = &memory.planned_for else { return String::new() };
    // Files that cannot be read here may store anything.
    let stored = recipe.model.path.as_ref().and_then(|path| StoredParameters::open(path, config).ok());
    let may_narrow_base = stored.is_none_or(|stored| stored.refuse_wider_than_bf16().is_ok());
    match FirstFit::of(config, &recipe.learner, *longest, free, host, may_narrow_base) {
        Ok(Some(fit)) => {
            let changes: Vec<String> = fit.changes.iter().map(|change| format!("learner.{change}")).collect();
            format!("; it fits with {}", changes.join(" and "))
        }
        Ok(None) => "; it fits with no settings".to_owned(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::flops::shapes::{large, small};
    use super::super::super::sets::DataFacts;
    use super::super::of_run;
    use super::super::tests::{ON_CPU, SMALL, recipe};
    use super::*;

    fn problem(recipe: &Recipe, memory: &Memory) -> String {
        let mut findings = Findings::default();
        check(recipe, memory, &mut findings);
        findings.problems.pop().unwrap_or_default()
    }

    #[test]
    fn a_model_that_does_not_fit_is_a_problem_with_a_way_out() {
        let recipe = recipe("paper/qwen2.5-math-7b-dapo-token", &ON_CPU);
        let memory = Memory { available_bytes: Some(64 << 30), ..of_run(&recipe, &large(), &DataFacts::default()) };
        let said = problem(&recipe, &memory);
        assert!(said.contains("cpu, which has 64.0 GiB of about") && said.contains("allowed:"), "{said}");
        let mut findings = Findings::default();
        check(&recipe, &Memory { available_bytes: None, ..memory }, &mut findings);
        assert!(findings.notes[0].contains("the memory of cpu is unknown here"), "{findings:?}");
    }

    #[test]
    fn a_gpu_or_a_host_that_is_too_small_is_a_problem_with_what_to_lower() {
        let on_device = recipe(SMALL, &[]);
        let memory = Memory {
            available_bytes: Some(40 << 30),
            host_available_bytes: Some(64 << 30),
            ..of_run(&on_device, &small(), &DataFacts::default())
        };
        let said = problem(&on_device, &memory);
        assert!(said.contains("compute.device has 38.0 GiB of free memory, needed: "), "{said}");
        assert!(said.contains("optimizer.moments = host"), "{said}");
        assert!(said.contains("; it fits with learner.optimizer.moments = host and learner."), "{said}");
        let on_host = recipe(SMALL, &["learner.optimizer.moments=host"]);
        let memory = Memory {
            available_bytes: Some(140 << 30),
            host_available_bytes: Some(20 << 30),
            ..of_run(&on_host, &small(), &DataFacts::default())
        };
        let said = problem(&on_host, &memory);
        assert!(said.contains("the host has ") && said.contains("page-locked"), "{said}");
    }

    #[test]
    fn a_gpu_that_does_not_answer_is_noted_and_its_memory_is_unknown() {
        let recipe = recipe(SMALL, &[]);
        let hung = Memory {
            available_bytes: None,
            no_answer: Some("nvidia-smi gave no answer".into()),
            ..of_run(&recipe, &small(), &DataFacts::default())
        };
        let mut findings = Findings::default();
        check(&recipe, &hung, &mut findings);
        let [silent, unknown, ..] = &findings.notes[..] else { panic!("{findings:?}") };
        assert!(
            silent == "nvidia-smi gave no answer" && unknown.contains("the memory of cuda is unknown"),
            "{findings:?}"
        );
    }

    #[test]
    fn what_an_engine_on_the_same_gpu_has_is_noted() {
        let recipe = recipe(SMALL, &[]);
        let memory = Memory { available_bytes: Some(140 << 30), ..of_run(&recipe, &small(), &DataFacts::default()) };
        let mut findings = Findings::default();
        check(&recipe, &memory, &mut findings);
        // 12 bytes for each of 1.72 billion parameters, and a GiB for the libraries.
        let said = findings.notes.iter().find(|note| note.contains("stay with the learner")).unwrap();
        assert!(said.contains("20.2 GiB of cuda stay") && said.contains("85 % of the device"), "{said}");
    }
}
