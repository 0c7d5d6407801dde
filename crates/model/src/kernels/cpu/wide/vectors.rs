//! Sixteen values at a time, and columns of them as rows.

use std::arch::x86_64::{
    __m512, __mmask16, _mm_loadu_ps, _mm_storeu_ps, _mm512_castpd_ps, _mm512_castps_pd, _mm512_castps128_ps512,
    _mm512_extractf32x4_ps, _mm512_insertf32x4, _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd,
    _mm512_unpacklo_ps,
};

/// Values of a vector.
pub(super) const LANES: usize = 16;

/// The first `count` lanes, all of them from 16 on.
#[inline]
pub(super) fn first_lanes(count: usize) -> __mmask16 {
    ((1u32 << count.min(LANES)) - 1) as __mmask16
}

/// In each quarter of the vectors four rows of four values become four columns, and the other way round.
#[inline]
#[target_feature(enable = "avx512f")]
fn turned([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
    let pairs = |x, y| (_mm512_castps_pd(_mm512_unpacklo_ps(x, y)), _mm512_castps_pd(_mm512_unpackhi_ps(x, y)));
    let (a, b) = pairs(a, b);
    let (c, d) = pairs(c, d);
    let both = |x, y| [_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y))];
    let [a, c] = both(a, c);
    let [b, d] = both(b, d);
    [a, c, b, d]
}

/// Sixteen runs of four values, the runs `stride` apart: value t of run i is in lane i of vector t.
///
/// # Safety
/// All of them can be read.
#[expect(unsafe_code, reason = "vectors are read by pointers")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn read_columns(from: *const f32, stride: usize) -> [__m512; 4] {
    turned([0, 1, 2, 3].map(|run| {
        // SAFETY: the caller's promise.
        let quarter = |number: usize| unsafe { _mm_loadu_ps(from.add((4 * number + run) * stride)) };
        let vector = _mm512_castps128_ps512(quarter(0));
        let vector = _mm512_insertf32x4::<1>(vector, quarter(1));
        let vector = _mm512_insertf32x4::<2>(vector, quarter(2));
        _mm512_insertf32x4::<3>(vector, quarter(3))
    }))
}

/// The inverse of [`read_columns`].
///
/// # Safety
/// All of them can be written.
#[expect(unsafe_code, reason = "vectors are written by pointers")]
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn write_columns(to: *mut f32, stride: usize, columns: [__m512; 4]) {
    for (run, vector) in turned(columns).into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe {
            _mm_storeu_ps(to.add(run * stride), _mm512_extractf32x4_ps::<0>(vector));
            _mm_storeu_ps(to.add((4 + run) * stride), _mm512_extractf32x4_ps::<1>(vector));
            _mm_storeu_ps(to.add((8 + run) * stride), _mm512_extractf32x4_ps::<2>(vector));
            _mm_storeu_ps(to.add((12 + run) * stride), _mm512_extractf32x4_ps::<3>(vector));
        }
    }
}
