//! Sentences after an answer that take it back or give another one, in any language of the table.

use evenkeel_math::{Profile, Rules};

use crate::judged::completions;

const RETRACTIONS: [&str; 43] = [
    "37",
    "= 37",
    "So it is 37.",
    "Final result: 37",
    "37 is the correct answer.",
    "I meant to write 37.",
    "Either 36 or 37.",
    "The other root is 37.",
    "36 is wrong.",
    "The above answer is wrong.",
    "The value in the box is wrong.",
    "This does not satisfy the equation.",
    "Ignore the above.",
    "Just kidding.",
    "I am not sure.",
    "Me equivoqué: es 37.",
    "En realidad es 37.",
    "Non, la réponse est 37.",
    "C'est faux : c'est 37.",
    "Das ist falsch: es ist 37.",
    "Ich habe mich geirrt.",
    "Mi sono sbagliato.",
    "Na verdade, é 37.",
    "Это неверно: 37.",
    "Я ошибся.",
    "Ні, відповідь 37.",
    "Nie, odpowiedź to 37.",
    "Nee, het antwoord is 37.",
    "Vänta, det är fel: 37.",
    "Počkej, to je špatně: 37.",
    "Bu yanlış, 37 olmalı.",
    "Khoan, sai rồi, là 37.",
    "Tunggu, itu salah: 37.",
    "Λάθος, είναι 37.",
    "רגע, זה לא נכון, 37.",
    "لا، الجواب هو 37.",
    "نه، پاسخ 37 است.",
    "रुको, यह गलत है, उत्तर 37 है।",
    "아니, 답은 37입니다.",
    "等等，这是错的，应该是37。",
    "我错了",
    "いや、答えは37です。",
    "เดี๋ยวก่อน ผิดแล้ว 37",
];

const OTHERS: [&str; 41] = [
    "36",
    "So it is 36.",
    "So it is 36.00.",
    "So it is $\\frac{72}{2}$.",
    "= 36.0",
    "Therefore $x = 37$.",
    "It is at $x = 3$.",
    "n = 4",
    "The roots are 1 and 3.",
    "$x^2 < 9$",
    "\\[\\sqrt{2}\\]",
    "\\[ 6 \\cdot 6 \\]",
    "$\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}$",
    "第1题",
    "第2步已验证",
    "因为3个人各有12个",
    "验证:6乘6",
    "不超过40的数",
    "其实答案很明显",
    "或者用另一种方法",
    "Задача 5 решена",
    "En realidad, no hay otra.",
    "1.",
    "1. Check the sum.",
    "(5)",
    "[2]",
    "#5",
    "This is the relative error.",
    "Let me recheck: yes.",
    "Check: 6 + 30 = 36",
    "No other values are possible.",
    "The sum of the roots is 5.",
    "Let $s = 5$. Then $6s + 6 = 36$.",
    "[asy]\nint i;\nfor(i=1;i<=6;++i) draw((0,0)--(1,i));\n37;\n[/asy]",
    "I hope it is correct.",
    "Note that 37 is prime.",
    "Espero que sea correcto.",
    "Non c'è altra soluzione.",
    "Das stimmt.",
    "因为 $6 \\times 6 = 36$",
    "不同的方法也一样",
];

#[test]
fn a_retraction_or_another_value_takes_an_answer_back() {
    for separator in ["\n", "\n\n", ". "] {
        for sentence in OTHERS {
            completions("36", &Rules::default(), &[&format!("\\boxed{{36}}{separator}{sentence}")], &[]);
        }
        for sentence in RETRACTIONS {
            completions("36", &Rules::default(), &[], &[&format!("\\boxed{{36}}{separator}{sentence}")]);
        }
    }
}

#[test]
fn hashes_and_announced_answers_are_taken_back_as_well() {
    let rules = Profile::Gsm8k.rules();
    for sentence in OTHERS {
        completions("36", &rules, &[&format!("#### 36\n{sentence}")], &[]);
        completions("36", &Rules::default(), &[&format!("Answer: 36\n{sentence}")], &[]);
        completions("36", &Rules::default(), &[&format!("<answer>36</answer>\n{sentence}")], &[]);
    }
    for sentence in RETRACTIONS {
        completions("36", &rules, &[], &[&format!("#### 36\n{sentence}")]);
        completions("36", &Rules::default(), &[], &[&format!("Answer: 36\n{sentence}")]);
    }
}

#[test]
fn the_same_value_in_another_form_takes_nothing_back() {
    for (gold, completion) in [
        ("\\frac12", "$\\boxed{\\frac12}$\n$= 0.5$"),
        ("\\frac12", "$\\boxed{\\frac12}$. So it is 0.5."),
        ("\\frac13", "$\\boxed{\\frac13}$. So it is 0.333."),
        ("2000", "$\\boxed{2000}$. So it is 2,000"),
        ("18", "\\boxed{18} dollars.\n$18.00"),
        ("0.36", "\\boxed{0.36}\nSo it is 36%"),
        ("36", "\\boxed{36\\%}\nSo it is 0.36"),
        ("\\sqrt4", "\\boxed{\\sqrt{4}}\n= 2"),
        ("2000", "Answer: 2000\nSo it is 2,000"),
        ("2000", "<answer>2000</answer>\nSo it is 2,000"),
    ] {
        completions(gold, &Rules::default(), &[completion], &[]);
    }
    completions("2000", &Profile::Gsm8k.rules(), &["#### 2000\nSo it is 2,000"], &["#### 2000\nSo it is 2,001"]);
}

#[test]
fn the_value_of_another_name_takes_nothing_back() {
    let right = ["\\boxed{12}\nIt is at $x = 3$.", "$y=\\boxed{12}$. So $x=3$.", "$x=\\boxed{12}$. So $x=12.0$."];
    completions("12", &Rules::default(), &right, &["$x=\\boxed{12}$. So $x=3$.", "$\\boxed{x=12}$. So $x=3$."]);
}

#[test]
fn a_clause_of_the_own_sentence_may_offer_another_value() {
    completions(
        "36",
        &Rules::default(),
        &[
            "\\boxed{36} (just a guess)",
            "\\boxed{36} instead of 37",
            "\\boxed{36}, where n can be 1",
            "\\boxed{36} (n may be 1)",
            "\\boxed{36} (could be written as 72/2)",
            "\\boxed{36}, since the roots of $p(x)$ are 1, 2, and 3, we can write",
            "\\boxed{36} (see step 5)",
            "\\boxed{36} (out of 100)",
            "\\boxed{36} (also works for 37)",
            "\\boxed{36} (should be 36.0)",
            "$\\boxed{36} = 36$",
            "$\\boxed{36} = 6^2$",
            "$\\boxed{36} = x$",
            "\\boxed{36} (thirty-six)",
            "\\boxed{36} (rejecting 37)",
            "\\boxed{36} (this is the largest)",
        ],
        &[
            "\\boxed{36} (just a guess, could be 37)",
            "\\boxed{36} (possibly 37)",
            "\\boxed{36} (it might be 37)",
            "\\boxed{36} (37 is also possible)",
            "\\boxed{36} (should be 37)",
            "\\boxed{36} (I am not sure)",
            "\\boxed{36}, could be 37",
            "\\boxed{36}, although it may be 37.",
            "\\boxed{36} - maybe 37",
            "\\boxed{36} — perhaps 37",
            "\\boxed{36} (alternatively, 37)",
            "\\boxed{36} / 37",
            "\\boxed{36}, maybe even 37",
            "\\boxed{36} apples or perhaps 37",
            "\\boxed{36} apples but it could also be $37$",
            "$\\boxed{36} = 37$",
            "\\boxed{36}，不，应该是37",
            "<answer>36</answer> (could be 37)",
            "\\boxed{36}. It's 37.",
            "\\boxed{36} (could be thirty-seven)",
            "\\boxed{36} [or 37]",
            "\\boxed{36} (vs. 37)",
            "\\boxed{36} (if not, 37)",
            "\\boxed{36} ≠ 37, it is 37",
            "\\boxed{36}, the answer is 37",
            "\\boxed{36} → 37",
            "\\boxed{36}. So it is thirty-seven.",
            "<answer>36</answer> (vs. 37)",
            "#### 36 (vs. 37)",
            "The answer is 36 (vs. 37)",
            "\\boxed{36}. Maybe 37.",
            "\\boxed{36} (this is wrong)",
            "\\boxed{36} apples is wrong",
            "\\boxed{36} apples or 37",
            "\\boxed{36} cm → 37",
            "**\\boxed{36}** = 37",
            "$\\boxed{\\text{The total is }36}$ (or 37)",
            "<answer>$36$</answer> is wrong",
            "\\boxed{36}. I think it is 37.",
            "\\boxed{36}. This is just a guess, it could be 37.",
        ],
    );
}

#[test]
fn another_choice_or_formula_may_be_offered_as_well() {
    completions(
        "B",
        &Rules::default(),
        &["\\boxed{B} (B should be it)", "\\boxed{B}. A is also wrong.", "\\boxed{B} (not C)"],
        &[
            "\\boxed{B} (could be C)",
            "\\boxed{B} or C",
            "\\boxed{B}/C",
            "\\boxed{B}, C",
            "\\boxed{B}, maybe (C)",
            "\\boxed{B}. It might be C.",
            "\\boxed{B}. So it is D.",
        ],
    );
    completions(
        "\\sqrt{8}",
        &Rules::default(),
        &["$\\boxed{\\sqrt{8}}$ (can also be written as $2\\sqrt{2}$)"],
        &["$\\boxed{\\sqrt{8}}$ (could be $\\sqrt{7}$)"],
    );
    completions("x-1", &Rules::default(), &[], &["\\boxed{x-1} (maybe x+1)"]);
}
