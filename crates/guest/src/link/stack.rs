//! Gives the guest a deep stack.
//!
//! componentize-py links its interpreter with a stack of 1 MiB, which limits recursion through C (`lru_cache`,
//! `__init__`) to some 2,500 levels, less than in native CPython. Here the memory is enlarged and the stack moved to
//! its new end: the initial stack pointer, and the three bounds that the interpreter stores for its own check. The C
//! library's allocator grows the memory further and uses what it gets. The build fails if any of these values is not
//! found exactly where it is expected.

use wasmparser::MemoryType;

use super::image::Image;
use super::{LinkError, OLD_TOP, unexpected};

/// Size of the new stack in bytes.
const SIZE: u32 = 48 << 20;
/// Page size of WebAssembly.
const PAGE: u32 = 1 << 16;

/// The bounds of the old stack that the interpreter stores: its top, and two margins above its lowest address.
const OLD_BOUNDS: [u32; 3] = [OLD_TOP, SOFT_MARGIN, HARD_MARGIN];
const SOFT_MARGIN: u32 = 0x4000;
const HARD_MARGIN: u32 = 0x2000;
/// In addition, space at the end of the stack for C code that does not check.
const SPARE: u32 = 1 << 20;

/// Adds the stack to the memory and adjusts the interpreter's bounds. Returns the initial stack pointer.
pub(super) fn deepen(memory: &mut MemoryType, image: &mut Image) -> Result<u32, LinkError> {
    let low = u32::try_from(memory.initial * u64::from(PAGE)).map_err(|_| unexpected("a memory that is too large"))?;
    let top = low.checked_add(SIZE).ok_or_else(|| unexpected("a memory that leaves no space for a stack"))?;
    memory.initial += u64::from(SIZE / PAGE);
    let bounds = image.find_unique("the interpreter's stack bounds", &words(OLD_BOUNDS))?;
    image.write(bounds, &words([top, low + SPARE + SOFT_MARGIN, low + SPARE + HARD_MARGIN]))?;
    Ok(top)
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}
