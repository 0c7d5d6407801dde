//! The libraries, under the names that NVIDIA's packages give them.

use serde::Serialize;

/// A library of NVIDIA's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Library {
    /// The driver's own, installed with it.
    Driver,
    /// Matrix products with epilogues; cuBLAS needs it.
    CublasLt,
    Cublas,
    /// Random numbers; candle opens it with each device.
    Curand,
    Nvrtc,
    Cudnn,
    Nccl,
}

impl Library {
    /// Every library, each after those that it needs itself.
    pub const ALL: [Self; 7] =
        [Self::Driver, Self::CublasLt, Self::Cublas, Self::Curand, Self::Nvrtc, Self::Cudnn, Self::Nccl];

    /// The libraries that a program with candle's CUDA backend calls.
    pub const LINKED: [Self; 5] = [Self::Driver, Self::CublasLt, Self::Cublas, Self::Curand, Self::Nvrtc];

    /// The file name that carries the version of its interface.
    pub const fn file(self) -> &'static str {
        match self {
            Self::Driver => "libcuda.so.1",
            Self::CublasLt => "libcublasLt.so.13",
            Self::Cublas => "libcublas.so.13",
            Self::Curand => "libcurand.so.10",
            Self::Nvrtc => "libnvrtc.so.13",
            Self::Cudnn => "libcudnn.so.9",
            Self::Nccl => "libnccl.so.2",
        }
    }

    /// The first version that is of use, where the file name does not say all of it: major and minor.
    pub const fn least(self) -> Option<[u32; 2]> {
        match self {
            Self::Cudnn => Some([9, 19]),
            _ => None,
        }
    }

    /// Purpose of the library.
    pub const fn purpose(self) -> &'static str {
        match self {
            Self::Driver => "the driver",
            Self::CublasLt | Self::Cublas => "matrix products",
            Self::Curand => "random numbers",
            Self::Nvrtc => "compiling kernels at run time",
            Self::Cudnn => "attention",
            Self::Nccl => "several GPUs",
        }
    }

    /// How to get it.
    pub const fn source(self) -> &'static str {
        match self {
            Self::Driver => {
                "it comes with NVIDIA's driver (580 or later); a container needs NVIDIA's container toolkit"
            }
            Self::CublasLt | Self::Cublas => {
                "it comes with the CUDA 13 toolkit, and with the Python package nvidia-cublas"
            }
            Self::Curand => "it comes with the CUDA 13 toolkit, and with the Python package nvidia-curand",
            Self::Nvrtc => "it comes with the CUDA 13 toolkit, and with the Python package nvidia-cuda-nvrtc",
            Self::Cudnn => "9.19 or a later 9 comes with the Python package nvidia-cudnn-cu13",
            Self::Nccl => "it comes with the Python package nvidia-nccl-cu13",
        }
    }
}
