//! Five processes: the same run as one.

use std::net::TcpListener;

use crate::support::{Process, evenkeel, lines, small, succeed, summary, train, wait_for, written_model};

/// Ports that nobody has.
pub(crate) fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").expect("a free port"));
    listeners.map(|listener| listener.local_addr().expect("its address").port())
}

#[test]
fn a_run_with_each_service_in_its_own_process_agrees_to_the_bit() {
    let dir = tempfile::tempdir().unwrap();
    let alone = dir.path().join("alone");
    succeed(train(&alone));

    let model = written_model(dir.path());
    let recipe = small();
    let recipe = recipe.to_str().unwrap();
    let [engine, generation, reward, learner, orchestrator] = free_ports();
    let place = |name: &str| format!("{name}={}", dir.path().join(name).display());
    let start = |service: &str, settings: &[String]| {
        let mut arguments = vec!["serve", service, "--recipe", recipe];
        arguments.extend(settings.iter().flat_map(|setting| ["--set", setting.as_str()]));
        Process::start(evenkeel(&arguments))
    };
    let listen = |port: u16| format!("server.listen=127.0.0.1:{port}");
    // The orchestrator first: it waits for the others.
    let _services = [
        start(
            "orchestrator",
            &[
                listen(orchestrator),
                place("runs"),
                format!("start.set=[\"model.path={}\"]", model.display()),
                format!("endpoints.generation=http://127.0.0.1:{generation}"),
                format!("endpoints.reward=[\"http://127.0.0.1:{reward}\"]"),
                format!("endpoints.learner=http://127.0.0.1:{learner}"),
            ],
        ),
        start("learner", &[listen(learner), place("model"), place("checkpoints"), place("weights")]),
        start("reward", &[listen(reward)]),
        start("generation", &[listen(generation), format!("endpoints=[\"http://127.0.0.1:{engine}\"]")]),
        start("engine", &[format!("listen=127.0.0.1:{engine}"), place("model")]),
    ];
    let run = dir.path().join("runs/small");
    wait_for("the run's end", || summary(&run).is_some_and(|summary| summary["state"] == "completed"));
    assert_eq!(lines(&run), lines(&alone));
}
