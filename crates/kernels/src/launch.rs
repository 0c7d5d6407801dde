//! What a launch is made of.

use evenkeel_errors::FieldError;

/// The type of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    F32,
    Bf16,
}

impl Type {
    /// Bytes of a value.
    pub const fn size(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 => 2,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
        }
    }
}

/// An address in the device's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pointer(pub u64);

impl Pointer {
    /// The null pointer, for an optional argument that is left out.
    pub const NULL: Self = Self(0);
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    Pointer(Pointer),
    /// An argument of type `u32`.
    U32(u32),
    /// An argument of type `u64`.
    U64(u64),
    /// An argument of type `float`.
    F32(f32),
    /// An argument of type `double`.
    F64(f64),
}

impl Argument {
    /// The argument as bytes in memory: a kernel reads as many of them as its argument has.
    pub fn bits(&self) -> u64 {
        match *self {
            Self::Pointer(Pointer(address)) => address,
            Self::U32(value) => value.into(),
            Self::U64(value) => value,
            Self::F32(value) => value.to_bits().into(),
            Self::F64(value) => value.to_bits(),
        }
    }
}

macro_rules! from {
    ($($variant:ident($type:ty))*) => {
        $(impl From<$type> for Argument {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        })*
    };
}
from! { Pointer(Pointer) U32(u32) U64(u64) F32(f32) F64(f64) }

/// One launch of a kernel: blocks in one dimension.
#[derive(Clone, Debug, PartialEq)]
pub struct Launch {
    pub kernel: String,
    pub grid: u32,
    pub block: u32,
    /// Bytes of shared memory of each.
    pub shared: u32,
    /// Bytes of the device's memory that it reads and writes, each array once.
    pub bytes: u64,
    /// Arguments in the order of the kernel's parameters.
    pub arguments: Vec<Argument>,
}

/// Threads of every block, as in `source/common.cuh`.
pub(crate) const BLOCK: u32 = 256;
/// Threads of a warp.
pub(crate) const WARP: u32 = 32;
/// Shared memory that a block has without asking for more.
const SHARED: u32 = 48 << 10;

/// The device, as far as launches depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceProperties {
    pub multiprocessors: u32,
}

impl DeviceProperties {
    /// Blocks for this many pieces of work, where a block takes one after another: enough to fill the device.
    pub(crate) fn blocks(self, pieces: u64) -> u32 {
        /// Blocks of 256 threads that a multiprocessor holds at a time.
        const RESIDENT: u64 = 8;
        pieces.clamp(1, RESIDENT * u64::from(self.multiprocessors)) as u32
    }
}

impl Launch {
    pub(crate) fn new(
        kernel: String,
        grid: u32,
        shared: usize,
        bytes: usize,
        arguments: Vec<Argument>,
    ) -> Result<Self, FieldError> {
        match u32::try_from(shared) {
            Ok(shared) if shared <= SHARED => {
                Ok(Self { kernel, grid, block: BLOCK, shared, bytes: bytes as u64, arguments })
            }
            _ => Err(FieldError::new("shared memory of a block", shared, format!("up to {SHARED} bytes"))),
        }
    }
}

/// Whether rows of `width` values of a type at these addresses can be read 16 bytes at a time.
pub(crate) fn is_wide(kind: Type, width: usize, pointers: &[Pointer]) -> bool {
    width.is_multiple_of(16 / kind.size()) && pointers.iter().all(|pointer| pointer.0.is_multiple_of(16))
}

pub(crate) fn step(wide: bool) -> &'static str {
    if wide { "wide" } else { "single" }
}

/// A count as the kernels take it.
pub(crate) fn u32_of(what: &'static str, value: usize) -> Result<u32, FieldError> {
    u32::try_from(value).map_err(|_| FieldError::new(what, value, format!("up to {}", u32::MAX)))
}

/// A list of arguments of different types.
macro_rules! arguments {
    ($($value:expr),* $(,)?) => {
        vec![$($crate::launch::Argument::from($value)),*]
    };
}
pub(crate) use arguments;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_steps_need_whole_and_aligned_rows() {
        let aligned = Pointer(4096);
        assert!(is_wide(Type::F32, 4, &[aligned]) && !is_wide(Type::F32, 6, &[aligned]));
        assert!(is_wide(Type::Bf16, 8, &[aligned]) && !is_wide(Type::Bf16, 4, &[aligned]));
        assert!(!is_wide(Type::F32, 4, &[aligned, Pointer(4100)]));
        assert!(is_wide(Type::F32, 4, &[Pointer::NULL]));
    }

    #[test]
    fn a_launch_that_needs_too_much_shared_memory_is_refused() {
        let error = Launch::new("x".into(), 1, 50_000, 0, Vec::new()).unwrap_err().to_string();
        assert_eq!(error, "shared memory of a block is 50000, allowed: up to 49152 bytes");
    }

    #[test]
    fn a_chip_is_filled_and_not_overfilled() {
        let properties = DeviceProperties { multiprocessors: 132 };
        assert_eq!((properties.blocks(0), properties.blocks(7), properties.blocks(1 << 40)), (1, 7, 1056));
    }
}
