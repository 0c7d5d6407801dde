//! Asynchronous methods of an environment are awaited, and what still runs at the end of an episode ends with it.

use std::time::Duration;

use evenkeel_proto::v1::{CloseReason, MessageRole, environment_event::Kind as Event};

use crate::own::{File, refused};
use crate::support::{act, call, close, open, say, until};

const SHOP: &str = r#"
import asyncio
from evenkeel_environment import Environment, ToolError, tool

class Shop(Environment):
    async def reset(self, task, seed):
        await asyncio.sleep(0)
        self.found, self.file = [], task.get("file")
        return task.get("first")

    async def look(self):
        try:
            await asyncio.sleep(1000)
        finally:
            with open(self.file, "a") as file:
                file.write("cancelled\n")

    @tool
    async def search(self, query: str) -> str:
        """Searches."""
        await asyncio.sleep(0.01)
        self.found.append(query)
        if query == "nothing":
            raise ToolError("there is no such thing")
        if query == "broken":
            raise RuntimeError("the index is gone")
        if query == "cancelled":
            raise asyncio.CancelledError()
        if query == "look":
            self.task = asyncio.create_task(self.look())
        return f"found {query}"

    @tool
    def count(self) -> int:
        """Counts."""
        return len(self.found)

    async def step(self, action):
        if action.calls:
            return await super().step(action)
        await asyncio.sleep(0)
        return None

    async def score(self):
        await asyncio.sleep(0)
        return 0.5

    async def close(self):
        if self.file:
            with open(self.file, "a") as file:
                file.write("closed\n")
"#;

fn search(id: &str, turn: u32, queries: &[&str]) -> evenkeel_proto::v1::environment_request::Kind {
    let calls = queries.iter().map(|query| call(turn, "search", &format!("{{\"query\": \"{query}\"}}")));
    act(id, turn, calls.chain([call(turn, "count", "{}")]).collect())
}

#[tokio::test]
async fn asynchronous_methods_are_awaited_in_the_order_of_the_calls() {
    // With its own `step`, also one that does not await, and with that of the class.
    for (number, step) in ["return await super().step(action)", "return super().step(action)", ""].iter().enumerate() {
        let text = match *step {
            "" => SHOP.replace("async def step(self, action):", "async def another(self, action):"),
            step => SHOP.replace("return await super().step(action)", step),
        };
        let file = File::new(&text);
        let worker = file.worker(|_| {}).await;
        let mut stream = worker.open().await;
        stream.begin("a", &file.name(), "{}").await;
        let observed = stream.turn(search("a", 1, &["nails", "nothing", "glue"])).await;
        let texts: Vec<_> = observed.messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(texts, ["found nails", "error: there is no such thing", "found glue", "3"], "{number}");
        assert_eq!(observed.tool_errors, 1);
        assert!(stream.turn(say("a", 2, "end")).await.done);
        assert_eq!(stream.scored().await.unwrap().reward, Some(0.5));
        for (query, words) in [("broken", "the index is gone"), ("cancelled", "what it waited for was cancelled")] {
            stream.begin(query, &file.name(), "{}").await;
            stream.send(search(query, 1, &[query])).await;
            let (_, retryable, message) = stream.failed().await;
            assert!(retryable && message.contains(words), "{message}");
        }
    }
}

#[tokio::test]
async fn what_still_runs_at_the_end_of_an_episode_is_cancelled_and_that_of_others_goes_on() {
    let file = File::new(SHOP);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a", "b"].map(|id| folder.path().join(id));
    for (id, path) in ["a", "b"].into_iter().zip(&paths) {
        stream.begin(id, &file.name(), &serde_json::json!({"file": path}).to_string()).await;
        stream.turn(search(id, 1, &["look"])).await;
    }
    stream.send(close("a", CloseReason::Cancelled)).await;
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    until(|| async { read(&paths[0]) == "closed\ncancelled\n" }).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(read(&paths[1]), "");
    assert_eq!(stream.turn(search("b", 2, &["glue"])).await.messages[0].content, "found glue");
}

#[tokio::test]
async fn a_text_of_reset_is_a_message_before_the_first_turn() {
    let file = File::new(SHOP);
    let worker = file.worker(|_| {}).await;
    let mut stream = worker.open().await;
    for (task, first) in [
        ("{}", None),
        (r#"{"first": ""}"#, None),
        (r#"{"first": "The shelf is empty."}"#, Some("The shelf is empty.")),
        (r#"{"first": {"left": 3}}"#, Some("{\"left\": 3}")),
    ] {
        stream.send(open(task, &file.name(), task)).await;
        let Event::Opened(opened) = stream.kind().await else { panic!("{task}") };
        let found: Vec<_> = opened.messages.iter().map(|message| (message.role(), message.content.as_str())).collect();
        let wanted: Vec<_> = first.into_iter().map(|first| (MessageRole::User, first)).collect();
        assert_eq!(found, wanted, "{task}");
    }
}

#[tokio::test]
async fn generators_are_refused_by_the_name_of_the_method() {
    const HEAD: &str = "from evenkeel_environment import Environment, tool\nclass A(Environment):\n";
    for (text, name) in [
        ("    @tool\n    def f(self):\n        'Does.'\n        yield 1", "A.f"),
        ("    async def step(self, action):\n        yield 1", "A.step"),
        ("    def reset(self, task, seed):\n        yield 1", "A.reset"),
    ] {
        let error = refused(&format!("{HEAD}{text}")).await;
        assert!(error.contains(&format!("{name} is a generator (it has a `yield`)")), "{error}");
    }
}
