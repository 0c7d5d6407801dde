//! Reward functions of Python files, from the perspective of a client: how each kind is called, and that a failure of a
//! function is no reward, never a zero and never the reward of another answer.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use evenkeel_config::ByteSize;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{CustomTask, FinishReason, Outcome, Verdict, VerifyItem};
use evenkeel_reward::{FunctionSettings, RewardSettings, bind};
use evenkeel_testkit::{PYTHON_FAULTS, PYTHON_FAULTS_NEED};
use serde_json::{Value, json};

use crate::support::{Stream, Worker, bounded};

/// A worker with a file of reward functions.
struct Served {
    worker: Worker,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

fn settings(folder: &tempfile::TempDir, source: &str, change: impl FnOnce(&mut FunctionSettings)) -> RewardSettings {
    let path = folder.path().join("reward.py");
    std::fs::write(&path, source).unwrap();
    let mut settings = FunctionSettings { path, timeout: Duration::from_secs(1), ..FunctionSettings::default() };
    settings.range = Some([0.0, 1.0]);
    change(&mut settings);
    RewardSettings { functions: [("words".to_owned(), settings)].into(), ..RewardSettings::default() }
}

async fn served_with(source: &str, change: impl FnOnce(&mut FunctionSettings)) -> Served {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(&folder, source, change);
    let path = settings.functions["words"].path.clone();
    Served { worker: Worker::with(settings).await, path, _folder: folder }
}

async fn served(source: &str) -> Served {
    served_with(source, |_| ()).await
}

fn answer(id: &str, completion: &str, row: &Value) -> VerifyItem {
    let task = CustomTask { verifier: "words".into(), payload: row.to_string().into_bytes() };
    VerifyItem {
        id: id.into(),
        answer: Some(Answer::Completion(completion.into())),
        task: Some(Task::Custom(task)),
        token_ids: vec![1, 2],
        finish_reason: FinishReason::Stop.into(),
        ..VerifyItem::default()
    }
}

impl Served {
    async fn judge(&self, completion: &str) -> Verdict {
        self.judge_row(completion, &json!({"answer": "yes"})).await
    }

    async fn judge_row(&self, completion: &str, row: &Value) -> Verdict {
        let verdict = self.worker.one(answer("a", completion, row)).await;
        assert_eq!(verdict.validate(), Ok(()), "{verdict:?}");
        verdict
    }

    /// The verdicts on answers that are sent at once, by their place.
    async fn judge_all(&self, completions: &[&str], row: &Value) -> Vec<Verdict> {
        let mut stream = Stream::open(&self.worker).await;
        for (index, completion) in completions.iter().enumerate() {
            stream.send(answer(&index.to_string(), completion, row)).await;
        }
        let mut verdicts = BTreeMap::new();
        for _ in completions {
            let verdict = stream.verdict().await;
            verdicts.insert(verdict.id.parse::<usize>().unwrap(), verdict);
        }
        assert_eq!(verdicts.len(), completions.len(), "one for each");
        verdicts.into_values().collect()
    }
}

fn no_reward(verdict: &Verdict, code: &str) {
    assert_eq!((verdict.outcome(), verdict.reward), (Outcome::Invalid, None), "{verdict:?}");
    assert!(verdict.reason_code == code && !verdict.detail.is_empty(), "{verdict:?}");
}

#[test]
fn a_function_sees_the_text_its_tokens_why_it_ended_and_the_whole_row() {
    bounded(async {
        let source = "
def reward(completion, row):
    assert isinstance(completion, str) and completion.token_ids == [1, 2] and completion.finish_reason == 'stop'
    assert row == {'answer': 'yes', 'big': 123456789012345678901234567890, 'items': [1, {'x': None}], 'share': 0.1}
    return (completion == row['answer']) * 0.5 + 0.5
";
        let served = served(source).await;
        let payload =
            r#"{"answer": "yes", "big": 123456789012345678901234567890, "items": [1, {"x": null}], "share": 0.1}"#;
        let task = CustomTask { verifier: "words".into(), payload: payload.into() };
        let item = |text| VerifyItem { task: Some(Task::Custom(task.clone())), ..answer("a", text, &Value::Null) };
        let right = served.worker.one(item("yes")).await;
        assert_eq!((right.reward, right.outcome()), (Some(1.0), Outcome::Correct), "{right:?}");
        let wrong = served.worker.one(item("no")).await;
        assert_eq!((wrong.reward, wrong.outcome(), wrong.worker.as_str()), (Some(0.5), Outcome::Incorrect, "reward"));
        let status = served.worker.status().await;
        assert!(status.custom && status.math && status.components.is_empty());
    });
}

#[test]
fn what_is_no_number_is_no_reward_and_never_a_zero() {
    bounded(async {
        let source = "
import os, time
def reward(completion, row):
    return {'none': lambda: None, 'nan': lambda: float('nan'), 'text': lambda: '1.0', 'raise': lambda: 1 / 0, 'high': lambda: 7,
            'hang': lambda: time.sleep(60), 'crash': lambda: os._exit(3), 'memory': lambda: len(bytearray(1 << 40)), 'dict': dict,
            'no': lambda: 0}[str(completion)]()
";
        let served = served(source).await;
        for (word, code) in [
            ("none", "reward_none"),
            ("nan", "reward_not_a_number"),
            ("text", "reward_not_a_number"),
            ("dict", "reward_not_a_number"),
            ("raise", "reward_exception"),
            ("high", "reward_out_of_range"),
            ("hang", "reward_timeout"),
            ("crash", "reward_crashed"),
            ("memory", "reward_exception"),
        ] {
            no_reward(&served.judge(word).await, code);
            let next = served.judge("no").await;
            assert_eq!((next.reward, next.outcome()), (Some(0.0), Outcome::Incorrect), "after {word}: {next:?}");
        }
        let detail = served.judge("raise").await.detail;
        assert!(detail.starts_with("ZeroDivisionError: division by zero (line 4: return {'none'"), "{detail}");
    });
}

#[test]
fn an_exception_is_told_with_its_traceback_and_a_timeout_with_its_setting() {
    bounded(async {
        let source = "
import time
def number(text):
    return float(text)
def reward(completion, row):
    if completion == 'slow':
        time.sleep(60)
    return number(completion)
";
        let served = served(source).await;
        let detail = served.judge("x").await.detail;
        let (line, traceback) = detail.split_once('\n').unwrap();
        assert_eq!(
            line,
            "ValueError: could not convert string to float: 'x' (line 4: return float(text), line 8: return number(completion))"
        );
        assert!(traceback.starts_with("Traceback (most recent call last):\n  File \""), "{traceback}");
        assert!(traceback.contains("reward.py\", line 8, in reward\n    return number(completion)\n"), "{traceback}");
        assert!(traceback.ends_with("ValueError: could not convert string to float: 'x'"), "{traceback}");
        assert!(!traceback.contains("<string>"), "nothing of the caller: {traceback}");
        let detail = served.judge("slow").await.detail;
        assert!(detail.ends_with(" (reward.functions.words.timeout)"), "{detail}");
    });
}

#[test]
fn functions_of_trl_and_of_verl_load_as_they_are_under_any_name() {
    bounded(async {
        let trl = "
def reward_len(prompts, completions, answer, unit, log_metric=None, **kwargs):
    assert len(prompts) == len(completions) == len(answer) == len(kwargs['completion_ids']) and unit[0] == ['m']
    texts = [c[0]['content'] if isinstance(c, list) else c for c in completions]
    return [1.0 if text == right else None if text == 'skip' else 0.0 for text, right in zip(texts, answer)]
";
        let trl = served(trl).await;
        let row = json!({"prompt": "say yes", "answer": "yes", "unit": ["m"]});
        let verdicts = trl.judge_all(&["yes", "no", "skip"].repeat(5), &row).await;
        for (index, verdict) in verdicts.iter().enumerate() {
            match index % 3 {
                2 => no_reward(verdict, "reward_none"),
                other => assert_eq!(verdict.reward, Some(1.0 - other as f64), "{index}"),
            }
        }
        let chat = json!({"prompt": [{"role": "user", "content": "say yes"}], "answer": "yes", "unit": ["m"]});
        assert_eq!(trl.judge_row("yes", &chat).await.reward, Some(1.0));
        let verl = "
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    assert data_source == 'words' and extra_info['level'] == 3
    return {'score': float(solution_str == ground_truth), 'brevity': 0.25, 'pred': solution_str}
";
        let verl = served(verl).await;
        let row = json!({"data_source": "words", "reward_model": {"ground_truth": "yes"}, "extra_info": {"level": 3}});
        let verdict = verl.judge_row("yes", &row).await;
        assert_eq!(verdict.reward, Some(1.0));
        assert_eq!(verdict.components, BTreeMap::from([("brevity".to_owned(), 0.25)]).into_iter().collect());
    });
}

#[test]
fn functions_of_trl_and_of_verl_get_the_columns_that_the_settings_name() {
    bounded(async {
        let named = |settings: &mut FunctionSettings| {
            settings.prompt_fields = vec!["frage".to_owned()];
            settings.answer_fields = vec!["extra.antwort".to_owned()];
        };
        let row = json!({"frage": "say yes", "prompt": "another", "extra": {"antwort": "yes"}, "answer": "no",
            "reward_model": {"ground_truth": "maybe"}});
        let trl = "
def words(prompts, completions, **kwargs):
    assert prompts == ['say yes'] * len(completions), prompts
    return [1.0 for _ in completions]
";
        assert_eq!(served_with(trl, named).await.judge_row("yes", &row).await.reward, Some(1.0));
        let verl = "
def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    return float(solution_str == ground_truth)
";
        assert_eq!(served_with(verl, named).await.judge_row("yes", &row).await.reward, Some(1.0));
        let usual =
            json!({"question": {"question_content": "a"}, "reward_model": {"style": "rule"}, "solution": "yes"});
        assert_eq!(served_with(verl, named).await.judge_row("yes", &usual).await.reward, Some(1.0));
    });
}

#[test]
fn a_function_of_verls_batch_manager_gets_its_answers_together() {
    bounded(async {
        let source = "
def compute_score(data_sources, solution_strs, ground_truths, extra_infos):
    assert len(data_sources) == len(solution_strs) == len(ground_truths) == len(extra_infos)
    return [{'score': float(said == truth), 'level': info['level']}
            for said, truth, info in zip(solution_strs, ground_truths, extra_infos)]
";
        let served = served(source).await;
        let row = json!({"data_source": "a", "answer": "yes", "extra_info": {"level": 0.5}});
        for (index, verdict) in served.judge_all(&["yes", "no"].repeat(4), &row).await.iter().enumerate() {
            assert_eq!((verdict.reward, verdict.components["level"]), (Some(1.0 - (index % 2) as f64), 0.5), "{index}");
        }
    });
}

#[test]
fn functions_that_are_awaited_wait_side_by_side_and_a_timeout_cancels_them() {
    bounded(async {
        let source = "
import asyncio
cancelled = []
async def reward(completion, row):
    if completion == 'slow':
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(1)
            raise
    await asyncio.sleep(0.4)
    return 1.0 if completion == 'yes' else len(cancelled) / 10
";
        let served = served(source).await;
        let began = std::time::Instant::now();
        let verdicts = served.judge_all(&["yes"; 32], &json!({})).await;
        assert!(verdicts.iter().all(|verdict| verdict.reward == Some(1.0)), "{verdicts:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "32 times 0.4 s, one after the other, are 13 s");
        no_reward(&served.judge("slow").await, "reward_timeout");
        assert_eq!(served.judge("how many?").await.reward, Some(0.1), "the same process, and the call was cancelled");
    });
}

#[test]
fn several_functions_have_weights_and_are_components_and_none_leaves_one_out() {
    bounded(async {
        let source = "
def right(completion, row):
    return None if completion == 'skip' else float(completion == row['answer'])
def short(completions, rows):
    return [None if c == 'skip' and r.get('all') else 1.0 for c, r in zip(completions, rows)]
";
        let weights = || BTreeMap::from([("right".to_owned(), 3.0), ("short".to_owned(), 1.0)]);
        let served = served_with(source, |settings| settings.functions = weights()).await;
        assert_eq!(served.worker.status().await.components, ["right", "short"]);
        let no = served.judge("no").await;
        assert_eq!((no.reward, no.components["right"], no.components["short"]), (Some(0.25), 0.0, 1.0));
        let skip = served.judge("skip").await;
        assert_eq!((skip.reward, skip.components.len(), skip.components["short"]), (Some(1.0), 1, 1.0));
        no_reward(&served.judge_row("skip", &json!({"all": true, "answer": "x"})).await, "reward_none");
        let strict = served_with(source, |settings| {
            settings.functions = weights();
            settings.require_all = true;
        });
        no_reward(&strict.await.judge("skip").await, "reward_none");
    });
}

#[test]
fn without_a_range_any_finite_reward_is_taken_and_no_answer_is_known_to_be_correct() {
    bounded(async {
        let source = "
def big(completion, row):
    return float(completion)
def half(completion, row):
    return {'score': 0.5, 'digits': len(completion)}
";
        let served = served_with(source, |settings| {
            settings.range = None;
            settings.functions = [("big".to_owned(), 1.0), ("half".to_owned(), 1.0)].into();
        });
        let served = served.await;
        for (text, reward) in [("7", 3.75), ("-1e300", -5e299), ("1", 0.75)] {
            let verdict = served.judge(text).await;
            assert_eq!((verdict.outcome(), verdict.reward), (Outcome::Scored, Some(reward)), "{verdict:?}");
            assert_eq!((verdict.components["half"], verdict.components["digits"]), (0.5, text.len() as f64));
        }
        no_reward(&served.judge("inf").await, "reward_not_a_number");
    });
}

#[test]
fn rewards_of_another_range_count_from_zero_to_one() {
    bounded(async {
        let source = "def reward(completion, row):\n    return float(completion)\n";
        let served = served_with(source, |settings| settings.range = Some([-1.0, 1.0])).await;
        for (text, reward, outcome) in
            [("-1", 0.0, Outcome::Incorrect), ("0", 0.5, Outcome::Incorrect), ("1", 1.0, Outcome::Correct)]
        {
            let verdict = served.judge(text).await;
            assert_eq!((verdict.reward, verdict.outcome()), (Some(reward), outcome), "{text}");
        }
        let outside = served.judge("1.5").await;
        no_reward(&outside, "reward_out_of_range");
        assert!(outside.detail.contains("(in reward.functions.words: `range = [-1.0, 1.5]` allows it"), "{outside:?}");
    });
}

#[test]
fn a_file_that_cannot_be_served_is_refused_by_its_reason_before_anything_is_judged() {
    bounded(async {
        let refused = async |source: &str, change: fn(&mut FunctionSettings)| {
            let folder = tempfile::tempdir().unwrap();
            bind(settings(&folder, source, change)).await.err().unwrap().to_string()
        };
        for (source, words) in [
            ("def reward(completion, row)\n", "(reward.py, line 1)"),
            ("import nowhere_to_be_found\n", "No module named 'nowhere_to_be_found' (line 1)"),
            (
                "def score(x):\n    pass\n",
                "it has no reward function, allowed: one or more with the arguments (completion, row)",
            ),
            (
                "def a(completion, row): return 1\ndef b(completion, row): return 1\n",
                "it has 2 reward functions: a, b; name those that count and their weights: functions = { a = 1.0, b = 1.0 }",
            ),
            ("def reward(completion, row):\n    yield 1\n", "has a `yield`"),
            (
                "def reward(completions, trainer_state, **kwargs): return [1]\n",
                "reward requires `trainer_state`, which only TRL's trainer has",
            ),
            ("def reward(x): return 1\n", "reward(x) is no reward function, allowed: (completion, row)"),
        ] {
            let error = refused(source, |_| ()).await;
            assert!(error.starts_with("reward.functions.words.path: ") && error.contains(words), "{error}");
        }
        let error = refused("", |settings| settings.python = "python9".into()).await;
        assert!(error.starts_with("reward.functions.words.python: python9: "), "{error}");
        let error = refused("", |settings| settings.path = "none.py".into()).await;
        assert_eq!(error, "reward.functions.words.path is none.py, allowed: a Python file with reward functions");
    });
}

#[test]
fn a_file_that_changes_meanwhile_is_not_mixed_with_what_it_was() {
    bounded(async {
        let source =
            "import os\ndef reward(completion, row):\n    return os._exit(1) if completion == 'crash' else 1.0\n";
        let served = served(source).await;
        assert_eq!(served.judge("a").await.reward, Some(1.0));
        std::fs::write(&served.path, source.replace("1.0", "0.0")).unwrap();
        assert_eq!(served.judge("a").await.reward, Some(1.0), "the process has the file as it was");
        no_reward(&served.judge("crash").await, "reward_crashed");
        no_reward(&served.judge("a").await, "reward_file_changed");
    });
}

#[test]
fn no_answer_gets_the_reward_of_another_whatever_the_file_forks_or_writes() {
    bounded(async {
        for (name, fault) in PYTHON_FAULTS {
            let source = format!(
                "{PYTHON_FAULTS_NEED}\n\
                 def reward(completion, row):\n    if completion == '7':\n        {fault}\n    return int(completion) / 100\n"
            );
            let served = served_with(&source, |settings| settings.max_memory = ByteSize::gib(16)).await;
            let completions: Vec<String> = (0..48).map(|number| number.to_string()).collect();
            let texts: Vec<&str> = completions.iter().map(String::as_str).collect();
            let verdicts = served.judge_all(&texts, &json!({})).await;
            let own = |(number, verdict): &(usize, &Verdict)| verdict.reward == Some(*number as f64 / 100.0);
            let others: Vec<_> = verdicts.iter().enumerate().filter(|pair| !own(pair)).collect();
            assert!(others.iter().all(|(_, verdict)| verdict.reward.is_none()), "{name}: {others:?}");
            assert!(others.len() <= 1, "{name}: only the call itself may fail: {others:?}");
        }
    });
}
