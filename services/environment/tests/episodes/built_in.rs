//! Episodes of environments that come with the program, and everything that may go wrong with a stream.

use std::time::Duration;

use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_proto::v1::environment_request::Kind;
use evenkeel_proto::v1::{CloseEpisode, CloseReason, EnvironmentRequest, EpisodeFailure, KeepAlive};
use tonic::Code;

use crate::support::{Worker, act, call, close, compute, open, until};

#[tokio::test]
async fn an_episode_with_the_calculator_ends_with_the_turn_that_calls_nothing() {
    let worker = Worker::start().await;
    let mut stream = worker.open().await;
    stream.begin("a", "calculator", "{}").await;
    stream.send(act("a", 1, vec![compute(1, "123*456"), compute(1, "1/0"), call(1, "calculater", "{}")])).await;
    let observed = stream.observed().await;
    let contents: Vec<_> = observed.messages.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(
        contents,
        ["56088", "error: division by zero", "error: there is no tool `calculater`, allowed: calculator"]
    );
    assert_eq!((observed.turn, observed.tool_errors, observed.done), (1, 2, false));
    stream.send(act("a", 2, vec![])).await;
    assert!(stream.observed().await.done);
    match stream.kind().await {
        Event::Scored(scored) => assert_eq!(scored.verdict, None, "the verifier of the task judges"),
        other => panic!("{other:?}"),
    }
    let status = worker.status().await;
    assert_eq!((status.open_episodes, status.episodes["scored"]), (0, 1));
    let names: Vec<_> = status.environments.iter().map(|environment| environment.name.as_str()).collect();
    assert_eq!(names, ["calculator", "guess-number", "python"]);
    assert!(status.environments[0].tools[0].parameters.contains("expression"));
}

#[tokio::test]
async fn a_game_is_scored_by_its_environment_at_its_end_and_where_a_budget_ends_it() {
    let worker = Worker::start().await;
    let mut stream = worker.open().await;
    for (id, guesses, reward) in [("a", vec![50, 20, 37], 1.0), ("b", vec![50, 20], 0.0)] {
        stream.begin(id, "guess-number", r#"{"answer": 37}"#).await;
        for (turn, guess) in (1..).zip(&guesses) {
            stream.send(act(id, turn, vec![call(turn, "guess", &format!("{{\"number\": {guess}}}"))])).await;
            assert_eq!(stream.observed().await.done, *guess == 37);
        }
        if reward == 0.0 {
            stream.send(close(id, CloseReason::Budget)).await;
        }
        match stream.kind().await {
            Event::Scored(scored) => assert_eq!(scored.verdict.unwrap().reward, Some(reward)),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_same_turn_again_is_answered_again_and_not_carried_out_again() {
    let mut stream = Worker::start().await.open_kept().await;
    stream.1.begin("a", "guess-number", r#"{"answer": 37}"#).await;
    let guess = || act("a", 1, vec![call(1, "guess", r#"{"number": 3}"#)]);
    stream.1.send(guess()).await;
    let first = stream.1.observed().await;
    stream.1.send(guess()).await;
    assert_eq!(stream.1.observed().await, first);
    stream.1.send(act("a", 1, vec![call(1, "guess", r#"{"number": 4}"#)])).await;
    let (failure, retryable, message) = stream.1.failed().await;
    assert_eq!((failure, retryable), (EpisodeFailure::Refused, true), "{message}");
    stream.1.send(act("a", 2, vec![])).await;
    assert!(stream.1.failed().await.2.contains("not open"), "nothing comes after a failure");
}

#[tokio::test]
async fn what_breaks_the_protocol_fails_the_episode_and_no_other() {
    let (_worker, mut stream) = Worker::start().await.open_kept().await;
    stream.begin("good", "calculator", "{}").await;
    stream.send(act("nobody", 1, vec![])).await;
    assert_eq!(stream.failed().await.0, EpisodeFailure::Refused);
    stream.begin("late", "calculator", "{}").await;
    stream.send(act("late", 7, vec![])).await;
    assert!(stream.failed().await.2.contains("turn is 7, allowed: 1"));
    for (environment, task, words) in [
        ("calculater", "{}", "allowed: one of calculator, guess-number, python"),
        ("guess-number", "{\"answer\": 1000}", "`answer` is 1000"),
    ] {
        stream.send(open("bad", environment, task)).await;
        let (failure, retryable, message) = stream.failed().await;
        assert_eq!((failure, retryable), (EpisodeFailure::TaskInvalid, false));
        assert!(message.contains(words), "{message}");
    }
    stream.send(open("good", "calculator", "{}")).await;
    assert!(matches!(stream.kind().await, Event::Opened(_)), "opening it again changes nothing");
    stream.send(act("good", 1, vec![compute(1, "2+2")])).await;
    assert_eq!(stream.observed().await.messages[0].content, "4");
}

#[tokio::test]
async fn a_message_that_no_event_could_answer_ends_the_call() {
    let worker = Worker::start().await;
    for kind in [
        None,
        Some(open("", "calculator", "{}")),
        Some(Kind::Close(CloseEpisode { attempt: 1, episode_id: "a".into(), ..CloseEpisode::default() })),
    ] {
        let mut stream = worker.open().await;
        stream.begin("a", "calculator", "{}").await;
        stream.requests.send(EnvironmentRequest { kind }).await.unwrap();
        assert_eq!(stream.next().await.unwrap_err().code(), Code::InvalidArgument);
    }
    until(|| async { worker.status().await.open_episodes == 0 }).await;
}

#[tokio::test]
async fn episodes_beyond_the_capacity_are_refused_until_one_ends() {
    let worker = Worker::with(|settings| settings.max_episodes = 1).await;
    let mut one = worker.open().await;
    let mut other = worker.open().await;
    one.begin("a", "calculator", "{}").await;
    for id in ["b", "c"] {
        other.send(open(id, "calculator", "{}")).await;
        let (failure, retryable, message) = other.failed().await;
        assert_eq!((failure, retryable), (EpisodeFailure::Overloaded, true), "{message}");
    }
    one.send(close("a", CloseReason::Cancelled)).await;
    until(|| async { worker.status().await.open_episodes == 0 }).await;
    other.begin("b", "calculator", "{}").await;
    assert_eq!(worker.status().await.episodes["overloaded"], 2);
}

#[tokio::test]
async fn five_hundred_and_twelve_episodes_open_at_once_on_one_stream() {
    let worker = Worker::start().await;
    let mut stream = worker.open().await;
    let sending = async {
        for number in 0..512 {
            stream
                .requests
                .send(EnvironmentRequest { kind: Some(open(&number.to_string(), "calculator", "{}")) })
                .await
                .unwrap();
        }
    };
    sending.await;
    for _ in 0..512 {
        assert!(matches!(stream.kind().await, Event::Opened(_)));
    }
    assert_eq!(worker.status().await.open_episodes, 512);
    drop(stream);
    until(|| async { worker.status().await.open_episodes == 0 }).await;
    assert_eq!(worker.status().await.episodes["closed"], 512);
}

#[tokio::test]
async fn an_episode_of_which_nothing_is_heard_ends_and_one_that_goes_on_does_not() {
    let worker = Worker::with(|settings| settings.idle_timeout = Duration::from_secs(3)).await;
    let mut stream = worker.open().await;
    stream.begin("kept", "calculator", "{}").await;
    stream.begin("lost", "calculator", "{}").await;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let ids = vec!["kept".to_owned(), "unknown".to_owned()];
        stream.send(Kind::KeepAlive(KeepAlive { episode_ids: ids })).await;
    }
    let event = stream.next().await.unwrap();
    assert_eq!(event.episode_id, "lost");
    assert!(matches!(event.kind, Some(Event::Failed(failed)) if failed.failure() == EpisodeFailure::Timeout));
    stream.send(act("kept", 1, vec![compute(1, "1+1")])).await;
    assert_eq!(stream.observed().await.messages[0].content, "2");
}

#[tokio::test]
async fn a_worker_that_is_about_to_stop_finishes_what_is_open_and_takes_nothing_new() {
    let worker = Worker::with(|settings| settings.server.drain = Duration::from_secs(10)).await;
    let mut stream = worker.open().await;
    stream.begin("a", "calculator", "{}").await;
    let stopping = tokio::spawn(worker.server.stop());
    tokio::time::sleep(Duration::from_millis(200)).await;
    stream.send(open("b", "calculator", "{}")).await;
    assert_eq!(stream.failed().await.0, EpisodeFailure::Overloaded);
    stream.send(act("a", 1, vec![])).await;
    assert!(stream.observed().await.done);
    assert!(matches!(stream.kind().await, Event::Scored(_)));
    assert_eq!(stream.next().await.unwrap_err().code(), Code::Unavailable);
    stopping.await.unwrap().unwrap();
}
