//! Headers of every call: the token and the trace context.

use evenkeel_telemetry::{TRACEPARENT, TraceContext};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::reload::BearerTokens;

/// The interceptor that adds them.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    tokens: Option<BearerTokens>,
}

impl Headers {
    /// With the first token of a file, if there is one.
    pub(super) fn new(tokens: Option<BearerTokens>) -> Self {
        Self { tokens }
    }

    fn authorization(&self) -> Option<MetadataValue<Ascii>> {
        let token = self.tokens.as_ref()?.first()?;
        let mut value: MetadataValue<Ascii> = format!("Bearer {}", token.expose())
            .parse()
            .expect("a token is visible ASCII, which was checked when it was read");
        value.set_sensitive(true);
        Some(value)
    }
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        if let Some(authorization) = self.authorization() {
            metadata.insert("authorization", authorization);
        }
        if let Some(context) = TraceContext::current() {
            // The span that the caller records: the server's is its child.
            let value = context.to_string().parse().expect("a traceparent is hex digits and dashes");
            metadata.insert(TRACEPARENT, value);
        }
        Ok(request)
    }
}
