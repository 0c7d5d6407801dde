//! Weights that engines cannot read where the learner writes them: an agent on each of two nodes, which here are two
//! folders and two addresses of loopback, fetches them. Engines may read the folder of their node and no other.

use std::net::TcpListener;
use std::path::{Path, PathBuf};

use crate::support::{
    Process, count_lines, evenkeel, free_ports, lines, refused, small, succeed, summary, train, wait_for, written_model,
};

/// The hosts of the two nodes.
const NODES: [&str; 2] = ["127.0.0.1", "127.0.0.2"];

/// A port that is free on both.
fn shared_port() -> u16 {
    loop {
        let [port] = free_ports();
        if TcpListener::bind((NODES[1], port)).is_ok() {
            return port;
        }
    }
}

struct Cluster<'a> {
    folder: &'a Path,
    model: PathBuf,
    learner: u16,
    agents: u16,
    engines: [u16; 2],
}

impl Cluster<'_> {
    fn serve(&self, service: &str, name: &str, settings: &[String]) -> Process {
        let recipe = small();
        let mut arguments = vec!["serve", service, "--recipe", recipe.to_str().unwrap()];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
        Process::start_logging(evenkeel(&arguments), &self.folder.join(format!("{name}.log")))
    }

    fn node(&self, node: usize) -> PathBuf {
        self.folder.join(format!("node-{node}/weights"))
    }

    fn agent(&self, node: usize) -> Process {
        let settings = [
            format!("server.listen={}:{}", NODES[node], self.agents),
            "server.insecure=true".to_owned(),
            format!("learner=http://127.0.0.1:{}", self.learner),
            format!("folder={}", self.node(node).display()),
        ];
        let mut arguments = vec!["serve", "weights"];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
        Process::start_logging(evenkeel(&arguments), &self.folder.join(format!("agent-{node}.log")))
    }

    fn engine(&self, node: usize) -> Process {
        let settings = [
            format!("listen={}:{}", NODES[node], self.engines[node]),
            format!("model={}", self.model.display()),
            format!("weights_roots=[\"{}\"]", self.node(node).display()),
        ];
        self.serve("engine", &format!("engine-{node}"), &settings)
    }
}

#[test]
fn a_run_without_a_folder_that_all_see_agrees_to_the_bit_also_when_an_agent_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("alone");
    succeed(train(&alone));
    let [generation, reward, learner, orchestrator, first, second] = free_ports();
    let folder = dir.path();
    let cluster =
        Cluster { folder, model: written_model(folder), learner, agents: shared_port(), engines: [first, second] };
    let listen = |port: u16| format!("server.listen=127.0.0.1:{port}");
    let place = |name: &str| format!("{name}={}", folder.join(name).display());
    let engines = [0, 1].map(|node| format!("\"http://{}:{}\"", NODES[node], cluster.engines[node])).join(",");
    let _services = [
        cluster.serve(
            "orchestrator",
            "orchestrator",
            &[
                listen(orchestrator),
                place("runs"),
                format!("start.set=[\"model.path={}\"]", cluster.model.display()),
                format!("endpoints.generation=http://127.0.0.1:{generation}"),
                format!("endpoints.reward=[\"http://127.0.0.1:{reward}\"]"),
                format!("endpoints.learner=http://127.0.0.1:{learner}"),
            ],
        ),
        cluster.serve("learner", "learner", &[listen(learner), place("model"), place("checkpoints"), place("weights")]),
        cluster.serve("reward", "reward", &[listen(reward)]),
        cluster.engine(0),
        cluster.engine(1),
        cluster.agent(0),
        cluster.serve(
            "generation",
            "generation",
            &[
                listen(generation),
                format!("endpoints=[{engines}]"),
                "weights.source=pull".to_owned(),
                format!("weights.agents.port={}", cluster.agents),
                format!("weights.agents.here=http://127.0.0.1:{}", cluster.agents),
            ],
        ),
    ];
    let run = folder.join("runs/small");
    let log = || std::fs::read_to_string(folder.join("generation.log")).unwrap();
    let agent = cluster.agent(1);
    wait_for("a step", || count_lines(&run.join("metrics.jsonl")) > 0);
    assert!(cluster.node(1).read_dir().unwrap().count() > 0, "the second node has a copy");
    agent.kill();
    wait_for("another step", || count_lines(&run.join("metrics.jsonl")) > 2);
    assert!(log().contains("weights not fetched for an engine"), "{}", log());
    let _agent = cluster.agent(1);
    wait_for("the run's end", || summary(&run).is_some_and(|summary| summary["state"] == "completed"));
    assert_eq!(lines(&run), lines(&alone));
    // What each engine read last is the copy of its node, and the newest one is there on both.
    for node in [0, 1] {
        let log = std::fs::read_to_string(folder.join(format!("agent-{node}.log"))).unwrap();
        assert!(log.contains("weights fetched"), "{log}");
    }
}

#[test]
fn weights_are_not_pulled_from_a_learner_that_only_this_machine_reaches() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = train(&dir.path().join("run"));
    command.args(["--set", "generation.weights.source=pull"]);
    let message = refused(command);
    assert!(message.contains("generation.weights.source is pull, allowed: folder with `evenkeel train`"), "{message}");
}
