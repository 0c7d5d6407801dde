//! The client side of `grpc.health.v1`.

use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::{ClientError, Connector, ServerAddress, chain};
use crate::BoxFuture;

/// The health of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Health {
    /// The service answers calls.
    Serving,
    /// The server answers and does not serve, for example because it drains.
    NotServing,
    /// The server has no service of that name.
    UnknownService,
    Failed(String),
}

impl Connector {
    /// The health of a service, or of the whole server under the empty name. The call ends after the connector's
    /// `connect_timeout`.
    ///
    /// # Errors
    /// No connection.
    pub fn health<'a>(
        &'a self,
        address: &'a ServerAddress,
        service: &'a str,
    ) -> BoxFuture<'a, Result<Health, ClientError>> {
        Box::pin(async move {
            let mut client = HealthClient::new(self.connect(address).await?);
            let mut request = tonic::Request::new(HealthCheckRequest { service: service.to_owned() });
            request.set_timeout(self.connect_timeout());
            Ok(match client.check(request).await {
                Ok(answer) if answer.get_ref().status() == ServingStatus::Serving => Health::Serving,
                Ok(_) => Health::NotServing,
                Err(status) if status.code() == Code::NotFound => Health::UnknownService,
                Err(status) => Health::Failed(chain(&status)),
            })
        })
    }
}
