//! A sentence after an answer that says nothing but another value, `So it is 37`, or that begins with words which take
//! the answer back, in any language of the table.
//!
//! Values are compared, not digits: `So it is 0.5` after 1/2 takes nothing back.

mod beginning;
mod stated;

use super::sentence::{has_another_number, words_of};
use super::span::{TextEnd, text_end};
use super::spelled;
use crate::slicing::SafeSlice;
use crate::words::{self, Role};
use beginning::{Beginning, beginning};
pub(super) use stated::Answered;
use stated::Names;

/// Most words of a sentence that states a value.
const MAX_WORDS: usize = 12;
/// Longest phrase in a script without spaces between words, in characters.
const MAX_UNSPACED: usize = 16;
/// All that may stand beside the number of a sentence in a script that is not Latin.
const FOREIGN_COPULAS: [&str; 12] =
    ["です", "だ", "である", "입니다", "이다", "예요", "이에요", "是", "为", "это", "είναι", "है"];

/// Whether a sentence after an answer takes it back or gives another one.
pub(super) fn takes_back(sentence: &str, answer: &Answered<'_>) -> bool {
    let sentence = bare(sentence);
    if begins_back(sentence, answer) {
        return true;
    }
    let sentence = &*spelled::in_digits(sentence);
    let offers_either = words_of(sentence).iter().any(|word| matches!(word.as_str(), "either" | "both" | "or"));
    (states(sentence) || is_foreign(sentence))
        && answer.is_another(&stated::values(sentence, Names::Own(answer)), offers_either)
        || states(sentence) && answer.is_another_choice(&stated::choices(sentence), offers_either)
        || states_formula(sentence, answer)
}

/// Whether a clause of the answer's own sentence, behind a comma, a dash or a bracket, takes the answer back or offers
/// another one: `(just a guess, could be 37)`.
pub(super) fn offers_another(clause: &str, answer: &Answered<'_>) -> bool {
    let clause = bare(clause);
    begins_back(clause, answer) || may_be_another(clause, answer)
}

/// Whether a clause says of another value that it may be the answer: `could be 37`, `maybe C`, `or possibly $x - 1$`.
pub(super) fn may_be_another(clause: &str, answer: &Answered<'_>) -> bool {
    let is_offered = words_of(clause).iter().any(|word| words::is(Role::Offer, word));
    is_offered && is_another(clause, answer)
}

/// Whether a clause says of the answer that it is another value: `it is 37`.
pub(super) fn is_stated_again(clause: &str, answer: &Answered<'_>) -> bool {
    let is_subject =
        |word: &String| matches!(word.as_str(), "it" | "it's" | "this" | "that" | "answer" | "result" | "i" | "i'd");
    words_of(clause).iter().any(is_subject) && is_another(clause, answer)
}

/// Whether a text has a number that stands alone and is another value.
pub(super) fn has_another(text: &str, answer: &Answered<'_>) -> bool {
    stated::values(text, Names::Own(answer)).iter().any(|value| answer.differs(value))
}

/// Whether what follows the last word of a sentence is another value.
pub(super) fn ends_with_another(sentence: &str, answer: &Answered<'_>) -> bool {
    is_another_value(stated::formula_at_end(sentence), answer)
}

/// Whether a formula without delimiters is certainly another value.
pub(super) fn is_another_value(value: &str, answer: &Answered<'_>) -> bool {
    has_another(&format!("${value}$"), answer) || answer.is_another_formula(value)
}

/// Whether a clause states nothing but another value.
fn is_another(clause: &str, answer: &Answered<'_>) -> bool {
    let words = words_of(clause);
    let is_denied = || words.iter().any(|word| word == "not" || word.ends_with("n't"));
    // `n can be 1`
    let is_of_other = || {
        let is_name = |word: &String| {
            word.chars().nth(1).is_none() && !matches!(word.as_str(), "a" | "i" | "#" | "," | ":" | ";")
        };
        !answer.is_choice() && words.iter().any(|word| is_name(word) && !answer.is_named(word))
    };
    // `also works for 37`, `instead of 37`
    let is_beside = || {
        words.windows(2).any(|pair| {
            matches!(pair, [place, value] if value == "#"
                && matches!(place.as_str(), "in" | "for" | "on" | "of" | "at" | "with" | "by" | "after"))
        })
    };
    states(clause)
        && !is_denied()
        && !is_of_other()
        && !is_beside()
        && (has_another(clause, answer)
            || stated::choices(clause).iter().any(|letter| answer.is_another_choice(&[*letter], false))
            || !is_cut(clause) && answer.is_another_formula(stated::formula_at_end(clause)))
}

/// Whether a sentence states a formula that is another one than the answer: `So we get $x - 3$.`
fn states_formula(sentence: &str, answer: &Answered<'_>) -> bool {
    let sentence = sentence.trim_end().trim_end_matches('.');
    let TextEnd::Formula(formula) = text_end(sentence) else { return false };
    let lead = words_of(sentence.prefix_to(sentence.len() - formula.len()));
    let is_led = lead.iter().any(|word| word.chars().nth(1).is_some());
    !answer.is_number() && is_led && states(sentence) && !formula.contains('=') && answer.is_another_formula(formula)
}

/// Whether a clause ends within a formula: `$x^2` of `$x^2 - 5x$`.
fn is_cut(clause: &str) -> bool {
    clause.matches('$').count() % 2 == 1
}

fn bare(sentence: &str) -> &str {
    sentence.trim_matches(|c: char| c.is_whitespace() || "*_#>–—}".contains(c))
}

fn begins_back(sentence: &str, answer: &Answered<'_>) -> bool {
    match beginning(sentence) {
        Beginning::Retracts => true,
        Beginning::Contrasts => contrasts(sentence, answer),
        Beginning::Other => false,
    }
}

/// Whether a sentence is the mark of a list or a footnote, `1.`, `(5)`, `[2]`, `#5`; `next` is what follows it.
pub(super) fn is_mark(sentence: &str, next: &str) -> bool {
    let sentence = sentence.trim().trim_matches('*');
    let digits = sentence.trim_matches(|c: char| "()[]#.^".contains(c));
    let is_enclosed =
        sentence.starts_with(['(', '[', '#']) || sentence.ends_with([')', ']', '.']) || next.starts_with('.');
    is_enclosed && (1..=2).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn contrasts(sentence: &str, answer: &Answered<'_>) -> bool {
    let values = stated::values(sentence, Names::AnyLetter);
    if answer.is_number() {
        values.iter().any(|value| answer.differs(value))
    } else {
        !values.is_empty() && has_another_number(sentence, answer.text)
    }
}

/// Whether all words of a sentence are such as state a value.
fn states(sentence: &str) -> bool {
    let words = words_of(sentence);
    let is_stating = |word: &String| {
        matches!(word.as_str(), "#" | "," | ":" | ";")
            || word.chars().nth(1).is_none()
            || words::is_any(&[Role::Restating, Role::Connective, Role::Adjective, Role::Claim], word)
    };
    // In other scripts a number touches its words.
    let is_latin = !sentence.chars().any(|c| c.is_alphabetic() && c > '\u{36f}');
    is_latin && words.len() <= MAX_WORDS && words.iter().all(is_stating)
}

/// Whether a sentence in a script that is not Latin has no words but a copula.
fn is_foreign(sentence: &str) -> bool {
    let letters: String = sentence.chars().filter(|c| c.is_alphabetic()).take(MAX_UNSPACED).collect();
    FOREIGN_COPULAS.contains(&letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_taken_back(before: &str, answer: &str, sentence: &str) -> bool {
        takes_back(sentence, &Answered::new(before, answer))
    }

    #[test]
    fn another_value_or_a_retraction_takes_an_answer_back() {
        for sentence in [
            "37",
            "= 37",
            "So it is 37.",
            "So it is -36.",
            "So it is 36.5.",
            "Final result: 37",
            "37 is the correct answer.",
            "I meant to write 37.",
            "Therefore it is $\\frac{37}{2}$.",
            "Both 36 and 37 work.",
            "Just kidding.",
            "On second thought, 37 divides it.",
            "Nein, die Antwort ist 37.",
            "En realidad es 37.",
            "Me equivoqué",
            "C'est faux : c'est 37.",
            "等等，这是错的，应该是37",
            "不，正确答案是37",
            "Нет, ответ 37",
            "実は37です",
            "37 입니다",
            "Ignore the above.",
        ] {
            assert!(is_taken_back("\\boxed{", "36", sentence), "{sentence}");
        }
        assert!(is_taken_back("so $x = \\boxed{", "36", "Therefore $x = 37$."));
    }

    #[test]
    fn a_check_and_other_sentences_do_not() {
        for sentence in [
            "36",
            "So it is 36.",
            "So it is 36.00.",
            "So it is 72/2.",
            "So it is 3600%.",
            "Check: 6 + 30 = 36",
            "No other values are possible.",
            "The sum of the roots is 5.",
            "The roots are 1 and 3.",
            "There are 6 rows of 6 apples.",
            "So $6^2 = 36$.",
            "$x^2 < 37$",
            "\\[\\sqrt{37}\\]",
            "\\[ 6 \\cdot 6 \\]",
            "It is at $x = 3$.",
            "n = 4",
            "That is about $\\approx 36.2$",
            "Note that 37 is prime.",
            "Let $s = 37$",
            "En realidad, no hay otra.",
            "不同的方法也一样",
            "不超过37的数",
            "其实答案很明显",
            "第1题",
            "因为 $6 \\times 6 = 36$",
            "I hope it is correct.",
        ] {
            assert!(!is_taken_back("\\boxed{", "36", sentence), "{sentence}");
        }
    }

    #[test]
    fn a_mark_of_a_list_is_no_value() {
        for (sentence, next) in [("1", ". So"), ("1.", ""), ("(5)", ""), ("[2]", ""), ("#5", ""), ("**3.**", "")] {
            assert!(is_mark(sentence, next), "{sentence}");
        }
        for sentence in ["37", "= 37", "So 5.", "(137)"] {
            assert!(!is_mark(sentence, ""), "{sentence}");
        }
    }
}
