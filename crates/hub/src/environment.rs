//! The variables that transformers reads.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use evenkeel_errors::FieldError;
use evenkeel_errors::shown::without_credentials;
use evenkeel_host::read_optional;

use crate::error::HubError;

const ENDPOINT: &str = "https://huggingface.co";
/// Longest file with a token, in bytes.
const MAX_TOKEN_BYTES: u64 = 64 << 10;

/// Where the hub and its cache are.
#[derive(Clone)]
pub struct Environment {
    pub(crate) endpoint: String,
    pub(crate) cache: PathBuf,
    pub(crate) token: Option<String>,
    pub(crate) is_offline: bool,
}

impl Environment {
    /// Reads `HF_ENDPOINT`, `HF_HUB_CACHE`, `HF_HOME`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_DISABLE_IMPLICIT_TOKEN`,
    /// `HF_HUB_OFFLINE` and `TRANSFORMERS_OFFLINE`.
    ///
    /// # Errors
    /// An endpoint that is no URL, a token that no header can carry, no place for the cache.
    pub fn read() -> Result<Self, HubError> {
        Self::of(|name| std::env::var_os(name))
    }

    /// Reads the variables through `variable`, which stands in for the process's own. An empty one counts as absent.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, HubError> {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let text = |name: &str| variable(name).map(|value| value.to_string_lossy().into_owned());
        let is_on = |name: &str| {
            text(name).is_some_and(|value| matches!(value.to_uppercase().as_str(), "1" | "ON" | "YES" | "TRUE"))
        };
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let endpoint = endpoint.trim_end_matches('/');
        if !endpoint.starts_with("https://") && !endpoint.starts_with("http://") {
            // Without a scheme nothing says where a password in it would end.
            let shown = if endpoint.contains('@') { "not shown" } else { endpoint };
            return Err(FieldError::quoted("HF_ENDPOINT", shown, "a URL of http or https").into());
        }
        let home = variable("HOME").map(PathBuf::from);
        let path = |name: &str| variable(name).map(|value| expanded(Path::new(&value), home.as_deref()));
        let shared = path("XDG_CACHE_HOME").or_else(|| home.as_ref().map(|home| home.join(".cache")));
        let own = path("HF_HOME").or_else(|| shared.map(|shared| shared.join("huggingface")));
        let cache = path("HF_HUB_CACHE").or_else(|| own.as_ref().map(|own| own.join("hub")));
        let cache =
            cache.ok_or_else(|| FieldError::missing("HF_HOME", "a folder for models, where there is no HOME"))?;
        let token_file = path("HF_TOKEN_PATH").or_else(|| own.map(|own| own.join("token")));
        let token = match (text("HF_TOKEN"), token_file) {
            (Some(token), _) => Some(token),
            (None, Some(file)) if !is_on("HF_HUB_DISABLE_IMPLICIT_TOKEN") => stored(&file)?,
            (None, _) => None,
        };
        let token = token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty());
        if token.as_ref().is_some_and(|token| !token.bytes().all(|byte| byte.is_ascii_graphic())) {
            return Err(FieldError::new("HF_TOKEN", "not shown", "letters, digits and punctuation of ASCII").into());
        }
        let is_offline = is_on("HF_HUB_OFFLINE") || is_on("TRANSFORMERS_OFFLINE");
        Ok(Self { endpoint: endpoint.to_owned(), cache, token, is_offline })
    }

    /// Whether the hub is asked over https, which its redirects then may not leave.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.endpoint.starts_with("https://")
    }

    /// What a user should know of an endpoint in plaintext; `None` over https and on this machine.
    pub(crate) fn plaintext_warning(&self) -> Option<String> {
        let authority = self.endpoint.strip_prefix("http://")?.split('/').next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = name.map_or(host, |(name, _)| name);
        let address = name.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        if name == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
            return None;
        }
        let token = if self.token.is_some() { ", and so is the token (HF_TOKEN)" } else { "" };
        Some(format!(
            "HF_ENDPOINT is {}: models are downloaded in plaintext{token}, and others on the network may replace them; \
             use https",
            without_credentials(&self.endpoint)
        ))
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint, cache, is_offline, .. } = self;
        f.debug_struct("Environment")
            .field("endpoint", &without_credentials(endpoint))
            .field("cache", cache)
            .field("is_offline", is_offline)
            .finish_non_exhaustive()
    }
}

/// Where a path begins with `~`, the user's folder.
fn expanded(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

fn stored(file: &Path) -> Result<Option<String>, HubError> {
    match read_optional(file, MAX_TOKEN_BYTES) {
        Ok(bytes) => Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) => {
            Err(FieldError::new("HF_TOKEN_PATH", file.display(), format!("a file with a token: {error}")).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Environment, String> {
        let variable =
            |name: &str| variables.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).into());
        Environment::of(variable).map_err(|error| error.to_string())
    }

    #[test]
    fn the_cache_is_where_the_most_particular_variable_says() {
        let cache = |variables: &[(&str, &str)]| read(variables).unwrap().cache;
        let home = ("HOME", "/home/me");
        assert_eq!(cache(&[home]), Path::new("/home/me/.cache/huggingface/hub"));
        assert_eq!(cache(&[home, ("XDG_CACHE_HOME", "/c")]), Path::new("/c/huggingface/hub"));
        assert_eq!(cache(&[home, ("HF_HOME", "~/hf"), ("XDG_CACHE_HOME", "/c")]), Path::new("/home/me/hf/hub"));
        assert_eq!(cache(&[home, ("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/hub")]), Path::new("/hub"));
        assert!(read(&[]).unwrap_err().contains("HF_HOME"));
    }

    #[test]
    fn a_token_is_given_or_stored_and_never_shown() {
        let home = tempfile::tempdir().unwrap();
        let hf = ("HF_HOME", home.path().to_str().unwrap());
        let token = |variables: &[(&str, &str)]| read(variables).unwrap().token;
        assert_eq!(token(&[hf]), None);
        std::fs::write(home.path().join("token"), "hf_stored\n").unwrap();
        assert_eq!(token(&[hf]).as_deref(), Some("hf_stored"));
        assert_eq!(token(&[hf, ("HF_TOKEN", "hf_given")]).as_deref(), Some("hf_given"));
        assert_eq!(token(&[hf, ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]), None);
        let error = read(&[hf, ("HF_TOKEN", "se cret")]).unwrap_err();
        assert!(error.contains("HF_TOKEN") && !error.contains("cret"), "{error}");
    }

    #[test]
    fn an_endpoint_in_plaintext_is_warned_of_beyond_this_machine() {
        let warning = |endpoint, more: &[(&str, &str)]| {
            read(&[&[("HF_HOME", "/hf"), ("HF_ENDPOINT", endpoint)], more].concat()).unwrap().plaintext_warning()
        };
        for endpoint in
            ["https://mirror", "http://localhost:1/hf", "http://127.0.0.1:8", "http://[::1]:8", "http://[::1]"]
        {
            assert_eq!(warning(endpoint, &[]), None, "{endpoint}");
        }
        let said = warning("http://mirror:80/hf", &[]).unwrap();
        assert!(said.contains("HF_ENDPOINT is http://mirror:80/hf") && !said.contains("HF_TOKEN"), "{said}");
        assert_eq!(warning("http://user:s3cret@127.0.0.1:8", &[]), None);
        let said = warning("http://user:s3cret@mirror/hf", &[]).unwrap();
        assert!(said.contains("HF_ENDPOINT is http://***@mirror/hf"), "{said}");
        let said = warning("http://127.0.0.1.evil.example", &[("HF_TOKEN", "hf_given")]).unwrap();
        assert!(said.contains("so is the token (HF_TOKEN)") && !said.contains("hf_given"), "{said}");
    }

    #[test]
    fn an_endpoint_is_a_url_and_offline_is_a_switch() {
        let hf = ("HF_HOME", "/hf");
        assert_eq!(read(&[hf]).unwrap().endpoint, "https://huggingface.co");
        assert_eq!(read(&[hf, ("HF_ENDPOINT", "http://mirror/hf/")]).unwrap().endpoint, "http://mirror/hf");
        for unusable in ["user:s3cret@mirror", "user:s3cret@mirror/http://x"] {
            assert!(!read(&[hf, ("HF_ENDPOINT", unusable)]).unwrap_err().contains("s3cret"), "{unusable}");
        }
        assert!(read(&[hf, ("HF_ENDPOINT", "mirror")]).unwrap_err().contains("HF_ENDPOINT is \"mirror\""));
        for (value, is_offline) in [("1", true), ("true", true), ("0", false), ("", false)] {
            assert_eq!(read(&[hf, ("HF_HUB_OFFLINE", value)]).unwrap().is_offline, is_offline);
            assert_eq!(read(&[hf, ("TRANSFORMERS_OFFLINE", value)]).unwrap().is_offline, is_offline);
        }
    }
}
