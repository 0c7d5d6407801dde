//! Well-behaved clients of mathematics and of programs: items at fixed times, regardless of the results of earlier
//! ones.
//!
//! They use the client that a training run uses, which begins lost items again and waits where a worker is full; a
//! latency is from the moment at which an item was due to its verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use evenkeel_proto::v1::{CodeReport, Outcome, Verdict, VerifyItem};
use evenkeel_rpc::client::{ClientSettings, Connector};
use evenkeel_rpc::dispatch::{DispatchError, DispatchOptions, Dispatcher, Endpoints};
use evenkeel_rpc::items::VerifyItems;
use evenkeel_telemetry::install_metrics;
use serde_json::{Value, json};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::load::Latencies;
use super::wire::Failed;
use super::{mathematics, programs};

/// One kind of client: how many items it sends at once, and how often.
#[derive(Clone, Copy)]
struct Client {
    kind: &'static str,
    at_once: usize,
    period: Duration,
    problems: usize,
    item: fn(usize) -> (VerifyItem, Outcome),
}

/// As samples of a few groups end: several at about the same time.
const CLIENTS: [Client; 2] = [
    Client {
        kind: "mathematics",
        at_once: 30,
        period: Duration::from_millis(500),
        problems: mathematics::PROBLEMS,
        item: mathematics::item,
    },
    Client {
        kind: "programs",
        at_once: 3,
        period: Duration::from_millis(1_000),
        problems: programs::PROBLEMS,
        item: programs::item,
    },
];
/// Attempts at an item, as many as a run makes.
const ATTEMPTS: u32 = 3;
/// Programs that are run first, so that every process of the sandbox has been used.
const WARM_UP: usize = 8;
/// How long the last items may take.
const END: Duration = Duration::from_secs(120);

/// What became of one item.
struct Answered {
    kind: &'static str,
    problem: usize,
    expected: Outcome,
    took: Duration,
    verdict: Result<Verdict, DispatchError>,
}

pub(crate) async fn run(url: &str, time: Duration) -> Result<Value, Failed> {
    let metrics = install_metrics().ok_or("there is another recorder of metrics")?;
    let connector = Connector::new("client", ClientSettings::default())?;
    let dispatcher =
        Dispatcher::<VerifyItems>::start(&DispatchOptions::default(), Endpoints::parse(&[url])?, connector);
    if !dispatcher.ready(1, END).await {
        return Err(format!("{url} cannot be reached").into());
    }
    warm_up(&dispatcher).await;
    let begun = Instant::now();
    let senders = CLIENTS.map(|client| tokio::spawn(send(client, dispatcher.clone(), begun, time)));
    let mut tally = Tally::default();
    for sender in senders {
        let mut answers = sender.await?;
        let all = async {
            while let Some(answered) = answers.join_next().await {
                tally.add(answered?);
            }
            Ok::<_, JoinError>(())
        };
        tokio::time::timeout(END, all).await.map_err(|_| "honest items were not answered at all")??;
    }
    let text = metrics.render();
    let dispatch = text.lines().filter(|line| line.starts_with("evenkeel_dispatch") && !line.contains("_seconds"));
    Ok(tally.line(dispatch.map(str::to_owned).collect()))
}

async fn warm_up(dispatcher: &Dispatcher<VerifyItems>) {
    let mut programs = JoinSet::new();
    for index in 0..WARM_UP {
        let dispatcher = dispatcher.clone();
        let item = with_id(programs::warm_up(), format!("warm-up-{index}"));
        programs.spawn(async move { dispatcher.call(item, ATTEMPTS).await });
    }
    while programs.join_next().await.is_some() {}
}

/// Sends until the time is over. Items are due at fixed times: a client that waited for answers would send less while
/// they are slow.
async fn send(
    client: Client,
    dispatcher: Dispatcher<VerifyItems>,
    begun: Instant,
    time: Duration,
) -> JoinSet<Answered> {
    let mut answers = JoinSet::new();
    let mut due = begun;
    let mut next = 0;
    while due < begun + time {
        tokio::time::sleep_until(due).await;
        for _ in 0..client.at_once {
            let problem = next % client.problems;
            let (item, expected) = (client.item)(problem);
            let dispatcher = dispatcher.clone();
            let item = with_id(item, format!("{}-{next}", client.kind));
            answers.spawn(async move {
                let verdict = dispatcher.call(item, ATTEMPTS).await.result;
                Answered { kind: client.kind, problem, expected, took: due.elapsed(), verdict }
            });
            next += 1;
        }
        due += client.period;
    }
    answers
}

fn with_id(item: VerifyItem, id: String) -> VerifyItem {
    VerifyItem { id, ..item }
}

/// Everything that was answered.
#[derive(Default)]
struct Tally {
    latencies: BTreeMap<&'static str, Latencies>,
    /// The verdicts of each problem.
    verdicts: BTreeMap<String, BTreeSet<String>>,
    unexpected: Vec<String>,
}

impl Tally {
    fn add(&mut self, answered: Answered) {
        let Answered { kind, problem, expected, took, verdict } = answered;
        self.latencies.entry(kind).or_default().add(took);
        let (outcome, verdict) = match &verdict {
            Ok(verdict) => (Some(verdict.outcome()), signature(verdict)),
            Err(error) => (None, error.to_string()),
        };
        if outcome != Some(expected) {
            self.unexpected.push(format!("{kind} {problem} is to be {expected:?}: {verdict}"));
        }
        self.verdicts.entry(format!("{kind} {problem}")).or_default().insert(verdict);
    }

    fn line(mut self, dispatch: Vec<String>) -> Value {
        let unexpected = self.unexpected.len();
        self.unexpected.truncate(20);
        let latencies: BTreeMap<_, _> = self.latencies.into_iter().map(|(kind, all)| (kind, all.line())).collect();
        json!({
            "latencies": latencies,
            "verdicts": self.verdicts,
            "unexpected": unexpected,
            "first_unexpected": self.unexpected,
            "dispatch": dispatch,
        })
    }
}

/// All of a verdict that does not depend on how busy the machine is.
fn signature(verdict: &Verdict) -> String {
    let Verdict { invalid_reason, reason_code, reward, extracted, canonical, code, .. } = verdict;
    let code = code.as_ref().map(|report| {
        let CodeReport { passed_tests, run_tests, total_tests, failing_test, stdout_excerpt, stderr_excerpt, .. } =
            report;
        (passed_tests, run_tests, total_tests, failing_test, stdout_excerpt, stderr_excerpt)
    });
    let outcome = verdict.outcome();
    format!("{outcome:?} {invalid_reason} {reason_code} {reward:?} {extracted:?} {canonical:?} {code:?}")
}
