//! Files that fork, print or write where answers go: no episode gets what belongs to another.

use std::collections::BTreeSet;

use evenkeel_proto::v1::environment_event::Kind as Event;
use evenkeel_testkit::{PYTHON_FAULTS, PYTHON_FAULTS_NEED};

use crate::own::File;
use crate::support::{open, say};

/// Episodes of one process that are played side by side.
const EPISODES: usize = 12;
/// The episode whose turn commits the fault.
const AT_FAULT: usize = 5;

fn source(fault: &str) -> String {
    format!(
        r#"{PYTHON_FAULTS_NEED}
from evenkeel_environment import Environment

class Own(Environment):
    def reset(self, task, seed):
        self.number = task["number"]

    def fault(self):
        {fault}

    def step(self, action):
        if self.number == {AT_FAULT}:
            self.fault()
        return f"{{self.number}} heard {{action}}", True

    def score(self):
        return self.number / 100
"#
    )
}

#[tokio::test]
async fn no_episode_gets_an_observation_or_a_score_of_another_whatever_the_file_forks_or_writes() {
    for (name, fault) in PYTHON_FAULTS {
        let file = File::new(&source(fault));
        let worker = file.worker(|_| {}).await;
        let mut stream = worker.open().await;
        for number in 0..EPISODES {
            stream.send(open(&number.to_string(), &file.name(), &format!("{{\"number\": {number}}}"))).await;
        }
        let mut failed = BTreeSet::new();
        let mut ended = 0;
        while ended < EPISODES {
            let event = stream.next().await.unwrap();
            let id = event.episode_id;
            match event.kind.unwrap() {
                Event::Opened(_) => stream.send(say(&id, 1, &format!("turn of {id}"))).await,
                Event::Observed(observed) => {
                    assert_eq!(observed.messages[0].content, format!("{id} heard turn of {id}"), "{name}");
                }
                Event::Scored(scored) => {
                    let number: f64 = id.parse().unwrap();
                    assert_eq!(scored.verdict.unwrap().reward, Some(number / 100.0), "{name}");
                    ended += 1;
                }
                Event::Failed(_) => {
                    failed.insert(id);
                    ended += 1;
                }
            }
        }
        // Its bytes are no frame, and the process with all its episodes is ended.
        let reaches_the_pipe = name == "a write to every descriptor";
        assert_eq!(!failed.is_empty(), reaches_the_pipe, "{name}: {failed:?}");
    }
}
