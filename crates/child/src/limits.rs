//! What a child gets of this process's environment and of the machine's memory.

use std::collections::BTreeSet;
use std::ffi::OsString;

use tokio::process::Command;

use crate::secrets::is_secret;

/// What a child gets. Everything of the environment but secrets, by default, and as much memory as there is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChildLimits {
    /// Variables that it gets although they look like secrets.
    pub keep_variables: Vec<String>,
    /// Memory of the process, and of each that it starts, in bytes; 0 for no limit. Private memory that may be
    /// written counts, also if it was never used; addresses that are only reserved do not.
    pub max_memory: u64,
}

impl ChildLimits {
    /// The variables of this process's environment that the child does not get, by their names and values.
    pub fn withheld(&self) -> Vec<OsString> {
        let secret = std::env::vars_os().filter(|(name, value)| is_secret(name, value)).map(|(name, _)| name);
        secret.filter(|name| !self.keep_variables.iter().any(|kept| name == kept.as_str())).collect()
    }

    /// Takes secrets out of the environment of a command, but for variables that it sets itself.
    pub(crate) fn clear(&self, command: &mut Command) {
        let own: BTreeSet<OsString> = command.as_std().get_envs().map(|(name, _)| name.to_owned()).collect();
        for name in self.withheld().iter().filter(|name| !own.contains(*name)) {
            command.env_remove(name);
        }
    }

    /// Limits the memory of a process that has just been started.
    pub(crate) fn limit(&self, id: u32, name: &str) {
        if self.max_memory > 0
            && let Err(error) = limit_memory(id, self.max_memory)
        {
            tracing::warn!("the memory of {name} is not limited: {error}");
        }
    }
}

#[cfg(target_os = "linux")]
fn limit_memory(id: u32, bytes: u64) -> std::io::Result<()> {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

    // Nobody may have more than this process.
    let bytes = getrlimit(Resource::Data).maximum.map_or(bytes, |most| most.min(bytes));
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) else { return Ok(()) };
    match prlimit(Some(id), Resource::Data, limit) {
        // It has ended.
        Ok(_) | Err(rustix::io::Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn limit_memory(_: u32, _: u64) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}
