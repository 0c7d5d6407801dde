//! The compiled forms of the guest, and what it is compiled for.

use wasmtime::Config;

use super::sources;
use crate::sandbox;

/// On x86-64 the guest is compiled for any processor of this level (Haswell, Zen and later), so that a folder can be carried from one
/// machine to another.
const X86_LEVEL: &str = "x86-64-v3";

/// The engine, as far as files made for one release do not fit another.
const ENGINE: &str = "wasmtime48";

/// How the time of programs is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// By the CPU time of the thread.
    Timed,
    /// By the number of instructions.
    Counted,
}

impl Form {
    /// The file's name: what it was made from and for.
    pub fn file_name(self) -> String {
        let target =
            Self::target().map_or_else(|| format!("native-{}", std::env::consts::ARCH), |(_, level)| level.to_owned());
        let counted = if self == Self::Counted { "-counted" } else { "" };
        format!("guest-{}-{ENGINE}-{target}{counted}.cwasm", &sources::digest()[..16])
    }

    /// Target triple and level of instructions to compile for. `None`: for this processor.
    pub fn target() -> Option<(&'static str, &'static str)> {
        cfg!(all(target_arch = "x86_64", target_os = "linux")).then_some(("x86_64-unknown-linux-gnu", X86_LEVEL))
    }

    /// The engine's configuration, without what only a compiler has.
    pub fn config(self) -> Config {
        sandbox::config(1, self == Self::Counted)
    }
}
