//! Extraction of the program from a completion.
//!
//! A completion is thinking, words and blocks. [`extract`] finds the blocks that may be the program, the last one
//! first. Usually that is one; of several, `judge::choose` takes the first that is a whole program.

mod blocks;
mod commands;
mod fence;
mod strings;
mod tag;

use blocks::{CodeBlock, blocks};
use tag::Language;

/// How the program is extracted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extraction {
    /// The lines between the last two lines that contain a fence anywhere: LiveCodeBench's rule.
    LiveCodeBench,
    /// The last block of Python that is a program, or, without any block of Python, the last one that names no
    /// language.
    LastProgram,
}

/// A block that may be the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Text of the block, without its fences.
    pub text: String,
    /// Whether the completion says that it is Python. If it does not compile nevertheless, that is the program's fault.
    pub is_python: bool,
}

/// Why a completion has no program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoProgram {
    /// There is no fenced block.
    #[error("the completion holds no program")]
    NoBlock,
    /// The blocks hold nothing, comments, commands, or a session of the interpreter.
    #[error("no block of the completion holds a program")]
    EmptyBlock,
    /// All blocks are in other languages; the last one is named.
    #[error("the completion holds no Python: its last block is `{0}`")]
    OtherLanguage(String),
    /// The thinking was never closed.
    #[error("the thinking never ended")]
    UnclosedThinking,
}

/// Most candidates: a completion with more blocks of Python is judged by its last ones.
const MAX_CANDIDATES: usize = 16;
/// What ends a completion: tokens that no program has at the end of a line.
const END_TOKENS: [&str; 8] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<|return|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
];
/// What ends a block without a closing fence.
const ENDS_OF_BLOCK: [&str; 4] = ["</answer>", "</s>", "<eos>", "</solution>"];

/// The blocks that may be the program of a completion, the last one first; at least one.
///
/// # Errors
///
/// Why there is none.
pub fn extract(completion: &str, rule: Extraction) -> Result<Vec<Candidate>, NoProgram> {
    match rule {
        Extraction::LiveCodeBench => {
            let text = between_last_two(completion).ok_or(NoProgram::NoBlock)?;
            Ok(vec![Candidate { text, is_python: true }])
        }
        Extraction::LastProgram => candidates(completion),
    }
}

fn between_last_two(completion: &str) -> Option<String> {
    let lines: Vec<&str> = completion.split('\n').collect();
    let mut fences = lines.iter().enumerate().rev().filter(|(_, line)| line.contains("```")).map(|(index, _)| index);
    let last = fences.next()?;
    let before = fences.next()?;
    Some(lines[before + 1..last].join("\n"))
}

fn candidates(completion: &str) -> Result<Vec<Candidate>, NoProgram> {
    let answer = evenkeel_thinking::answer(completion).ok_or(NoProgram::UnclosedThinking)?;
    let text = until_end_token(answer);
    if let Some(program) = bare(text) {
        return Ok(vec![Candidate { text: program, is_python: false }]);
    }
    let blocks = opened(blocks(text));
    for wanted in [Language::Python, Language::Unknown] {
        let mut found: Vec<&CodeBlock> = blocks.iter().rev().filter(|block| block.language == wanted).collect();
        // A block that was cut off is only better than none.
        found.sort_by_key(|block| !block.closed);
        let candidate = |block: &CodeBlock| {
            let text = program_text(block);
            let is_python = wanted == Language::Python && block.certain;
            (!commands::is_no_program(&text)).then_some(Candidate { text, is_python })
        };
        let candidates: Vec<Candidate> = found.into_iter().filter_map(candidate).take(MAX_CANDIDATES).collect();
        if !candidates.is_empty() {
            return Ok(candidates);
        }
    }
    let other = blocks.iter().rev().find_map(|block| match &block.language {
        Language::Other(name) => Some(name.clone()),
        _ => None,
    });
    let has_program = |block: &CodeBlock| matches!(block.language, Language::Python | Language::Unknown);
    match other {
        _ if blocks.is_empty() => Err(NoProgram::NoBlock),
        Some(name) if !blocks.iter().any(has_program) => Err(NoProgram::OtherLanguage(name)),
        _ => Err(NoProgram::EmptyBlock),
    }
}

/// What begins a line of Python that is no sentence.
const STATEMENTS: [&str; 6] = ["def ", "class ", "import ", "from ", "@", "async def "];

/// A program without a fence before it: the text is code from its first line on, after the name of the language, up to
/// its end or to a closing fence alone. `None` for anything else.
fn bare(text: &str) -> Option<String> {
    let mut fences = text.match_indices("```");
    let end = fences.next().map_or(text.len(), |(at, _)| at);
    if fences.next().is_some() {
        return None;
    }
    let code = text[..end].trim_start_matches(['\n', '\r']);
    let code = ["python3\n", "python\n", "py\n"].iter().find_map(|name| code.strip_prefix(name)).unwrap_or(code);
    let is_alone = end == text.len() || text[..end].ends_with('\n');
    let first = code.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'))?;
    let is_assignment = || {
        let (name, value) = first.split_once('=')?;
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ',' | ' ');
        (name.chars().all(is_name) && !value.starts_with('=') && value.contains('(')).then_some(())
    };
    let is_code = STATEMENTS.iter().any(|start| first.starts_with(start)) || is_assignment().is_some();
    (is_alone && is_code).then(|| code.to_owned())
}

/// The blocks with those in Markdown replaced by the blocks in them.
fn opened(found: Vec<CodeBlock>) -> Vec<CodeBlock> {
    let mut opened = Vec::with_capacity(found.len());
    for block in found {
        if block.language == Language::Markdown {
            opened.extend(blocks(&block.text));
        } else {
            opened.push(block);
        }
    }
    opened
}

/// The completion up to the first end token that ends a line.
fn until_end_token(answer: &str) -> &str {
    let mut at = 0;
    for line in answer.split_inclusive('\n') {
        let text = without_tokens(line.trim_end(), &END_TOKENS);
        if text.len() < line.trim_end().len() {
            return &answer[..at + text.len()];
        }
        at += line.len();
    }
    answer
}

/// The text without the tokens at its end.
fn without_tokens<'t>(mut text: &'t str, tokens: &[&str]) -> &'t str {
    while let Some(rest) = tokens.iter().find_map(|token| text.strip_suffix(token)) {
        text = rest.trim_end();
    }
    text
}

/// The text of a block as a program: without marks of encodings before it, not indented as a whole, and up to what ends
/// an open block.
fn program_text(block: &CodeBlock) -> String {
    let text = block.text.trim_start_matches(['\u{feff}', '\u{200b}']);
    let text = if block.closed { text } else { until_end_of_block(text) };
    unindented(text)
}

fn until_end_of_block(text: &str) -> &str {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let kept = without_tokens(line.trim_end(), &ENDS_OF_BLOCK);
        if kept.len() < line.trim_end().len() {
            return &text[..at + kept.len()];
        }
        at += line.len();
    }
    text
}

/// Removes the indentation of the first line from all lines, if they have it: no program begins with spaces.
fn unindented(text: &str) -> String {
    let filled = || text.lines().filter(|line| !line.trim().is_empty());
    let first = filled().next().unwrap_or_default();
    let indent = &first[..first.len() - first.trim_start_matches([' ', '\t']).len()];
    if indent.is_empty() || !filled().all(|line| line.starts_with(indent)) {
        return text.to_owned();
    }
    text.split_inclusive('\n')
        .map(|line| line.strip_prefix(indent).unwrap_or_else(|| line.trim_start_matches([' ', '\t'])))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lcb(completion: &str) -> Option<String> {
        extract(completion, Extraction::LiveCodeBench).ok().map(|found| found[0].text.clone())
    }

    fn all(completion: &str) -> Result<Vec<String>, NoProgram> {
        let found = extract(completion, Extraction::LastProgram)?;
        Ok(found.into_iter().map(|candidate| candidate.text).collect())
    }

    /// The candidate, of which there is one.
    fn only(completion: &str) -> String {
        let [found] = <[String; 1]>::try_from(all(completion).expect(completion)).expect(completion);
        found
    }

    #[test]
    fn the_last_block_comes_first() {
        let completion = "First\n```python\nold\n```\nBetter:\n```python\nnew\n```\nDone.";
        assert_eq!(lcb(completion).as_deref(), Some("new"));
        assert_eq!(all(completion).unwrap(), ["new\n", "old\n"]);
    }

    #[test]
    fn blocks_of_python_come_before_those_without_a_language_and_others_do_not_count() {
        for tail in ["```\n6\n```", "```text\n6\n```", "```cpp\nint main() {}\n```", "```console\n$ python a.py\n```"] {
            assert_eq!(only(&format!("```python\na\n```\nNote:\n\n{tail}\n")), "a\n", "{tail}");
        }
        assert_eq!(only("```\na\n```\n```json\n{}\n```"), "a\n");
        assert_eq!(only("```solution\na\n```"), "a\n", "an unknown name says nothing");
    }

    #[test]
    fn a_block_that_was_cut_off_counts_only_without_another() {
        let completion = "```python\nwhole\n```\nprose\n```python\ncut";
        assert_eq!(lcb(completion).as_deref(), Some("prose"));
        assert_eq!(all(completion).unwrap(), ["whole\n", "cut"]);
        for end in [
            "",
            "\n",
            "<|im_end|>",
            "\n<|im_end|>\n<|im_start|>user\nThanks\n",
            "</answer>",
            "\n</answer>\n",
            "<|endoftext|><|endoftext|>",
        ] {
            assert_eq!(only(&format!("Answer:\n```python\na{end}")).trim_end(), "a", "{end:?}");
        }
        assert_eq!(only("```python\nprint('<s>a</s>')\n```"), "print('<s>a</s>')\n", "in a string");
        assert_eq!(only("```python\ns = '''\n</s>\n'''\n```"), "s = '''\n</s>\n'''\n", "in a block that is closed");
    }

    #[test]
    fn a_fence_inside_a_string_counts_for_livecodebench_only() {
        let completion = "```python\ns = '''\n  x = '```'\n'''\n```";
        assert_eq!(lcb(completion).as_deref(), Some("'''"));
        assert_eq!(only(completion), "s = '''\n  x = '```'\n'''\n");
    }

    #[test]
    fn a_longer_fence_contains_a_shorter_one() {
        assert_eq!(only("````\n```\nx\n```\n````\n"), "```\nx\n```\n");
        assert_eq!(only("````markdown\n```python\nx\n```\n````\n"), "x\n", "and Markdown contains blocks");
    }

    #[test]
    fn a_program_without_a_fence_before_it_is_one() {
        for text in [
            "def f(n):\n    return n\n",
            "python\ndef f(n):\n    return n\n",
            "def f(n):\n    return n\n```",
            "def f(n):\n    return n\n```\nIt returns n.",
            "n = int(input())\nprint(n)\n",
        ] {
            let program = only(text);
            assert!(text.contains(&program) && !program.contains("```") && program.len() > 15, "{text}: {program}");
        }
        for text in ["I would print it.", "from the start it is clear\n```python\nx\n```", "x = 3 is the answer", ""] {
            let found = all(text);
            assert!(found.is_err() || found.unwrap() == ["x\n"], "{text}");
        }
    }

    #[test]
    fn indentation_and_marks_before_a_program_are_removed() {
        assert_eq!(only("```py\n    if x:\n        y\n```\n"), "if x:\n    y\n");
        assert_eq!(only("```py\n    x\ny\n```\n"), "    x\ny\n", "only if every line has it");
        assert_eq!(only("```py\n\u{feff}x\n```\n"), "x\n");
    }

    #[test]
    fn thinking_does_not_count() {
        assert_eq!(only("<think>\n```python\nx\n</think>\n```python\ny\n```"), "y\n");
        assert_eq!(only("```python\nx\n```\n</think>\n```python\ny\n```"), "y\n");
        assert_eq!(all("<think>\n```python\nx\n```\n"), Err(NoProgram::UnclosedThinking));
        assert_eq!(all("<think>\n```python\nx\n```\n</think>\nIt is done."), Err(NoProgram::NoBlock));
    }

    const PIECES: [&str; 24] = [
        "```",
        "````",
        "~~~",
        "python",
        "\n",
        " ",
        "    ",
        "\t",
        "> ",
        "- ",
        "1. ",
        "\"",
        "'''",
        "\"\"\"",
        "#",
        "\\",
        "x = 1",
        "é",
        "<think>",
        "</think>",
        "<|im_end|>",
        "</answer>",
        "text: ",
        "markdown",
    ];
    const LINES: [&str; 9] = [
        "n = int(input())\n",
        "print(n)\n",
        "s = '```'\n",
        "# it's a comment\n",
        "\"\"\"a\n```\nb\n```\n\"\"\"\n",
        "t = \"don't\"\n",
        "\n",
        "if n:\n    print('<a></a>')\n",
        "u = '\\''\n",
    ];

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..60)) {
            let found = extract(&pieces.concat(), Extraction::LastProgram);
            prop_assert!(found.is_err() || found.is_ok_and(|found| (1..=MAX_CANDIDATES).contains(&found.len())));
        }

        #[test]
        fn a_program_is_the_same_in_every_kind_of_fence(
            lines in prop::collection::vec(prop::sample::select(&LINES[..]), 1..12),
            before in prop::sample::select(vec!["", "Solution: ", "<think>hm ```</think>\n", "> It is:\n\n", "<answer>"]),
            fence in prop::sample::select(vec!["```", "````", "`````"]),
            tag in prop::sample::select(vec!["python", "py", "Python3", "{.python}"]),
            end in prop::sample::select(vec![
                "FENCE", "FENCE\n\n```text\n6\n```", "FENCE That is all.", "", "<|im_end|>", "FENCEpython\n",
            ]),
        ) {
            let program = format!("n = int(input())\n{}", lines.concat());
            let end = end.replace("FENCE", fence);
            let found = all(&format!("{before}{fence}{tag}\n{program}{end}")).expect("a program");
            prop_assert_eq!(found[0].trim_end(), program.trim_end());
        }
    }

    #[test]
    fn without_a_program_the_reason_is_given() {
        for completion in ["", "print(1)", "``` print(1) ```"] {
            assert_eq!(lcb(completion), None, "{completion}");
            assert_eq!(all(completion), Err(NoProgram::NoBlock), "{completion}");
        }
        assert_eq!(lcb("```\n```").as_deref(), Some(""));
        for completion in
            ["```\n```", "```python\npip install x\n```", "```python\n# your code here\n```\n```text\n6\n```"]
        {
            assert_eq!(all(completion), Err(NoProgram::EmptyBlock), "{completion}");
        }
        assert_eq!(all("```cpp\nint main() {}\n```"), Err(NoProgram::OtherLanguage("cpp".into())));
    }
}
