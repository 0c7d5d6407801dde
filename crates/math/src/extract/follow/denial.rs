//! What denies the subject of a sentence: `is wrong`, `cannot be right`, `fails`.

/// Phrases that deny an answer: `that is not correct`.
const PRAISES: [&str; 20] = [
    "correct",
    "right",
    "true",
    "possible",
    "valid",
    "be",
    "the",
    "it",
    "what",
    "acceptable",
    "work",
    "works",
    "satisfy",
    "hold",
    "fit",
    "sense",
    "match",
    "exist",
    "agree",
    "check",
];
/// Words that deny it at the end of a sentence: `this is a guess`, but not `this is the error bound`.
const DEFECTS: [&str; 6] = ["nonsense", "nonsensical", "absurd", "fails", "error", "guess"];
/// Words that deny it.
pub(super) const DENIALS: [&str; 15] = [
    "not",
    "wrong",
    "incorrect",
    "false",
    "untrue",
    "impossible",
    "mistaken",
    "invalid",
    "cannot",
    "never",
    "isn't",
    "can't",
    "doesn't",
    "contradiction",
    "contradicts",
];

/// Whether what follows a subject denies it: `is wrong`, `cannot be right`, `contradicts the assumption`.
pub(super) fn is_denied(rest: &[&str]) -> bool {
    let has_defect = match rest {
        [.., article, "error" | "guess"] => matches!(*article, "a" | "an"),
        [.., last] => DEFECTS.contains(last),
        [] => false,
    };
    let fails = rest.first().is_some_and(|verb| matches!(*verb, "fails" | "failed"));
    if has_defect && rest.len() < 5 && !rest.contains(&"not") || fails && !rest.contains(&"#") {
        return true;
    }
    // `is only part of the answer`
    if matches!(rest, ["is", .., "part", "of", "the" | "my" | "our", "answer" | "solution"]) {
        return true;
    }
    let Some(at) = rest.iter().take(4).position(|word| DENIALS.contains(word)) else { return false };
    let is_weak = matches!(rest.get(at), Some(&("not" | "cannot" | "never" | "isn't" | "can't" | "doesn't")));
    // `This is not 8`, `it is not necessary`, `this cannot be simplified`, but `this can't possibly be right`.
    let is_filler = |word: &&&str| matches!(**word, "possibly" | "really" | "actually" | "quite" | "be");
    let next = rest.iter().skip(at + 1).find(|word| !is_filler(word)).is_none_or(|word| PRAISES.contains(word));
    rest.iter().all(|word| *word != "#") && (!is_weak || next)
}
