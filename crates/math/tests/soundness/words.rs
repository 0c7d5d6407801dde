//! Every word of a dictionary beside an answer.

use evenkeel_math::{ALLOW_LIST, CheckInput, Gold, Rules};

/// Debian's `wamerican`, or another list with a word on each line.
pub(crate) const DICTIONARY: &str = "/usr/share/dict/words";

/// A problem without words.
const PROBLEM: &str = "$6^2 = $ ?";

/// Where a word is put: in a box before and after a number, and in a sentence that announces one.
const PLACES: [&str; 9] = [
    "\\boxed{36\\text{ WORD}}",
    "\\boxed{36 WORD}",
    "\\boxed{\\text{WORD }36}",
    "\\boxed{\\text{WORD: }36}",
    "\\boxed{36\\text{ (WORD)}}",
    "The answer is 36 WORD.",
    "The answer is WORD 36.",
    "The WORD answer is 36.",
    "WORD the answer is 36.",
];

/// Kinds of words that are harmless nowhere beside a number: they change or deny what is beside them, stand before a box
/// alone, or belong to a choice or another language.
const HARMFUL: [&str; 21] = [
    "opening",
    "choice",
    "label",
    "speech",
    "report",
    "filler",
    "copula",
    "negation",
    "claim",
    "denial",
    "belief",
    "multiple",
    "scale",
    "percent",
    "open",
    "bound",
    "restating",
    "offer",
    "retraction",
    "contrast",
    "changing",
];

/// Whether one of the rows of the table with harmless words has the word, alone or in a phrase.
fn is_listed(word: &str) -> bool {
    let singular = |word: &str| {
        let word = word.strip_suffix("es").or_else(|| word.strip_suffix('s')).unwrap_or(word);
        word.trim_end_matches(['s', 'e', 'i']).to_owned()
    };
    let rows = ALLOW_LIST.lines().filter(|line| !line.starts_with('#'));
    rows.filter(|line| !line.split('\t').next().is_some_and(|kind| HARMFUL.contains(&kind)))
        .filter_map(|line| line.splitn(3, '\t').nth(2))
        .flat_map(|phrases| phrases.split([',', ' ']))
        .any(|listed| singular(listed) == singular(word) || format!("{}y", singular(word)) == listed)
}

/// Units of measurement, which stand in the table of units.
const UNITS: &str = "m meter metre km kilometer kilometre cm centimeter centimetre mm millimeter millimetre nm nanometer in \
    inch inche ft foot feet yd yard mi mile l liter litre ml milliliter millilitre g gram kg kilogram mg milligram ton tonne lb \
    pound oz ounce s sec second ms millisecond min minute h hr hour day week month yr year hz hertz acre k kelvin c celsiu f \
    fahrenheit coulomb bit byte degree deg dollar usd cent mph kph kmh n newton j joule w watt pa pascal v volt a ampere amp t \
    tesla unit ohm angstrom";

/// Words that are formulas: the value of \\log e is 1, and 36 rounded down is 36.
const FORMULAS: [&str; 2] = ["loge", "floor"];

fn is_unit(word: &str) -> bool {
    let singular = word.strip_suffix('s').unwrap_or(word);
    UNITS.split_whitespace().any(|unit| unit == word || unit == singular)
}

/// The places in which a word leaves the verdict equal.
fn rewarded(word: &str, problem: &str, gold: &Gold, rules: &Rules) -> Vec<String> {
    let texts = PLACES.iter().map(|place| place.replace("WORD", word));
    texts.filter(|text| gold.check_for(Some(problem), CheckInput::Completion(text), rules).is_equal()).collect()
}

/// Only words of the table and units leave the verdict equal.
pub(crate) fn of_the_dictionary() {
    let rules = Rules::default();
    let gold = Gold::read("36", &rules).unwrap();
    let text = std::fs::read_to_string(DICTIONARY).unwrap();
    let mut count = 0;
    let mut wrong = Vec::new();
    let mut harmless = std::collections::BTreeSet::new();
    for word in text.lines().filter(|word| !word.is_empty()) {
        count += 1;
        let lower = word.to_lowercase();
        let found = rewarded(word, PROBLEM, &gold, &rules);
        if found.is_empty() {
            continue;
        }
        if is_listed(&lower) || is_unit(&lower) || FORMULAS.contains(&lower.as_str()) {
            harmless.insert(lower);
        } else {
            wrong.push((word.to_owned(), found));
        }
    }
    println!("{count} words, {} of them harmless somewhere", harmless.len());
    assert!(count > 10_000, "{DICTIONARY} has {count} words");
    assert!(wrong.is_empty(), "{} words: {:#?}", wrong.len(), wrong.iter().take(20).collect::<Vec<_>>());
}

/// Words that change a number stay what they are where the problem has them, too.
pub(crate) fn that_change_a_number() {
    let rules = Rules::default();
    let gold = Gold::read("36", &rules).unwrap();
    let mut wrong = Vec::new();
    let rows = ALLOW_LIST.lines().filter(|line| line.starts_with("changing"));
    let words: Vec<&str> =
        rows.filter_map(|line| line.splitn(3, '\t').nth(2)).flat_map(|row| row.split(", ")).collect();
    assert!(words.len() > 200, "{}", words.len());
    let problem = format!("Compute the value. {}.", words.join(" "));
    for word in &words {
        let found = rewarded(word, &problem, &gold, &rules);
        // As the name of a value, `The difference is 36`, a word stands in another row as well.
        if !found.is_empty() && !is_listed(word) {
            wrong.push((*word, found));
        }
        for text in [format!("\\boxed{{36\\text{{ {word}}}}}"), format!("The answer is 36 {word}.")] {
            if gold.check_for(Some(&problem), CheckInput::Completion(&text), &rules).is_equal() {
                wrong.push((*word, vec![text]));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
