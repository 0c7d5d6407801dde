//! The parts that may stand beside and around a marked answer, each with what it does to the answer: `parts.txt` lists them.

use evenkeel_math::ALLOW_LIST;

/// What a part does to the answer beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Leaves the answer what it is.
    Harmless,
    /// Makes the answer another number, none, or a bound.
    Changing,
    /// Gives another value as well.
    Another,
    /// Takes the answer back.
    Retracting,
    /// Gives the answer to somebody else.
    Speaker,
    /// Unknown words, which may do anything.
    Unknown,
}

impl Effect {
    fn named(name: &str) -> Self {
        match name {
            "harmless" => Self::Harmless,
            "changing" => Self::Changing,
            "another" => Self::Another,
            "retracting" => Self::Retracting,
            "speaker" => Self::Speaker,
            "unknown" => Self::Unknown,
            _ => panic!("{name} is none"),
        }
    }
}

/// Where a part stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Before a box, a tag or hashes, in the same sentence.
    Before,
    /// Before a box in its formula.
    Formula,
    /// Within the box, the tag, or the sentence that announces the answer.
    Inside,
    /// Right behind a box.
    Behind,
    /// After a box, a tag or an announced answer, in the same sentence.
    Clause,
    /// After a box or a tag, in the same sentence, where prose is free.
    Prose,
    /// In a sentence of its own after the answer.
    After,
    /// The sentence that announces the answer.
    Announcing,
}

impl Place {
    fn named(name: &str) -> Self {
        match name {
            "before" => Self::Before,
            "formula" => Self::Formula,
            "inside" => Self::Inside,
            "behind" => Self::Behind,
            "clause" => Self::Clause,
            "prose" => Self::Prose,
            "after" => Self::After,
            "announcing" => Self::Announcing,
            _ => panic!("{name} is none"),
        }
    }
}

/// The kinds of answers beside which a part may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    Any,
    Number,
    Integer,
    Digits,
    Choice,
}

impl Of {
    fn named(name: &str) -> Self {
        match name {
            "any" => Self::Any,
            "number" => Self::Number,
            "integer" => Self::Integer,
            "digits" => Self::Digits,
            "choice" => Self::Choice,
            _ => panic!("{name} is none"),
        }
    }
}

/// A part: where it stands, what it does, and beside what.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) place: Place,
    pub(crate) effect: Effect,
    pub(crate) of: Of,
    pub(crate) text: String,
}

/// The parts that a file describes.
const PARTS: &str = include_str!("parts.txt");

/// All parts.
pub(crate) fn all() -> Vec<Part> {
    let mut parts = Vec::new();
    for line in PARTS.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split('\t').collect();
        let (place, effect, of) = (Place::named(columns[0]), Effect::named(columns[1]), Of::named(columns[2]));
        for text in columns[3].split('|') {
            let text = text.replace('⏎', "\n");
            let Some(kind) = columns.get(4) else {
                parts.push(Part { place, effect, of, text });
                continue;
            };
            parts.extend(phrases(kind).map(|phrase| {
                let begins = text.starts_with("PHRASE");
                let phrase = if begins { capitalised(phrase) } else { phrase.to_owned() };
                Part { place, effect, of, text: text.replace("PHRASE", &phrase) }
            }));
        }
    }
    parts
}

/// The phrases of a kind in the table of words, in one language or in all: `label`, `name en`.
fn phrases(kind: &str) -> impl Iterator<Item = &'static str> {
    let (kind, language) = kind.split_once(' ').unwrap_or((kind, ""));
    let rows = ALLOW_LIST.lines().filter_map(|line| {
        let mut columns = line.split('\t');
        Some((columns.next()?, columns.next()?, columns.next()?))
    });
    rows.filter(move |(of, own, _)| *of == kind && (language.is_empty() || *own == language))
        .flat_map(|(_, _, phrases)| phrases.split(", "))
}

fn capitalised(phrase: &str) -> String {
    let mut characters = phrase.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
