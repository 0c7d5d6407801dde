//! Makes every object that the guest begins with immortal: the interpreter then never writes to their reference counts.
//!
//! `immortal.py` leaves the addresses of the objects and of their types in the memory. An object begins with its count and its type's
//! address; what does not any more, because it was freed since, is left alone.

use super::image::Image;
use super::{LinkError, unexpected};

/// As in `immortal.py`.
const MARK: [u32; 4] = [0xE7E2_0004, 0xE7E2_0003, 0xE7E2_0002, 0xE7E2_0001];

/// The count of an immortal object where pointers have 32 bits (`_Py_IMMORTAL_INITIAL_REFCNT` of CPython 3.14, refcount.h).
const IMMORTAL: u32 = 5 << 28;
/// The least that the interpreter takes for immortal (`_Py_IMMORTAL_MINIMUM_REFCNT`, there).
const LEAST_IMMORTAL: u32 = 1 << 30;
/// Nothing is referred to so often; a larger number is the address by which objects are chained that wait to be used again.
const MOST_REFERENCES: u32 = 1 << 20;
/// Part of the listed objects that may be gone.
const GONE: f64 = 0.01;

/// Changes the counts, and removes the list.
pub(super) fn mark(image: &mut Image) -> Result<(), LinkError> {
    let mark: Vec<u8> = MARK.into_iter().flat_map(u32::to_le_bytes).collect();
    let list = image.only("the list of objects", &mark)?;
    let first = list + 4 * MARK.len() as u32;
    let count = image.word(first);
    let mut gone = 0;
    for index in 0..count {
        let entry = first + 4 + 8 * index;
        let (object, ty) = (image.word(entry), image.word(entry + 4));
        let references = image.word(object);
        match references {
            LEAST_IMMORTAL.. => {}
            1..MOST_REFERENCES if image.word(object + 4) == ty => image.write(object, &IMMORTAL.to_le_bytes())?,
            _ => gone += 1,
        }
    }
    if count == 0 || f64::from(gone) > GONE * f64::from(count) {
        return Err(unexpected(format!("{gone} of {count} listed objects are gone")));
    }
    image.write(list, &vec![0; 4 * (MARK.len() + 1) + 8 * count as usize])
}
