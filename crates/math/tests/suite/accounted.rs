//! An answer is equal only if every part of it is accounted for.

use evenkeel_math::{CheckInput, Gold, Reason, Rules, check};

use crate::judged::{all, completions};

/// Whether an answer to a problem is right.
fn answers(problem: &str, gold: &str, answer: &str) -> bool {
    let rules = Rules::default();
    Gold::read(gold, &rules).unwrap().check_for(Some(problem), CheckInput::Extracted(answer), &rules).is_equal()
}

#[test]
fn nothing_is_removed_from_a_formula() {
    all("\\frac{1}{2}(e^{at}+e^{-at})", &["\\cosh(at)"], &["\\frac12"]);
    all("3at", &["3ta"], &["3", "3a", "at"]);
    all("2(is)", &["2si"], &["2", "is"]);
    all("\\frac13\\pi r^2 h", &["\\frac{\\pi h r^2}{3}"], &["\\frac13\\pi r^2"]);
    all("5", &["5 m", "5\\text{ m}"], &["5at", "5(at)", "5 a m", "5(m)", "5m^2x"]);
    all("5 m", &["5m", "5\\text{ m}"], &["5"]);
    all("2(length)", &[], &["2"]);
    all("2", &[], &["2(\\text{rate})", "2(length + width)", "2 (cm)"]);
}

#[test]
fn products_of_letters_have_no_order_and_case_counts() {
    all("mgh", &["hgm", "m g h", "m\\cdot g\\cdot h"], &["mgH", "MGH", "mg"]);
    all("nRT", &["RTn"], &["NRT", "nrt"]);
    // Capitals alone may be a word: `DNA`, `HHT`.
    all("BIL", &["BIL", "B \\cdot I \\cdot L"], &["bil", "LIB"]);
    all("2BIL", &["2LIB"], &["2bil"]);
    all("GMmr", &["mrGM"], &["GMMr"]);
    all("xyz=1", &["zyx=1"], &["XYZ=1"]);
    // Points and choices have their order, words are words.
    all("ABDC", &["\\text{ABDC}"], &["ACBD"]);
    all("navy", &["Navy", "\\text{navy}"], &["vany"]);
    all("Yes", &["yes", "YES", "\\text{yes}"], &["No"]);
}

#[test]
fn sets_keep_their_terms() {
    all(
        "\\{2k\\mid k\\in\\mathbb{Z}\\}",
        &["\\{2n: n\\in\\mathbb{Z}\\}"],
        &["\\{3k\\mid k\\in\\mathbb{Z}\\}", "\\mathbb{Z}", "\\{2k\\mid k\\in\\mathbb{N}\\}", "\\{2\\}"],
    );
    all(
        "\\mathbb{R}",
        &["\\{x\\mid x\\in\\mathbb{R}\\}"],
        &["\\{0\\mid x\\in\\mathbb{R}\\}", "\\{x^2\\mid x\\in\\mathbb{R}\\}"],
    );
    all(
        "(2,\\infty)",
        &["\\{x\\in\\mathbb{R}: x>2\\}"],
        &["\\{2x\\mid x>2\\}", "\\{x\\in\\mathbb{Z}\\mid x>2\\}", "\\{y\\mid x>2\\}"],
    );
}

#[test]
fn a_sentence_must_announce_the_answer_and_nothing_else() {
    let rules = Rules::default();
    completions(
        "7",
        &rules,
        &[
            "So the final answer is 7.",
            "Since x > 0, the answer is $7$.",
            "The answer is 7, since x is an integer.",
            "The answer is 7, which is the number of days in a week.",
            "The answer is 7, not 8.",
            "The answer is ~~8~~ 7.",
            "The answer is 7. I hope it is correct.",
            "<FINAL_ANSWER>7</FINAL_ANSWER>",
        ],
        &[
            "An incorrect answer is 7.",
            "Half of the answer is 7.",
            "I don't think the answer is 7.",
            "If n is even, the answer is 7.",
            "For n=2 the answer is 7.",
            "Bob's answer is 7.",
            "The answer is 7, which is not correct, so it must be 8.",
            "The answer is 7, which contradicts the assumption.",
            "Answer: 7; other possible values are 8 and 9",
            "The answer is 7. It could also be 8.",
            "The answer is 7. Wait, that is wrong: it is 8.",
            "\\boxed{7} is wrong.",
            "\\boxed{1} = \\boxed{7}",
        ],
    );
    let retracted = check("7", CheckInput::Completion("\\boxed{7}. Wait, that is wrong."), &rules);
    assert_eq!(retracted.reason, Reason::TakenBack);
}

#[test]
fn a_choice_is_stated_and_nothing_else() {
    all(
        "A",
        &["(A)", "Option A", "(A) is correct", "The correct answer is (A)", "(A) 5", "A. 5 cm"],
        &[
            "(A) fails",
            "(A) maybe",
            "A. Not correct",
            "(A) 5 is too small",
            "(A) 5 (but it is 6)",
            "A \\frac12",
            "(A)?",
        ],
    );
    let problem = "Who is it? (A) Alice (B) Bob (C) Cecile (D) Dan";
    for (gold, answer) in [("C", "Cecile"), ("C", "(C) Cecile"), ("Cecile", "C"), ("\\text{Cecile}", "(C)")] {
        assert!(answers(problem, gold, answer), "{gold} and {answer}");
    }
    for (gold, answer) in [("C", "Bob"), ("C", "(C) Bob"), ("Cecile", "B")] {
        assert!(!answers(problem, gold, answer), "{gold} and {answer}");
    }
}

#[test]
fn a_noun_stands_in_the_table_the_problem_or_the_gold_answer() {
    let problem = "Wombats dig. How many wombats rejected half of the burrow?";
    for answer in ["36 wombats", "36\\text{ wombats in the burrow}", "There are 36 wombats.", "36 apples"] {
        assert!(answers(problem, "36", answer), "{answer}");
    }
    for answer in ["36 kiwis", "36 rejected", "36 half", "36 many", "36 wombats or so", "36 more wombats"] {
        assert!(!answers(problem, "36", answer), "{answer}");
    }
    all("36 wombats", &["36", "36 wombats"], &["36 kiwis"]);
    let unknown = check("36", CheckInput::Extracted("36 wombats"), &Rules::default());
    assert_eq!(unknown.reason, Reason::NotUnderstood);
    let gsm8k = evenkeel_math::Profile::Gsm8k.rules();
    assert!(check("36", CheckInput::Extracted("36 wombats"), &gsm8k).is_equal());
    assert!(!check("36", CheckInput::Extracted("36 rejected"), &gsm8k).is_equal());
}

#[test]
fn parts_and_multiples_are_their_value() {
    all("\\frac34", &["3\\text{ fourths}", "3 quarters"], &["3"]);
    all("84", &["7 dozen"], &["7"]);
    all("\\frac32", &["1{\\frac12}", "{1}{\\frac12}", "1\\,{\\frac12}"], &[]);
    all("\\frac12", &[], &["1{\\frac12}"]);
    all("36", &["\\text{36th}"], &["36 percent", "36 percent of 1", "36 tenths"]);
    all("0.36", &["36 percent", "36\\%"], &[]);
    all("0.8", &["12 \\text{ over } 15", "12 \\text{ divided by } 15"], &["12 \\text{ by } 15"]);
    all("12", &["5 \\text{ plus } 7", "6 \\text{ times } 2"], &["12 \\text{ times } 2", "12 \\text{ minus } 5"]);
}

#[test]
fn right_answers_in_other_words_and_letters() {
    all("P-Pr", &["P(1-r)"], &["P(1+r)"]);
    all("P(A)", &[], &["PA"]);
    all(
        "x=\\frac{\\pi}{4}+k\\pi, k\\in\\mathbb{Z}",
        &["x=\\frac{\\pi}{4}+n\\pi, n\\in\\mathbb{Z}"],
        &["x=\\frac{\\pi}{4}+2n\\pi, n\\in\\mathbb{Z}", "x=\\frac{\\pi}{4}+n\\pi, n\\in\\mathbb{N}"],
    );
    all("10455", &["$10,200 + $255 = $10,455"], &["$10,200 + $255 = $10,456"]);
    all(
        "f(x)=1",
        &["f(x)=1 \\text{ for all } x", "f(x)=1\\text{ for all }x\\in\\mathbb{R}"],
        &["f(x)=1 \\text{ for some } x"],
    );
    all("(3,5)", &["(a,b)=(3,5)", "(b,a)=(5,3)"], &["(b,a)=(3,5)"]);
    all("5\\text{ N}", &["5\\text{ kg}\\cdot\\text{m}/\\text{s}^2", "\\qty{5}{N}"], &["5\\text{ J}"]);
}

#[test]
fn the_sign_of_an_exponent_in_braces_is_that_of_the_whole_exponent() {
    all(
        "e^{-x^2}",
        &["\\exp(-x^2)", "e^{-(x^2)}", "\\frac{1}{e^{x^2}}", "e^(-x^2)"],
        &["e^{x^2}", "\\exp(x^2)", "e^{(-x)^2}"],
    );
    all("xe^{-x^2/2}", &["\\frac{x}{e^{x^2/2}}"], &["xe^{x^2/2}"]);
    all("e^{-(x-1)^2}", &["\\exp(-(x-1)^2)"], &["e^{(x-1)^2}"]);
    all("2^{-3^2}", &["\\frac{1}{512}"], &["512"]);
    all("2^{1\\frac12}", &["2^{3/2}", "2\\sqrt2"], &["\\sqrt2"]);
    // Without braces the exponent is one operand.
    all("2^-3x", &["\\frac{x}{8}"], &["8^{-x}"]);
}

#[test]
fn a_number_beside_the_answer_is_a_number_of_places_or_the_answer_again() {
    all(
        "36",
        &["36 (36 total)", "36 (to 2 decimal places)", "\\text{No. }36"],
        &["36 (37 total)", "36 (37 each)", "36 left (37 total)", "36:1", "\\text{no, }36", "\\text{no solution }36"],
    );
    all(
        "\\frac{3}{4}",
        &["\\frac{3}{4} \\approx 0.75", "3:4"],
        &["\\frac{3}{4} \\approx \\frac{5}{7}", "\\frac{3}{4} \\approx 1"],
    );
    all("\\sqrt{2}", &["\\sqrt{2} \\approx 1.41"], &["\\sqrt{2} \\approx 2"]);
    all("11111100", &["11{,}\\! 111{,}\\! 100"], &[]);
    all("\\text{Evelyn}", &["\\text{Answer: } \\text{Evelyn}"], &[]);
}
