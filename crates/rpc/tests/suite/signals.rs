//! Signals, sent to a process of its own: this test program, running a server instead of a test.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::support::{Setup, bounded, client, item};
use evenkeel_proto::v1::{RewardGetStatusRequest, VerifyOneRequest};
use evenkeel_rpc::server::{ServerSettings, shutdown_signal};

/// Names the file that the child writes its endpoint to.
const ENDPOINT_FILE: &str = "EVENKEEL_TEST_ENDPOINT_FILE";

#[tokio::test]
#[ignore = "the child of the tests below"]
async fn child() {
    let file = std::env::var_os(ENDPOINT_FILE).expect("the tests below start this one and name the file");
    let server = ServerSettings { drain: Duration::from_secs(60), ..ServerSettings::default() };
    let (server, _reward) = Setup { server, ..Setup::default() }.bind("child").await;
    let ready = Path::new(&file).with_extension("part");
    std::fs::write(&ready, server.endpoint()).unwrap();
    std::fs::rename(&ready, &file).unwrap();
    server.run(shutdown_signal()).await.unwrap();
}

struct Process {
    child: Child,
    endpoint: String,
    _folder: tempfile::TempDir,
}

impl Process {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("endpoint");
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "signals::child"])
            .env(ENDPOINT_FILE, &file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !file.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self { child, endpoint: std::fs::read_to_string(&file).unwrap(), _folder: folder }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits until it works on an item.
    async fn busy(&self) {
        let mut client = client(&self.endpoint).await;
        loop {
            let status = client.get_status(RewardGetStatusRequest {}).await.unwrap().into_inner();
            if status.queue.unwrap().running_items == 1 {
                return;
            }
        }
    }

    async fn ended(&mut self) -> ExitStatus {
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn the_first_signal_drains() {
    bounded(async {
        for name in ["TERM", "INT"] {
            let mut process = Process::start().await;
            let mut client = client(&process.endpoint).await;
            let call = tokio::spawn(async move {
                client.verify_one(VerifyOneRequest { item: Some(item("a", "sleep 500")) }).await
            });
            process.busy().await;
            process.signal(name);
            assert!(call.await.unwrap().unwrap().into_inner().verdict.unwrap().is_valid());
            assert_eq!(process.ended().await.code(), Some(0));
        }
    })
    .await;
}

#[tokio::test]
async fn while_it_drains_a_repeated_sigterm_changes_nothing_and_ctrl_c_exits_at_once() {
    bounded(async {
        let mut process = Process::start().await;
        let mut client = client(&process.endpoint).await;
        let call =
            tokio::spawn(async move { client.verify_one(VerifyOneRequest { item: Some(item("a", "hang")) }).await });
        process.busy().await;
        for _ in 0..3 {
            process.signal("TERM");
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert!(process.child.try_wait().unwrap().is_none(), "it drains");
        }
        process.signal("INT");
        assert_eq!(process.ended().await.code(), Some(130));
        assert!(call.await.unwrap().is_err());
    })
    .await;
}
