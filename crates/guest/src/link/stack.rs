//! Gives the guest a deep stack.
//!
//! componentize-py links its interpreter with a stack of 1 MiB, which ends a recursion through C (an `lru_cache`, an `__init__`) after
//! some 2,500 levels, where native CPython goes on. Here the memory is made larger, and its new end becomes the stack: where the stack
//! pointer begins, and the three bounds that the interpreter remembers for its own check. The C library's allocator asks for memory by
//! making it larger still, and takes what it gets. What is not found exactly where it belongs ends the build.

use wasmparser::MemoryType;

use super::image::Image;
use super::{LinkError, OLD_TOP, unexpected};

/// Bytes of the new stack.
const SIZE: u32 = 48 << 20;
/// Bytes of a page of WebAssembly.
const PAGE: u32 = 1 << 16;

/// What the interpreter remembers of the old stack: its top, and from its lowest address what it keeps free for itself.
const OLD_BOUNDS: [u32; 3] = [OLD_TOP, SOFT_MARGIN, HARD_MARGIN];
const SOFT_MARGIN: u32 = 0x4000;
const HARD_MARGIN: u32 = 0x2000;
/// Besides those, room below the stack for C code that checks nothing.
const SPARE: u32 = 1 << 20;

/// Adds the stack to the memory and points the interpreter's bounds to it; where the stack pointer has to begin.
pub(super) fn deepen(memory: &mut MemoryType, image: &mut Image) -> Result<u32, LinkError> {
    let low = u32::try_from(memory.initial * u64::from(PAGE)).map_err(|_| unexpected("a memory that is too large"))?;
    let top = low.checked_add(SIZE).ok_or_else(|| unexpected("a memory that leaves no room for a stack"))?;
    memory.initial += u64::from(SIZE / PAGE);
    let bounds = image.only("the interpreter's stack bounds", &words(OLD_BOUNDS))?;
    image.write(bounds, &words([top, low + SPARE + SOFT_MARGIN, low + SPARE + HARD_MARGIN]))?;
    Ok(top)
}

fn words<const N: usize>(words: [u32; N]) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}
