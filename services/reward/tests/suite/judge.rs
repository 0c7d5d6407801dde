//! A judge from the perspective of a client: rows that name it, answers whose rule is undecided, and failures, which are
//! never a reward.

use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{CustomTask, MathTask, Outcome, Verdict, VerifyItem};
use evenkeel_reward::{JudgeSettings, RewardSettings, bind};
use evenkeel_testkit::chat_server::{ChatAnswer, ChatServer};
use serde_json::{Value, json};

use crate::support::{Worker, bounded};

const RUBRIC: &str = "[[criteria]]\nname = \"right\"\nweight = 3.0\ndescription = \"equals the reference\"\n\
    [[criteria]]\nname = \"rude\"\nweight = -1.0\ndescription = \"insults the reader\"\n";

struct Served {
    worker: Worker,
    endpoint: ChatServer,
    _folder: tempfile::TempDir,
}

fn settings(url: &str, folder: &tempfile::TempDir) -> RewardSettings {
    let rubric = folder.path().join("rubric.toml");
    std::fs::write(&rubric, RUBRIC).unwrap();
    let judge = JudgeSettings {
        endpoint: url.to_owned(),
        model: "judge".to_owned(),
        rubric,
        verifier: "essay".to_owned(),
        undecided: true,
        records: Some(folder.path().join("records")),
        ..JudgeSettings::default()
    };
    RewardSettings { judge: Some(judge), ..RewardSettings::default() }
}

async fn served(reply: &'static str) -> Served {
    let endpoint = ChatServer::start(move |_, _| ChatAnswer::of(reply));
    let folder = tempfile::tempdir().unwrap();
    let worker = Worker::with(settings(&endpoint.url, &folder)).await;
    Served { worker, endpoint, _folder: folder }
}

fn essay(completion: &str, row: &Value) -> VerifyItem {
    let task = CustomTask { verifier: "essay".into(), payload: row.to_string().into_bytes() };
    let (answer, task) = (Some(Answer::Completion(completion.into())), Some(Task::Custom(task)));
    VerifyItem { id: "a".into(), answer, task, ..VerifyItem::default() }
}

fn mathematics(completion: &str) -> VerifyItem {
    let task = MathTask { gold: "5".into(), prompt: Some("2 + 3?".into()), ..MathTask::default() };
    let (answer, task) = (Some(Answer::Completion(completion.into())), Some(Task::Math(task)));
    VerifyItem { id: "a".into(), answer, task, ..VerifyItem::default() }
}

fn short(verdict: &Verdict) -> (Outcome, &str, Option<f64>) {
    (verdict.outcome(), verdict.reason_code.as_str(), verdict.reward)
}

#[test]
fn a_row_that_names_the_judge_has_its_score_and_components() {
    bounded(async {
        let served = served(r#"{"right": 1, "rude": 0.5}"#).await;
        let row = json!({"prompt": "2 + 3?", "answer": "5"});
        let verdict = served.worker.one(essay("<think>4?</think>5, fool", &row)).await;
        assert_eq!(short(&verdict), (Outcome::Incorrect, "judged", Some(2.5 / 3.0)));
        assert_eq!(verdict.components, [("right".to_owned(), 1.0), ("rude".to_owned(), 0.5)].into());
        assert_eq!(verdict.validate(), Ok(()));
        let body = &served.endpoint.requests()[0].body;
        assert!(body.contains("5, fool") && !body.contains("4?"), "{body}");
        let status = served.worker.status().await;
        assert!(status.custom);
        assert_eq!(status.components, ["right", "rude"]);
        let unfinished = served.worker.one(essay("<think>4?", &row)).await;
        assert_eq!(short(&unfinished), (Outcome::NoAnswer, "unclosed_thinking", Some(0.0)));
        let refused = served.worker.one(essay("5", &json!({"answer": "5"}))).await;
        assert!(refused.detail.contains("reward.judge.prompt_column"), "{}", refused.detail);
        let mut other = essay("5", &row);
        other.task = Some(Task::Custom(CustomTask { verifier: "other".into(), payload: b"{}".to_vec() }));
        assert_eq!(served.worker.one(other).await.reason_code, "unimplemented");
        assert_eq!(served.endpoint.requests().len(), 1);
    });
}

#[test]
fn a_judge_decides_what_the_rule_leaves_undecided_and_nothing_else() {
    bounded(async {
        let served = served(r#"{"right": 1, "rude": 0}"#).await;
        let equal = served.worker.one(mathematics("\\boxed{5}")).await;
        let different = served.worker.one(mathematics("\\boxed{6}")).await;
        assert_eq!((equal.outcome(), different.outcome()), (Outcome::Correct, Outcome::Incorrect));
        assert_eq!(served.endpoint.requests().len(), 0, "the rule has decided");
        let decided = served.worker.one(mathematics("\\boxed{\\text{the usual flurb}}")).await;
        assert_eq!(short(&decided), (Outcome::Correct, "judged", Some(1.0)));
        assert_eq!(served.endpoint.requests().len(), 1);
    });
}

#[test]
fn a_judge_that_fails_gives_no_reward() {
    bounded(async {
        let served = served("It is right: 1").await;
        let row = json!({"prompt": "2 + 3?", "answer": "5"});
        for item in [essay("5", &row), mathematics("\\boxed{\\text{the usual flurb}}")] {
            let verdict = served.worker.one(item).await;
            assert_eq!(short(&verdict), (Outcome::Invalid, "judge_wrong_format", None));
            assert_eq!(verdict.validate(), Ok(()));
        }
    });
}

#[test]
fn a_worker_with_a_judge_needs_a_place_for_its_record() {
    bounded(async {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings("http://127.0.0.1:1/v1", &folder);
        settings.judge.as_mut().unwrap().records = None;
        let error = bind(settings).await.err().unwrap().to_string();
        assert_eq!(error, "reward.judge.records is absent, required: a folder in which verdicts are recorded");
    });
}
