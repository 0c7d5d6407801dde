//! Fenced blocks of a page. The first word after the fence is the language, which the book and GitHub show; the others
//! are for the tests: `untested`, `run`, or what a block of settings belongs to.

use super::pages::Page;

#[derive(Debug, Clone)]
pub(super) struct PageBlock {
    pub(super) place: String,
    pub(super) language: String,
    pub(super) marks: Vec<String>,
    pub(super) text: String,
}

impl PageBlock {
    pub(super) fn is(&self, mark: &str) -> bool {
        self.marks.iter().any(|found| found == mark)
    }
}

/// The blocks of a page, in their order.
pub(super) fn blocks(page: &Page) -> Vec<PageBlock> {
    let mut found: Vec<PageBlock> = Vec::new();
    let mut open: Option<String> = None;
    for (index, line) in page.text.lines().enumerate() {
        let bare = line.trim_start();
        let ticks: String = bare.chars().take_while(|&c| c == '`').collect();
        match &open {
            None if ticks.len() >= 3 => {
                let mut words = bare[ticks.len()..].split_whitespace().map(str::to_owned);
                let language = words.next().unwrap_or_default();
                let place = format!("{}:{}", page.name, index + 1);
                found.push(PageBlock { place, language, marks: words.collect(), text: String::new() });
                open = Some(ticks);
            }
            None => {}
            Some(fence) if ticks.len() >= fence.len() && bare.trim_end() == ticks => open = None,
            Some(_) => {
                let block = found.last_mut().unwrap();
                block.text += line;
                block.text.push('\n');
            }
        }
    }
    assert!(open.is_none(), "{}: a block is never closed", page.name);
    found
}

/// What a block has people type: of a `console` block the lines behind a prompt, with those that continue them.
pub(super) fn typed(block: &PageBlock) -> String {
    if block.language != "console" {
        return block.text.clone();
    }
    let mut text = String::new();
    let mut goes_on = false;
    for line in block.text.lines() {
        let command = if goes_on { Some(line) } else { line.strip_prefix("$ ") };
        if let Some(command) = command {
            text += command;
            text.push('\n');
        }
        goes_on = command.is_some_and(|command| command.ends_with('\\'));
    }
    text
}

#[test]
fn a_block_has_a_place_a_language_marks_and_a_text() {
    let page = Page::new("a.md", "text\n```sh untested\na\n```\n````\n```\n````\n");
    let found = blocks(&page);
    assert_eq!((found.len(), found[0].place.as_str(), found[0].language.as_str()), (2, "a.md:2", "sh"));
    assert!(found[0].is("untested") && !found[1].is("untested"));
    assert_eq!((found[0].text.as_str(), found[1].text.as_str()), ("a\n", "```\n"));
    let console = blocks(&Page::new("a.md", "```console\n$ a \\\n  b\nsaid\n$ c\n```\n"));
    assert_eq!(typed(&console[0]), "a \\\n  b\nc\n");
}
