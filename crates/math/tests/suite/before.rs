//! What stands before an answer or encloses it: another answer, a tag, another turn, a comment.

use evenkeel_math::{CheckInput, Gold, Rules};

use crate::judged::completions;

#[test]
fn another_answer_right_before_a_box_makes_it_none() {
    completions(
        "36",
        &Rules::default(),
        &[
            "<answer>36</answer> \\boxed{36}",
            "#### 36.0\n\\boxed{36}",
            "The answer is 36.0.\n$\\boxed{\\frac{72}{2}}$",
            "The answer is $36$. So we write \\boxed{36}.",
            "The answer is 6 times 6, so \\boxed{36}.",
            "First I said that the answer is 37.\n\nThen I saw a mistake.\n\nIt is \\boxed{36}.",
        ],
        &[
            "<answer>37</answer> \\boxed{36}",
            "#### 37\n\\boxed{36}",
            "The answer is 37. My friend got \\boxed{36}.",
            "The answer is 37, where $m = \\boxed{36}$.",
            "The answer is 37 rather than \\boxed{36}.",
        ],
    );
}

#[test]
fn a_turn_ends_the_answer() {
    completions(
        "36",
        &Rules::default(),
        &[
            "The answer is \\boxed{36}.<|im_end|>\n<|im_start|>user\nNext?<|im_end|>\n<|im_start|>assistant\n\\boxed{37}",
            "Question: What is $6 \\cdot 6$?\nAnswer: \\boxed{36}",
        ],
        &[
            "The answer is \\boxed{37}.<|im_end|>\n<|im_start|>user\nNext?<|im_end|>\n<|im_start|>assistant\n\\boxed{36}",
            "The answer is \\boxed{37}.</s>[INST] Next? [/INST] <think>a</think> \\boxed{36}",
            "The answer is \\boxed{37}.\n\nQuestion: What is it?\nAnswer: \\boxed{36}",
            "#### 37\n\nProblem 2. What is it?\n#### 36",
        ],
    );
}

#[test]
fn only_tags_of_answers_and_of_formatting_may_enclose_an_answer() {
    completions(
        "36",
        &Rules::default(),
        &[
            "<div>The answer is $\\boxed{36}$.</div>",
            "<plan>Multiply.</plan>\n\\boxed{36}",
            "<explanation>$\\boxed{36}$</explanation>\n<answer>36</answer>",
            "<solution>\n\\boxed{36}",
        ],
        &[
            "<plan>The answer is $\\boxed{36}$.</plan>\nI cannot say.",
            "<tool_response>\nThe answer is 36.",
            "<answer><wrong>\\boxed{36}</wrong></answer>",
        ],
    );
}

#[test]
fn what_no_reader_sees_is_no_answer() {
    completions(
        "36",
        &Rules::default(),
        &["$\\boxed{36\\phantom{\\frac{1}{2}}}$", "$\\boxed{36\\tag{1}}$"],
        &[
            "The answer is 37.\n% \\boxed{36}",
            "<!-- \\boxed{36} -->",
            "So <s>$\\boxed{36}$</s>",
            "$\\boxed{\\phantom{\\frac{36}{1}}}$",
            "$\\boxed{36\\tag{37}}$",
        ],
    );
}

#[test]
fn a_tilde_is_a_blank_only_in_a_formula() {
    completions(
        "36",
        &Rules::default(),
        &["$\\boxed{~36}$", "Answer: $~36$"],
        &["#### ~36", "Answer: ~$36", "The answer is ~36.", "\\boxed{～36}"],
    );
}

#[test]
fn other_marks_may_box_an_answer() {
    completions(
        "36",
        &Rules::default(),
        &[
            "The answer is <|begin_of_box|>36<|end_of_box|>.",
            "$\\bbox[5px,border:2px solid black]{36}$",
            "The answer to the problem is $36$.",
            "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>final<|message|>**36**<|return|>",
        ],
        &["<|begin_of_box|>37<|end_of_box|>", "\\boxed{36}, no: <|begin_of_box|>37<|end_of_box|>", "**36**"],
    );
}

/// Completions that are right for a problem, and that are not.
#[track_caller]
fn for_problem(prompt: &str, gold: &str, right: &[&str], wrong: &[&str]) {
    let rules = Rules::default();
    let gold = Gold::read(gold, &rules).unwrap();
    for (answers, expected) in [(right, true), (wrong, false)] {
        for answer in answers {
            let verdict = gold.check_for(Some(prompt), CheckInput::Completion(answer), &rules);
            assert_eq!(verdict.is_equal(), expected, "{answer}: {}", verdict.reason);
        }
    }
}

#[test]
fn values_of_names_stand_in_a_known_order() {
    for_problem(
        "Find the ordered pair $(m, n)$.",
        "(1, 2)",
        &["$\\boxed{m=1, n=2}$", "$m = \\boxed{1}$, $n = \\boxed{2}$", "$\\boxed{y=2, x=1}$"],
        &["$\\boxed{n=1, m=2}$", "$n = \\boxed{1}$, $m = \\boxed{2}$", "The answer is $n=1, m=2$."],
    );
}

#[test]
fn the_value_of_another_letter_is_no_answer() {
    for_problem(
        "Find $x$ if $x + y = 73$ and $y = x - 1$.",
        "36",
        &["$\\boxed{x = 36}$", "$x = \\boxed{36}$", "$\\boxed{36}$"],
        &["$\\boxed{y = 36}$", "$y = \\boxed{36}$", "#### y = 36", "$\\boxed{x + y = 36}$"],
    );
}

#[test]
fn a_letter_with_the_content_of_another_choice_is_no_answer() {
    for_problem(
        "What is the capital of France?\n(A) London\n(B) Paris\n(C) Berlin\n(D) Madrid",
        "B",
        &["Answer: B. Paris", "The correct option is B. It lies on the Seine."],
        &["Answer: B. Madrid", "The correct option is B. London", "Answer: \\text{B. Madrid}"],
    );
}

#[test]
fn a_factor_that_begins_with_minus_one_is_a_copy_and_no_factoring() {
    for_problem("Factor $x^2-1$.", "(x-1)(x+1)", &["\\boxed{(-1+x)(x+1)}"], &["\\boxed{-1+x^2}"]);
}

#[test]
fn symbols_stand_for_the_units_that_a_problem_spells_out() {
    let answers = ["\\boxed{9.6\\text{ mol}}", "\\boxed{9.6\\text{ kJ}}"];
    for_problem("How many moles, and how many kilojoules?", "9.6", &answers, &[]);
    for_problem("How many joules?", "9.6", &["\\boxed{9.6\\text{ J}}"], &answers);
    for_problem("Give it in angstroms.", "9.6", &["\\boxed{9.6\\,\\text{\\AA}}", "\\boxed{9.6 \\text{ Å}}"], &[]);
}
