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
    for text in ["Janet has $\\boxed{36}$ eggs in the boxes.", "Tom has $\\boxed{36}$ more eggs than Janet."] {
        assert!(is_equal(text), "{text}");
    }
    for text in ["$\\boxed{36}$ pairs of shoes", "$\\boxed{36}$ eggs and 12 boxes", "$\\boxed{36}$ dozen eggs"] {
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
            "$\\boxed{36}$. This cannot be simplified further.",
            "$\\boxed{36}$. We ignore the negative root.",
            "$\\boxed{36}$\n\nThe value $-6$ is not valid.",
            "$\\boxed{36}$\n\nHowever, if the bags held 7 apples each, the total would be 42.",
        ],
        &[
            "$\\boxed{36}$.\n\nSo there is no solution.",
            "$\\boxed{36}$.\n\nThe check fails.",
            "$\\boxed{36}$.\n\nPlease ignore the box.",
            "$\\boxed{36}$.\n\nRetracted.",
            "$\\boxed{36}$. No, that's wrong.",
            "$\\boxed{36}$. This can't possibly be right.",
            "$\\boxed{36}$. I realize I misread the problem.",
            "$\\boxed{36}$. The real answer, however, is 37.",
            "$\\boxed{36}$. Verification gives 37 instead.",
            "$\\boxed{36}$. Rounded to the nearest ten, the final answer is 40.",
            "$\\boxed{36}$\n\nDas Ergebnis ist falsch.",
            "$\\boxed{36}$\n\n但是正确答案是37。",
            "<answer>36 (final answer)</answer> (vs. 37).",
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
fn the_word_that_touches_a_box_is_known_in_other_languages() {
    let right = [
        "所以他还剩 $\\boxed{36}$ 元。",
        "よって、面積は$\\boxed{36}$である。",
        "El valor de $x$ es $\\boxed{36}$.",
        "Es gibt $\\boxed{36}$.",
        "Le total est égal à $\\boxed{36}$.",
        "Следовательно, площадь равна $\\boxed{36}$.",
    ];
    let wrong = [
        "除了$\\boxed{36}$",
        "负$\\boxed{36}$",
        "结果约为$\\boxed{36}$",
        "Casi $\\boxed{36}$",
        "El resultado no es $\\boxed{36}$.",
        "La moitié de $\\boxed{36}$",
        "Es sind fast $\\boxed{36}$.",
    ];
    completions("36", &Rules::default(), &right, &wrong);
}

#[test]
fn another_value_before_a_box_is_accounted_for() {
    let right = [
        "With $x+3$ apples, she has $\\boxed{x+2}$.",
        "$2x = 2x$, so $f(x) = \\boxed{x+2}$",
        "$x + 2$ or $\\boxed{x+2}$",
    ];
    let wrong = [
        "$x-3$ or $\\boxed{x+2}$",
        "$x-3, \\boxed{x+2}$",
        "$\\boxed{x+2}$\nor\n$x-3$",
        "The answer is $x-3$, where $m = \\boxed{x+2}$.",
        "1. $\\boxed{x-3}$\n2. $\\boxed{x+2}$",
        "If $n$ is odd, the answer is $\\boxed{x-3}$; if even, $\\boxed{x+2}$.",
        "x = $\\boxed{x-3}$ and x = $\\boxed{x+2}$",
        "The answer is $\\boxed{x+2}$ for even n and $x-3$ for odd n.",
    ];
    completions("x+2", &Rules::default(), &right, &wrong);
    completions("36", &Rules::default(), &["So Tom has 6 × 6 = $\\boxed{36}$."], &[]);
    completions("\\frac34", &Rules::default(), &[], &["$\\frac{5}{7} = \\boxed{\\frac{3}{4}}$"]);
}

#[test]
fn what_is_near_a_box_or_made_of_it_is_not_the_answer() {
    let right =
        ["She has a total of $\\boxed{36}$.", "It simplifies to $\\boxed{36}$.", "That adds up to $\\boxed{36}$."];
    let wrong = [
        "The answer is close to $\\boxed{36}$.",
        "It is the successor of $\\boxed{36}$.",
        "Add 1 to $\\boxed{36}$.",
        "It lies between 35 and $\\boxed{36}$.",
        "The answer in thousands is $\\boxed{36}$.",
        "Lower bound: $\\boxed{36}$",
        "Write it like this: \\boxed{36}",
        "❌ $\\boxed{36}$",
    ];
    completions("36", &Rules::default(), &right, &wrong);
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
