//! Parts beside and around a marked answer: it is equal only if each of them leaves it what it is.

mod answer;
mod parts;

use std::collections::BTreeMap;

use evenkeel_math::{CheckInput, Gold, Rules};

use super::random::Random;
use answer::Answer;
use parts::{Effect, Of, Part, Place};

/// Texts unless `EVENKEEL_MATH_PAIRS` says otherwise.
const TEXTS: u64 = 20_000;
/// Most texts with harmless parts alone that may be refused, in a thousand.
const REFUSED: usize = 10;

/// How an answer is marked: what stands before and behind it, and whether it is a box.
const MARKS: [(&str, &str, bool); 10] = [
    ("\\boxed{", "}", true),
    ("$\\boxed{", "}$", true),
    ("$\\boxed{", "}$", true),
    ("\\(\\boxed{", "}\\)", true),
    ("\n\\[\\boxed{", "}\\]", true),
    ("\n\n$$\\boxed{", "}$$", true),
    ("**\\boxed{", "}**", true),
    ("<answer>", "</answer>", false),
    ("\n<answer>", "</answer>", false),
    ("\n#### ", "", false),
];
/// Sentences before that of the answer.
const OPENINGS: [&str; 6] =
    ["", "", "We add up.\n\n", "Let $n$ be the number of apples. ", "First, $3 + 4 = 7$. ", "Step 1: simplify.\n"];
/// Problems; the words of the last are known.
const PROBLEMS: [Option<&str>; 3] = [None, Some("Find the value."), Some("How many wombats live in the burrow?")];
const NAMES: [&str; 8] = ["Bob", "Alice", "Priya", "Kenji", "Maria", "Zoë", "José", "Fatima"];

/// A text with a marked answer, and the parts that stand around it.
struct Composed {
    text: String,
    parts: Vec<Part>,
}

impl Composed {
    fn is_harmless(&self) -> bool {
        self.parts.iter().all(|part| part.effect == Effect::Harmless)
    }
}

/// A word of syllables that no list has.
fn word(random: &mut Random) -> String {
    let (first, middle, last) =
        (["Bro", "Kla", "Zun", "Vek", "Dro", "Plu"], ["vi", "mo", "gu"], ["dak", "lom", "pex", "zig"]);
    let word = format!("{}{}{}", random.of(&first), random.of(&middle), random.of(&last));
    if random.once_in(2) { word.to_lowercase() } else { word }
}

/// Leaves out harmless parts that are not, or that mend what another one does, where they stand together.
fn leave_out(parts: &mut Vec<Part>, is_bare: bool) {
    let has = |is: &dyn Fn(&Part) -> bool| parts.iter().any(is);
    let is_harmful = has(&|part| part.effect != Effect::Harmless);
    let has_base = has(&|part| part.text.contains("BASE") || part.text.contains("OWN"));
    let is_of_number =
        has(&|part| part.place == Place::Before && part.effect == Effect::Changing && part.of == Of::Number);
    let is_written = has(&|part| part.text.contains("wrote") || part.text.contains("replied"));
    let is_labelled = has(&|part| part.place == Place::Formula && part.effect == Effect::Speaker);
    let has_other_base = has(&|part| part.text.contains("BASE"));
    parts.retain(|part| {
        if has_other_base && part.text.contains("OWN") {
            return false;
        }
        let is_kept = match part.place {
            // An answer that is announced again.
            Place::After => !is_harmful || !part.text.contains("VALUE"),
            // Words before a value are a heading or a second announcement there, and no digits.
            Place::Inside => !has_base && (!is_bare || part.text.starts_with("VALUE")),
            // `half of $x = 36$`
            Place::Formula => !is_of_number || !part.text.contains('='),
            // `A student wrote 7 letters`
            Place::Behind | Place::Prose => !is_written || has_base,
            Place::Before => !is_labelled,
            _ => true,
        };
        is_kept || part.effect != Effect::Harmless
    });
}

/// Composes texts of parts.
struct Composer {
    parts: Vec<Part>,
}

impl Composer {
    /// A part for a place: a harmful one, or a harmless one.
    fn part(&self, random: &mut Random, answer: &Answer, places: &[Place], harmful: bool) -> Option<Part> {
        let fits = |part: &&Part| {
            places.contains(&part.place) && answer.may_have(part.of) && (part.effect != Effect::Harmless) == harmful
        };
        // The effects in turn, since some have few parts.
        let effects: Vec<Effect> = self.parts.iter().filter(fits).map(|part| part.effect).collect();
        let effect = *effects.get(random.below(effects.len().max(1)))?;
        let found: Vec<&Part> = self.parts.iter().filter(fits).filter(|part| part.effect == effect).collect();
        Some((*random.of(&found)).clone())
    }

    /// A text for an answer, with one harmful part or none.
    fn compose(&self, random: &mut Random, answer: &Answer) -> Composed {
        let (open, close, is_box) = *random.of(&MARKS);
        let is_announced = random.once_in(4);
        let is_line = open.contains('#');
        let is_formula = open.contains(['$', '(', '[']);
        let slots: Vec<&[Place]> = match () {
            () if is_announced => vec![&[Place::Announcing], &[Place::Inside], &[Place::Clause], &[Place::After]],
            () if is_line => vec![&[Place::Before], &[Place::Inside], &[Place::After]],
            () if !is_box => vec![&[Place::Before], &[Place::Inside], &[Place::Clause, Place::Prose], &[Place::After]],
            () if is_formula => vec![
                &[Place::Before],
                &[Place::Formula],
                &[Place::Inside],
                &[Place::Behind],
                &[Place::Clause, Place::Prose],
                &[Place::After],
            ],
            () => vec![
                &[Place::Before],
                &[Place::Inside],
                &[Place::Behind],
                &[Place::Clause, Place::Prose],
                &[Place::After],
            ],
        };
        let harmful = random.once_in(2).then(|| random.below(slots.len()));
        let count = 1 + random.below(3);
        let mut chosen = Vec::new();
        for (at, places) in slots.iter().enumerate() {
            let is_harmful = harmful == Some(at);
            let is_needed = is_harmful || places.contains(&Place::Announcing);
            if is_needed || random.below(slots.len()) < count {
                chosen.extend(self.part(random, answer, places, is_harmful));
            }
        }
        leave_out(&mut chosen, !is_box || is_announced);
        let text = print(random, answer, &chosen, (open, close), is_announced);
        Composed { text, parts: chosen }
    }
}

/// The text of the parts around an answer.
fn print(
    random: &mut Random,
    answer: &Answer,
    parts: &[Part],
    (open, close): (&str, &str),
    is_announced: bool,
) -> String {
    let name = *random.of(&NAMES);
    let filled = |random: &mut Random, text: &str, in_formula: bool| {
        let as_prose = |value: &str| match () {
            () if in_formula => value.to_owned(),
            () if value.contains(['\\', '^']) => format!("${value}$"),
            () => value.to_owned(),
        };
        let mut text = text.replace("OTHER", &as_prose(&answer.other)).replace("VALUE", &as_prose(&answer.value));
        text = text.replace("SPELLED", &answer.spelled).replace("NAME", name);
        text = text.replace("OWN", &answer.bases.0.to_string()).replace("BASE", &answer.bases.1.to_string());
        while text.contains("WORD") {
            text = text.replacen("WORD", &word(random), 1);
        }
        text
    };
    let part_in =
        |places: &[Place]| parts.iter().find(|part| places.contains(&part.place)).map(|part| part.text.as_str());
    let inside = part_in(&[Place::Inside]).unwrap_or("VALUE");
    let value = filled(random, inside, true);
    let is_prose = is_announced || !open.contains("boxed");
    let value = if is_prose && value.contains(['\\', '^']) { format!("${value}$") } else { value };
    let mut text = (*random.of(&OPENINGS)).to_owned();
    if is_announced {
        let sentence = part_in(&[Place::Announcing]).unwrap_or("VALUE");
        let (before, after) = sentence.split_once("VALUE").unwrap_or((sentence, ""));
        for part in [&*filled(random, before, false), &value, &*filled(random, after, false)] {
            text.push_str(part);
        }
    } else {
        let before = part_in(&[Place::Before]).unwrap_or_default();
        let before = filled(random, before, false);
        text.push_str(if open.starts_with('\n') { before.trim_end() } else { &before });
        let formula = part_in(&[Place::Formula]).unwrap_or_default();
        let formula = filled(random, formula, true);
        let behind = part_in(&[Place::Behind]).unwrap_or_default();
        let behind = filled(random, behind, true);
        // What is written in TeX stands in the formula of the box.
        let (command, end) = (open.find("\\boxed").unwrap_or(open.len()), usize::from(open.contains("boxed")));
        let (delimiter, open) = open.split_at(command);
        let (brace, closing) = close.split_at(end);
        let in_formula = behind.starts_with(|c: char| !c.is_whitespace() && c != ',');
        let (within, outside) = if in_formula { (behind.as_str(), "") } else { ("", behind.as_str()) };
        for part in [delimiter, &formula, open, &value, brace, within, closing, outside] {
            text.push_str(part);
        }
    }
    let clause = part_in(&[Place::Clause, Place::Prose]).unwrap_or_default();
    let clause = filled(random, clause, false);
    text.push_str(&clause);
    let after = part_in(&[Place::After]);
    let is_ended = !text.contains("####") && !random.once_in(4) && !text.ends_with('.');
    text.push_str(if is_ended { "." } else { "" });
    if let Some(after) = after {
        let separators: &[&str] = if is_ended { &[" ", "\n", "\n\n"] } else { &["\n", "\n\n"] };
        text.push_str(random.of::<&str>(separators));
        text.push_str(&filled(random, after, false));
    }
    text
}

/// No text with a harmful part is rewarded, and nearly all without one are.
pub(crate) fn every_part_is_accounted_for() {
    let first = super::number("EVENKEEL_MATH_FIRST", 0);
    let count = super::number("EVENKEEL_MATH_PAIRS", TEXTS);
    let rules = Rules::default();
    let composer = Composer { parts: parts::all() };
    let (mut wrong, mut refused) = (Vec::new(), Vec::new());
    let mut tried: BTreeMap<Effect, usize> = BTreeMap::new();
    let mut harmless = 0_usize;
    for at in first..first + count {
        let mut random = Random(at.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let answer = Answer::new(&mut random);
        let composed = composer.compose(&mut random, &answer);
        let problem = *random.of(&PROBLEMS);
        let gold = Gold::read(&answer.gold, &rules).unwrap();
        let verdict = gold.check_for(problem, CheckInput::Completion(&composed.text), &rules);
        let line = || {
            let parts: Vec<&str> = composed.parts.iter().map(|part| part.text.as_str()).collect();
            format!("{at}: {} and {:?}: {} {parts:?}", answer.gold, composed.text, verdict.reason)
        };
        let effect = composed.parts.iter().map(|part| part.effect).max().unwrap_or(Effect::Harmless);
        *tried.entry(effect).or_default() += 1;
        match (composed.is_harmless(), verdict.is_equal()) {
            (true, false) => refused.push(line()),
            (false, true) => wrong.push(line()),
            _ => {}
        }
        harmless += usize::from(composed.is_harmless());
    }
    println!(
        "{count} texts: {tried:?}; {} of {harmless} harmless ones refused, {} others rewarded",
        refused.len(),
        wrong.len()
    );
    assert!(wrong.is_empty(), "{} rewarded wrongly: {:#?}", wrong.len(), wrong.iter().take(20).collect::<Vec<_>>());
    assert!(refused.len() * 1000 <= harmless * REFUSED, "{:#?}", refused.iter().take(20).collect::<Vec<_>>());
}
