//! Hostile items, and streams of them that are treated badly.

use std::time::Duration;

use bytes::Bytes;
use evenkeel_proto::v1::code_task::TestsSource;
use evenkeel_proto::v1::verify_item::{Answer, Task};
use evenkeel_proto::v1::{
    CancelItem, CodeLimits, CodeTask, CodeTest, CodeTestKind, CodeTests, MathSettings, MathTask, VerifyItem,
    VerifyRequest,
};

use super::Round;
use super::rows::judge;
use crate::abuse::programs::{HOSTILE, program};
use crate::abuse::wire::{self, Failed};

const VERIFY: &str = "/evenkeel.v1.Reward/Verify";

/// A program that uses up what there is, within two seconds and 256 MiB.
pub(super) async fn programs(round: Round) -> Result<(), Failed> {
    let source = HOSTILE[round.number as usize % HOSTILE.len()];
    let limits = CodeLimits {
        cpu_ms: Some(2_000),
        memory_bytes: Some(256 << 20),
        wall_ms: Some(60_000),
        ..CodeLimits::default()
    };
    let item = program(source, &[("", "the output that none of them has")], limits);
    judge(&round, VerifyItem { id: "program".to_owned(), ..item }).await
}

fn math(gold: impl Into<String>, completion: impl Into<String>, fuel: Option<u64>) -> VerifyItem {
    let settings = MathSettings { fuel, ..MathSettings::default() };
    VerifyItem {
        id: "mathematics".to_owned(),
        answer: Some(Answer::Completion(completion.into())),
        task: Some(Task::Math(MathTask { gold: gold.into(), settings: Some(settings), ..MathTask::default() })),
        ..VerifyItem::default()
    }
}

/// Texts that are deep, long or large numbers.
pub(super) async fn mathematics(round: Round) -> Result<(), Failed> {
    let item = match round.number % 12 {
        0 => math("1", format!(r"\boxed{{{}1{}}}", "(".repeat(20_000), ")".repeat(20_000)), None),
        1 => math("9^{9^{9^9}}", r"\boxed{9^{9^{9^9}}}", None),
        2 => math(r"10^{1000000000}", r"\boxed{10^{999999999}}", Some(4_000_000)),
        3 => math("1", r"\boxed{".repeat(100_000), None),
        4 => math("1", format!(r"\boxed{{{}}}", r"\frac{1}{".repeat(5_000)), None),
        5 => math("(a+b+c+d+e)^{40}", r"\boxed{(e+d+c+b+a)^{40}}", Some(4_000_000)),
        6 => math("1", format!(r"\boxed{{{}}}", "1+".repeat(30_000)), None),
        7 => math("170!", r"\boxed{((((3!)!)!)!)!}", None),
        8 => math(r"\sum_{k=1}^{10^9} k", r"\boxed{\prod_{k=1}^{10^9} k}", None),
        9 => math("1", "\u{202e}\u{200b}\u{feff}".repeat(100_000), None),
        10 => math("1", format!(r"\boxed{{{}}}", "1,".repeat(30_000)), Some(u64::MAX)),
        _ => math("x", "<think>".repeat(200_000), None),
    };
    judge(&round, item).await
}

/// Ids and texts with everything that a log or a terminal acts on, and of any length.
pub(super) async fn texts(round: Round) -> Result<(), Failed> {
    let odd = "a\nERROR forged line\r\n\x1b[31m\x1b]0;title\x07\u{202e}\0".to_owned();
    let plain = math("1", r"\boxed{1}", None);
    let long = "x".repeat(1 << 20);
    for id in ["", &odd, &long, &odd.repeat(10_000)] {
        judge(&round, VerifyItem { id: id.to_owned(), ..plain.clone() }).await?;
    }
    let with = |task: MathTask| VerifyItem { task: Some(Task::Math(task)), ..plain.clone() };
    let profile = MathTask { gold: "1".to_owned(), profile: odd.repeat(1_000), ..MathTask::default() };
    judge(&round, with(profile)).await?;
    judge(&round, with(MathTask { gold: odd.repeat(1_000), ..MathTask::default() })).await?;
    judge(&round, VerifyItem { traceparent: long.clone(), ..plain.clone() }).await?;
    let digest =
        CodeTask { tests_source: Some(TestsSource::TestsDigest(long)), question_id: odd, ..CodeTask::default() };
    judge(&round, VerifyItem { task: Some(Task::Code(digest)), ..plain.clone() }).await?;
    judge(&round, VerifyItem { answer: None, ..plain }).await
}

fn small(index: usize) -> Bytes {
    let item =
        VerifyItem { id: format!("item-{index}"), ..math("1", format!(r"\boxed{{{}}}", "7".repeat(2_000)), None) };
    wire::encoded(&VerifyRequest::from(item))
}

/// A thousand items whose verdicts nobody reads, on three connections.
pub(super) async fn unread(round: Round) -> Result<(), Failed> {
    let mut held = Vec::new();
    for _ in 0..3 {
        let channel = round.channel(round.targets().reward).await?;
        let items = (0..1_000).map(small).collect();
        held.push((wire::call(&channel, VERIFY, items, true).await?, channel));
        round.count("streams");
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    Ok(())
}

/// Streams that end in the middle: dropped, cancelled item by item, with ids twice.
pub(super) async fn dropped(round: Round) -> Result<(), Failed> {
    let channel = round.channel(round.targets().reward).await?;
    for _ in 0..5 {
        drop(wire::call(&channel, VERIFY, (0..200).map(small).collect(), true).await?);
    }
    let mut items: Vec<Bytes> = (0..200).map(small).collect();
    items.extend((0..400).map(|index| wire::encoded(&VerifyRequest::from(CancelItem::new(format!("item-{index}"))))));
    let (code, _) = wire::end(wire::call(&channel, VERIFY, items, false).await?).await;
    round.count(&format!("cancelled: {code}"));
    let (code, _) = wire::end(wire::call(&channel, VERIFY, vec![small(0), small(0)], false).await?).await;
    round.count(&format!("the same id: {code}"));
    let (code, _) = wire::end(wire::call(&channel, VERIFY, vec![wire::framed(&[])], false).await?).await;
    round.count(&format!("neither item nor cancel: {code}"));
    Ok(())
}

/// Four streams with five items of 30 MB each.
pub(super) async fn large(round: Round) -> Result<(), Failed> {
    let test = CodeTest { kind: CodeTestKind::Stdin.into(), input: "7".repeat(30_000_000), output: String::new() };
    let tests = CodeTests { tests: vec![test], function_name: String::new() };
    let task = CodeTask { tests_source: Some(TestsSource::Tests(tests)), ..CodeTask::default() };
    let item = |index: usize| VerifyItem {
        id: format!("large-{index}"),
        answer: Some(Answer::Extracted("print(len(input()))".to_owned())),
        task: Some(Task::Code(task.clone())),
        ..VerifyItem::default()
    };
    let items: Vec<Bytes> = (0..5).map(|index| wire::encoded(&VerifyRequest::from(item(index)))).collect();
    drop(task);
    let mut held = Vec::new();
    for _ in 0..4 {
        let channel = round.channel(round.targets().reward).await?;
        held.push((wire::call(&channel, VERIFY, items.clone(), true).await?, channel));
        round.count("streams");
    }
    tokio::time::sleep(Duration::from_secs(8)).await;
    Ok(())
}
