//! The scripted engine as a process of its own, to be killed and stopped as processes are.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::FakeEngine;
use super::engine::Reply;

const LISTEN: &str = "EVENKEEL_TEST_ENGINE_LISTEN";
const TICK_US: &str = "EVENKEEL_TEST_ENGINE_TICK_US";

/// An engine in another process. It ends with this value.
pub(crate) struct EngineProcess {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl EngineProcess {
    /// One that takes so long for each token, on any free port.
    pub(crate) fn start(tick: Duration) -> Self {
        Self::on("127.0.0.1:0", tick)
    }

    pub(crate) fn on(listen: &str, tick: Duration) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["support::process::serves_as_an_engine", "--exact", "--ignored", "--nocapture"])
            .env(LISTEN, listen)
            .env(TICK_US, tick.as_micros().to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.filter_map(|line| line.split_once("listens on ")?.1.trim().parse().ok()).next();
        Self { child, address: address.expect("it prints its address") }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn name(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGSTOP, SIGCONT and others by name.
    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What [`EngineProcess`] runs: this test binary again, with this test alone.
#[test]
#[ignore = "runs as the process of an engine"]
fn serves_as_an_engine() {
    let listen = std::env::var(LISTEN).expect("other tests start this one and name its address");
    let tick = Duration::from_micros(std::env::var(TICK_US).unwrap().parse().unwrap());
    let engine = FakeEngine::start_on(listen.parse().unwrap());
    engine.script(move |_| Reply::Tick(tick));
    println!("listens on {}", engine.address);
    // Its starter ends it.
    loop {
        std::thread::park();
    }
}
