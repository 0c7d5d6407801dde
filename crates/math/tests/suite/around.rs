//! What stands around a marked answer: another one, a retraction, a larger formula, another language, a choice's content.

use evenkeel_math::{CheckInput, CheckOutcome, Gold, Reason, Rules, check};

use crate::judged::completions;

#[test]
fn another_announced_answer_takes_a_box_back() {
    completions(
        "36",
        &Rules::default(),
        &[
            "\\boxed{36}. The final answer is 36.",
            "$\\boxed{36}$\n\nAnswer: $36$ apples",
            "\\boxed{36}\n#### 36",
            "<answer>36</answer>\n\nAnswer: 36",
            "\\boxed{36}. Alternatively, 6 + 30 = 36.",
            "\\boxed{36}. The answer is correct.",
        ],
        &[
            "\\boxed{36}. The final answer is 37.",
            "\\boxed{36}\n\nAnswer: $37$",
            "\\boxed{36}\n#### 37",
            "<answer>36</answer>\n\nAnswer: 37",
            "<answer>36</answer> is wrong.",
            "\\boxed{36}. Nope.",
            "\\boxed{36}. Incorrect.",
            "\\boxed{36}\nNot 36 but 37",
            "\\boxed{36}. Hold on, this is wrong",
            "\\boxed{36}. I take it back",
            "\\boxed{36}\n\nEdit: 37",
            "\\boxed{36}\nCorrected answer: 37",
            "\\boxed{36}\n答案：37",
        ],
    );
    let verdict = check("36", CheckInput::Completion("\\boxed{36}. The final answer is 37."), &Rules::default());
    assert_eq!((verdict.reason, verdict.outcome()), (Reason::TakenBack, CheckOutcome::Undecided));
}

#[test]
fn a_box_within_a_larger_formula_is_no_answer() {
    completions(
        "36",
        &Rules::default(),
        &[
            "$x = \\boxed{36}$",
            "x = \\boxed{36}",
            "It is \\boxed{36}.",
            "It is \\boxed{36}!",
            "$\\boxed{36}$ apples",
            "\\boxed{36} times",
            "$3 \\cdot 12 = \\boxed{36}$",
            "$\\angle A = \\boxed{36}^\\circ$",
            "$x \\approx \\boxed{36}$",
            "\\textcolor{red}{\\boxed{36}}",
            "\\text{The answer is \\boxed{36}}",
            "so (\\boxed{36})",
            "Question 5 - \\boxed{36}",
            "| total | \\boxed{36} |",
            "$5 + 31 = \\boxed{36}$",
        ],
        &[
            "$x \\ne \\boxed{36}$",
            "$x > \\boxed{36}$",
            "$2x = \\boxed{36}$",
            "$x^2 = \\boxed{36}$",
            "-$\\boxed{36}$",
            "\\boxed{36}\\%",
            "\\boxed{36}^2",
            "\\boxed{36}/2",
            "\\boxed{36} + 1",
            "$\\boxed{36}!$",
            "\\boxed{36} million",
            "\\boxed{3}+\\boxed{36}",
            "\\boxed{3} + \\boxed{36}",
            "\\boxed{3}/\\boxed{36}",
            "\\boxed{3} - \\boxed{36}",
            "\\boxed{3}:\\boxed{36}",
            "\\boxed{3}^{\\boxed{36}}",
            "\\frac{\\boxed{36}}{\\boxed{36}}",
            "\\frac{\\boxed{3}}{\\boxed{36}}",
            "\\frac{\\boxed{36}}{4}",
            "\\sqrt{\\boxed{36}}",
            "x^{\\boxed{36}}",
            "\\sin(\\boxed{36})",
            "2(\\boxed{36})",
            "\\left(\\boxed{36}\\right)^2",
            "$|\\boxed{36}|$",
            "$\\sin \\boxed{36}$",
            "3 + \\boxed{36}",
            "3\\boxed{36}",
            "$\\frac12\\boxed{36}$",
            "$\\frac{1}{2}\\boxed{36}$",
            "\\boxed{36}$ percent",
            "$\\boxed{36}$ percent",
            "\\boxed{36} (percent)",
            "\\boxed{36}\\text{ percent}",
            "\\boxed{36} hundredths",
            "\\boxed{36} and a half",
            "\\boxed{36} minus 1",
            "$\\boxed{36}$ + 1",
            "\\[\\boxed{36}\\] million",
            "$\\text{half of }\\boxed{36}$",
            "The answer is at least\n\\[\\boxed{36}\\]",
            "The answer is not $x = \\boxed{36}$",
            "$\\pm 1, \\boxed{36}$",
            "The answer is 37 or\n#### 36",
            "<answer>36</answer>, 37",
            "\\boxed{36}k",
        ],
    );
}

#[test]
fn a_percent_sign_behind_a_box_answers_a_gold_answer_in_percent() {
    completions(
        "28\\%",
        &Rules::default(),
        &["$\\boxed{28}\\%$", "$\\boxed{28}$ pct", "\\boxed{28} percent of them", "\\boxed{28\\%}", "\\boxed{28}"],
        &[
            "$\\boxed{0.28}\\%$",
            "\\boxed{2800} percent",
            "\\boxed{28} million",
            "2\\boxed{28}\\%",
            "\\boxed{28}\\%. Wait, no.",
        ],
    );
    completions("0.28", &Rules::default(), &["\\boxed{28\\%}"], &["\\boxed{0.28}\\%"]);
}

#[test]
fn boxes_beside_each_other_within_a_larger_formula_are_no_list() {
    completions(
        "3, 4",
        &Rules::default(),
        &["\\boxed{3} and \\boxed{4}", "$(\\boxed{3}, \\boxed{4})$", "$x=\\boxed{3}, y=\\boxed{4}$"],
        &["\\boxed{3} and \\boxed{4}^2", "-\\boxed{3}, \\boxed{4}", "The answers are not \\boxed{3} and \\boxed{4}"],
    );
}

#[test]
fn an_answer_in_another_language_is_announced_by_known_words() {
    completions(
        "36",
        &Rules::default(),
        &["Die richtige Antwort ist 36.", "所以正确答案是36。", "La bonne réponse est 36.", "Правильный ответ: 36"],
        &["Falsche Antwort: 36", "错误答案：36", "La mauvaise réponse est 36", "Неверный ответ: 36"],
    );
}

#[test]
fn the_content_of_a_choice_is_the_one_of_the_task() {
    let rules = Rules::default();
    let problem = "What is 6 * 7? (A) 41 (B) 42 (C) 43";
    let gold = Gold::read("B", &rules).unwrap();
    let is_equal = |answer: &str| gold.check_for(Some(problem), CheckInput::Extracted(answer), &rules).is_equal();
    for answer in ["B", "(B)", "(B) 42", "B. 42", "(B) ✓", "(B) 42.0", "\\textbf{(B)}\\ 42", "(B) is correct"] {
        assert!(is_equal(answer), "{answer}");
    }
    for answer in ["(B) ✗", "(B) ❌", "(B) \\times", "(B) \\ne 42", "(B) 41", "B. 36"] {
        assert!(!is_equal(answer), "{answer}");
    }
}

#[test]
fn words_that_change_a_number_are_no_nouns_and_names_of_a_value_stay() {
    let rules = Rules::default();
    let problem = "Tim has 6 pairs of socks, lost sets, debts and an average. The mean? Per box, how many apples?";
    let gold = Gold::read("36", &rules).unwrap();
    let is_equal =
        |problem: Option<&str>, answer: &str| gold.check_for(problem, CheckInput::Extracted(answer), &rules).is_equal();
    for answer in ["The mean is 36", "36 socks", "The average is 36", "36 apples per box"] {
        assert!(is_equal(Some(problem), answer), "{answer}");
    }
    for answer in [
        "36 pairs",
        "36 sets",
        "36 lost",
        "36 debts",
        "36 average",
        "36 basis points",
        "36 centuries",
        "36 Dutzend",
        "36 Prozent",
        "36 тысяч",
        "36 docenas",
        "36 unpaid",
        "36 removed",
    ] {
        assert!(!is_equal(Some(problem), answer), "{answer}");
    }
    assert!(!is_equal(None, "36 per box"));
}

#[test]
fn what_somebody_else_says_is_no_answer_unless_the_problem_asks_for_it() {
    completions(
        "7",
        &Rules::default(),
        &[
            "I think the answer is \\boxed{7}",
            "I'd say \\boxed{7}",
            "That said, the answer is \\boxed{7}",
            "On second thought, the answer is \\boxed{7}",
            "Claim: the answer is \\boxed{7}",
            "Bob has \\boxed{7}",
            "The theorem says that $x = \\boxed{7}$",
            "Bob's total is \\boxed{7}",
            "Total: \\boxed{7}",
            "Step 3:\n\\[\\boxed{7}\\]",
            "Simplifying: \\boxed{7}",
            "Bob wrote \\boxed{7} letters",
            "According to the table, the answer is \\boxed{7}",
            "The simplest answer is \\boxed{7}",
            "\\boxed{7} according to the table",
            "So Bob has seven apples.\n#### 7",
            "Bob says 3, so the answer is \\boxed{7}",
            "Bob says 8. The answer is \\boxed{7}",
            "Lösung: \\boxed{7}",
            "Per person: $x = \\boxed{7}$",
        ],
        &[
            "Bob says \\boxed{7}",
            "Bob says: \\boxed{7}",
            "Alice claims the answer is 7",
            "Alice claims the answer is \\boxed{7}",
            "Alice claims that $x = \\boxed{7}$",
            "My friend thinks it is \\boxed{7}",
            "Some might think the answer is \\boxed{7}",
            "They say the total is \\boxed{7}",
            "According to Bob, the answer is \\boxed{7}",
            "Bob's answer is \\boxed{7}",
            "Someone told me the answer is \\boxed{7}",
            "\\boxed{7}, says Bob",
            "Bob: \\boxed{7}",
            "**Bob:**\n\\[\\boxed{7}\\]",
            "Student A - \\boxed{7}",
            "A student wrote \\boxed{7}",
            "A student wrote\n\\[\\boxed{7}\\]",
            "I was told \\boxed{7}",
            "According to my friend, the answer is \\boxed{7}",
            "Her answer is \\boxed{7}",
            "Old answer: \\boxed{7}",
            "Bob: <answer>7</answer>",
            "Bob: #### 7",
            "A student wrote\n#### 7",
            "\\boxed{7} according to Bob",
            "\\boxed{7} is Bob's answer",
            "\\boxed{7} (I was told)",
            "<answer>7</answer>, says Bob",
            "\\boxed{7} apples, says Bob",
            "Bob: $x = \\boxed{7}$",
            "Bob says\n\\[x = \\boxed{7}\\]",
            "$\\text{Bob: }\\boxed{7}$",
            "José: \\boxed{7}",
            "Боб: \\boxed{7}",
            "My friend: \\boxed{7}",
        ],
    );
    let judged = |problem: &str, text: &str| {
        let rules = Rules::default();
        Gold::read("7", &rules).unwrap().check_for(Some(problem), CheckInput::Completion(text), &rules).reason
    };
    assert_eq!(judged("Each child says a number. What does Bob say?", "So Bob says \\boxed{7}"), Reason::EqualInteger);
    assert_eq!(judged("Bob adds 3 and 4.", "Bob's answer is \\boxed{7}"), Reason::EqualInteger);
    assert_eq!(judged("Bob adds 3 and 4.", "Bob: \\boxed{7}"), Reason::EqualInteger);
    assert_eq!(judged("Bob adds 3 and 4.", "Bob wrote \\boxed{7}"), Reason::EqualInteger);
    assert_eq!(judged("What is 3 + 4?", "Bob: \\boxed{7}"), Reason::NotUnderstood);
    assert_eq!(judged("What is 3 + 4?", "Bob says \\boxed{7}"), Reason::NotUnderstood);
}

#[test]
fn a_base_that_is_named_beside_a_box_is_that_of_its_digits() {
    completions(
        "15",
        &Rules::default(),
        &[
            "Base 10: \\boxed{15}",
            "From base 7 we get \\boxed{15}",
            "The largest base 2 integer is \\boxed{15}",
            "In base 7, this number has \\boxed{15} digits",
            "Base 7, height 4, area \\boxed{15}",
            "21 in base 7 is \\boxed{15}",
            "We work in base 7: 21. In base 10 that is \\boxed{15}",
        ],
        &[
            "Base 7: \\boxed{15}",
            "In base 7, the answer is $\\boxed{15}$",
            "Therefore the base $7$ representation is \\boxed{15}",
            "$\\boxed{15}_7$",
            "$\\boxed{15}_{\\text{seven}}$",
            "\\boxed{15} (base 7)",
            "\\boxed{15} in base 7",
            "12 in base 7 is \\boxed{15}",
            "We work in base 7. So it is \\boxed{15}",
            "In base 7:\n\\[\\boxed{15}\\]",
            "0x\\boxed{15}",
            "Septenary: \\boxed{15}",
            "\\boxed{15}, written in base 7.",
            "12 in base 7 is #### 15",
            "In base 7: <answer>15</answer>",
        ],
    );
    completions(
        "15_7",
        &Rules::default(),
        &[
            "Base 7: \\boxed{15}",
            "Base 7: \\boxed{15_7}",
            "$\\boxed{15}_7$",
            "\\boxed{15} in base 7",
            "$\\boxed{15}$ (base 7)",
            "\\boxed{15}",
        ],
        &[
            "Base 10: \\boxed{15}",
            "Base 8: \\boxed{15}",
            "$\\boxed{15}_8$",
            "\\boxed{15} in base 8",
            "Base 7: \\boxed{12}",
        ],
    );
    let rules = Rules::default();
    let gold = Gold::read("15", &rules).unwrap();
    let problem = "Write 12 in base 7.";
    assert!(gold.check_for(Some(problem), CheckInput::Completion("Base 7: \\boxed{15}"), &rules).is_equal());
}
