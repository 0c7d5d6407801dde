//! What a model is told of an environment, and where environments come from, which their names say.

use std::collections::BTreeMap;

use evenkeel_errors::FieldError;
use evenkeel_proto::v1::{EnvironmentInfo, ToolInfo};

use crate::built_in::BuiltIn;
use crate::tool::Tool;

/// The environment whose tool runs programs.
pub const PYTHON: &str = "python";

/// What the name of an environment on an OpenEnv server begins with, before the server's address.
pub const OPENENV: &str = "openenv:";

/// What the name of an agent begins with, before the path of its program.
pub const AGENT: &str = "agent:";

/// What the name of a taskset of verifiers begins with, before the name of its package or the path of its Python file.
pub const VERIFIERS: &str = "verifiers:";

/// Where an environment comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvironmentOrigin<'a> {
    /// An environment that comes with the program and needs nothing.
    BuiltIn(BuiltIn),
    /// [`PYTHON`]: it comes with the program and needs the sandbox's interpreter.
    Sandbox,
    /// A Python file of the user's own, by its path.
    File(&'a str),
    /// A server that speaks OpenEnv's protocol, by its address: `ws://HOST:PORT`, or `wss://HOST:PORT` with TLS.
    OpenEnv(&'a str),
    /// A program of the user's own that asks the model by itself, by its path.
    Agent(&'a str),
    /// A taskset of verifiers, by the name of its package or the path of its Python file.
    Verifiers(&'a str),
}

impl<'a> EnvironmentOrigin<'a> {
    /// The origin of a name.
    ///
    /// # Errors
    /// A name that none has; `field` is where it was written.
    pub fn of(field: &str, name: &'a str) -> Result<Self, FieldError> {
        if let Some(address) = name.strip_prefix(OPENENV) {
            let rest = address.strip_prefix("ws://").or_else(|| address.strip_prefix("wss://"));
            let is_address = rest.is_some_and(is_host_and_path);
            let allowed = "openenv:ws://HOST:PORT, or with TLS openenv:wss://HOST, the address of an OpenEnv server \
                           without a user or password: letters, digits and punctuation of ASCII";
            return if is_address { Ok(Self::OpenEnv(address)) } else { Err(FieldError::quoted(field, name, allowed)) };
        }
        if let Some(path) = name.strip_prefix(AGENT) {
            let allowed = "agent:FILE, the path of a program";
            return if path.is_empty() { Err(FieldError::quoted(field, name, allowed)) } else { Ok(Self::Agent(path)) };
        }
        if let Some(taskset) = name.strip_prefix(VERIFIERS) {
            let allowed = "verifiers:TASKSET, an installed package or a Python file";
            let is_named = !taskset.is_empty();
            return if is_named { Ok(Self::Verifiers(taskset)) } else { Err(FieldError::quoted(field, name, allowed)) };
        }
        if name == PYTHON {
            return Ok(Self::Sandbox);
        }
        if name.len() > ".py".len() && name.ends_with(".py") {
            return Ok(Self::File(name));
        }
        BuiltIn::named(field, name).map(Self::BuiltIn).map_err(|mut error| {
            error.allowed.push_str(
                ", python, the path of a Python file (*.py), agent:FILE, verifiers:TASKSET, or openenv:ws://HOST:PORT",
            );
            error
        })
    }

    /// Whether the environment is an agent: a program that asks the model itself, with its own prompts and tools.
    pub fn is_agent(self) -> bool {
        matches!(self, Self::Agent(_) | Self::Verifiers(_))
    }
}

/// Whether this is a host, and perhaps a path: it becomes a line of a request, which it must not end or add words to.
fn is_host_and_path(text: &str) -> bool {
    let host = text.split('/').next().unwrap_or_default();
    !host.is_empty() && !host.contains('@') && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// What a model is told of an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub name: String,
    /// What the model is told beforehand; empty for nothing.
    pub system_prompt: String,
    /// Whether the user may say something to turns without calls.
    pub user_speaks: bool,
    /// The tools that the model may call.
    pub tools: Vec<Tool>,
    /// Digest of the environment's files; empty for a built-in one.
    pub digest: String,
    /// Whether the environment is an agent: a program that asks the model itself, with its own prompts and tools.
    pub is_agent: bool,
}

pub type Descriptions = BTreeMap<String, Description>;

impl Description {
    /// What a worker says of one.
    ///
    /// # Errors
    /// Parameters of a tool that are not a JSON object.
    pub fn of_info(info: &EnvironmentInfo) -> Result<Self, FieldError> {
        Ok(Self {
            name: info.name.clone(),
            system_prompt: info.system_prompt.clone(),
            user_speaks: info.user_speaks,
            tools: info.tools.iter().map(Tool::of_info).collect::<Result<_, _>>()?,
            digest: info.digest.clone(),
            is_agent: info.is_agent,
        })
    }
}

impl From<BuiltIn> for Description {
    fn from(built_in: BuiltIn) -> Self {
        Self {
            name: built_in.name().to_owned(),
            system_prompt: built_in.system_prompt().to_owned(),
            user_speaks: built_in.user_speaks(),
            tools: built_in.tools(),
            digest: String::new(),
            is_agent: false,
        }
    }
}

impl From<&Description> for EnvironmentInfo {
    fn from(description: &Description) -> Self {
        let Description { name, system_prompt, user_speaks, tools, digest, is_agent } = description;
        Self {
            name: name.clone(),
            system_prompt: system_prompt.clone(),
            tools: tools.iter().map(ToolInfo::from).collect(),
            user_speaks: *user_speaks,
            digest: digest.clone(),
            is_agent: *is_agent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_where_an_environment_comes_from() {
        let origin = |name| EnvironmentOrigin::of("data.environment", name);
        assert_eq!(origin("calculator"), Ok(EnvironmentOrigin::BuiltIn(BuiltIn::Calculator)));
        assert_eq!(origin("python"), Ok(EnvironmentOrigin::Sandbox));
        assert_eq!(origin("games/shop.py"), Ok(EnvironmentOrigin::File("games/shop.py")));
        for name in ["openenv:ws://localhost:8000", "openenv:wss://a.example/b@c"] {
            assert_eq!(origin(name), Ok(EnvironmentOrigin::OpenEnv(&name["openenv:".len()..])));
        }
        assert_eq!(origin("agent:solve.py"), Ok(EnvironmentOrigin::Agent("solve.py")));
        assert_eq!(origin("verifiers:gsm8k"), Ok(EnvironmentOrigin::Verifiers("gsm8k")));
        for (name, allowed) in [
            (
                "calculater",
                "one of calculator, guess-number, python, the path of a Python file (*.py), agent:FILE, \
                 verifiers:TASKSET, or openenv:ws://HOST:PORT",
            ),
            (".py", "one of calculator"),
            ("openenv:http://localhost", "openenv:ws://HOST:PORT"),
            ("openenv:ws://", "openenv:ws://HOST:PORT"),
            ("openenv:wss://user:word@host", "openenv:ws://HOST:PORT"),
            ("openenv:ws:///path", "openenv:ws://HOST:PORT"),
            ("openenv:ws://host/a HTTP/1.1", "openenv:ws://HOST:PORT"),
            ("openenv:ws://host\r\nX-Planted: 1", "openenv:ws://HOST:PORT"),
            ("agent:", "agent:FILE"),
            ("verifiers:", "verifiers:TASKSET"),
        ] {
            let error = origin(name).unwrap_err();
            assert_eq!(
                (error.field.as_str(), error.allowed.starts_with(allowed)),
                ("data.environment", true),
                "{error}"
            );
        }
    }

    #[test]
    fn a_description_survives_the_way_over_the_protocol() {
        for built_in in BuiltIn::ALL {
            let description =
                Description { digest: "sha256:0".to_owned(), is_agent: true, ..Description::from(built_in) };
            assert_eq!(Description::of_info(&EnvironmentInfo::from(&description)), Ok(description));
        }
    }
}
