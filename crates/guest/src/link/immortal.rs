//! Makes initial objects immortal, so that the interpreter never writes to their reference counts.
//!
//! `immortal.py` leaves the addresses of the objects and of their types in the memory. An object starts with its count
//! and the address of its type. Objects that were freed since then do not, and are skipped.

use super::image::Image;
use super::{LinkError, unexpected};

/// Words that mark the list of addresses in the memory, as in `immortal.py`.
const MARK: [u32; 4] = [0xE7E2_0004, 0xE7E2_0003, 0xE7E2_0002, 0xE7E2_0001];

/// The count of an immortal object with 32-bit pointers (`_Py_IMMORTAL_INITIAL_REFCNT` of CPython 3.14, refcount.h).
const IMMORTAL: u32 = 5 << 28;
/// The lowest count of immortal objects (`_Py_IMMORTAL_MINIMUM_REFCNT`, in the same file).
const MIN_IMMORTAL: u32 = 1 << 30;
/// No object has more references. A larger number is a pointer in a free list.
const MAX_REFERENCES: u32 = 1 << 20;
/// Fraction of the listed objects that may have been freed.
const MAX_FREED: f64 = 0.01;

/// Sets the counts and removes the list.
pub(super) fn mark(image: &mut Image) -> Result<(), LinkError> {
    let mark: Vec<u8> = MARK.into_iter().flat_map(u32::to_le_bytes).collect();
    let list = image.find_unique("the list of objects", &mark)?;
    let first = list + 4 * MARK.len() as u32;
    let count = image.word(first);
    let mut freed = 0;
    for index in 0..count {
        let entry = first + 4 + 8 * index;
        let object = image.word(entry);
        let ty = image.word(entry + 4);
        let references = image.word(object);
        match references {
            MIN_IMMORTAL.. => {}
            1..MAX_REFERENCES if image.word(object + 4) == ty => image.write(object, &IMMORTAL.to_le_bytes())?,
            _ => freed += 1,
        }
    }
    if count == 0 || f64::from(freed) > MAX_FREED * f64::from(count) {
        return Err(unexpected(format!("{freed} of {count} listed objects were freed")));
    }
    image.write(list, &vec![0; 4 * (MARK.len() + 1) + 8 * count as usize])
}
