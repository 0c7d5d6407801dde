//! `README.md`: what trained the model.

use std::fmt::Write;

use anyhow::Result;
use evenkeel_data::DataReport;
use evenkeel_learner::{LoraSettings, PublishType};
use evenkeel_recipe::Recipe;
use evenkeel_run::{ForkOrigin, Heads, MetricsLine, RunRecord, WeightsProof, at_k};

use super::base::Base;
use super::prompting::how_to_prompt;
use super::source::StoredWeights;
use crate::documentation::changed;

/// Steps whose mean is the final value of a metric.
const LAST: usize = 10;

/// Metrics of training that a reader wants first, with what they are.
const METRICS: [(&str, &str); 5] = [
    ("critic/score/mean", "reward"),
    ("response_length/mean", "response length in tokens"),
    ("response_length/clip_ratio", "share of truncated responses"),
    ("actor/entropy", "entropy in nats"),
    ("actor/grad_norm", "gradient norm"),
];

/// What a model card is about.
pub(super) struct ModelCard<'a> {
    pub(super) run: &'a RunRecord,
    pub(super) recipe: &'a Recipe,
    pub(super) source: &'a StoredWeights,
    pub(super) base: &'a Base,
    /// The adapters that the folder holds instead of a model.
    pub(super) lora: Option<&'a LoraSettings>,
    pub(super) weights: PublishType,
    /// Heads of the run's receipt after the step; `None` where it has none.
    pub(super) heads: Option<&'a Heads>,
}

impl ModelCard<'_> {
    /// The card, with the metadata that the Hugging Face hub reads.
    pub(super) fn text(&self) -> Result<String> {
        let Self { run, recipe, source, base, lora, .. } = *self;
        let mut text = String::new();
        header(&mut text, base, lora.is_some())?;
        training(&mut text, self)?;
        how_to_prompt(&mut text, run, recipe, base, lora)?;
        if let Some(report) = &run.data {
            data(&mut text, report)?;
        }
        metrics(&mut text, run, source.step)?;
        let mut shown = recipe.clone();
        if let Base::Folder(name) = base {
            shown.model.path = Some(name.into());
        }
        let settings = changed(&shown)?;
        write!(
            text,
            "\n## Recipe\n\nThe settings that differ from the defaults of Evenkeel {}.\n\n```toml\n{}\n```\n",
            run.program_version,
            settings.trim_end()
        )?;
        Ok(text)
    }
}

fn header(text: &mut String, base: &Base, is_adapter: bool) -> Result<()> {
    let library = if is_adapter { "peft" } else { "transformers" };
    writeln!(text, "---\nlibrary_name: {library}\npipeline_tag: text-generation")?;
    // The hub takes the name of one of its repositories and nothing else.
    if let Base::Hub { repository, .. } = base {
        writeln!(text, "base_model: {repository}")?;
    }
    text.push_str("tags:\n- evenkeel\n- reinforcement-learning\n- grpo\n");
    text.push_str(if is_adapter { "- lora\n---\n\n" } else { "---\n\n" });
    Ok(())
}

fn training(text: &mut String, card: &ModelCard) -> Result<()> {
    let ModelCard { run, recipe, source, base, weights, heads, .. } = *card;
    let objective = &recipe.learner.objective;
    writeln!(text, "# {} after step {}\n", run.run_id, source.step)?;
    writeln!(
        text,
        "Trained by reinforcement learning with verifiable rewards with Evenkeel {}, starting from {}.\n",
        run.program_version,
        base.shown()
    )?;
    let learner = &recipe.learner.optimizer;
    let done = run.steps.iter().filter(|line| line.step <= source.step);
    let proof = match WeightsProof::of_lines(done) {
        Some(proof) => proof.to_string(),
        None if recipe.proof.every == 0 => "not checked (proof.every is 0)".to_owned(),
        None => "undecided: no step has proven them".to_owned(),
    };
    let rows = [
        ("run", format!("`{}`", run.run_id)),
        ("GRPO steps", format!("{} of {}", source.step, recipe.run.steps)),
        ("supervised steps before", run.warm_start.len().to_string()),
        ("seed", recipe.run.seed.to_string()),
        ("samples in a step", format!("{} prompts × {}", recipe.sampling.prompts_per_step, recipe.sampling.group_size)),
        ("updates in a step", recipe.updates_per_step().to_string()),
        ("longest answer", format!("{} tokens", recipe.sampling.max_tokens)),
        ("temperature", recipe.sampling.temperature.to_string()),
        ("aggregation", objective.aggregation.to_string()),
        ("objective", format!("`{}`", recipe.learner.formula())),
        ("learning rate", learner.learning_rate.to_string()),
        ("engine weights", proof),
        ("type of these weights", format!("{weights:?}").to_lowercase()),
    ];
    let head = heads.map(|Heads { determined, whole }| {
        [("head of receipt.jsonl", determined), ("head with what was observed", whole)]
            .map(|(name, head)| (name, format!("`{head}`")))
    });
    text.push_str("| | |\n|---|---|\n");
    for (name, value) in rows.into_iter().chain(head.into_iter().flatten()) {
        writeln!(text, "| {name} | {} |", value.replace('|', "\\|"))?;
    }
    if let Some(ForkOrigin { run_id, step, changed, .. }) = &run.forked_from {
        let changed = if changed.is_empty() { "the same settings".to_owned() } else { changed.join("; ") };
        writeln!(text, "\nThe run was forked from run `{run_id}` after step {step}: {changed}.")?;
    }
    Ok(())
}

/// The files, those that evaluations have problems of too in two rows.
fn data(text: &mut String, data: &DataReport) -> Result<()> {
    text.push_str("\n## Data\n\n| file | source | used for | prompts | digest |\n|---|---|---|---|---|\n");
    for file in &data.files {
        let name = match file.file.as_str() {
            "" => "built in".to_owned(),
            path => format!("`{}`", super::name(path.as_ref())),
        };
        let part = format!("{:?}", file.part).to_lowercase();
        let digest = file.digest.as_deref().map_or_else(|| "–".to_owned(), |digest| format!("`{digest}`"));
        let parts = [(part, file.prompts - file.held_out), ("evaluation (held out)".to_owned(), file.held_out)];
        for (index, (part, prompts)) in parts.iter().enumerate() {
            if index == 0 || *prompts > 0 {
                writeln!(text, "| {name} | {} | {part} | {prompts} | {digest} |", file.source)?;
            }
        }
    }
    Ok(())
}

fn metrics(text: &mut String, run: &RunRecord, step: u64) -> Result<()> {
    let done = run.steps.partition_point(|line| line.step <= step);
    let last = &run.steps[done.saturating_sub(LAST)..done];
    if !last.is_empty() {
        writeln!(text, "\n## Training\n\nMeans of the last {} steps.\n\n| metric | value |\n|---|---|", last.len())?;
        for (name, what) in METRICS {
            if let Some(mean) = mean(last, name) {
                writeln!(text, "| {what} (`{name}`) | {mean:.4} |")?;
            }
        }
    }
    if let Some(line) = run.evaluations.iter().rev().find(|line| line.step <= step) {
        writeln!(text, "\n## Evaluation\n\nAfter step {}.\n\n| metric | value |\n|---|---|", line.step)?;
        for (name, value) in line.values.iter().filter(|(name, _)| at_k::parse_core(name).is_some()) {
            writeln!(text, "| `{name}` | {value:.4} |")?;
        }
    }
    Ok(())
}

fn mean(lines: &[MetricsLine], name: &str) -> Option<f64> {
    let values: Vec<f64> = lines.iter().filter_map(|line| line.get(name)).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_that_were_held_out_are_not_among_those_that_were_trained_on() {
        let written = |held_out| {
            let mut report = DataReport::of("rows", 100);
            report.files[0].held_out = held_out;
            let mut text = String::new();
            data(&mut text, &report).unwrap();
            text
        };
        let with = written(10);
        assert!(with.contains("| built in | rows | training | 90 | – |\n"), "{with}");
        assert!(with.contains("| built in | rows | evaluation (held out) | 10 | – |\n"), "{with}");
        let without = written(0);
        assert!(without.contains("| training | 100 |") && !without.contains("held out"), "{without}");
    }

    #[test]
    fn the_metadata_names_a_base_of_the_hub_without_its_revision_and_no_folder() {
        let written = |base: &Base, is_adapter| {
            let mut text = String::new();
            header(&mut text, base, is_adapter).unwrap();
            text
        };
        let hub = Base::Hub { repository: "a/b".to_owned(), revision: "c".repeat(40) };
        let adapter = written(&hub, true);
        assert!(adapter.contains("\nbase_model: a/b\n") && adapter.contains("\nlibrary_name: peft\n"), "{adapter}");
        let model = written(&hub, false);
        assert!(model.contains("\nbase_model: a/b\n") && model.contains("\nlibrary_name: transformers\n"), "{model}");
        let local = written(&Base::Folder("mine".to_owned()), false);
        assert!(!local.contains("base_model") && !local.contains("mine"), "{local}");
    }
}
