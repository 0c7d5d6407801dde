//! Custom verifiers: what they get, what becomes of their answers, and what is refused before the first sample.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_orchestrator::{Endpoints, LoadLimits, LoopSettings, RunError, VerifierSettings, check_start};
use evenkeel_proto::v1::reward_server::{Reward, RewardServer};
use evenkeel_proto::v1::{
    InvalidReason, Outcome, RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem, VerifyOneRequest,
    VerifyOneResponse, VerifyRequest, verify_item, verify_request,
};
use evenkeel_rpc::server::{RunningServer, Server, ServerSettings};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::support::reward::boxed;
use crate::support::{Cluster, bounded, metrics, recipe, resolved, temp};

type Judge = fn(&VerifyItem) -> Verdict;

/// A custom verifier, as somebody writes one without any of our servers.
#[derive(Clone)]
struct Verifier {
    judge: Judge,
    status: RewardGetStatusResponse,
    seen: Arc<Mutex<Vec<VerifyItem>>>,
}

#[tonic::async_trait]
impl Reward for Verifier {
    type VerifyStream = ReceiverStream<Result<Verdict, Status>>;

    async fn verify(&self, request: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        let mut requests = request.into_inner();
        let verifier = self.clone();
        let (sender, receiver) = mpsc::channel(8);
        tokio::spawn(async move {
            while let Ok(Some(message)) = requests.message().await {
                let Some(verify_request::Kind::Item(item)) = message.kind else { continue };
                let verdict = (verifier.judge)(&item);
                verifier.seen.lock().unwrap().push(item);
                if sender.send(Ok(verdict)).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn verify_one(&self, _: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        Ok(Response::new(self.status.clone()))
    }
}

/// A running verifier, and what it was asked.
pub(crate) struct Running {
    server: RunningServer,
    seen: Arc<Mutex<Vec<VerifyItem>>>,
}

impl Running {
    pub(crate) async fn start(judge: Judge) -> Self {
        let components = vec!["brevity".to_owned()];
        Self::with_status(judge, RewardGetStatusResponse { custom: true, components, ..Default::default() }).await
    }

    async fn with_status(judge: Judge, status: RewardGetStatusResponse) -> Self {
        let seen = Arc::default();
        let verifier = Verifier { judge, status, seen: Arc::clone(&seen) };
        let settings = ServerSettings { drain: Duration::from_millis(100), ..ServerSettings::on("127.0.0.1:0") };
        let server = Server::bind("fake", "server", settings).await.unwrap();
        Self { server: server.with_service(RewardServer::new(verifier)).spawn(), seen }
    }

    pub(crate) fn settings(&self, data_sources: &[&str]) -> VerifierSettings {
        VerifierSettings {
            endpoints: vec![self.server.endpoint().to_owned()],
            data_sources: data_sources.iter().map(|&source| source.to_owned()).collect(),
            ..VerifierSettings::default()
        }
    }
}

/// The sum is right, and the shorter the better.
pub(crate) fn judge(item: &VerifyItem) -> Verdict {
    let Some(verify_item::Answer::Completion(text)) = &item.answer else { panic!("a completion was sent") };
    let Some(verify_item::Task::Custom(task)) = &item.task else { panic!("a custom task was sent") };
    let row: Value = serde_json::from_slice(&task.payload).unwrap();
    let gold = row["answer"].to_string();
    let right = boxed(text).is_some_and(|answer| answer == gold);
    let outcome = if right { Outcome::Correct } else { Outcome::Incorrect };
    let components = [("brevity".to_owned(), 1.0 / text.len() as f64)].into();
    Verdict { components, ..Verdict::judged(&item.id, outcome, "compared", f64::from(u8::from(right))) }
}

/// Sums, half of them from `game/sums`, the others from `school`.
fn rows(path: &Path) -> PathBuf {
    let row = |n: u32| {
        let source = if n.is_multiple_of(2) { "game/sums" } else { "school" };
        let a = 10 + n;
        let b = 50 + n;
        let sum = a + b;
        format!("{{\"prompt\": \"{a}+{b}=\\n\", \"answer\": {sum}, \"data_source\": \"{source}\"}}\n")
    };
    let file = path.with_extension("jsonl");
    std::fs::write(&file, (0..40).map(row).collect::<String>()).unwrap();
    file
}

/// Two steps over those rows.
pub(crate) fn over(path: &Path, verifier: Option<(&str, VerifierSettings)>) -> LoopSettings {
    let mut recipe = recipe();
    recipe.run.steps = 2;
    recipe.warm_start.steps = 0;
    recipe.data.files = vec![rows(path)];
    recipe.data.verifiers = verifier.into_iter().map(|(name, settings)| (name.to_owned(), settings)).collect();
    recipe
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_go_to_the_verifier_of_their_data_source_and_the_others_to_the_reward_service() {
    bounded(async {
        let (_dir, path) = temp();
        let cluster = Cluster::start().await;
        let games = Running::start(judge).await;
        let mut recipe = over(&path, Some(("games", games.settings(&["game/*"]))));
        recipe.shaping.weights = [("brevity".to_owned(), 2.0)].into();
        let (_, summary) = cluster.run(&path, &recipe).await.1.unwrap();
        assert_eq!(summary.invalid_samples, 0);
        let seen = games.seen.lock().unwrap();
        let built_in = cluster.reward.state.times.lock().unwrap();
        // Two evaluations of five problems, two steps of four groups of four.
        assert_eq!(seen.len() + built_in.len(), 2 * 5 + 2 * 16);
        assert!(!seen.is_empty() && !built_in.is_empty());
        for item in seen.iter() {
            let Some(verify_item::Task::Custom(task)) = &item.task else { panic!("a custom task was sent") };
            let row: Value = serde_json::from_slice(&task.payload).unwrap();
            assert_eq!((task.verifier.as_str(), row["data_source"].as_str()), ("games", Some("game/sums")));
            assert!(row["prompt"].is_string() && row["answer"].is_number(), "{row}");
            assert!(item.deadline_ms.is_some() && !item.traceparent.is_empty());
        }
        for line in metrics(&path) {
            let get = |name: &str| line.get(name).unwrap();
            assert!(get("reward/components/brevity/max") <= 1.0);
            assert!(get("reward/components/correctness/mean") == get("critic/score/mean"));
            assert!(get("critic/rewards/mean") > get("critic/score/mean"), "brevity is worth something");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verifier_that_answers_nonsense_ends_the_run_by_its_share_and_is_never_believed() {
    fn changed(item: &VerifyItem, change: impl Fn(&mut Verdict)) -> Verdict {
        let mut verdict = judge(item);
        change(&mut verdict);
        verdict
    }
    let cases: [(Judge, &str); 8] = [
        (|item| changed(item, |verdict| verdict.id = "somebody else".into()), "as `somebody else`"),
        (|item| changed(item, |verdict| verdict.reward = Some(f64::NAN)), "reward is NaN, allowed: 0 to 1"),
        (|item| changed(item, |verdict| verdict.reward = Some(1.5)), "reward is 1.5, allowed: 0 to 1"),
        (|item| changed(item, |verdict| verdict.reward = None), "reward is absent"),
        (|item| changed(item, |verdict| verdict.outcome = 77), "outcome is 77"),
        (
            |item| changed(item, |verdict| (verdict.outcome, verdict.reward) = (Outcome::Incorrect.into(), Some(1.0))),
            "reward is 1, allowed: below 1 where the outcome is OUTCOME_INCORRECT",
        ),
        (
            |item| changed(item, |verdict| (verdict.outcome, verdict.reward) = (Outcome::Correct.into(), Some(0.0))),
            "reward is 0, allowed: above 0 where the outcome is CORRECT",
        ),
        (
            |item| changed(item, |verdict| verdict.components = [("brevity".to_owned(), 9.0)].into()),
            "components.brevity is 9, allowed: -1 to 1",
        ),
    ];
    bounded(async {
        for (judge, words) in cases {
            let (_dir, path) = temp();
            let cluster = Cluster::start().await;
            let games = Running::start(judge).await;
            let mut recipe = over(&path, Some(("games", games.settings(&["game/*"]))));
            (recipe.evaluation.before, recipe.evaluation.after) = (false, false);
            let error = cluster.run(&path, &recipe).await.1.unwrap_err();
            assert!(matches!(error, RunError::Invalid { .. }), "{words}: {error}");
            let text = error.to_string();
            assert!(text.contains("services.max_invalid_share") && text.contains(words), "{words}: {text}");
            assert_eq!(metrics(&path).len(), 0, "nothing is trained on");

            let (_dir, path) = temp();
            (recipe.data.files, recipe.services.max_invalid_share) = (vec![rows(&path)], 1.0);
            cluster.run(&path, &recipe).await.1.unwrap();
            let invalid = |line: &evenkeel_run::MetricsLine| line.get("rollout/invalid_samples").unwrap();
            assert!(metrics(&path).iter().map(invalid).sum::<f64>() > 0.0, "{words}: they are counted");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_tried_with_its_own_answer_before_a_run_and_a_low_reward_is_nobodys_fault() {
    /// Fails of answers that are not boxed.
    fn only_boxed(item: &VerifyItem) -> Verdict {
        let Some(verify_item::Answer::Completion(text)) = &item.answer else { panic!("a completion was sent") };
        match boxed(text) {
            Some(_) => judge(item),
            None => Verdict::invalid(&item.id, InvalidReason::AttemptsExhausted, "AttributeError: no match"),
        }
    }
    let never: Judge = |item| Verdict::invalid(&item.id, InvalidReason::AttemptsExhausted, "KeyError: 'anwser'");
    bounded(async {
        let cluster = Cluster::start().await;
        let cases: [(Judge, &[&str]); 3] = [
            (|item| Verdict::judged(&item.id, Outcome::Incorrect, "low", 0.0), &[]),
            (only_boxed, &["[Note(", "(the row's answer), though for `", "AttributeError: no match"]),
            (
                never,
                &["[Problem(\"data.verifiers.games.endpoints: row `", "no reward for any of `", "KeyError: 'anwser'"],
            ),
        ];
        for (judge, words) in cases {
            let (_dir, path) = temp();
            let games = Running::start(judge).await;
            let recipe = over(&path, Some(("games", games.settings(&["game/*"]))));
            let endpoints = Endpoints {
                verifiers: [("games".to_owned(), vec![games.server.endpoint().to_owned()])].into(),
                ..cluster.endpoints()
            };
            let checked = check_start(&resolved(&recipe), &path, &endpoints, &LoadLimits::unbounded());
            let found = format!("{:?}", checked.unwrap().1.try_at(&endpoints).await.unwrap());
            assert_eq!(found == "[]", words.is_empty(), "{found}");
            assert!(words.iter().all(|word| found.contains(word)), "{found}");
            assert!(games.seen.lock().unwrap().iter().all(|item| !item.token_ids.is_empty()), "as the run sends it");
        }
        assert_eq!(cluster.generation.state.seen.lock().unwrap().len(), 0, "no model is asked");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_verifier_judges_is_refused_before_the_first_sample() {
    bounded(async {
        let cluster = Cluster::start().await;
        let refused = |change: &dyn Fn(&Path, &mut LoopSettings)| {
            let (_dir, path) = temp();
            let mut recipe = over(&path, None);
            change(&path, &mut recipe);
            cluster.refused(&path, &recipe)
        };
        let unknown = refused(&|path, recipe| {
            let row = "{\"prompt\": \"1+1=\\n\", \"answer\": 2, \"verifier\": \"checkers\"}\n";
            std::fs::write(&recipe.data.files[0], row).unwrap();
            assert!(path.with_extension("jsonl").is_file());
        });
        assert!(unknown.contains("line 1") && unknown.contains("`verifier` is `checkers`"), "{unknown}");
        let without_address = refused(&|_, recipe| {
            let settings = VerifierSettings { data_sources: vec!["game/sums".into()], ..VerifierSettings::default() };
            recipe.data.verifiers.insert("games".into(), settings);
        });
        assert!(without_address.starts_with("data.verifiers.games.endpoints is absent"), "{without_address}");
        assert_eq!(cluster.generation.state.seen.lock().unwrap().len(), 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verifier_that_is_not_there_or_judges_nothing_is_refused_by_name_before_the_first_sample() {
    bounded(async {
        let cluster = Cluster::start().await;
        let other = Running::with_status(judge, RewardGetStatusResponse::default()).await;
        let gone = Running::start(judge).await;
        let good = Running::start(judge).await;
        let settings = gone.settings(&["game/*"]);
        drop(gone.server.kill().await);
        // Not only the first worker is asked.
        let mut mixed = good.settings(&["game/*"]);
        mixed.endpoints.extend(other.settings(&[]).endpoints);
        let second = format!("data.verifiers.games: {} judges no custom tasks", mixed.endpoints[1]);
        for (settings, weight, words) in [
            (other.settings(&["game/*"]), None, "data.verifiers.games: http://"),
            (mixed, None, &*second),
            (settings, None, "the verifier service at `games` (http://"),
            (good.settings(&["game/*"]), Some("style"), "shaping.weights.style is 1, allowed: "),
        ] {
            let (_dir, path) = temp();
            let mut recipe = over(&path, Some(("games", settings)));
            recipe.shaping.weights = weight.map(|name| (name.to_owned(), 1.0)).into_iter().collect();
            recipe.services.outage_timeout = Duration::from_secs(1);
            let error = cluster.run(&path, &recipe).await.1.unwrap_err().to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
        assert_eq!(cluster.generation.state.seen.lock().unwrap().len(), 0);
    })
    .await;
}
