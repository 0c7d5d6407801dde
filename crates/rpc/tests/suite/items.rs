//! One item stream as its client sees it: every item is answered exactly once, under its id, whatever happens to it.

use std::time::Duration;

use crate::support::{Setup, Worker, bounded, item, until};
use evenkeel_config::ByteSize;
use evenkeel_proto::v1::{
    CancelItem, InvalidReason, Outcome, RewardGetStatusRequest, Verdict, VerifyItem, VerifyOneRequest, VerifyRequest,
};
use evenkeel_rpc::error::reason_of;
use evenkeel_rpc::items::{ItemLimits, ItemServer, VerifyItems};
use evenkeel_rpc::server::Drain;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Request, Status, Streaming};

/// Client's and worker's ends of a stream to one worker.
struct Stream {
    requests: mpsc::Sender<VerifyRequest>,
    verdicts: Streaming<Verdict>,
}

impl Stream {
    async fn open(worker: &Worker) -> Self {
        let (requests, receiver) = mpsc::channel(1024);
        let verdicts = worker.client().await.verify(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { requests, verdicts }
    }

    async fn send(&self, request: impl Into<VerifyRequest>) {
        self.requests.send(request.into()).await.unwrap();
    }

    async fn verdict(&mut self) -> Verdict {
        self.verdicts.message().await.unwrap().unwrap()
    }

    async fn end(mut self) -> Result<Option<Verdict>, Status> {
        drop(self.requests);
        self.verdicts.message().await
    }
}

async fn tiny(max_items: usize, max_running: usize) -> Worker {
    let limits = ItemLimits { max_items, max_memory: ItemLimits::DEFAULT_MEMORY, max_running, grace: Duration::ZERO };
    Setup { limits, ..Setup::default() }.start("worker").await
}

#[tokio::test]
async fn each_item_is_answered_when_it_ends_in_any_order() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut stream = Stream::open(&worker).await;
        stream.send(item("slow", "sleep 300")).await;
        stream.send(item("fast", "")).await;
        assert_eq!(stream.verdict().await.id, "fast");
        assert_eq!(stream.verdict().await.id, "slow");
        assert_eq!(stream.end().await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn a_half_closed_stream_still_answers_what_it_was_given() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let stream = Stream::open(&worker).await;
        stream.send(item("a", "sleep 50")).await;
        assert_eq!(stream.end().await.unwrap().unwrap().id, "a");
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_item_is_answered_and_its_handler_dropped() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut stream = Stream::open(&worker).await;
        stream.send(item("a", "hang")).await;
        until(|| worker.begun() == 1).await;
        stream.send(CancelItem::new("unknown")).await;
        stream.send(CancelItem::new("a")).await;
        let verdict = stream.verdict().await;
        assert_eq!((verdict.id.as_str(), verdict.invalid_reason()), ("a", InvalidReason::Cancelled));
        assert_eq!(worker.stopped(), 1);
        assert_eq!(worker.reward.items.status().running_items, 0);
    })
    .await;
}

#[tokio::test]
async fn an_item_ends_at_its_own_deadline_and_the_stream_goes_on() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut stream = Stream::open(&worker).await;
        for deadline_ms in [0, 30] {
            let mut late = item("late", "hang");
            late.deadline_ms = Some(deadline_ms);
            stream.send(late).await;
            assert_eq!(stream.verdict().await.invalid_reason(), InvalidReason::Deadline);
        }
        stream.send(item("next", "")).await;
        assert!(stream.verdict().await.is_valid());
    })
    .await;
}

#[tokio::test]
async fn the_calls_deadline_ends_its_items_and_then_the_call() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let (requests, receiver) = mpsc::channel(8);
        let mut request = Request::new(ReceiverStream::new(receiver));
        // The header alone: the client itself is to wait longer.
        request.metadata_mut().insert("grpc-timeout", "80m".parse().unwrap());
        let mut verdicts = worker.client().await.verify(request).await.unwrap().into_inner();
        requests.send(item("a", "hang").into()).await.unwrap();
        let answer = verdicts.message().await;
        assert_eq!(answer.unwrap().unwrap().invalid_reason(), InvalidReason::Deadline);
        assert_eq!(verdicts.message().await.unwrap_err().code(), Code::DeadlineExceeded);
    })
    .await;
}

#[tokio::test]
async fn more_than_fits_is_refused_item_by_item() {
    bounded(async {
        let worker = tiny(2, 1).await;
        let mut stream = Stream::open(&worker).await;
        for id in ["running", "waiting", "refused"] {
            stream.send(item(id, "hang")).await;
        }
        let refused = stream.verdict().await;
        assert_eq!((refused.id.as_str(), refused.invalid_reason()), ("refused", InvalidReason::Overloaded));
        assert_eq!(refused.detail, "queue `verify` is full, its capacity is 2 items");
        until(|| worker.begun() == 1).await;
        let status = worker.client().await.get_status(RewardGetStatusRequest {}).await.unwrap().into_inner();
        let queue = status.queue.unwrap();
        assert_eq!((queue.queued_items, queue.running_items, queue.capacity_items), (1, 1, 2));
        stream.send(CancelItem::new("running")).await;
        assert_eq!(stream.verdict().await.id, "running");
        until(|| worker.begun() == 2).await;
    })
    .await;
}

#[tokio::test]
async fn a_handler_that_panics_costs_its_item_and_nothing_else() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut stream = Stream::open(&worker).await;
        stream.send(item("bad", "panic")).await;
        assert_eq!(stream.verdict().await.invalid_reason(), InvalidReason::Internal);
        stream.send(item("good", "")).await;
        assert_eq!(stream.verdict().await.outcome(), Outcome::Correct);
        assert_eq!(worker.reward.items.status().running_items, 0);
    })
    .await;
}

#[tokio::test]
async fn an_id_in_work_breaks_the_protocol() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut stream = Stream::open(&worker).await;
        stream.send(item("a", "hang")).await;
        stream.send(item("a", "hang")).await;
        let status = stream.verdicts.message().await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with("item.id is `a`, which is in flight"), "{}", status.message());
        assert_eq!(reason_of(&status).as_deref(), Some("INVALID_FIELD"));
        until(|| worker.stopped() == worker.begun()).await;
    })
    .await;
}

#[tokio::test]
async fn a_message_that_is_nothing_breaks_the_protocol() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        for (broken, field) in [(VerifyRequest { kind: None }, "kind"), (item("", "").into(), "item.id")] {
            let mut stream = Stream::open(&worker).await;
            stream.send(broken).await;
            let status = stream.verdicts.message().await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument);
            assert!(status.message().starts_with(&format!("{field} is absent")), "{}", status.message());
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_goes_away_frees_what_it_held() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let stream = Stream::open(&worker).await;
        for id in 0..20 {
            stream.send(item(id.to_string(), "hang")).await;
        }
        until(|| worker.begun() == 20).await;
        drop(stream);
        until(|| worker.stopped() == 20).await;
        until(|| worker.reward.items.status().running_items == 0).await;
    })
    .await;
}

#[tokio::test]
async fn a_stream_that_never_reads_holds_no_places() {
    bounded(async {
        let worker = tiny(64, 64).await;
        let (requests, receiver) = mpsc::channel(1);
        let unread = worker.client().await.verify(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        let long = format!("echo {}", "x".repeat(200_000));
        for id in 0..200_usize {
            let sent = requests.send_timeout(item(id.to_string(), &long).into(), Duration::from_millis(500)).await;
            if sent.is_err() {
                break;
            }
        }
        until(|| worker.reward.items.status().queued_items + worker.reward.items.status().running_items == 0).await;
        let mut honest = Stream::open(&worker).await;
        for id in 0..40 {
            honest.send(item(id.to_string(), "")).await;
        }
        for _ in 0..40 {
            assert!(honest.verdict().await.is_valid());
        }
        drop(unread);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_for_long_loses_its_stream() {
    let setup = Setup::default();
    let items = ItemServer::<VerifyItems>::new(setup.limits, Drain::new());
    let requests = tokio_stream::iter([Ok(item("a", "").into())]).chain(tokio_stream::pending());
    let handler = async |item: VerifyItem, _| Verdict::judged(item.id, Outcome::Correct, "scripted", 1.0);
    let mut answers = items.serve(Request::new(requests), handler).into_inner();
    tokio::time::sleep(Duration::from_secs(121)).await;
    let status = answers.next().await.unwrap().unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    assert_eq!(reason_of(&status).as_deref(), Some("RESPONSES_UNREAD"));
    assert!(answers.next().await.is_none());
}

#[tokio::test]
async fn no_client_takes_all_places() {
    bounded(async {
        let worker = tiny(80, 80).await;
        let mut greedy = Stream::open(&worker).await;
        for id in 0..80 {
            greedy.send(item(id.to_string(), "hang")).await;
        }
        for _ in 0..10 {
            let refused = greedy.verdict().await;
            assert_eq!(refused.invalid_reason(), InvalidReason::Overloaded);
            let detail = "this client holds 70 of the 80 items of queue `verify`, the rest is kept for others";
            assert_eq!(refused.detail, detail);
        }
        let mut other = Stream::open(&worker).await;
        other.send(item("other", "")).await;
        assert!(other.verdict().await.is_valid());
    })
    .await;
}

#[tokio::test]
async fn items_are_admitted_by_their_bytes_too() {
    bounded(async {
        let limits =
            ItemLimits { max_items: 100, max_memory: ByteSize::mib(1), max_running: 100, grace: Duration::ZERO };
        let worker = Setup { limits, ..Setup::default() }.start("worker").await;
        let mut stream = Stream::open(&worker).await;
        let long = format!("hang {}", "x".repeat(300_000));
        for id in ["a", "b", "c", "d"] {
            stream.send(item(id, &long)).await;
        }
        let refused = stream.verdict().await;
        assert_eq!((refused.id.as_str(), refused.invalid_reason()), ("d", InvalidReason::Overloaded));
        assert_eq!(refused.detail, "queue `verify` is full, its capacity is 1048576 bytes");
        stream.send(CancelItem::new("a")).await;
        assert_eq!(stream.verdict().await.id, "a");
        stream.send(item("d", &long)).await;
        until(|| worker.begun() == 4).await;
    })
    .await;
}

#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    bounded(async {
        let worker = tiny(100, 64).await;
        let (requests, receiver) = mpsc::channel(1);
        let verdicts = worker.client().await.verify(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        let long = format!("echo {}", "x".repeat(100_000));
        let sending = tokio::spawn(async move {
            for id in 0_usize.. {
                // Some room in every buffer on the way, and then nothing more is taken.
                let sent = requests.send_timeout(item(id.to_string(), &long).into(), Duration::from_millis(500)).await;
                if sent.is_err() {
                    return id;
                }
            }
            0
        });
        let sent = sending.await.unwrap();
        assert!(sent > 0 && sent < 1_000, "{sent} items were taken without a reader");
        drop(verdicts);
    })
    .await;
}

#[tokio::test]
async fn a_stopped_handler_may_answer_within_its_grace() {
    bounded(async {
        let limits = ItemLimits {
            max_items: 8,
            max_memory: ItemLimits::DEFAULT_MEMORY,
            max_running: 8,
            grace: Duration::from_secs(5),
        };
        let worker = Setup { limits, ..Setup::default() }.start("worker").await;
        let mut stream = Stream::open(&worker).await;
        stream.send(item("a", "partial")).await;
        until(|| worker.begun() == 1).await;
        stream.send(CancelItem::new("a")).await;
        let verdict = stream.verdict().await;
        assert_eq!((verdict.outcome(), verdict.reason_code.as_str()), (Outcome::Undecided, "Cancelled"));
    })
    .await;
}

#[tokio::test]
async fn a_single_item_obeys_the_same_limits() {
    bounded(async {
        let worker = tiny(1, 1).await;
        let mut client = worker.client().await;
        let mut one = async |item| {
            let response = client.verify_one(VerifyOneRequest { item: Some(item) }).await.unwrap();
            response.into_inner().verdict.unwrap()
        };
        assert!(one(item("a", "")).await.is_valid());
        let mut late = item("b", "hang");
        late.deadline_ms = Some(20);
        assert_eq!(one(late).await.invalid_reason(), InvalidReason::Deadline);
        let stream = Stream::open(&worker).await;
        stream.send(item("c", "hang")).await;
        until(|| worker.begun() == 3).await;
        assert_eq!(one(item("d", "")).await.invalid_reason(), InvalidReason::Overloaded);
    })
    .await;
}

#[tokio::test]
async fn an_item_is_worked_on_in_its_own_trace() {
    bounded(async {
        let worker = Setup::default().start("worker").await;
        let mut stream = Stream::open(&worker).await;
        let mut traced = item("a", "");
        traced.traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into();
        stream.send(traced).await;
        stream.verdict().await;
        assert_eq!(worker.reward.seen.traces.lock().unwrap()["a"], "0af7651916cd43dd8448eb211c80319c");
    })
    .await;
}
