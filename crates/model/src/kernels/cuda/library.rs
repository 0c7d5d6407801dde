//! The library that computes attention in one call, and why it is not used.

use std::fmt;
use std::path::PathBuf;

use evenkeel_cuda::cudnn::CudnnError;
use evenkeel_kernels::{FusedShape, Type};

use crate::kernels::AttentionOptions;

/// A library that computes attention in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionLibrary {
    /// Version, as the library's package is named: `9.19.0`.
    pub version: String,
    /// File of the library; `None` where something else stands in for it.
    pub path: Option<PathBuf>,
}

impl AttentionLibrary {
    /// What stands in for the library on a device without one.
    pub fn stand_in(version: impl Into<String>) -> Self {
        Self { version: version.into(), path: None }
    }

    /// Whether sequences without tokens may fill a call up to its plan's number: from cuDNN 9.25 on (cudnn-frontend
    /// issues 943 and 944). A stand-in computes nothing and takes them.
    pub fn takes_empty_sequences(&self) -> bool {
        let mut numbers = self.version.split('.').map(str::parse::<u32>);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= (9, 25),
            _ => self.path.is_none(),
        }
    }
}

impl fmt::Display for AttentionLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuDNN {}", self.version)?;
        match &self.path {
            Some(path) => write!(f, " ({})", path.display()),
            None => Ok(()),
        }
    }
}

/// Why attention is computed in blocks of queries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttentionFallback {
    /// The settings ask for blocks.
    #[error("compute.attention is blocks")]
    NotRequested,
    /// Activations are in a type that cuDNN's attention does not take.
    #[error("the compute type is {}, cuDNN takes bf16", type_name(*.0))]
    ComputeType(Type),
    /// Heads of another width.
    #[error("the head dimension is {}, cuDNN takes {}", .0, FusedShape::WIDTHS.map(|width| width.to_string()).join(" \
        and "))]
    HeadDim(usize),
    /// A GPU on which cuDNN's backward pass takes no packed sequences: 10 * major + minor.
    #[error("compute capability of the device is {}.{}, allowed for cuDNN: 9.0 to 10.3", .0 / 10, .0 % 10)]
    Capability(i32),
    /// A device other than an NVIDIA GPU.
    #[error("cuDNN computes on GPUs")]
    NoGpu,
    /// The driver does not say what the device is.
    #[error("the device cannot be identified: {0}")]
    Unidentified(String),
    /// cuDNN is missing, of another version, or refuses the device.
    #[error(transparent)]
    Cudnn(#[from] CudnnError),
}

impl AttentionFallback {
    /// Why no library is used whatever the device: options, compute type, width of heads.
    pub(crate) fn of(options: AttentionOptions, compute: Type, head_dim: usize) -> Option<Self> {
        if !options.library {
            return Some(Self::NotRequested);
        }
        if compute != Type::Bf16 {
            return Some(Self::ComputeType(compute));
        }
        (!FusedShape::WIDTHS.contains(&head_dim)).then_some(Self::HeadDim(head_dim))
    }
}

fn type_name(kind: Type) -> &'static str {
    match kind {
        Type::F32 => "f32",
        Type::Bf16 => "bf16",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_without_tokens_are_taken_from_9_25_on() {
        let takes = |version: &str| {
            AttentionLibrary { version: version.into(), path: Some("/lib/libcudnn.so.9".into()) }
                .takes_empty_sequences()
        };
        assert_eq!(
            ["9.19.0", "9.24.3", "9.25.0", "9.30.1", "10.0.0", "?"].map(takes),
            [false, false, true, true, true, false]
        );
        assert!(AttentionLibrary::stand_in("counted").takes_empty_sequences());
        assert!(!AttentionLibrary::stand_in("9.24.0").takes_empty_sequences());
    }

    #[test]
    fn a_library_is_named_with_its_file_and_a_fallback_with_its_reason() {
        let library = AttentionLibrary { version: "9.19.0".into(), path: Some("/lib/libcudnn.so.9".into()) };
        assert_eq!(library.to_string(), "cuDNN 9.19.0 (/lib/libcudnn.so.9)");
        assert_eq!(AttentionLibrary::stand_in("counted").to_string(), "cuDNN counted");
        for (fallback, text) in [
            (AttentionFallback::ComputeType(Type::F32), "the compute type is f32, cuDNN takes bf16"),
            (AttentionFallback::HeadDim(96), "the head dimension is 96, cuDNN takes 64 and 128"),
            (
                AttentionFallback::Capability(89),
                "compute capability of the device is 8.9, allowed for cuDNN: 9.0 to 10.3",
            ),
        ] {
            assert_eq!(fallback.to_string(), text);
        }
    }
}
