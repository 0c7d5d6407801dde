//! The compiled forms of the guest and their compilation target.

use super::sources;

/// On x86-64 the guest is compiled for any processor of this level (Haswell, Zen and later), so that a folder can be
/// copied to other machines.
const X86_LEVEL: &str = "x86-64-v3";

/// The engine: code compiled for one release does not run in another.
const ENGINE: &str = "wasmtime48";

/// A compiled form, by how it limits the time of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Code that limits the CPU time of the thread.
    Timed,
    /// Code that limits the number of instructions.
    Counted,
}

impl Form {
    /// The file name, which identifies sources and target.
    pub fn file_name(self) -> String {
        let target =
            Self::target().map_or_else(|| format!("native-{}", std::env::consts::ARCH), |(_, level)| level.to_owned());
        let counted = if self == Self::Counted { "-counted" } else { "" };
        format!("guest-{}-{ENGINE}-{target}{counted}.cwasm", &sources::digest()[..16])
    }

    /// Target triple and CPU level to compile for. `None` for the processor of this machine.
    pub fn target() -> Option<(&'static str, &'static str)> {
        cfg!(all(target_arch = "x86_64", target_os = "linux")).then_some(("x86_64-unknown-linux-gnu", X86_LEVEL))
    }
}
