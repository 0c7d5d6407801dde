//! A reward worker in this process, and both ways of calling it.

use std::time::Duration;

use anyhow::{Result, ensure};
use evenkeel_reward::{RewardSettings, bind};
use evenkeel_rpc::client::{ClientChannel, ClientSettings, Connector, ServerAddress};
use evenkeel_rpc::dispatch::{DispatchOptions, Dispatcher, Endpoints};
use evenkeel_rpc::items::VerifyItems;
use evenkeel_rpc::server::RunningServer;

use super::certificates::Certificates;

pub(crate) struct Worker {
    pub(crate) channel: ClientChannel,
    pub(crate) dispatcher: Dispatcher<VerifyItems>,
    _server: RunningServer,
}

impl Worker {
    pub(crate) async fn start(certificates: Option<&Certificates>) -> Result<Self> {
        let mut settings = RewardSettings::default();
        settings.server.listen = "127.0.0.1:0".to_owned();
        settings.server.tls = certificates.map(Certificates::server);
        let server = bind(settings).await?.spawn();
        let client = ClientSettings { tls: certificates.map(Certificates::client), ..ClientSettings::default() };
        let connector = Connector::new("client", client)?;
        let url = server.endpoint().to_owned();
        let channel = connector.connect(&ServerAddress::new(&url)).await?;
        let dispatcher = Dispatcher::start(&DispatchOptions::default(), Endpoints::parse(&[url])?, connector);
        ensure!(dispatcher.ready(1, Duration::from_secs(10)).await, "the worker does not answer");
        Ok(Self { channel, dispatcher, _server: server })
    }
}
