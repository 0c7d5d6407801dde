//! Memory of gradients' sums, half a gigabyte for SmolLM2-135M in each block of an update.
//!
//! Mapped anew for each block, in pages of 4 KiB that were first read and then written by the product that added to
//! them, they took two faults for every page: a third of the time of an update. So sums that were added to others are
//! kept for later ones, and new ones are asked of the system in large pages, and written to before they are used.

use std::sync::{Mutex, PoisonError};

/// Smaller ones come from the allocator's heaps.
const LEAST_BYTES: usize = 1 << 20;
/// The smallest page of any system.
const PAGE: usize = 4 << 10;

/// Sums that are not in use: never more than have been at a time.
static SPARE: Mutex<Vec<Vec<f32>>> = Mutex::new(Vec::new());

fn is_large(values: &[f32]) -> bool {
    size_of_val(values) >= LEAST_BYTES
}

/// A sum of zeros.
pub(super) fn zeros(count: usize) -> Vec<f32> {
    let spare = (count * size_of::<f32>() >= LEAST_BYTES).then(|| {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        spare.iter().position(|values| values.len() == count).map(|at| spare.swap_remove(at))
    });
    match spare.flatten() {
        Some(mut values) => {
            values.fill(0.0);
            values
        }
        None => vec![0.0; count],
    }
}

/// Keeps the memory of a sum that is no longer needed.
pub(super) fn keep(values: Vec<f32>) {
    if is_large(&values) {
        SPARE.lock().unwrap_or_else(PoisonError::into_inner).push(values);
    }
}

/// Asks for large pages for all of these, then writes a zero to each page. Buffers that were allocated one after the
/// other are neighbours, and share the large pages between them.
pub(super) fn map<'a>(sums: impl Iterator<Item = &'a mut Vec<f32>>) {
    let mut large: Vec<_> = sums.filter(|values| is_large(values)).collect();
    for values in &large {
        prefer_large_pages(values);
    }
    for values in &mut large {
        for value in values.iter_mut().step_by(PAGE / size_of::<f32>()) {
            #[expect(unsafe_code, reason = "a zero that is written over a zero is not to be left out")]
            // SAFETY: a reference that may be written through.
            unsafe {
                std::ptr::from_mut(value).write_volatile(0.0);
            }
        }
    }
}

/// A wish: systems without large pages refuse it.
#[cfg(target_os = "linux")]
fn prefer_large_pages(values: &[f32]) {
    let bytes = values.as_ptr_range();
    // Whole pages around the values: what else is in them does not change.
    let start = bytes.start.map_addr(|address| address & !(PAGE - 1));
    let length = bytes.end.addr().next_multiple_of(PAGE) - start.addr();
    #[expect(unsafe_code, reason = "a call of the system")]
    // SAFETY: pages with values in them are mapped, and this advice changes nothing that a program could read.
    unsafe {
        libc::madvise(start.cast_mut().cast(), length, libc::MADV_HUGEPAGE);
    }
}

/// Does nothing: other systems choose the size of pages.
#[cfg(not(target_os = "linux"))]
fn prefer_large_pages(_: &[f32]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_kept_is_zero_when_it_is_used_again() {
        // A length that no other test has.
        let count = LEAST_BYTES / 4 + 17;
        let mut first = zeros(count);
        map(std::iter::once(&mut first));
        first.fill(7.0);
        let at = first.as_ptr();
        keep(first);
        let second = zeros(count);
        assert_eq!(second.as_ptr(), at);
        assert!(second.iter().all(|&value| value == 0.0));
    }
}
