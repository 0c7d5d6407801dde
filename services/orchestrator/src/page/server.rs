//! The server of the page: bound before a run starts, so that a port that is taken is a refusal and not a surprise.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel_rpc::exposure::warn_of_plaintext;
use evenkeel_rpc::server::{Hosts, HttpTokenAuth, ServerError};
use evenkeel_run_report::encoded;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::listener::{PageLimits, serve};
use super::routes::router;
use super::shown::Runs;
use crate::live::LiveRun;
use crate::settings::PageSettings;

/// A terminal that has not polled for this long is no longer following.
const FOLLOWED: Duration = Duration::from_secs(2);
/// Time limit of waiting for terminals.
const LONGEST_FAREWELL: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Serves the page of runs until it is dropped.
#[derive(Debug)]
pub struct PageServer {
    address: SocketAddr,
    runs: Arc<Runs>,
    task: JoinHandle<()>,
}

impl PageServer {
    /// Binds an address and serves the runs of a folder to whom the settings admit: by token, if they name a file of
    /// some, and under their names. Must be called within a runtime.
    ///
    /// # Errors
    /// An address that is taken or none of this machine's, or a file that cannot be used, with the setting's name.
    pub async fn bind(address: &str, folder: &Path, settings: &PageSettings) -> Result<Self, ServerError> {
        let auth = HttpTokenAuth::of_file("page.token_file", settings.token_file.as_deref())?;
        let hosts = Hosts::new(address, &settings.hosts);
        let listen = |source: io::Error| ServerError::Listen {
            setting: "page.listen".to_owned(),
            address: address.to_owned(),
            source,
        };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        warn_of_plaintext("the page", address, "page.insecure is true");
        let runs = Arc::new(Runs::new(folder));
        let task = tokio::spawn(serve(listener, router(Arc::clone(&runs), hosts, auth), PageLimits::default()));
        Ok(Self { address, runs, task })
    }

    /// Shows a run of this process with its samples, services and log.
    pub fn attach(&self, run: LiveRun) {
        self.runs.attach(run);
    }

    /// Waits until the terminals that follow a run have seen its end: until none has asked for lines for two seconds,
    /// as `evenkeel watch` does every second until then. At once where none does, and never long.
    pub async fn wait_for_followers(&self) {
        let began = Instant::now();
        while self.runs.is_followed(FOLLOWED) && began.elapsed() < LONGEST_FAREWELL {
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where a run's page is.
    pub fn url_of(&self, run: &LiveRun) -> String {
        let name = run.directory().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        format!("{}run/{}", self.url(), encoded(&name))
    }

    /// Where the list of runs is.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}
