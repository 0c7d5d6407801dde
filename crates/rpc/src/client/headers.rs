//! Headers of every call: the token and the trace context.

use evenkeel_files::Secret;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use evenkeel_telemetry::{TRACEPARENT, TraceContext};

/// The interceptor that adds them.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    authorization: Option<MetadataValue<Ascii>>,
}

impl Headers {
    /// With an optional bearer token.
    pub(super) fn new(token: Option<&Secret>) -> Self {
        let authorization = token.map(|token| {
            let mut value: MetadataValue<Ascii> = format!("Bearer {}", token.expose())
                .parse()
                .expect("a token is visible ASCII, which was checked when it was read");
            value.set_sensitive(true);
            value
        });
        Self { authorization }
    }
}

impl Interceptor for Headers {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        if let Some(authorization) = &self.authorization {
            metadata.insert("authorization", authorization.clone());
        }
        if let Some(context) = TraceContext::current() {
            // The span that the caller records: the server's is its child.
            let value = context.to_string().parse().expect("a traceparent is hex digits and dashes");
            metadata.insert(TRACEPARENT, value);
        }
        Ok(request)
    }
}
