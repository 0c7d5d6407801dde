//! The crate from outside: whole completions against gold answers, and the verdict with its reason.

use evenkeel_math::{BadGold, CheckInput, CheckLimits, CheckOutcome, Gold, Profile, Reason, Rules, Value, check};

fn judged(gold: &str, completion: &str) -> Reason {
    check(gold, CheckInput::Completion(completion), &Rules::default()).reason
}

#[test]
fn a_verdict_says_why() {
    let verdict = check("1/2", CheckInput::Completion("So $\\boxed{ \\dfrac{2}{4} }$."), &Rules::default());
    assert_eq!(verdict.outcome(), CheckOutcome::Equal);
    assert!(verdict.is_equal());
    assert_eq!(verdict.reason.code(), "equal_rational");
    assert_eq!(verdict.extracted.as_deref(), Some("\\dfrac{2}{4}"));
    assert_eq!(verdict.canonical().as_deref(), Some("1/2"));
}

#[test]
fn what_was_found_is_shown_even_where_it_is_wrong() {
    let verdict = check("7", CheckInput::Completion("\\boxed{1} or \\boxed{2}"), &Rules::default());
    assert_eq!(verdict.reason, Reason::DifferentKind);
    assert_eq!(verdict.extracted.as_deref(), Some("1 or 2"));
    assert_eq!(verdict.canonical().as_deref(), Some("1, 2"));
    let broken = check("7", CheckInput::Extracted("\\frac{7}{0}"), &Rules::default());
    assert_eq!((broken.reason, broken.value), (Reason::UndefinedAnswer, None));
    assert_eq!(broken.extracted.as_deref(), Some("\\frac{7}{0}"));
}

#[test]
fn neighbouring_boxes_are_one_list() {
    assert_eq!(judged("3, 5, 7", "So \\boxed{3}, \\boxed{7} and \\boxed{5}."), Reason::EqualList);
    assert_eq!(judged("1,2,3", "\\boxed{1, 2} and \\boxed{3}"), Reason::EqualList);
    assert_eq!(judged("2", "\\boxed{1}, on second thoughts \\boxed{2}"), Reason::EqualInteger);
}

#[test]
fn nothing_earns_a_reward_but_the_answer() {
    for completion in [
        "",
        "7",
        "the answer is not 7",
        "\\boxed{}",
        "\\boxed{x}",
        "\\boxed{?}",
        "\\boxed{7?}",
        "\\boxed{7, 8}",
        "\\boxed{7 or 8}",
        "\\boxed{\\text{not } 7}",
        "\\boxed{7} or \\boxed{8}",
        "\\boxed{7.4}",
        "\\boxed{6.9999}",
        "\\boxed{\\frac{0}{0}}",
        "\\boxed{7 \\pm 3}",
        "\\boxed{0,1,2,3,4,5,6,7,8,9}",
        "<think>\\boxed{7}",
        "<think>\\boxed{7}</think> done",
        "\\boxed{4\u{200b}7}",
        "\\boxed{eval('7')}",
        "\\boxed{7",
        "\\boxed{70}",
        "\\boxed{-7}",
        "\\boxed{7/0}",
        "\\boxed{700\\%}",
    ] {
        let reason = judged("7", completion);
        let is_percent = completion.contains("700");
        assert_eq!(reason.outcome() == CheckOutcome::Equal, is_percent, "{completion} is {reason}");
    }
}

#[test]
fn text_is_compared_as_text() {
    assert_eq!(judged("\\text{Evelyn}", "\\boxed{evelyn}"), Reason::EqualText);
    assert_eq!(judged("\\frac{9}{4}\\pi", "\\boxed{\\dfrac94 \\pi}"), Reason::EqualForm);
    assert_eq!(judged("\\text{even}", "\\boxed{\\text{odd}}"), Reason::DifferentText);
    assert_eq!(judged("\\text{(C)}", "\\boxed{C}"), Reason::EqualChoice);
    assert_eq!(judged("x^2", "\\boxed{4}"), Reason::DifferentExpression);
}

#[test]
fn a_gold_answer_that_cannot_be_read_is_a_defect_of_the_data() {
    let rules = Rules::default();
    for (gold, error, reason) in [
        ("", BadGold::Empty, Reason::GoldEmpty),
        (" $\\text{ }$ ", BadGold::Empty, Reason::GoldEmpty),
        ("\\frac{1}{0}", BadGold::Undefined, Reason::GoldUndefined),
        ("\\frac{1}{2", BadGold::Unbalanced, Reason::GoldUnbalanced),
        ("4\u{202e}2", BadGold::HiddenCharacter('\u{202e}'), Reason::GoldHiddenCharacters),
    ] {
        assert_eq!(Gold::read(gold, &rules), Err(error), "{gold}");
        // Whatever the answer, even where it is the very same text.
        for answer in [gold, "7"] {
            let verdict = check(gold, CheckInput::Extracted(answer), &rules);
            assert_eq!((verdict.reason, verdict.outcome()), (reason, CheckOutcome::BadGold));
        }
    }
}

#[test]
fn limits_end_in_a_verdict_and_never_in_a_reward() {
    let limits = CheckLimits { max_answer_bytes: 100, fuel: 20 };
    let rules = Rules { limits, ..Rules::default() };
    let long = "1".repeat(101);
    let error = Gold::read(&long, &rules).unwrap_err();
    assert_eq!(error.to_string(), "the length of the gold answer is 101 bytes, allowed: at most 100 bytes");
    assert!(matches!(error, BadGold::TooLong(_)));
    assert_eq!(check("1", CheckInput::Extracted(&long), &rules).reason, Reason::AnswerTooLong);
    let list = "x+".repeat(30);
    assert_eq!(check("1", CheckInput::Extracted(&list), &rules).reason, Reason::OutOfFuel);
    assert_eq!(Reason::OutOfFuel.outcome(), CheckOutcome::Undecided);
    assert_eq!(Gold::read(&list, &rules), Err(BadGold::OutOfFuel));
}

#[test]
fn profiles_differ_where_their_benchmarks_do() {
    let judged =
        |profile: Profile, gold, completion| check(gold, CheckInput::Completion(completion), &profile.rules()).reason;
    assert_eq!(judged(Profile::Gsm8k, "18", "#### \\$18 \\boxed{3}").outcome(), CheckOutcome::NotEqual);
    assert_eq!(judged(Profile::Gsm8k, "18", "She makes \\boxed{3}\n#### $18"), Reason::EqualInteger);
    assert_eq!(judged(Profile::Dapo, "34", "\\boxed{3}\nAnswer: 34"), Reason::EqualInteger);
    assert_eq!(judged(Profile::Unmarked, "40/9", "The answer is 4 4/9."), Reason::EqualRational);
    assert_eq!(judged(Profile::Exact, "1, 2", "\\boxed{2, 1}"), Reason::DifferentItem);
}

#[test]
fn one_gold_answer_serves_many_checks() {
    let rules = Rules::default();
    let gold = Gold::read("10{,}000", &rules).unwrap();
    assert!(matches!(gold.value(), Value::Number(_)));
    for answer in ["10000", "10,000", "10\\,000", "1e4", "10 000"] {
        assert!(gold.check(CheckInput::Extracted(answer), &rules).is_equal(), "{answer}");
    }
}

#[test]
fn every_reason_has_a_meaning() {
    assert!(Reason::ALL.iter().all(|reason| reason.meaning().ends_with('.')));
}
