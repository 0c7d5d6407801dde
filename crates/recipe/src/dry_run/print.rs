//! A dry run as text for a terminal.

use evenkeel_data::Purpose;
use evenkeel_data::read::printable;

use super::cost::{Costs, EvaluationCost, StepCost};
use super::memory::{Memory, Need};
use super::report::DryRunReport;
use super::sets::DataFacts;
use super::units::{count, gib, scaled};

impl DryRunReport {
    /// The report for a terminal.
    pub fn to_text(&self) -> String {
        let DryRunReport { recipe, aggregation, steps, prompts_per_step, group_size, .. } = self;
        let mut text = match self.findings.problems.len() {
            0 => "the run can start\n".to_owned(),
            1 => "the run cannot start: 1 problem\n".to_owned(),
            count => format!("the run cannot start: {count} problems\n"),
        };
        for problem in &self.findings.problems {
            text += &format!("problem: {}\n", printable(problem));
        }
        for note in &self.findings.notes {
            text += &format!("note: {}\n", printable(note));
        }
        text += &format!("\n{recipe}: {steps} steps of {prompts_per_step} prompts x {group_size} samples\n");
        text += &format!("rule   {aggregation}\n");
        text += &format!("time   {}\n\n", self.time);
        text += &model(self);
        text += &data(&self.data);
        if let Some(costs) = &self.costs {
            text += &prices(costs);
        }
        if let Some(memory) = &self.memory {
            text += &needs(memory);
        }
        text
    }
}

fn model(report: &DryRunReport) -> String {
    let model = &report.model;
    let name = model.folder.as_deref().unwrap_or("a fresh model");
    let shape = match (model.parameters, model.context_tokens) {
        (Some(parameters), Some(context)) => {
            format!("{} parameters, context of {} tokens", scaled(parameters as f64, ""), count(context as u64))
        }
        _ => "of unknown shape".to_owned(),
    };
    let template = if model.chat_template { ", chat template" } else { "" };
    format!("model  {name}: {shape}{template}\n\n")
}

fn data(data: &DataFacts) -> String {
    if data.sets.is_empty() {
        return "data   none\n\n".to_owned();
    }
    let mut rows = vec![["data", "", "rows", "prompts", "mean tokens", "longest"].map(str::to_owned)];
    for set in &data.sets {
        let part = match set.part {
            Purpose::Training => "training",
            Purpose::Evaluation => "evaluation",
        };
        let unknown = || "-".to_owned();
        let mean = set.mean_tokens.map_or_else(unknown, |mean| format!("{mean:.0}"));
        let longest = set.longest_tokens.map_or_else(unknown, count);
        rows.push([printable(&set.name), part.to_owned(), count(set.rows), count(set.prompts), mean, longest]);
    }
    table(&rows)
}

fn prices(costs: &Costs) -> String {
    let half = &costs.step_at_half;
    let most = &costs.step_at_most;
    let row = |name: &str, of: &dyn Fn(&StepCost) -> String| [name.to_owned(), of(half), of(most)];
    let length = |cost: &StepCost| count(cost.answer_tokens_each as u64);
    let mut rows = vec![
        ["a step".to_owned(), length(half) + " tokens an answer", length(most)],
        row("samples", &|cost| count(cost.samples)),
        row("tokens, prompts included", &|cost| count(cost.tokens as u64)),
        row("generation", &|cost| scaled(cost.generation_flops, "FLOP")),
        row("old and reference log-probabilities", &|cost| scaled(cost.scoring_flops, "FLOP")),
        row("forward and backward", &|cost| scaled(cost.training_flops, "FLOP")),
        row("the batch in memory", &|cost| gib(cost.batch_bytes as u64)),
        row("keys and values of all samples", &|cost| gib(cost.cache_bytes as u64)),
    ];
    if half.samples_at_most > half.samples {
        rows.insert(2, row("samples at most (dynamic sampling)", &|cost| count(cost.samples_at_most)));
    }
    let mut text = table(&rows);
    if let (Some(half), Some(most)) = (&costs.evaluation_at_half, &costs.evaluation_at_most) {
        let answer = |cost: &EvaluationCost| count(cost.answer_tokens as u64 / cost.samples);
        let row = |name: &str, of: &dyn Fn(&EvaluationCost) -> String| [name.to_owned(), of(half), of(most)];
        text += &table(&[
            ["an evaluation".to_owned(), answer(half) + " tokens an answer", answer(most)],
            row("problems", &|cost| count(cost.problems)),
            row("samples", &|cost| count(cost.samples)),
            row("tokens, prompts included", &|cost| count(cost.tokens as u64)),
            row("generation", &|cost| scaled(cost.flops, "FLOP")),
        ]);
    }
    let run = &costs.run;
    let at_least = if half.samples_at_most > half.samples { "at least " } else { "" };
    text += &format!(
        "the run: {at_least}{} training samples, {} samples of {} evaluations, {} if answers are half of the maximum \
         length\n",
        count(run.training_samples),
        count(run.evaluation_samples),
        costs.evaluations,
        scaled(run.flops, "FLOP")
    );
    let disk = costs.disk_bytes.map_or_else(|| "all are kept".to_owned(), |bytes| format!("{} in all", gib(bytes)));
    text += &format!(
        "on disk: {} for each version of the weights, {} for each checkpoint, {disk}\n",
        gib(costs.published_bytes),
        gib(costs.checkpoint_bytes)
    );
    if !costs.prompt_tokens_are_known {
        text += &format!("prompts are assumed to have {:.0} tokens: their lengths are unknown\n", costs.prompt_tokens);
    }
    text + "\n"
}

fn needs(memory: &Memory) -> String {
    let most = memory.phase.map(|phase| format!(", most in {phase}")).unwrap_or_default();
    let mut rows = vec![[format!("memory of {}{most}", memory.device), gib(memory.needed_bytes)]];
    let row = |part: &Need| {
        if part.is_activations {
            [format!("  {}, {} tokens", part.what, count(memory.micro_batch_tokens)), gib(part.bytes)]
        } else {
            [format!("  {}", part.what), gib(part.bytes)]
        }
    };
    rows.extend(memory.parts.iter().map(row));
    if !memory.host_parts.is_empty() {
        let bytes = memory.host_parts.iter().map(|part| part.bytes).sum();
        rows.push(["memory of the host".to_owned(), gib(bytes)]);
        rows.extend(memory.host_parts.iter().map(row));
    }
    table(&rows)
}

/// Columns of their widest entry, the first to the left and numbers to the right, and an empty line after them.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (index, (entry, width)) in row.iter().zip(widths).enumerate() {
            let is_text = index == 0 || !entry.starts_with(|first: char| first.is_ascii_digit());
            line += &if is_text { format!("{entry:<width$}  ") } else { format!("{entry:>width$}  ") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text + "\n"
}
