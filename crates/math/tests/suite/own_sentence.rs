//! The sentence that a box stands in is accounted for, in any language: what precedes the box and what follows it.

use evenkeel_math::{CheckInput, Gold, Reason, Rules, check};

use crate::judged::completions;

#[test]
fn what_follows_a_box_in_its_sentence_is_accounted_for() {
    completions(
        "36",
        &Rules::default(),
        &[
            "$\\boxed{36}$ is the smallest such integer.",
            "It takes $\\boxed{36}$ minutes to catch the elephant.",
            "所以一共有 $\\boxed{36}$ 种不同的方法。",
            "Итого $\\boxed{36}$ рублей.",
            "따라서 정답은 $\\boxed{36}$입니다.",
            "$\\boxed{36}$, not 37.",
        ],
        &[
            "\\boxed{36}万",
            "\\boxed{36} Dutzend",
            "\\boxed{36}以上",
            "\\boxed{36} ou plus",
            "\\boxed{36}或37",
            "\\boxed{36} bis 37",
            "\\boxed{36} ist falsch.",
            "$\\boxed{36}$ does not work.",
            "$\\boxed{36}$ is the previous answer.",
            "$\\boxed{36}$ (rejected)",
            "\\boxed{36}²",
            "\\boxed{36} if Monday, 37 if Tuesday",
        ],
    );
}

#[test]
fn words_of_a_problem_are_nouns_behind_a_box_unless_they_change_the_number() {
    let rules = Rules::default();
    let gold = Gold::read("36", &rules).unwrap();
    let problem = "Janet's ducks lay 16 eggs per day. She has 3 dozen boxes and 12 pairs of shoes.";
    let is_equal = |text: &str| gold.check_for(Some(problem), CheckInput::Completion(text), &rules).is_equal();
    assert!(is_equal("Janet has $\\boxed{36}$ eggs in the boxes."));
    for text in ["$\\boxed{36}$ pairs of shoes", "$\\boxed{36}$ eggs and 12 boxes", "$\\boxed{36}$ more than Janet"] {
        assert!(!is_equal(text), "{text}");
    }
}

#[test]
fn what_precedes_a_box_denies_it_in_other_languages_as_well() {
    completions(
        "36",
        &Rules::default(),
        &["Por lo tanto, la respuesta correcta es $\\boxed{36}$.", "所以最终答案为：$\\boxed{36}$"],
        &[
            "答案不是$\\boxed{36}$",
            "Die Antwort ist nicht $\\boxed{36}$.",
            "La moitié de la réponse est $\\boxed{36}$.",
            "La respuesta no es $\\boxed{36}$.",
            "Could the answer be \\boxed{36}",
            "The answer might be \\boxed{36}.",
            "Maybe the answer is \\boxed{36}",
        ],
    );
}

#[test]
fn a_box_is_no_answer_as_a_part_of_an_equation_an_interval_or_a_list_of_cases() {
    completions(
        "36",
        &Rules::default(),
        &[
            "\\begin{align*}\nx &= 6\\cdot 6\\\\\n&= \\boxed{36}\n\\end{align*}",
            "$\\sqrt{a^2+b^2} = \\boxed{36}$",
            "$|A \\cup B| = \\boxed{36}$",
        ],
        &[
            "$[\\boxed{36}, \\infty)$",
            "$x\\in(-\\infty, \\boxed{36})$",
            "$\\log_{2}{\\boxed{36}}$",
            "$\\boxed{36}\\bmod 5$",
            "\\begin{pmatrix}\\boxed{36} & 1\\end{pmatrix}",
            "$2x =$ $\\boxed{36}$",
            "\\begin{align*}2x &= \\boxed{36}\\end{align*}",
            "$$x \\le\n\\boxed{36}$$",
            "$-{\\boxed{36}}$",
            "$\\frac{x}{2} = \\boxed{36}$",
            "$37 = \\boxed{36}$",
            "$37$ plus $\\boxed{36}$",
            "Case 1: $\\boxed{37}$. Case 2: $\\boxed{36}$.",
        ],
    );
}

#[test]
fn a_later_sentence_may_say_that_there_is_no_answer() {
    completions(
        "36",
        &Rules::default(),
        &[
            "$\\boxed{36}$\n\nWait, let me double check: 6*6 = 36. Yes.",
            "$\\boxed{36}$\n\nIt is not 37.",
            "$\\boxed{36}$\n\nAlternatively, using symmetry we get 36.",
            "$\\boxed{36}$. There is no other solution.",
        ],
        &[
            "$\\boxed{36}$.\n\nSo there is no solution.",
            "$\\boxed{36}$.\n\nThe check fails.",
            "$\\boxed{36}$.\n\nPlease ignore the box.",
            "$\\boxed{36}$.\n\nRetracted.",
        ],
    );
}

#[test]
fn other_languages_announce_an_answer_without_a_box() {
    let right =
        ["答えは36です。", "정답은 36입니다.", "Jawaban: 36", "Svar: 36", "תשובה: 36", "الإجابة: 36", "الجواب هو 36"];
    completions("36", &Rules::default(), &right, &["Jawabannya bukan $\\boxed{36}$"]);
}

#[test]
fn every_kind_of_box_is_judged_with_its_sentence() {
    completions(
        "36",
        &Rules::default(),
        &["<|begin_of_box|>36<|end_of_box|>", "$\\bbox[5px]{36}$.", "$\\framebox{36}$ cm"],
        &[
            "<|begin_of_box|>36<|end_of_box|> does not work.",
            "$\\bbox[5px]{36}$ does not work.",
            "$\\framebox{36}$ does not work.",
            "$2x = \\bbox{36}$",
        ],
    );
}

#[test]
fn what_a_small_model_makes_of_a_further_box_says_nothing_of_the_first() {
    let rest = ["noxed{180}", "=7? noxed{37}", "oxed{1}", "0}", "066}", "m, noxed{13}", "d{13+3=5. noxed{27}", "9}"];
    for rest in rest {
        let text = format!("hmm, 9+1=10? no. \\boxed{{90}}{rest}");
        assert!(check("90", CheckInput::Completion(&text), &Rules::default()).is_equal(), "{text}");
    }
    for other in ["\\boxed{152}m, \\boxed{50}", "\\boxed{190}-0\\boxed{100}"] {
        let found = check("90", CheckInput::Completion(other), &Rules::default());
        assert_eq!(found.reason, Reason::DifferentNumber, "the last box is the answer: {other}");
    }
}
