//! Channels and dispatchers by the settings `services`.

use std::time::Duration;

use evenkeel_proto::FieldError;
use evenkeel_rpc::client::{ClientChannel, Connector, ServerAddress};
use evenkeel_rpc::dispatch::{DeadlineStart, DispatchOptions, Dispatcher, Endpoints as Workers};
use evenkeel_rpc::items::DispatchItems;

use crate::error::RunError;
use crate::settings::ServicesSettings;

pub(super) struct Connections {
    connector: Connector,
    settings: ServicesSettings,
}

impl Connections {
    pub(super) fn new(settings: &ServicesSettings) -> Result<Self, RunError> {
        let connector = Connector::new("services.client", settings.client.clone())
            .map_err(|error| refused("services.client", "set", &error))?;
        Ok(Self { connector, settings: settings.clone() })
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn settings(&self) -> &ServicesSettings {
        &self.settings
    }

    pub(super) fn max_message(&self) -> usize {
        self.connector.max_message()
    }

    /// A channel for single calls; it connects with the first one.
    pub(super) fn channel(&self, field: &str, url: &str) -> Result<ClientChannel, RunError> {
        self.connector.connect_lazy(&ServerAddress::new(url)).map_err(|error| refused(field, url, &error))
    }

    /// A dispatcher of items over workers, each with at most `max_outstanding` of them.
    pub(super) fn dispatcher<P: DispatchItems>(
        &self,
        field: &str,
        urls: &[String],
        max_outstanding: usize,
        item_deadline: Duration,
    ) -> Result<Dispatcher<P>, RunError> {
        let workers = Workers::with_sockets(urls).map_err(|error| RunError::Setting(error.within(field)))?;
        let options = DispatchOptions {
            max_outstanding,
            max_pending: self.settings.max_rollouts.max(max_outstanding),
            item_deadline,
            deadline_start: DeadlineStart::Assigned,
            backoff_initial: self.settings.backoff_initial,
            backoff_max: self.settings.backoff_max,
            ..DispatchOptions::default()
        };
        Ok(Dispatcher::start(&options, workers, self.connector.clone()))
    }
}

fn refused(field: &str, value: &str, error: &dyn std::fmt::Display) -> RunError {
    RunError::Setting(FieldError::new(field, format_args!("{value:?}"), error.to_string()))
}
