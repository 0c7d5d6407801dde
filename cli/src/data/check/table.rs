//! What a person reads: a table of the files, what was dropped, some prompts as the model sees them, how gold answers
//! are understood.

use std::io::{self, Write};

use evenkeel_data::read::printable;
use evenkeel_data::{DataReport, Problem, Reason};
use evenkeel_math::{CheckInput, Gold, Profile, Rules};

use super::{Checked, Output};
use crate::show::with_visible_end;

/// How many prompts are shown.
const PROMPTS: usize = 5;
/// How many gold answers are shown.
const GOLDS: usize = 10;
/// How many examples of a reason are shown.
const EXAMPLES: usize = 3;

/// Collects what is shown, and shows it at the end: the table comes first.
pub(super) struct PromptTable<W> {
    output: W,
    prompts: Vec<Shown>,
    golds: Vec<(String, String)>,
    tokens: Tokens,
}

/// A prompt that is shown.
struct Shown {
    name: String,
    text: String,
    /// Absent without a model.
    tokens: Option<usize>,
}

/// Lengths of the prompts.
#[derive(Default)]
struct Tokens {
    prompts: usize,
    sum: usize,
    longest: usize,
}

impl<W: Write> PromptTable<W> {
    pub(super) fn new(output: W) -> Self {
        Self { output, prompts: Vec::new(), golds: Vec::new(), tokens: Tokens::default() }
    }

    fn files(&mut self, report: &DataReport) -> io::Result<()> {
        let mut rows = vec![["file", "shape", "rows", "prompts", "duplicates", "dropped"].map(str::to_owned)];
        for file in &report.files {
            let dropped: Vec<_> = file.dropped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
            let dropped = if dropped.is_empty() { "0".to_owned() } else { dropped.join(", ") };
            let shape = file.shape.map_or("-", |shape| shape.name()).to_owned();
            let counts = [file.rows, file.prompts, file.duplicates].map(|count| count.to_string());
            let [read, prompts, duplicates] = counts;
            rows.push([printable(&file.file), shape, read, prompts, duplicates, dropped]);
        }
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 6] = std::array::from_fn(width);
        for row in &rows {
            let [file, shape, read, prompts, duplicates, dropped] = row;
            let [w0, w1, w2, w3, w4, _] = widths;
            writeln!(
                self.output,
                "{file:<w0$}  {shape:<w1$}  {read:>w2$}  {prompts:>w3$}  {duplicates:>w4$}  {dropped}"
            )?;
        }
        Ok(())
    }

    fn examples(&mut self, report: &DataReport) -> io::Result<()> {
        for (name, examples) in &report.examples {
            let dropped_of = |file: &evenkeel_data::FileReport| {
                let dropped = file.dropped.iter().filter(|(reason, _)| reason.name() == name).map(|(_, count)| count);
                dropped.chain(file.suspicious.get(name)).sum::<u64>()
            };
            let mut count: u64 = report.files.iter().map(dropped_of).sum();
            if name == "duplicate" {
                count = report.files.iter().map(|file| file.duplicates).sum();
            }
            writeln!(self.output, "\n{count} {name}")?;
            for example in examples.iter().take(EXAMPLES) {
                writeln!(self.output, "  {} {}: {}", printable(&example.file), example.row, example.message)?;
            }
        }
        Ok(())
    }
}

impl<W: Write> Output for PromptTable<W> {
    fn prompt(&mut self, problem: &Problem, prompt: &Checked, _: &DataReport) -> io::Result<()> {
        let tokens = prompt.token_ids.as_ref().map(Vec::len);
        if let Some(tokens) = tokens {
            self.tokens.prompts += 1;
            self.tokens.sum += tokens;
            self.tokens.longest = self.tokens.longest.max(tokens);
        }
        if self.prompts.len() < PROMPTS {
            self.prompts.push(Shown { name: problem.id.to_string(), text: prompt.text.clone(), tokens });
        }
        for gold in problem.task.golds() {
            if self.golds.len() < GOLDS && !self.golds.iter().any(|(known, _)| known == gold) {
                self.golds.push((gold.to_owned(), understood(gold, problem.task.math_profile())));
            }
        }
        Ok(())
    }

    fn finish(&mut self, report: &DataReport) -> io::Result<()> {
        self.files(report)?;
        let Tokens { prompts, sum, longest } = self.tokens;
        if let Some(average) = sum.checked_div(prompts) {
            writeln!(self.output, "\n{prompts} prompts, {average} tokens on average, {longest} in the longest")?;
        }
        self.examples(report)?;
        for shown in &self.prompts {
            match shown.tokens {
                Some(tokens) => {
                    writeln!(self.output, "\n--- {} ({tokens} tokens), as the model sees it", printable(&shown.name))?;
                }
                None => writeln!(self.output, "\n--- {}, without a model (--model)", printable(&shown.name))?,
            }
            writeln!(self.output, "{}", with_visible_end(&shown.text))?;
        }
        if !self.golds.is_empty() {
            writeln!(self.output, "\ngold answers and how they are understood")?;
        }
        for (gold, understood) in &self.golds {
            writeln!(self.output, "  {}  →  {}", printable(gold), printable(understood))?;
        }
        self.output.flush()
    }
}

/// A gold answer as the verifier reads it.
fn understood(gold: &str, profile: &str) -> String {
    let rules = profile.parse::<Profile>().map_or_else(|_| Rules::default(), |profile| profile.rules());
    match Gold::read(gold, &rules) {
        Ok(read) => read
            .check(CheckInput::Extracted(gold), &rules)
            .canonical()
            .unwrap_or_else(|| Reason::UnreadableGold.to_string()),
        Err(bad) => bad.to_string(),
    }
}
