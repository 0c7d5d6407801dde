//! Tests that become much more than they were on the way.

use bytes::{BufMut, Bytes, BytesMut};
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{CodeTask, LiveCodeBenchCases, VerifyItem, VerifyOneRequest, VerifyOneResponse};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::Round;
use crate::abuse::wire::{self, Failed};

/// The method that takes one item.
pub(super) const VERIFY_ONE: &str = "/evenkeel.v1.Reward/VerifyOne";
/// Tests without anything in them: two bytes each on the way, and as large as a test in memory.
const EMPTY_TESTS: usize = 14_000_000;

/// Has one item judged, and counts what it was found to be.
pub(super) async fn judge(round: &Round, item: VerifyItem) -> Result<(), Failed> {
    let channel = round.channel(round.targets().reward).await?;
    let request = VerifyOneRequest { item: Some(item) };
    let (code, answer) = wire::unary(&channel, VERIFY_ONE, wire::encoded(&request)).await?;
    match VerifyOneResponse::decode(answer) {
        Ok(VerifyOneResponse { verdict: Some(verdict) }) => {
            round.count(&format!("{:?} {:?}", verdict.outcome(), verdict.invalid_reason()));
        }
        _ => round.count(&code),
    }
    Ok(())
}

fn row(private_test_cases: String, public_test_cases: &str) -> VerifyItem {
    let public_test_cases = public_test_cases.to_owned();
    let cases = LiveCodeBenchCases { public_test_cases, private_test_cases, metadata: "{}".to_owned() };
    let task = CodeTask { tests_source: Some(TestsSource::LiveCodeBench(cases)), ..CodeTask::default() };
    VerifyItem {
        id: "row".to_owned(),
        answer: Some(Answer::Extracted("print(1)".to_owned())),
        task: Some(Task::Code(task)),
        ..VerifyItem::default()
    }
}

/// A few hundred kilobytes that inflate to 64 and 256 MiB, two at once.
pub(super) async fn inflating(round: Round) -> Result<(), Failed> {
    let rows = &round.targets().rows;
    let path = &rows[round.number as usize % rows.len()];
    let text = std::fs::read_to_string(path)?;
    let both = [text.clone(), text].map(|text| judge(&round, row(text, "[]")));
    let [first, second] = both;
    let (first, second) = tokio::join!(first, second);
    first.and(second)
}

/// Columns that are no tests at all, or cut.
pub(super) async fn broken(round: Round) -> Result<(), Failed> {
    let path = &round.targets().rows[0];
    let text = std::fs::read_to_string(path)?;
    let half = text[..text.len() / 2].to_owned();
    let deep = "[".repeat(100_000);
    let cases = [
        row(half, "[]"),
        row("!!!! no base64 !!!!".to_owned(), "[]"),
        row(String::new(), &deep),
        row(deep, "{}"),
        row(String::new(), "[{\"input\": 7, \"output\": null, \"testtype\": \"\\u001b[31m\"}]"),
        row("eJwLSS0uAQADxQGc".to_owned(), "[]"),
    ];
    for case in cases {
        judge(&round, case).await?;
    }
    Ok(())
}

/// A message of 28 MB whose tests would take thirty times as much as they are decoded.
pub(super) async fn empty_tests(round: Round) -> Result<(), Failed> {
    // CodeTests.tests = 1, CodeTask.tests = 2, VerifyItem.code = 6, VerifyOneRequest.item = 1.
    let mut message = BytesMut::with_capacity(2 * EMPTY_TESTS + 64);
    let tests = 2 * EMPTY_TESTS;
    let task = tests + head(2, tests).len();
    let item = task + head(6, task).len();
    for (field, length) in [(1, item), (6, task), (2, tests)] {
        message.put(head(field, length));
    }
    for _ in 0..EMPTY_TESTS {
        message.put_slice(&[0x0a, 0]);
    }
    let channel = round.channel(round.targets().reward).await?;
    round.call(&channel, VERIFY_ONE, wire::framed(&message)).await?;
    Ok(())
}

/// The key and the length of a field.
pub(super) fn head(field: u32, length: usize) -> Bytes {
    let mut bytes = BytesMut::new();
    encode_key(field, WireType::LengthDelimited, &mut bytes);
    encode_varint(length as u64, &mut bytes);
    bytes.freeze()
}
