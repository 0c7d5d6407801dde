//! Settings `server.auth`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use evenkeel_proto::FieldError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::server::role::Role;

/// Who may do what, by the tokens and certificates that callers authenticate with. Empty: anyone who reaches the port
/// and passes `token_file` and `tls` may do everything.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AuthSettings {
    /// A file with tokens for a role: `service`, `reader`, `agent`, `admin`, `rank` or `orchestrator`. Every line of it
    /// is a token.
    pub tokens: BTreeMap<Role, PathBuf>,
    /// The role of a certificate by a DNS name that it was issued for (its subject alternative names). Needs
    /// `tls.client_ca_file`.
    pub certificates: BTreeMap<String, Role>,
}

impl AuthSettings {
    /// Refuses roles that no caller could ever have. `has_client_ca`: whether clients are asked for certificates.
    pub(super) fn validate(&self, has_client_ca: bool) -> Result<(), FieldError> {
        if let Some((role, _)) = self.tokens.iter().find(|(_, file)| file.as_os_str().is_empty()) {
            return Err(FieldError::new(format!("auth.tokens.{role}"), "empty", "a file with tokens"));
        }
        if self.certificates.contains_key("") {
            return Err(FieldError::new("auth.certificates", "an empty name", "DNS names of certificates"));
        }
        let allowed = "no names without tls.client_ca_file: client certificates are not requested";
        FieldError::ensure(
            self.certificates.is_empty() || has_client_ca,
            "auth.certificates",
            format_args!("{} names", self.certificates.len()),
            allowed,
        )
    }
}
