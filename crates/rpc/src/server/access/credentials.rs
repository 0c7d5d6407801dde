//! The role of a caller, from its token or certificate.

use std::collections::BTreeMap;
use std::path::Path;

use crate::error::ServiceError;
use crate::files::FileError;
use crate::reload::BearerTokens;
use crate::server::role::Role;
use crate::server::settings::AuthSettings;

/// The role of callers with a token of `token_file`, and of this process.
const TOKEN_FILE_ROLE: Role = Role::Orchestrator;

/// The credentials that a server knows.
#[derive(Debug)]
pub(super) struct Credentials {
    tokens: Vec<(Role, BearerTokens)>,
    certificates: BTreeMap<String, Role>,
}

impl Credentials {
    /// Reads the files of the settings. `None` when authentication is disabled.
    pub(super) fn open(
        section: &str,
        token_file: Option<&Path>,
        settings: &AuthSettings,
    ) -> Result<Option<Self>, FileError> {
        let mut tokens = Vec::new();
        for (role, path) in &settings.tokens {
            tokens.push((*role, BearerTokens::open(&format!("{section}.auth.tokens.{role}"), path)?));
        }
        if let Some(path) = token_file {
            tokens.push((TOKEN_FILE_ROLE, BearerTokens::open(&format!("{section}.token_file"), path)?));
        }
        let certificates = settings.certificates.clone();
        let any = !tokens.is_empty() || !certificates.is_empty();
        Ok(any.then_some(Self { tokens, certificates }))
    }

    /// Credentials of this process alone.
    pub(super) fn private(tokens: BearerTokens) -> Self {
        Self { tokens: vec![(TOKEN_FILE_ROLE, tokens)], certificates: BTreeMap::new() }
    }

    /// The tokens of readers and higher roles.
    pub(super) fn readers(&self) -> Vec<BearerTokens> {
        let reading = self.tokens.iter().filter(|(role, _)| *role >= Role::Reader);
        reading.map(|(_, tokens)| tokens.clone()).collect()
    }

    /// The role of a caller with this `authorization` header and a certificate of these names.
    pub(super) fn role(&self, authorization: Option<&[u8]>, names: &[String]) -> Result<Role, ServiceError> {
        let refuse = |message: &'static str| Err(ServiceError::Unauthenticated { message });
        let by_name = names.iter().filter_map(|name| self.certificates.get(name)).max().copied();
        let by_token = match authorization {
            Some(authorization) if !self.tokens.is_empty() => {
                let accepted = self.tokens.iter().filter(|(_, tokens)| tokens.accept_bearer(authorization));
                match accepted.map(|(role, _)| *role).max() {
                    Some(role) => Some(role),
                    None => {
                        return refuse("the bearer token in the header `authorization` is not one of this server's");
                    }
                }
            }
            _ => None,
        };
        match by_token.max(by_name) {
            Some(role) => Ok(role),
            None if names.is_empty() || self.certificates.is_empty() => {
                refuse("a bearer token is required, in the header `authorization`")
            }
            None => refuse("no name of the client's certificate has a role (setting `auth.certificates`)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(token_file: bool, names: &[(&str, Role)]) -> (tempfile::TempDir, Credentials) {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, format!("{name}-token-of-a-test\n")).unwrap();
            path
        };
        let settings = AuthSettings {
            tokens: BTreeMap::from([(Role::Reader, file("reader")), (Role::Admin, file("admin"))]),
            certificates: names.iter().map(|(name, role)| ((*name).to_owned(), *role)).collect(),
        };
        let single = token_file.then(|| file("single"));
        let opened = Credentials::open("server", single.as_deref(), &settings).unwrap().unwrap();
        (folder, opened)
    }

    #[test]
    fn a_token_has_the_role_of_its_file() {
        let (_folder, credentials) = credentials(true, &[]);
        let role = |token: &str| credentials.role(Some(format!("Bearer {token}-token-of-a-test").as_bytes()), &[]);
        assert_eq!(role("reader"), Ok(Role::Reader));
        assert_eq!(role("admin"), Ok(Role::Admin));
        assert_eq!(role("single"), Ok(Role::Orchestrator), "as before there were roles");
        let error = role("forged").unwrap_err();
        assert!(!error.to_string().contains("forged"), "{error}");
        assert!(credentials.role(None, &[]).is_err());
    }

    #[test]
    fn a_certificate_has_the_highest_role_of_its_names() {
        let (_folder, credentials) = credentials(false, &[("reward", Role::Service), ("main", Role::Orchestrator)]);
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(credentials.role(None, &names(&["reward"])), Ok(Role::Service));
        assert_eq!(credentials.role(None, &names(&["x", "main", "reward"])), Ok(Role::Orchestrator));
        let error = credentials.role(None, &names(&["x"])).unwrap_err().to_string();
        assert!(error.contains("auth.certificates"), "{error}");
        let both = credentials.role(Some(b"Bearer admin-token-of-a-test"), &names(&["reward"]));
        assert_eq!(both, Ok(Role::Admin));
        assert!(credentials.role(Some(b"Bearer wrong"), &names(&["main"])).is_err(), "a wrong token is refused");
    }

    #[test]
    fn without_settings_authentication_is_disabled() {
        assert!(Credentials::open("server", None, &AuthSettings::default()).unwrap().is_none());
    }
}
