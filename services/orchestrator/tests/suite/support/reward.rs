//! A reward service that compares the last box with the gold answer, unless its script says otherwise.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::reward_server::Reward;
use evenkeel_proto::v1::{
    InvalidReason, Outcome, RewardGetStatusRequest, RewardGetStatusResponse, Verdict, VerifyItem, VerifyOneRequest,
    VerifyOneResponse, VerifyRequest, verify_item,
};
use evenkeel_rpc::items::{ItemLimits, ItemServer, ResponseStream, VerifyItems};
use evenkeel_rpc::server::Drain;
use tonic::{Request, Response, Status, Streaming};

/// Why an item has no verdict, by its id and how often it was verified.
pub(crate) type Script = Box<dyn Fn(&str, u32) -> Option<InvalidReason> + Send + Sync>;

#[derive(Default)]
pub(crate) struct FakeState {
    pub(crate) script: Mutex<Option<Script>>,
    pub(crate) times: Mutex<BTreeMap<String, u32>>,
    pub(crate) traces: Mutex<BTreeMap<String, String>>,
    /// Whether its status says that it runs programs.
    pub(crate) runs_programs: AtomicBool,
    /// How often the tests of each digest came whole.
    pub(crate) tests: Mutex<BTreeMap<String, u32>>,
}

#[derive(Clone, Default)]
pub(crate) struct FakeReward {
    pub(crate) state: Arc<FakeState>,
    items: Option<ItemServer<VerifyItems>>,
}

impl FakeReward {
    pub(crate) fn restarted(&self, drain: Drain) -> Self {
        let limits = ItemLimits {
            max_items: 64,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            max_running: 64,
            grace: Duration::ZERO,
        };
        Self { state: Arc::clone(&self.state), items: Some(ItemServer::new(limits, drain)) }
    }
}

fn judge(state: &FakeState, item: &VerifyItem) -> Verdict {
    let times = {
        let mut all = state.times.lock().unwrap();
        let times = all.entry(item.id.clone()).or_default();
        *times += 1;
        *times
    };
    state.traces.lock().unwrap().insert(item.id.clone(), item.traceparent.clone());
    if let Some(reason) = state.script.lock().unwrap().as_ref().and_then(|script| script(&item.id, times)) {
        return Verdict::invalid(&item.id, reason, "as scripted");
    }
    let Some(verify_item::Answer::Completion(text)) = &item.answer else { panic!("a completion was sent") };
    let task = match &item.task {
        Some(verify_item::Task::Math(task)) => task,
        Some(verify_item::Task::Code(task)) => return judge_program(state, &item.id, text, task.tests_source.as_ref()),
        _ => panic!("a problem was sent"),
    };
    let answer = boxed(text);
    let verdict = match answer {
        None => Verdict::judged(&item.id, Outcome::NoAnswer, "no_box", 0.0),
        Some(answer) if answer == task.gold => Verdict::judged(&item.id, Outcome::Correct, "equal", 1.0),
        Some(_) => Verdict::judged(&item.id, Outcome::Incorrect, "unequal", 0.0),
    };
    Verdict { canonical: answer.map(str::to_owned), ..verdict }
}

/// What the last box of a text has in it.
pub(crate) fn boxed(text: &str) -> Option<&str> {
    text.rsplit_once("\\boxed{").and_then(|(_, rest)| rest.split_once('}')).map(|(answer, _)| answer)
}

/// Programs of an even length are right, once the tests are here.
fn judge_program(state: &FakeState, id: &str, text: &str, tests: Option<&TestsSource>) -> Verdict {
    let tests = tests.expect("a program has tests");
    let mut known = state.tests.lock().unwrap();
    match tests {
        TestsSource::TestsDigest(digest) if !known.contains_key(digest) => {
            return Verdict::invalid(id, InvalidReason::UnknownTests, "send them");
        }
        TestsSource::TestsDigest(_) => {}
        whole => *known.entry(whole.digest()).or_default() += 1,
    }
    match text.len() % 2 {
        0 => Verdict::judged(id, Outcome::Correct, "passed", 1.0),
        _ => Verdict::judged(id, Outcome::WrongAnswer, "failed", 0.0),
    }
}

#[tonic::async_trait]
impl Reward for FakeReward {
    type VerifyStream = ResponseStream<Verdict>;

    async fn verify(&self, request: Request<Streaming<VerifyRequest>>) -> Result<Response<Self::VerifyStream>, Status> {
        let state = Arc::clone(&self.state);
        let handler = move |item: VerifyItem, _| std::future::ready(judge(&state, &item));
        Ok(self.items.as_ref().unwrap().serve(request, handler))
    }

    async fn verify_one(&self, _: Request<VerifyOneRequest>) -> Result<Response<VerifyOneResponse>, Status> {
        Err(Status::unimplemented("not needed"))
    }

    async fn get_status(
        &self,
        _: Request<RewardGetStatusRequest>,
    ) -> Result<Response<RewardGetStatusResponse>, Status> {
        let code = self.state.runs_programs.load(Ordering::Relaxed);
        Ok(Response::new(RewardGetStatusResponse { math: true, code, ..RewardGetStatusResponse::default() }))
    }
}
