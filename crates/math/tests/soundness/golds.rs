//! The gold answers of benchmarks: each with a change, and each against each.

use std::collections::BTreeSet;
use std::path::Path;

use evenkeel_math::{CheckInput, Gold, Rules};
use serde_json::Value as Json;

use super::random::Random;

/// Files of the benchmarks whose gold answers are changed.
pub(crate) const FILES: [&str; 7] = [
    "data/math/math500.jsonl",
    "data/math/aime24.jsonl",
    "data/math/aime25.jsonl",
    "data/math/amc23.jsonl",
    "data/math/gsm8k.jsonl",
    "data/math/olympiadbench.jsonl",
    "data/math/minerva.jsonl",
];

/// All gold answers, each once.
fn golds(data: &Path) -> Vec<String> {
    let mut found = BTreeSet::new();
    for file in FILES {
        for line in std::fs::read_to_string(data.join(file)).unwrap().lines().filter(|line| !line.is_empty()) {
            let row: Json = serde_json::from_str(line).unwrap();
            let value =
                ["/final_answer", "/reward_model/ground_truth", "/answer"].iter().find_map(|at| row.pointer(at));
            let text = match value.unwrap() {
                Json::String(text) => text.clone(),
                Json::Array(items) => items[0].as_str().unwrap().to_owned(),
                other => other.to_string(),
            };
            let answer = text.rsplit_once("#### ").map_or(text.as_str(), |(_, answer)| answer);
            found.insert(answer.trim().to_owned());
        }
    }
    found.into_iter().collect()
}

/// A gold answer with one change that makes it another answer.
fn variants(gold: &str, random: &mut Random) -> Vec<String> {
    let mut found = Vec::new();
    let characters: Vec<char> = gold.chars().collect();
    let changed_at = |at: usize, character: char| {
        let mut changed = characters.clone();
        changed[at] = character;
        changed.into_iter().collect::<String>()
    };
    let is_in_command = |at: usize| {
        let start = characters[..at].iter().rposition(|c| !c.is_alphabetic());
        start.is_some_and(|start| characters[start] == '\\')
    };
    // Within `\text{}`, colours and environments are words.
    let has_words = gold.contains("\\text") || gold.contains("\\begin") || gold.contains("\\mathrm");
    for at in 0..characters.len() {
        match characters[at] {
            digit @ '0'..='9' => {
                let value = digit.to_digit(10).unwrap();
                let other = char::from_digit((value + 1 + random.below(8) as u32) % 10, 10).unwrap();
                found.push(changed_at(at, other));
            }
            letter if letter.is_ascii_alphabetic() && !is_in_command(at) && !has_words => {
                let letters: Vec<char> = ('a'..='z').chain('A'..='Z').filter(|c| !gold.contains(*c)).collect();
                found.push(changed_at(at, *random.of(&letters)));
                // Another case is another letter, but in a word.
                let is_word = characters.get(at + 1).is_some_and(|c| c.is_alphabetic())
                    || (at > 0 && characters[at - 1].is_alphabetic());
                if !is_word {
                    let swapped =
                        if letter.is_uppercase() { letter.to_ascii_lowercase() } else { letter.to_ascii_uppercase() };
                    found.push(changed_at(at, swapped));
                }
            }
            '+' => found.push(changed_at(at, '-')),
            '-' => found.push(changed_at(at, '+')),
            '[' if gold.contains(',') => found.push(changed_at(at, '(')),
            ']' if gold.contains(',') => found.push(changed_at(at, ')')),
            _ => {}
        }
    }
    // A part removed: a group with what belongs to it, a term, a factor in brackets.
    for (open, close) in [('(', ')'), ('[', ']')] {
        if let (Some(start), Some(end)) = (gold.find(open), gold.rfind(close))
            && start > 0
            && start < end
        {
            found.push(format!("{}{}", &gold[..start], &gold[end + 1..]));
        }
    }
    for sign in ['+', '-'] {
        if let Some(at) = gold.rfind(sign).filter(|at| *at > 0) {
            found.push(gold[..at].to_owned());
        }
    }
    found.retain(|variant| variant != gold);
    found
}

/// Whether two texts are one number, read here: digits with thousands separators, a point, one slash or `\frac`.
fn same_number(a: &str, b: &str) -> bool {
    number(a).is_some_and(|a| number(b).is_some_and(|b| a.0 * b.1 == b.0 * a.1))
}

fn number(text: &str) -> Option<(i128, i128)> {
    let mut text: String = text.chars().filter(|c| !c.is_whitespace() && *c != '$').collect();
    for (mark, plain) in [
        ("\\$", ""),
        ("\\!", ""),
        ("\\,", ""),
        ("{,}", ""),
        ("\\dfrac", "\\frac"),
        ("\\%", ""),
        ("%", ""),
        ("^\\circ", ""),
        ("^{\\circ}", ""),
        ("+", ""),
    ] {
        text = text.replace(mark, plain);
    }
    let (sign, rest) = text.strip_prefix('-').map_or((1, text.as_str()), |rest| (-1, rest));
    let pair = |above: &str, below: &str| {
        let (a, b) = (decimal(above)?, decimal(below)?);
        Some((sign * a.0 * b.1, a.1 * b.0))
    };
    if let Some(inner) = rest.strip_prefix("\\frac{") {
        let (above, below) = inner.strip_suffix('}')?.split_once("}{")?;
        return pair(above, below);
    }
    match rest.split_once('/') {
        Some((above, below)) => pair(above, below),
        None => decimal(rest).map(|(a, b)| (sign * a, b)),
    }
}

fn decimal(text: &str) -> Option<(i128, i128)> {
    let text = text.replace(',', "");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = format!("{whole}{fraction}");
    let is_number = !digits.is_empty() && digits.len() < 18 && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (digits.parse().unwrap(), 10_i128.pow(fraction.len() as u32)))
}

/// Changes that leave the value, reviewed by hand: `1E11`, another case of a unit, another letter of a constant
/// function.
fn is_same(gold: &str, variant: &str) -> bool {
    let is_numeral = gold.starts_with(|c: char| c.is_ascii_digit()) && (gold.contains('e') || gold.contains("\\mbox"));
    let is_constant = gold.starts_with("$f(") && (gold.contains("=1$") || gold.contains("=-1$"));
    (is_numeral && gold.eq_ignore_ascii_case(variant))
        || (is_constant && gold.matches(')').count() == variant.matches(')').count() && !variant.contains('2'))
}

/// No change of a gold answer is rewarded, unless it is the same number.
pub(crate) fn changed(data: &Path) {
    let rules = Rules::default();
    let mut count = 0;
    let mut wrong = Vec::new();
    for (index, gold) in golds(data).iter().enumerate() {
        let mut random = Random(index as u64);
        let Ok(read) = Gold::read(gold, &rules) else { continue };
        for variant in variants(gold, &mut random) {
            count += 1;
            let verdict = read.check(CheckInput::Extracted(&variant), &rules);
            if verdict.is_equal() && !same_number(gold, &variant) && !is_same(gold, &variant) {
                wrong.push(format!("{gold} | {variant} | {}", verdict.reason));
            }
        }
    }
    println!("{count} changed gold answers");
    assert!(count > 5_000, "{count}");
    assert!(wrong.is_empty(), "{} of {count}: {}", wrong.len(), wrong.join("\n"));
}

/// A text without what only lays it out.
fn bare(text: &str) -> String {
    let mut bare: String = text.chars().filter(|c| !c.is_whitespace() && *c != '$').collect();
    for (mark, plain) in [
        ("\\left", ""),
        ("\\right", ""),
        ("\\!", ""),
        ("\\,", ""),
        ("\\;", ""),
        ("\\dfrac", "\\frac"),
        ("\\tfrac", "\\frac"),
        ("\\mathrm", ""),
        ("\\text", ""),
        ("{", ""),
        ("}", ""),
        ("~", ""),
    ] {
        bare = bare.replace(mark, plain);
    }
    bare
}

/// Pairs that are equal under the default rules, reviewed by hand: other names, a value and its name, order, units that
/// one side has not, degrees and radians, decimals that are rounded, a comma as a point, digits without their base.
const REVIEWED: [[&str; 2]; 37] = [
    ["$f(n)=n$", "$f(z)=z$"],
    ["$f(x)=1$", "1"],
    ["$f(x)=1$", "1.0"],
    ["$k=1$", "1"],
    ["$k=1$", "1.0"],
    ["$k=3$", "3"],
    ["$k=3$", "3.0"],
    ["x=5", "5"],
    ["x=5", "5.0"],
    ["(-2,1)", "-2,1"],
    ["-2,1", "1,-2"],
    ["2,3,4", "2,4,3"],
    ["1 + i\\sqrt{3}", "1+\\sqrt{3}i"],
    ["0.022", "$\\frac{94}{4225}$"],
    ["0.10", "\\frac{2}{21}"],
    ["0.33", "$1/3$"],
    ["0.33", "$18.8^{\\circ}$"],
    ["0.33", "$\\frac{1}{3}$"],
    ["0.33", "\\frac{1}{3}"],
    ["0.54", "$4-2 \\sqrt{3}$"],
    ["1,2", "1.2"],
    ["1,3", "1.3"],
    ["1.2", "\\frac65"],
    ["1.70e4", "17000"],
    ["3.61 \\times 10^{-10}", "3.61e-10"],
    ["4.4 \\times 10^7", "4.4e7"],
    ["15", "15\\mbox{ cm}^2"],
    ["180^\\circ", "\\pi"],
    ["90^\\circ", "\\frac{\\pi}{2}"],
    ["1950", "1950^\\circ C"],
    ["204_5", "204"],
    ["40_9", "40"],
    ["52_8", "52"],
    ["36", "\\$36"],
    ["36.0", "\\$36"],
    ["4.4677 \\times 10^{14}", "4.4677 \\times 10^{14} Hz"],
    ["\\frac{e^{t}} {3}+c e^{-2 t}", "x = \\frac{e^{t}}{3} + ce^{-2t}"],
];

/// No gold answer is rewarded for another one of another value.
pub(crate) fn each_against_each(data: &Path) {
    let rules = Rules::default();
    let golds = golds(data);
    let read: Vec<(usize, Gold)> =
        golds.iter().enumerate().filter_map(|(at, gold)| Some((at, Gold::read(gold, &rules).ok()?))).collect();
    let mut wrong = Vec::new();
    let mut equal = 0;
    for (at, gold) in &read {
        for (other, answer) in golds.iter().enumerate().filter(|(other, _)| other != at) {
            if !gold.check(CheckInput::Extracted(answer), &rules).is_equal() {
                continue;
            }
            equal += 1;
            let pair = [golds[*at].as_str(), answer.as_str()];
            let is_reviewed = REVIEWED.iter().any(|reviewed| pair == *reviewed || pair == [reviewed[1], reviewed[0]]);
            if !same_number(pair[0], pair[1]) && bare(pair[0]) != bare(pair[1]) && !is_reviewed {
                wrong.push(format!("{} | {}", golds[*at], golds[other]));
            }
        }
    }
    println!("{} gold answers, {equal} pairs that are equal", golds.len());
    assert!(wrong.is_empty(), "{} pairs:\n{}", wrong.len(), wrong.join("\n"));
}
