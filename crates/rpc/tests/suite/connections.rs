//! Clients that connect and do nothing, or send halves of messages: they cost a bounded part of the server, for a
//! bounded time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::support::{Setup, Worker, bounded, channel, item, until};
use bytes::Bytes;
use evenkeel_config::ByteSize;
use evenkeel_proto::v1::{VerifyOneRequest, VerifyRequest};
use evenkeel_rpc::client::ClientSettings;
use evenkeel_rpc::error::reason_of;
use evenkeel_rpc::server::ServerSettings;
use http_body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::body::Body;
use tonic::transport::Endpoint;
use tonic::{Code, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tower::Service;

async fn start(server: ServerSettings) -> Worker {
    Setup { server, ..Setup::default() }.start("worker").await
}

async fn connect(worker: &Worker) -> TcpStream {
    TcpStream::connect(worker.server.address()).await.unwrap()
}

/// Waits until the server closes the connection.
async fn closed(mut connection: TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end, too.
    let _ = connection.read_to_end(&mut rest).await;
}

async fn verify_one(worker: &Worker) -> Result<bool, Status> {
    let request = VerifyOneRequest { item: Some(item("a", "")) };
    let response = worker.client().await.verify_one(request).await?;
    Ok(response.into_inner().verdict.is_some_and(|verdict| verdict.is_valid()))
}

async fn health(worker: &Worker) -> Result<ServingStatus, Status> {
    let channel = channel(worker.server.endpoint(), ClientSettings::default()).await;
    let response = HealthClient::new(channel).check(HealthCheckRequest::default()).await?;
    Ok(response.into_inner().status())
}

/// The body of a call that sends these bytes and no more.
struct Half(Option<Bytes>);

impl http_body::Body for Half {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

/// Sends the first `sent` bytes of a message of one long text on a separate connection. Returns the status as soon as
/// there is one.
async fn half_a_message(worker: &Worker, length: u32, sent: usize) -> Status {
    // A field that no message has, of any length.
    let mut message = vec![0xa2, 0x06];
    prost::encode_length_delimiter(length as usize - 8, &mut message).unwrap();
    message.resize(sent, b'x');
    begun(worker, length, &message).await
}

/// A call with these bytes of a message of that length.
async fn begun(worker: &Worker, length: u32, message: &[u8]) -> Status {
    let mut bytes = vec![0];
    bytes.extend(length.to_be_bytes());
    bytes.extend(message);
    let mut channel = Endpoint::from_shared(worker.server.endpoint().to_owned()).unwrap().connect().await.unwrap();
    let request = http::Request::post("/evenkeel.v1.Reward/VerifyOne")
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Body::new(Half(Some(bytes.into()))))
        .unwrap();
    std::future::poll_fn(|context| channel.poll_ready(context)).await.unwrap();
    let response = channel.call(request).await.unwrap();
    Status::from_header_map(response.headers()).unwrap()
}

#[tokio::test]
async fn a_connection_without_a_call_is_closed_whatever_it_sent() {
    bounded(async {
        let worker =
            start(ServerSettings { handshake_timeout: Duration::from_millis(200), ..ServerSettings::default() }).await;
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice();
        let settings = b"\0\0\0\x04\0\0\0\0\0".as_slice();
        // Stream 1, without END_HEADERS: more were to follow.
        let headers = b"\0\0\x01\x01\0\0\0\0\x01\x83".as_slice();
        for sent in
            [&[][..], &preface[..10], preface, &[preface, settings].concat(), &[preface, settings, headers].concat()]
        {
            let mut connection = connect(&worker).await;
            connection.write_all(sent).await.unwrap();
            closed(connection).await;
        }
        assert!(verify_one(&worker).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn a_connection_is_closed_when_its_last_call_is_long_over() {
    bounded(async {
        let worker =
            start(ServerSettings { idle_timeout: Duration::from_millis(200), ..ServerSettings::default() }).await;
        let mut client = worker.client().await;
        let (requests, receiver) = mpsc::channel(1);
        let mut verdicts = client.verify(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        requests.send(item("a", "").into()).await.unwrap();
        assert!(verdicts.message().await.unwrap().unwrap().is_valid(), "an open call keeps its connection");
        drop(requests);
        assert_eq!(verdicts.message().await.unwrap(), None);
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let request = VerifyOneRequest { item: Some(item("b", "")) };
        assert!(client.verify_one(request).await.is_ok(), "the client connects again");
    })
    .await;
}

#[tokio::test]
async fn idle_connections_make_room_for_new_ones() {
    bounded(async {
        let worker = start(ServerSettings { max_connections: 4, ..ServerSettings::default() }).await;
        let mut idle = Vec::new();
        for _ in 0..50 {
            idle.push(connect(&worker).await);
        }
        assert!(verify_one(&worker).await.unwrap());
        for connection in idle.drain(..40) {
            closed(connection).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_whose_connections_are_all_in_use_answers_health_checks() {
    async fn stream(worker: &Worker) -> (mpsc::Sender<VerifyRequest>, Streaming<evenkeel_proto::v1::Verdict>) {
        let (requests, receiver) = mpsc::channel(1);
        requests.send(item("a", "hang").into()).await.unwrap();
        let verdicts = worker.client().await.verify(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        (requests, verdicts)
    }

    bounded(async {
        let worker = start(ServerSettings { max_connections: 2, ..ServerSettings::default() }).await;
        let streams = [stream(&worker).await, stream(&worker).await];
        until(|| worker.begun() == 2).await;
        for _ in 0..40 {
            assert_eq!(health(&worker).await.unwrap(), ServingStatus::Serving);
            let status = verify_one(&worker).await.unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted);
            assert_eq!(reason_of(&status).as_deref(), Some("CONNECTIONS_FULL"));
            assert!(status.message().contains("`max_connections`"), "{status}");
        }
        drop(streams);
        until(|| worker.stopped() == 2).await;
        while verify_one(&worker).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn halves_of_messages_are_counted_by_what_was_received() {
    bounded(async {
        let server = ServerSettings {
            max_message: ByteSize::b(400_000),
            max_receive: ByteSize::b(1_000_000),
            ..ServerSettings::default()
        };
        let worker = Arc::new(start(server).await);
        let mut calls = JoinSet::new();
        for _ in 0..8 {
            let worker = Arc::clone(&worker);
            calls.spawn(async move { half_a_message(&worker, 300_000, 200_000).await });
        }
        // Those that fit go on waiting for their other half.
        let status = calls.join_next().await.unwrap().unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted);
        // The last bytes are kept for others: which half of a rule refuses first depends on how the bytes come.
        assert!(status.message().contains("queue `receive`") && status.message().contains("1000000"), "{status}");
        calls.shutdown().await;
        while verify_one(&worker).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

/// `VerifyOneRequest` with this number of empty tests of two bytes each.
fn empty_tests(tests: usize) -> Vec<u8> {
    let within = |key: u8, inner: Vec<u8>| {
        let mut message = vec![key];
        prost::encode_length_delimiter(inner.len(), &mut message).unwrap();
        message.extend(inner);
        message
    };
    within(0x0a, within(0x32, within(0x12, [0x0a, 0].repeat(tests))))
}

#[tokio::test]
async fn what_a_message_becomes_is_counted_before_it_is_decoded() {
    bounded(async {
        let server = ServerSettings { max_decoded: ByteSize::mib(32), ..ServerSettings::default() };
        let worker = start(server).await;
        let few = empty_tests(1_000);
        let status = begun(&worker, few.len() as u32 + 1, &few[..few.len() - 10]);
        assert!(tokio::time::timeout(Duration::from_millis(200), status).await.is_err(), "it waits for the rest");
        let many = empty_tests(2_000_000);
        // The last bytes never come: nothing can have been decoded.
        let status = begun(&worker, many.len() as u32, &many[..many.len() - 10]).await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(reason_of(&status).as_deref(), Some("DECODED_MESSAGE_TOO_LARGE"));
        assert!(status.message().contains("`max_decoded`"), "{status}");
        assert!(verify_one(&worker).await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn what_messages_in_progress_become_counts_for_all_of_them_together() {
    bounded(async {
        let server = ServerSettings {
            max_message: ByteSize::b(400_000),
            max_decoded: ByteSize::b(30_000_000),
            max_receive: ByteSize::b(50_000_000),
            ..ServerSettings::default()
        };
        let worker = Arc::new(start(server).await);
        let message = Arc::new(empty_tests(150_000));
        let mut calls = JoinSet::new();
        for _ in 0..8 {
            let worker = Arc::clone(&worker);
            let message = Arc::clone(&message);
            let length = message.len() as u32;
            calls.spawn(async move { begun(&worker, length, &message[..message.len() - 10]).await });
        }
        let status = calls.join_next().await.unwrap().unwrap();
        assert_eq!(status.code(), Code::ResourceExhausted);
        assert!(status.message().contains("queue `receive`"), "{status}");
        calls.shutdown().await;
        while verify_one(&worker).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn bytes_that_are_no_message_are_the_clients_fault() {
    bounded(async {
        let worker = start(ServerSettings::default()).await;
        let status = begun(&worker, 12, &[0xff; 12]).await;
        assert_eq!(status.code(), Code::InvalidArgument);
        assert_eq!(reason_of(&status).as_deref(), Some("MALFORMED_MESSAGE"));
    })
    .await;
}

#[tokio::test]
async fn a_message_that_does_not_end_is_given_up() {
    bounded(async {
        let worker =
            start(ServerSettings { message_timeout: Duration::from_millis(200), ..ServerSettings::default() }).await;
        let status = half_a_message(&worker, 300_000, 10).await;
        assert_eq!(status.code(), Code::DeadlineExceeded);
        assert_eq!(status.message(), "a message was incomplete after 200ms (setting `message_timeout`)");
    })
    .await;
}
