//! Extraction of the program from a completion.

/// How the program is extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extraction {
    /// The lines between the last two lines that contain a fence anywhere: LiveCodeBench's rule.
    LiveCodeBench,
    /// The last fenced block that is closed: a completion that was cut off in a later block still has a program.
    LastCompleteFence,
}

const FENCE: &str = "```";

/// Extracts the program. `None` if there is none.
#[must_use]
pub fn extract(completion: &str, rule: Extraction) -> Option<String> {
    match rule {
        Extraction::LiveCodeBench => between_last_two(completion),
        Extraction::LastCompleteFence => last_complete(completion),
    }
}

fn between_last_two(completion: &str) -> Option<String> {
    let lines: Vec<&str> = completion.split('\n').collect();
    let mut fences = lines.iter().enumerate().rev().filter(|(_, line)| line.contains(FENCE)).map(|(index, _)| index);
    let last = fences.next()?;
    let before = fences.next()?;
    Some(lines[before + 1..last].join("\n"))
}

fn last_complete(completion: &str) -> Option<String> {
    let mut found = None;
    let mut open: Option<Fence> = None;
    let mut at = 0;
    for line in completion.split_inclusive('\n') {
        match &open {
            None => open = Fence::opened_by(line, at + line.len()),
            Some(fence) if fence.is_closed_by(line) => {
                found = Some((fence.start, at, fence.indent));
                open = None;
            }
            Some(_) => {}
        }
        at += line.len();
    }
    let (start, end, indent) = found?;
    Some(dedent(&completion[start..end], indent))
}

/// The opening fence of a block.
struct Fence {
    /// Number of backticks.
    width: usize,
    /// Spaces before them: a block in a list is indented.
    indent: usize,
    /// Start of the block's first line.
    start: usize,
}

impl Fence {
    fn opened_by(line: &str, start: usize) -> Option<Self> {
        let text = line.trim_start_matches(' ');
        let width = backticks(text);
        // A line with more backticks contains inline code.
        let opens = width >= FENCE.len() && !text[width..].contains('`');
        opens.then(|| Self { width, indent: line.len() - text.len(), start })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        let width = backticks(text);
        width >= self.width && text.len() == width
    }
}

fn backticks(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'`').count()
}

fn dedent(block: &str, indent: usize) -> String {
    if indent == 0 {
        return block.to_owned();
    }
    block
        .split_inclusive('\n')
        .map(|line| {
            let spaces = line.bytes().take(indent).take_while(|byte| *byte == b' ').count();
            &line[spaces..]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lcb(completion: &str) -> Option<String> {
        extract(completion, Extraction::LiveCodeBench)
    }

    fn complete(completion: &str) -> Option<String> {
        extract(completion, Extraction::LastCompleteFence)
    }

    #[test]
    fn the_last_block_is_found_by_both_rules() {
        let completion = "First\n```python\nold\n```\nBetter:\n```python\nnew\n```\nDone.";
        assert_eq!(lcb(completion).as_deref(), Some("new"));
        assert_eq!(complete(completion).as_deref(), Some("new\n"));
    }

    #[test]
    fn a_truncated_completion_yields_prose_by_livecodebenchs_rule_and_the_last_closed_block_by_the_other() {
        let completion = "```python\nwhole\n```\nprose\n```python\ncut";
        assert_eq!(lcb(completion).as_deref(), Some("prose"));
        assert_eq!(complete(completion).as_deref(), Some("whole\n"));
    }

    #[test]
    fn a_fence_inside_a_line_counts_for_livecodebench_only() {
        let completion = "```python\ns = '''\n  x = '```'\n'''\n```";
        assert_eq!(lcb(completion).as_deref(), Some("'''"));
        assert_eq!(complete(completion).as_deref(), Some("s = '''\n  x = '```'\n'''\n"));
    }

    #[test]
    fn a_longer_fence_contains_a_shorter_one() {
        assert_eq!(complete("````\n```\nx\n```\n````\n").as_deref(), Some("```\nx\n```\n"));
    }

    #[test]
    fn a_block_in_a_list_loses_its_indentation() {
        assert_eq!(complete("1. so:\n   ```py\n   if x:\n       y\n   ```\n").as_deref(), Some("if x:\n    y\n"));
    }

    #[test]
    fn without_two_fences_there_is_no_program() {
        for completion in ["", "print(1)", "```python\nprint(1)", "``` print(1) ```"] {
            assert_eq!(lcb(completion), None, "{completion}");
            assert_eq!(complete(completion), None, "{completion}");
        }
    }

    #[test]
    fn an_empty_block_is_an_empty_program() {
        assert_eq!(lcb("```\n```").as_deref(), Some(""));
        assert_eq!(complete("```\n```").as_deref(), Some(""));
    }
}
