//! Gold answers that are no answers, by their texts.

/// Values that stand for none, without marks around them and in lower case.
const MISSING: [&str; 62] = [
    "null",
    "nan",
    "n/a",
    "na",
    "nil",
    "todo",
    "tbd",
    "answer",
    "<answer>",
    "{answer}",
    "...",
    "…",
    "?",
    "??",
    "???",
    "-",
    "--",
    "---",
    "–",
    "—",
    "_",
    "__",
    "*",
    "x/x",
    "unknown",
    "undetermined",
    "not available",
    "not applicable",
    "not provided",
    "not given",
    "not specified",
    "no answer",
    "no answer provided",
    "answer not provided",
    "answer not found",
    "missing",
    "pending",
    "to be determined",
    "to be added",
    "placeholder",
    "insert answer here",
    "your answer here",
    "answer here",
    "final answer",
    "answers vary",
    "answers may vary",
    "answers will vary",
    "various",
    "varies",
    "omitted",
    "blank",
    "empty",
    "error",
    "proof",
    "prove",
    "proved",
    "proven",
    "q.e.d",
    "qed",
    "\\blacksquare",
    "\\square",
    "\\text{proof}",
];
/// How texts begin that point elsewhere, prove something, or refuse.
const BEGINNINGS: [&str; 28] = [
    "see ",
    "refer to ",
    "as above",
    "as shown",
    "same as ",
    "proof ",
    "proof:",
    "proof.",
    "prove that",
    "we prove",
    "we show",
    "show that",
    "to be proved",
    "the proof",
    "the statement is prove",
    "i'm sorry",
    "i am sorry",
    "sorry",
    "i cannot",
    "i can't",
    "i can not",
    "i don't know",
    "i do not know",
    "i'm unable",
    "i am unable",
    "as an ai",
    "unable to",
    "not enough information was",
];
/// What only regular expressions have.
const EXPRESSIONS: [&str; 11] = [".*", ".+", "\\d", "\\w", "\\s", "[0-9]", "[a-z]", "[A-Z]", "(?", "re.compile", "[^"];

/// The text without markup around it, in lower case.
fn bare(gold: &str) -> String {
    let mut bare = gold.trim();
    loop {
        let inner = bare.trim_matches(['$', '*', '"', '\'', '`']).trim();
        let inner = inner.strip_prefix("\\boxed{").and_then(|rest| rest.strip_suffix('}')).unwrap_or(inner);
        let inner = inner.strip_prefix("\\text{").and_then(|rest| rest.strip_suffix('}')).unwrap_or(inner);
        if inner.len() == bare.len() {
            break;
        }
        bare = inner;
    }
    let without_stop = bare.trim_end_matches(['.', '!']).trim();
    let bare = if without_stop.is_empty() { bare } else { without_stop };
    bare.replace('’', "'").to_lowercase()
}

/// Whether a gold answer is a regular expression, a placeholder, the name of a missing value, a proof, a reference to
/// another place, or a refusal.
pub(super) fn is_no_answer(gold: &str) -> bool {
    let bare = bare(gold);
    MISSING.contains(&bare.as_str())
        || BEGINNINGS.iter().any(|beginning| bare.starts_with(beginning))
        || bare.trim_start_matches(['(', '[', '<', '{']).starts_with("see solution")
        || is_expression(gold.trim())
}

fn is_expression(gold: &str) -> bool {
    // `\\delta`, `\\sqrt` and other commands begin like classes of characters.
    let is_class = |at: usize, sign: &str| {
        let rest = gold.get(at + sign.len()..).unwrap_or_default();
        !sign.starts_with('\\') || !rest.starts_with(|c: char| c.is_ascii_alphabetic())
    };
    let has_expression =
        || EXPRESSIONS.iter().any(|sign| gold.match_indices(sign).any(|(at, sign)| is_class(at, sign)));
    let is_anchored = gold.len() > 2 && gold.starts_with('^') && gold.ends_with('$');
    is_anchored || has_expression()
}

/// Whether several choices stand in it with what they say: `(A) 5 (B) 6 (C) 7`.
pub(super) fn lists_choices(gold: &str) -> bool {
    let plain = gold.replace("\\text", "").replace(['{', '}', '$'], "");
    let marks = |letter: char| plain.contains(&format!("({letter})")) || plain.contains(&format!(" {letter}) "));
    let marked = |letter: char| marks(letter) || plain.trim_start().starts_with(&format!("{letter}) "));
    let has_content = plain.chars().any(|c| c.is_ascii_digit()) || plain.split_whitespace().count() > 4;
    has_content && marked('A') && marked('B')
}

/// Whether brackets that are shown have no partner. Those of intervals need not match.
pub(super) fn has_lone_bracket(gold: &str) -> bool {
    let mut depth = 0_i32;
    let mut before = ' ';
    for c in gold.chars() {
        match c {
            // `\\[`, `\\(` delimit a formula; `\\left.` stands for one.
            '(' | '[' if before != '\\' => depth += 1,
            ')' | ']' if before != '\\' => depth -= 1,
            _ => {}
        }
        before = c;
    }
    let count = |mark: &str| gold.matches(mark).count();
    let invisible = count("\\left.") != count("\\right.") || gold.contains("\\begin{cases}");
    let is_numbered = gold.trim().len() < 4;
    (depth != 0 && !invisible && !is_numbered)
        || count("\\left") - count("\\leftarrow") != count("\\right") - count("\\rightarrow")
}
