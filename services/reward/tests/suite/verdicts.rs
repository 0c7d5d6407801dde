//! Verdicts from the perspective of a client: outcome, reason and reward. A fault that is not the sample's is never a
//! wrong answer.

use crate::support::{Worker, bounded, item, task};
use evenkeel_config::ByteSize;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{
    AnswerMarker, CustomTask, DecimalRule, InvalidReason, MathSettings, MathTask, Outcome, Verdict, VerifyItem,
    VerifyOneRequest,
};
use evenkeel_reward::RewardSettings;
use tonic::Code;

fn outcome_of(verdict: &Verdict) -> (Outcome, &str, Option<f64>) {
    (verdict.outcome(), verdict.reason_code.as_str(), verdict.reward)
}

#[test]
fn a_right_answer_earns_its_reward_and_shows_how_it_was_parsed() {
    bounded(async {
        let worker = Worker::with(RewardSettings { name: "reward-3".into(), ..RewardSettings::default() }).await;
        let verdict = worker.one(item("a", "\\frac{3}{4}", "Thus \\boxed{\\dfrac{6}{8}}.")).await;
        assert_eq!(outcome_of(&verdict), (Outcome::Correct, "equal_rational", Some(1.0)));
        assert_eq!((verdict.id.as_str(), verdict.worker.as_str()), ("a", "reward-3"));
        assert_eq!((verdict.extracted.as_deref(), verdict.canonical.as_deref()), (Some("\\dfrac{6}{8}"), Some("3/4")));
        assert!(verdict.timings.is_some());
        assert_eq!(verdict.validate(), Ok(()));
    });
}

#[test]
fn a_wrong_answer_and_no_answer_earn_nothing_and_are_distinguished() {
    bounded(async {
        let worker = Worker::start().await;
        let wrong = worker.one(item("a", "7", "\\boxed{8}")).await;
        assert_eq!(outcome_of(&wrong), (Outcome::Incorrect, "different_number", Some(0.0)));
        assert_eq!(wrong.detail, "the gold answer is 7");
        let none = worker.one(item("b", "7", "It is 7.")).await;
        assert_eq!(outcome_of(&none), (Outcome::NoAnswer, "nothing_marked", Some(0.0)));
        assert_eq!((none.extracted, none.canonical), (None, None));
        let empty = worker.one(item("c", "7", "")).await;
        assert_eq!(outcome_of(&empty), (Outcome::NoAnswer, "empty_completion", Some(0.0)));
        let fuel = MathSettings { fuel: Some(3), ..MathSettings::default() };
        let undecided =
            task("d", "\\boxed{7, 8, 9}", MathTask { gold: "7".into(), settings: Some(fuel), ..MathTask::default() });
        assert_eq!(outcome_of(&worker.one(undecided).await), (Outcome::Undecided, "out_of_fuel", Some(0.0)));
    });
}

#[test]
fn a_noun_beside_a_number_is_harmless_only_where_the_problem_has_it() {
    bounded(async {
        let worker = Worker::start().await;
        let judged = async |completion: &str, problem: &str| {
            let prompt = Some(problem.to_owned());
            let task = task("a", completion, MathTask { gold: "18".into(), prompt, ..MathTask::default() });
            worker.one(task).await.outcome()
        };
        let problem = "A zoo has three dozen zebras. Half of them move away. How many zebras are left?";
        assert_eq!(judged("\\boxed{18 \\text{ zebras}}", problem).await, Outcome::Correct);
        assert_eq!(judged("\\boxed{18 \\text{ geese}}", problem).await, Outcome::Undecided);
        assert_eq!(judged("\\boxed{18 \\text{ zebras}}", "").await, Outcome::Undecided);
        // A word that changes the number is none, also where the problem has it.
        assert_ne!(judged("\\boxed{18 \\text{ dozen}}", problem).await, Outcome::Correct);
    });
}

#[test]
fn any_of_several_gold_answers_is_accepted() {
    bounded(async {
        let worker = Worker::start().await;
        let with_alternatives = |completion: &str, gold: &str, alternatives: &[&str]| {
            let alternatives = alternatives.iter().map(|&gold| gold.to_owned()).collect();
            task("a", completion, MathTask { gold: gold.into(), alternatives, ..MathTask::default() })
        };
        for (gold, alternatives, outcome) in [
            ("2", &["3"][..], Outcome::Correct),
            ("3", &["2"], Outcome::Correct),
            ("", &["3"], Outcome::Correct),
            ("", &["2"], Outcome::Incorrect),
            ("1", &["", "2"], Outcome::Incorrect),
            ("", &[""], Outcome::Invalid),
        ] {
            let verdict = worker.one(with_alternatives("\\boxed{3}", gold, alternatives)).await;
            assert_eq!(verdict.outcome(), outcome, "{gold} or {alternatives:?}");
        }
        let many = worker.one(with_alternatives("\\boxed{3}", "3", &["4"; 101])).await;
        assert_eq!(many.invalid_reason(), InvalidReason::BadRequest);
        assert!(many.detail.contains("math.alternatives is 101 gold answers, allowed: at most 100"), "{}", many.detail);
    });
}

#[test]
fn a_task_for_an_unknown_verifier_is_not_a_wrong_answer() {
    bounded(async {
        let worker = Worker::start().await;
        let custom = CustomTask { verifier: "http://judge".into(), payload: b"{}".to_vec() };
        let verdict = worker.one(VerifyItem { task: Some(Task::Custom(custom)), ..item("a", "", "text") }).await;
        assert_eq!((verdict.outcome(), verdict.invalid_reason()), (Outcome::Invalid, InvalidReason::Unimplemented));
        assert!(verdict.detail.contains("the verifier `http://judge` is not known here"), "{}", verdict.detail);
        assert!(!worker.status().await.custom);
    });
}

#[test]
fn an_answer_in_any_script_has_a_verdict() {
    bounded(async {
        let worker = Worker::start().await;
        for (gold, completion, outcome, reason) in [
            ("5", "So √25 = \\boxed{5}", Outcome::Correct, "equal_integer"),
            ("3", "所以，x=\\boxed{3}", Outcome::Correct, "equal_integer"),
            ("\\frac12", "sin 30° = \\boxed{\\frac12}", Outcome::Correct, "equal_rational"),
            ("5", "\\boxed{\\sum_}", Outcome::Undecided, "not_understood"),
            ("5", "\\boxed{\\binom{0}{0}}", Outcome::Incorrect, "different_number"),
            ("5", "\\boxed{٥}", Outcome::Incorrect, "unreadable_digits"),
        ] {
            let verdict = worker.one(item("a", gold, completion)).await;
            assert_eq!((verdict.outcome(), verdict.reason_code.as_str()), (outcome, reason), "{completion}");
        }
    });
}

#[test]
fn what_is_not_accounted_for_is_undecided() {
    bounded(async {
        let worker = Worker::start().await;
        for (gold, completion, reason) in [
            ("2", "\\boxed{3-1}", "not_understood"),
            ("100", "\\boxed{1{00}}", "not_understood"),
            ("\\{1, 2\\}", "\\boxed{\\{1, 2\\}\\text{ or more}}", "not_understood"),
            ("36", "\\boxed{36} or more", "not_understood"),
            ("36", "$\\boxed{36}$, $37$", "not_understood"),
            ("36", "The answer is less than \\boxed{36}", "not_understood"),
            ("36", "I don't think the answer is 36.", "not_understood"),
            ("36", "\\boxed{36 \\text{ rejected}}", "not_understood"),
            ("36", "\\boxed{36}. So it is 37.", "taken_back"),
            ("36", "\\boxed{36}. Me equivoqué.", "taken_back"),
        ] {
            let verdict = worker.one(item("a", gold, completion)).await;
            assert_eq!(outcome_of(&verdict), (Outcome::Undecided, reason, Some(0.0)), "{completion}");
        }
    });
}

#[test]
fn an_extracted_answer_is_used_unchanged() {
    bounded(async {
        let worker = Worker::start().await;
        let bare = VerifyItem { answer: Some(Answer::Extracted(" 0.750 ".into())), ..item("a", "3/4", "") };
        assert_eq!(outcome_of(&worker.one(bare).await), (Outcome::Correct, "equal_decimal", Some(1.0)));
    });
}

#[test]
fn an_invalid_gold_answer_is_not_a_wrong_answer() {
    bounded(async {
        let worker = Worker::start().await;
        for (gold, reason) in
            [("", "gold_empty"), ("\\frac{1}{0}", "gold_undefined"), ("\\frac{1}{2", "gold_unbalanced")]
        {
            let verdict = worker.one(item("a", gold, "\\boxed{1}")).await;
            assert_eq!(outcome_of(&verdict), (Outcome::Invalid, reason, None));
            assert_eq!(verdict.invalid_reason(), InvalidReason::BadGold);
            assert_eq!(verdict.validate(), Ok(()));
        }
    });
}

#[test]
fn the_verdict_on_an_invalid_item_names_the_field() {
    bounded(async {
        let worker = Worker::start().await;
        let profile = MathTask { gold: "7".into(), profile: "aime".into(), ..MathTask::default() };
        let settings = MathSettings { markers: vec![99], ..MathSettings::default() };
        let settings = MathTask { gold: "7".into(), settings: Some(settings), ..MathTask::default() };
        for (broken, field, allowed) in [
            (VerifyItem { answer: None, ..item("a", "7", "") }, "answer", "completion or extracted"),
            (VerifyItem { task: None, ..item("a", "7", "") }, "task", "math, code or custom"),
            (task("a", "", profile), "math.profile", "default, exact, gsm8k, dapo, unmarked"),
            (task("a", "", settings), "math.settings.markers[0]", "a named value of AnswerMarker"),
        ] {
            let verdict = worker.one(broken).await;
            assert_eq!((verdict.outcome(), verdict.invalid_reason()), (Outcome::Invalid, InvalidReason::BadRequest));
            let violation = &verdict.violations[0];
            assert_eq!((violation.field.as_str(), violation.allowed.as_str()), (field, allowed));
        }
        let status = worker.client().await.verify_one(VerifyOneRequest { item: None }).await.unwrap_err();
        assert_eq!(
            (status.code(), status.message()),
            (Code::InvalidArgument, "item is absent, required: an item to judge")
        );
    });
}

#[test]
fn a_field_beyond_the_limits_is_not_a_wrong_answer() {
    bounded(async {
        let worker =
            Worker::with(RewardSettings { max_completion: ByteSize::b(1000), ..RewardSettings::default() }).await;
        let long = worker.one(item("a", "7", &"x".repeat(1001))).await;
        assert_eq!((long.outcome(), long.invalid_reason()), (Outcome::Invalid, InvalidReason::TooLarge));
        assert_eq!(long.detail, "completion is 1001 bytes, allowed: at most 1000 bytes");
        let gold = worker.one(item("b", &"7".repeat((1 << 20) + 1), "\\boxed{7}")).await;
        assert_eq!((gold.invalid_reason(), gold.violations[0].field.as_str()), (InvalidReason::TooLarge, "math.gold"));
        let answer = VerifyItem { answer: Some(Answer::Extracted("7".repeat((1 << 20) + 1))), ..item("c", "7", "") };
        assert_eq!(worker.one(answer).await.detail, "extracted is 1048577 bytes, allowed: at most 1048576 bytes");
    });
}

#[test]
fn a_task_may_override_the_workers_rules() {
    bounded(async {
        let worker = Worker::start().await;
        let judged = |completion: &'static str, gold: &str, profile: &str, settings| {
            let item = task(
                "a",
                completion,
                MathTask { gold: gold.into(), profile: profile.into(), settings, ..MathTask::default() },
            );
            let worker = &worker;
            async move { worker.one(item).await.outcome() }
        };
        assert_eq!(judged("\\boxed{0.333}", "1/3", "", None).await, Outcome::Correct);
        let exact = MathSettings { decimals: DecimalRule::Exact.into(), ..MathSettings::default() };
        assert_eq!(judged("\\boxed{0.333}", "1/3", "", Some(exact)).await, Outcome::Incorrect);
        assert_eq!(judged("\\boxed{0.333}", "1/3", "exact", None).await, Outcome::Incorrect);
        let line = MathSettings { markers: vec![AnswerMarker::AnswerLine.into()], ..MathSettings::default() };
        assert_eq!(judged("\\boxed{1}\nAnswer: 2", "2", "", Some(line)).await, Outcome::Correct);
    });
}

#[test]
fn long_answers_are_truncated_in_verdicts() {
    bounded(async {
        let worker = Worker::with(RewardSettings { max_text: ByteSize::b(16), ..RewardSettings::default() }).await;
        let gold = "7".repeat(100);
        let verdict = worker.one(item("a", &gold, &format!("\\boxed{{{gold}}}"))).await;
        assert!(verdict.is_valid());
        assert_eq!(verdict.extracted.as_deref(), Some("7777777777777…"));
        assert_eq!(verdict.canonical, verdict.extracted);
    });
}

#[test]
fn the_status_contains_capabilities_and_counts() {
    bounded(async {
        let worker = Worker::start().await;
        worker.one(item("a", "7", "\\boxed{7}")).await;
        worker.one(item("b", "7", "\\boxed{8}")).await;
        worker.one(item("c", "", "\\boxed{8}")).await;
        let status = worker.status().await;
        assert!(status.math && status.code);
        assert_eq!(status.math_profiles, ["default", "exact", "gsm8k", "dapo", "unmarked"]);
        assert_eq!(status.max_completion_bytes, 16 << 20);
        for outcome in ["correct", "incorrect", "invalid"] {
            assert_eq!(status.verdicts[outcome], 1, "{outcome}");
        }
        let server = status.server.unwrap();
        assert_eq!((server.name.as_str(), server.draining), ("reward", false));
    });
}
