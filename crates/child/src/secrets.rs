//! Variables of the environment that are secrets, or lead to something that acts for the user.
//!
//! Programs of a user need most of an environment (paths, CUDA, NCCL, caches, settings of their own), so that no list of
//! what they may have can be complete. What they may not have is known by words of its name, by forms of its value, and
//! by being a socket. A secret without any of these marks is passed on: docs/security.md says so.

use std::ffi::OsStr;
use std::os::unix::fs::FileTypeExt;

/// What is in the name of a secret, also within a word.
const PARTS: &[&str] = &[
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "PASSCOMMAND",
    "CREDENTIAL",
    "APIKEY",
    "ACCESSKEY",
    "PRIVATEKEY",
    "ASKPASS",
    "WEBHOOK",
    "CONNECTION_STRING",
    "CONNECTIONSTRING",
];
/// Words of such a name, as underscores separate them. Headers are what carries a key to a collector or a model.
const WORDS: &[&str] = &[
    "KEY",
    "KEYS",
    "KEYFILE",
    "KEYRING",
    "PAT",
    "SOCK",
    "PASS",
    "DSN",
    "JWT",
    "SAS",
    "AUTH",
    "AUTHORIZATION",
    "HEADER",
    "HEADERS",
    "COOKIE",
    "COOKIES",
    "CREDS",
    "NETRC",
];
/// The last word of such a name, where more words are before it: the shell's own `PWD` is one word, and
/// `NCCL_SOCKET_IFNAME` is about networks.
const LAST_WORDS: &[&str] = &["PWD", "SOCKET"];
/// Names of files with secrets, of terminals and daemons that act for the user, and of tools' own variables with keys.
const NAMES: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AZURE_CONFIG_DIR",
    "BOTO_CONFIG",
    "BUILDKIT_HOST",
    "CLOUDSDK_CONFIG",
    "CONTAINER_HOST",
    "DATABASE_URL",
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_STARTER_ADDRESS",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "ETCDCTL_USER",
    "EVENKEEL_TRACES",
    "GNUPGHOME",
    "GPG_AGENT_INFO",
    "KRB5CCNAME",
    "KRB5_KTNAME",
    "KUBECONFIG",
    "MONGODB_URI",
    "MONGO_URL",
    "PGPASSFILE",
    "PGSERVICEFILE",
    "PIP_CONFIG_FILE",
    "PIP_INDEX_URL",
    "RCLONE_CONFIG",
    "REDIS_URL",
    "SSHPASS",
    "TMUX",
    "XAUTHORITY",
];
/// How names begin of which every one may hold a key: `GIT_CONFIG_VALUE_0` a header, `GIT_SSH_COMMAND` its file, those
/// of VS Code the ways into an editor.
const BEGINNINGS: &[&str] = &["GIT_CONFIG_", "GIT_SSH", "VSCODE_GIT_", "VSCODE_IPC_"];
/// What is about the tokens of models, and is taken out of a name first.
const HARMLESS: &[&str] = &[
    "TOKENIZER",
    "TIKTOKEN",
    "MAX_TOKENS",
    "MAX_NEW_TOKENS",
    "MAX_OUTPUT_TOKENS",
    "MAX_COMPLETION_TOKENS",
    "MAX_INPUT_TOKENS",
];
/// How keys begin whose issuers mark them, where a value or a word of it does: Hugging Face, OpenAI and Anthropic,
/// GitHub, GitLab, AWS, Google, Slack, npm, PyPI, Docker, Stripe, JSON web tokens.
const KEYS: &[&str] = &[
    "hf_",
    "sk-",
    "ghp_",
    "gho_",
    "ghs_",
    "ghu_",
    "github_pat_",
    "glpat-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "npm_",
    "pypi-",
    "dckr_pat_",
    "sk_live_",
    "rk_live_",
    "eyJ",
    "nvapi-",
];
/// Shortest of them, in bytes: `sk-learn` is none.
const LEAST_KEY: usize = 20;
/// What is in values with a secret under any name: keys in PEM, parameters of URLs and of connection strings, headers.
const MARKS: &[&str] = &[
    "-----begin",
    "password=",
    ";pwd=",
    "?pwd=",
    "accountkey=",
    "sharedaccesskey=",
    "access_token=",
    "api_key=",
    "apikey=",
    "?token=",
    "&token=",
    "?sig=",
    "&sig=",
    "x-amz-signature=",
    "authorization:",
    "authorization=",
];

/// Whether a variable is a secret, or leads to something that acts for the user.
pub(crate) fn is_secret(name: &OsStr, value: &OsStr) -> bool {
    has_secret_name(name) || has_secret_value(value) || is_socket(value)
}

/// Whether the name of a variable alone marks a secret: children do not get it, whatever its value is.
pub fn has_secret_name(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    let name = HARMLESS.iter().fold(name, |name, word| name.replace(word, ""));
    let words: Vec<&str> = name.split(['_', '-', '.']).filter(|word| !word.is_empty()).collect();
    let is_last = |last: &str| words.len() > 1 && words.last() == Some(&last);
    PARTS.iter().any(|part| name.contains(part))
        || words.iter().any(|word| WORDS.contains(word))
        || LAST_WORDS.iter().any(|last| is_last(last))
        || NAMES.contains(&name.as_str())
        || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
}

fn has_secret_value(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    let lower = value.to_ascii_lowercase();
    let is_key = |word: &str| word.len() >= LEAST_KEY && KEYS.iter().any(|key| word.starts_with(key));
    let ends = |character: char| character.is_whitespace() || matches!(character, ',' | ';' | '=' | '"' | '\'');
    has_credentials(&value) || value.split(ends).any(is_key) || MARKS.iter().any(|mark| lower.contains(mark))
}

/// Whether a value has a URL with something before an `@` in its authority.
fn has_credentials(value: &str) -> bool {
    value.split("://").skip(1).any(|rest| {
        let authority = rest.split(|end: char| matches!(end, '/' | '?' | '#') || end.is_whitespace()).next();
        authority.is_some_and(|authority| authority.contains('@'))
    })
}

/// Whether a value is the path of a socket of this machine, also with a scheme, or with more behind it as terminals have.
fn is_socket(value: &OsStr) -> bool {
    let value = value.to_string_lossy();
    let path = value.split(',').next().filter(|path| path.starts_with('/'));
    let is_file = |path: &str| std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    value.starts_with("unix:") || path.is_some_and(is_file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn secrets_are_known_by_their_values_under_any_name() {
        for value in [
            "http://user:word@proxy:3128",
            "https://key@index.example/simple",
            "https://a.example https://user:word@b.example/simple",
            "redis://:word@cache/0",
            "Server=db;User=a;Password=word",
            "postgresql:///db?password=word",
            "https://account.blob.example/c?sv=1&sig=abc",
            "Authorization: Basic abc",
            "authorization=Bearer abc",
            "-----BEGIN OPENSSH PRIVATE KEY-----",
            "hf_abcdefghijklmnopqrst",
            "github_pat_abcdefghijklmnop",
            "x-honeycomb-team=sk-abcdefghijklmnopqrst",
            "eyJhbGciOiJIUzI1NiJ9.e30.abc",
            "unix:///run/somewhere.sock",
        ] {
            assert!(is_secret("PLAIN".as_ref(), value.as_ref()), "{value}");
        }
        for value in [
            "http://proxy:3128",
            "https://a.example/@scope/b",
            "user@host",
            "https://a.example/?q=a@b",
            "hf_transfer",
            "sk-learn",
            "/usr/lib:/lib",
            "GPU-8f6cd7a2-5f0e-4a9c-9d0f-0123456789ab",
            "0123456789abcdef0123456789abcdef01234567",
            "max_split_size_mb:128",
            "",
        ] {
            assert!(!is_secret("PLAIN".as_ref(), value.as_ref()), "{value}");
        }
    }

    #[test]
    fn sockets_are_known_by_what_lies_at_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("agent");
        let _listener = UnixListener::bind(&socket).unwrap();
        let path = socket.display();
        for value in [format!("{path}"), format!("{path},12,0"), format!("unix:{path}")] {
            assert!(is_secret("EDITOR_BRIDGE".as_ref(), value.as_ref()), "{value}");
        }
        std::fs::write(folder.path().join("file"), "").unwrap();
        for value in [folder.path().to_owned(), folder.path().join("file"), folder.path().join("absent")] {
            assert!(!is_secret("EDITOR_BRIDGE".as_ref(), value.as_ref()), "{}", value.display());
        }
    }

    #[test]
    fn tokens_keys_headers_and_ways_to_act_are_known_by_their_names() {
        for name in [
            "HF_TOKEN",
            "WANDB_API_KEY",
            "OPENAI_API_KEY_2",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_CONFIG_FILE",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "AZURE_STORAGE_CONNECTION_STRING",
            "IDENTITY_HEADER",
            "GITHUB_PAT",
            "CI_JOB_JWT_V2",
            "ACTIONS_ID_TOKEN_REQUEST_URL",
            "PGPASSWORD",
            "MYSQL_PWD",
            "SENTRY_DSN",
            "SLACK_WEBHOOK_URL",
            "CONSUL_HTTP_AUTH",
            "npm_config__auth",
            "SOPS_AGE_KEY_FILE",
            "BORG_PASSCOMMAND",
            "OTEL_EXPORTER_OTLP_HEADERS",
            "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            "OTEL_EXPORTER_OTLP_CLIENT_KEY",
            "ANTHROPIC_CUSTOM_HEADERS",
            "GIT_ASKPASS",
            "SSH_ASKPASS",
            "SUDO_ASKPASS",
            "VSCODE_GIT_ASKPASS_NODE",
            "VSCODE_GIT_IPC_HANDLE",
            "VSCODE_IPC_HOOK_CLI",
            "GIT_CONFIG_PARAMETERS",
            "GIT_CONFIG_VALUE_0",
            "GIT_SSH_COMMAND",
            "SSH_AUTH_SOCK",
            "TMUX",
            "DOCKER_HOST",
            "DOCKER_AUTH_CONFIG",
            "DBUS_SESSION_BUS_ADDRESS",
            "KRB5CCNAME",
            "my_api_key",
            "TOKENIZER_API_KEY",
        ] {
            assert!(is_secret(name.as_ref(), "x".as_ref()), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "TOKENIZERS_PARALLELISM",
            "TIKTOKEN_CACHE_DIR",
            "MAX_TOKENS",
            "LANG",
            "KEYMAP",
            "CUDA_VISIBLE_DEVICES",
            "NCCL_SOCKET_IFNAME",
            "GLOO_SOCKET_IFNAME",
            "HF_HOME",
            "SSH_CONNECTION",
            "OTEL_SERVICE_NAME",
        ] {
            assert!(!is_secret(name.as_ref(), "x".as_ref()), "{name}");
        }
    }
}
