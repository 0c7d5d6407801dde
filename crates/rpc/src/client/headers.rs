//! Headers of every call: the token and the trace context.

use evenkeel_telemetry::{TRACEPARENT, TraceContext};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::private;
use crate::reload::BearerTokens;

/// The interceptor that adds them.
#[derive(Debug, Clone)]
pub struct Headers {
    tokens: Option<BearerTokens>,
    /// Where the calls go.
    url: String,
}

impl Headers {
    /// Headers of calls to a URL, with the first token of a file, if there is one.
    pub(super) fn new(tokens: Option<BearerTokens>, url: &str) -> Self {
        // One of this process never gets the token of the settings: somebody else may take its port later.
        let tokens = tokens.filter(|_| private::tokens_for(url).is_none());
        Self { tokens, url: url.to_owned() }
    }

    fn authorization(&self) -> Option<MetadataValue<Ascii>> {
        let token = private::tokens_for(&self.url).as_ref().or(self.tokens.as_ref())?.first()?;
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
