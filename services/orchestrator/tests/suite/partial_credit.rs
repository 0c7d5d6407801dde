//! Rewards between 0 and 1: which answers are correct, and reward functions that fail at some answers.

use std::path::Path;

use evenkeel_orchestrator::{CorrectRule, LoopSettings, OnError, RunError};
use evenkeel_proto::v1::{InvalidReason, Outcome, Verdict, VerifyItem, verify_item};
use evenkeel_run::{AnswerReader, EvaluationAnswer, Summary, evaluation_folder, list_answers};

use super::verifiers::{Running, judge, over};
use crate::support::{Cluster, bounded, metrics, temp};

/// Three quarters for a right sum, and a quarter for any other answer.
fn partial(item: &VerifyItem) -> Verdict {
    let right = judge(item).reward.unwrap();
    let components = [("right".to_owned(), right)].into();
    Verdict { components, ..Verdict::judged(&item.id, Outcome::Incorrect, "reward_function", 0.25 + right / 2.0) }
}

/// As a function that takes the answer apart without a check whether it is one: it fails at every other answer.
fn failing(item: &VerifyItem) -> Verdict {
    let Some(verify_item::Answer::Completion(text)) = &item.answer else { panic!("a completion was sent") };
    if text.len().is_multiple_of(2) {
        return judge(item);
    }
    let detail = "AttributeError: 'NoneType' object has no attribute 'group' (line 4)\nTraceback (most recent call last):\n  \
                  File \"reward.py\", line 4, in reward";
    let invalid = Verdict::invalid(&item.id, InvalidReason::AttemptsExhausted, detail);
    Verdict { reason_code: "reward_exception".to_owned(), ..invalid }
}

/// Two steps in which one verifier judges all rows, with `change` made to the settings.
async fn run(
    path: &Path,
    judge: fn(&VerifyItem) -> Verdict,
    change: impl Fn(&mut LoopSettings),
) -> Result<Summary, RunError> {
    let cluster = Cluster::start().await;
    let words = Running::start(judge).await;
    let mut recipe = over(path, Some(("words", words.settings(&["game/*", "school"]))));
    change(&mut recipe);
    cluster.run(path, &recipe).await.1.map(|(_, summary)| summary)
}

fn set_correct(recipe: &mut LoopSettings, rule: &str) {
    let rule: CorrectRule = serde_json::from_str(rule).unwrap();
    recipe.data.verifiers.get_mut("words").unwrap().correct = Some(rule);
}

fn answers(path: &Path) -> Vec<EvaluationAnswer> {
    let files = list_answers(&evaluation_folder(path, 0)).unwrap();
    files.into_iter().flat_map(|(_, file)| AnswerReader::open(&file).unwrap().map(Result::unwrap)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_with_partial_credit_is_correct_by_the_rule_of_the_settings() {
    bounded(async {
        for (rule, right, wrong) in [
            (None, "incorrect", "incorrect"),
            (Some("0.75"), "correct", "incorrect"),
            (Some("0.25"), "correct", "correct"),
            (Some(r#"{"component": "right"}"#), "correct", "incorrect"),
        ] {
            let (_dir, path) = temp();
            let summary = run(&path, partial, |recipe| rule.iter().for_each(|rule| set_correct(recipe, rule)));
            let summary = summary.await.unwrap();
            let answers = answers(&path);
            assert!(!answers.is_empty());
            for answer in &answers {
                let expected = if answer.score == Some(0.75) { right } else { wrong };
                assert_eq!(answer.verdict.label(), expected, "{rule:?}: {answer:?}");
            }
            let correct = answers.iter().filter(|answer| answer.verdict.correct() == Some(true)).count();
            assert_eq!(summary.accuracy_before, Some(correct as f64 / answers.len() as f64), "{rule:?}");
            assert_eq!((summary.mean_reward_before, summary.mean_reward_after), (None, None));
            let line = &metrics(&path)[0];
            assert!(line.get("rollout/groups_all_correct").is_some() && line.get("critic/score/mean").unwrap() >= 0.25);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_knows_what_is_correct_there_is_no_accuracy_and_none_to_keep_the_best_by() {
    bounded(async {
        let (_dir, path) = temp();
        let unknown = |recipe: &mut LoopSettings| set_correct(recipe, "\"unknown\"");
        let summary = run(&path, partial, |recipe| {
            unknown(recipe);
            recipe.checkpoint.keep_best = format!("val-core/{}/reward/mean@1", recipe.data.name());
        });
        let summary = summary.await.unwrap();
        assert_eq!((summary.accuracy_before, summary.accuracy_after), (None, None));
        assert!(summary.mean_reward_before.is_some_and(|mean| mean >= 0.25) && summary.mean_reward_after.is_some());
        assert!(answers(&path).iter().all(|answer| answer.verdict.label() == "scored"));
        assert!(path.join("best.json").is_file());
        let line = &metrics(&path)[0];
        assert!(line.get("rollout/groups_all_correct").is_none() && line.get("response_length/correct/mean").is_none());

        let (_dir, path) = temp();
        let error = run(&path, partial, |recipe| {
            unknown(recipe);
            recipe.checkpoint.keep_best = format!("val-core/{}/acc/mean@1", recipe.data.name());
        });
        let error = error.await.unwrap_err().to_string();
        assert!(
            error.contains("checkpoint.keep_best") && error.contains("/reward/mean@1, since nobody says"),
            "{error}"
        );
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reward_function_that_fails_at_some_answers_ends_the_run_unless_its_setting_says_otherwise() {
    bounded(async {
        let without_evaluations = |recipe: &mut LoopSettings| {
            (recipe.evaluation.before, recipe.evaluation.after) = (false, false);
            recipe.services.max_invalid_share = 1.0;
        };
        let (_dir, path) = temp();
        let error = run(&path, failing, without_evaluations).await.unwrap_err();
        assert!(matches!(error, RunError::RewardFunction { .. }), "{error}");
        let text = error.to_string();
        assert!(text.starts_with("step ") && text.contains("data.verifiers.words.on_error = \"drop\""), "{text}");
        assert!(
            text.ends_with(
                "first failure: reward_exception: AttributeError: 'NoneType' object has no attribute 'group' (line 4)\n\
                 Traceback (most recent call last):\n  File \"reward.py\", line 4, in reward"
            ),
            "{text}"
        );

        let (_dir, path) = temp();
        let on_error = |value: OnError| {
            move |recipe: &mut LoopSettings| {
                without_evaluations(recipe);
                recipe.data.verifiers.get_mut("words").unwrap().on_error = value;
            }
        };
        let error = run(&path, failing, on_error(OnError::Stop)).await.unwrap_err().to_string();
        assert!(error.starts_with("sample train/1/") && error.contains("on_error is \"stop\""), "{error}");
        assert_eq!(metrics(&path).len(), 0);

        let (_dir, path) = temp();
        let summary = run(&path, failing, on_error(OnError::Drop)).await.unwrap();
        let left_out = summary.left_out.unwrap();
        assert_eq!(left_out.left_out.answers, summary.invalid_samples);
        assert!(left_out.left_out.answers > 0 && left_out.judged.answers > 0, "{left_out:?}");
        let sum = |name: &str| metrics(&path).iter().filter_map(|line| line.get(name)).sum::<f64>();
        assert_eq!(
            (sum("verifiers/words/samples"), sum("verifiers/words/failures")),
            (32.0, summary.invalid_samples as f64)
        );
        let report = std::fs::read_to_string(path.join("report.html")).unwrap();
        assert!(report.contains(&left_out.sentence()), "the report says what distinguishes them");
    })
    .await;
}
