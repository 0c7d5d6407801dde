//! A comparison as Markdown, for a page that is kept.

use std::fmt::Write;

use crate::comparison::Comparison;
use crate::conclusions::ConclusionKind;
use crate::late_loss::LATE_LOSS;
use crate::table_one::HEADING;
use crate::text::{arms, benchmarks, losses, over_tasks, pairs, pairs_left_out, shown};

impl Comparison {
    /// The conclusions, then the tables of [`Comparison::to_text`] under a heading for each task. What is shown is
    /// bold.
    pub fn to_markdown(&self) -> String {
        let mut text = "## What can and what cannot be concluded\n".to_owned();
        for (heading, conclusions) in self.conclusions_by_task() {
            if let Some(heading) = heading {
                let _ = writeln!(text, "\n### {}", shown(heading));
            }
            text.push('\n');
            for conclusion in conclusions {
                let bold = if conclusion.kind == ConclusionKind::Shown { "**" } else { "" };
                let _ = writeln!(text, "- {bold}{}{bold}", shown(&conclusion.text));
            }
        }
        if let Some(table) = &self.table_one {
            let _ = writeln!(text, "\n## {HEADING}\n\n{}", table.text_table().markdown().trim_end());
            let _ = writeln!(text, "\n{}", table.other_table().markdown().trim_end());
            let _ = writeln!(text, "\n{}\n", table.benchmark_table().markdown().trim_end());
            for note in table.notes() {
                let _ = writeln!(text, "- {}", shown(&note));
            }
        }
        for across in &self.across_tasks {
            let measure = across.measure.name();
            let tasks = across.tasks.len();
            let _ = writeln!(text, "\n## {measure} over {tasks} tasks\n\n{}", over_tasks(across).markdown().trim_end());
        }
        for task in &self.tasks {
            let k = task.samples.map(|k| format!(", k = {k}")).unwrap_or_default();
            let _ = writeln!(text, "\n## {}{k}\n\n{}", shown(&task.task), arms(task).markdown().trim_end());
            if task.arms.iter().any(|arm| arm.benchmarks.len() > 1) {
                let _ = writeln!(text, "\n{}", benchmarks(task).markdown().trim_end());
            }
            if let Some(losses) = losses(task) {
                let _ = writeln!(text, "\n{LATE_LOSS}:\n\n{}", losses.markdown().trim_end());
            }
            if !task.pairs.is_empty() {
                let _ = writeln!(text, "\n{}", pairs(task).markdown().trim_end());
                if let Some(left_out) = pairs_left_out(task) {
                    let _ = writeln!(text, "\n{left_out}");
                }
            }
        }
        if !self.remarks.is_empty() {
            text.push_str("\n## About the runs that were read\n\n");
            self.remarks.iter().for_each(|said| text.push_str(&format!("- {}\n", shown(said))));
        }
        text
    }
}
