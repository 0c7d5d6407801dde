//! The pages say of the paper's models what a plan says.

use std::path::Path;

use super::super::flops::shapes::{huge, large, small};
use super::*;

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    std::fs::read_to_string(docs.join(name)).unwrap()
}

/// The plan for that many H200.
fn plan(name: &str, config: &Config, gpus: u64, set: &[&str]) -> Plan {
    let set: Vec<String> = set.iter().map(|&setting| setting.to_owned()).collect();
    let recipe = crate::recipe::load(&[name.to_owned()], &set).unwrap().settings;
    let request =
        PlanRequest { gpus, card: "h200".to_owned(), prompt_tokens: 256.0, answer_tokens: None, network: 5.0 };
    Plan::of_shape(&recipe, config, name.to_owned(), &request, Card::of("h200").unwrap()).unwrap()
}

const SMALL: &str = "paper/qwen3-1.7b-dapo-balanced";
const LARGE: &str = "paper/qwen2.5-math-7b-dapo-balanced";
const ADAPTERS: [&str; 4] = [
    "learner.lora.rank=16",
    "learner.lora.base_type=bf16",
    "learner.compute.recompute=full",
    "learner.compute.micro_batch_tokens=16384",
];

#[test]
fn steps_and_memory_of_three_models_are_those_of_their_plans() {
    let page = page("scaling.md");
    for (model, name, config, set) in [
        ("Qwen3-1.7B", SMALL, small(), &[][..]),
        ("Qwen2.5-Math-7B", LARGE, large(), &[][..]),
        ("Qwen3-32B, LoRA", SMALL, huge(), &ADAPTERS[..]),
    ] {
        let [one, eight] = [1, 8].map(|gpus| {
            let plan = plan(name, &config, gpus, set);
            assert!(plan.learner_fits(), "{model} {gpus}");
            format!("{:.1} s, {}", plan.step_seconds, Size(plan.learner_bytes))
        });
        let row = format!("| {model} | {one} | {eight} |");
        assert!(page.contains(&row), "{row}");
    }
    let in_f32 =
        ADAPTERS.map(|setting| if setting.contains("base_type") { "learner.lora.base_type=f32" } else { setting });
    let wide = plan(SMALL, &huge(), 8, &in_f32);
    assert!(!wide.learner_fits());
    assert!(page.contains(&Size(wide.learner_bytes).to_string()), "{}", Size(wide.learner_bytes));
}

#[test]
fn the_cost_of_the_papers_runs_is_that_of_their_plans() {
    let page = page("paper.md");
    let mut sums = [0.0; 2];
    for (model, name, config) in [("Qwen2.5-Math-7B", LARGE, large()), ("Qwen3-1.7B", SMALL, small())] {
        let hours = [1, 8].map(|gpus| plan(name, &config, gpus, &[]).run_hours);
        let row = format!("| a run of {model} | {:.1} h | {:.1} h |", hours[0], hours[1]);
        assert!(page.contains(&row), "{row}");
        // Three rules on two sets of problems.
        sums = [sums[0] + 6.0 * hours[0], sums[1] + 6.0 * 8.0 * hours[1]];
    }
    let hundreds = sums.map(|hours| (hours / 100.0).round() as u64);
    let thousands = |hundreds: u64| format!("{},{}00", hundreds / 10, hundreds % 10);
    let row = format!("| the twelve runs, GPU hours | {} | {} |", thousands(hundreds[0]), thousands(hundreds[1]));
    assert!(page.contains(&row), "{row}");
}
