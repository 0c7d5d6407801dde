// Rows selected by number: the embedding, its gradient, and the rows that the head needs.
#include "common.cuh"

// y[i] = table[ids[i]], a block for each row.
template <typename S, typename T, bool WIDE>
__device__ inline void gather(const S* table, const u32* ids, T* y, u32 rows, u32 width) {
  constexpr u32 N = Step<T, WIDE>::N;
  for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
    const S* from = table + static_cast<u64>(ids[row]) * width;
    T* to = y + static_cast<u64>(row) * width;
    for (u32 i = threadIdx.x * N; i < width; i += blockDim.x * N) {
      float v[N];
      load<N>(from + i, v);
      store<N>(v, to + i);
    }
  }
}

// y[to[i]] = x[i] for distinct rows; the others are zeros already.
template <typename T, bool WIDE>
__device__ inline void scatter(const T* x, const u32* to, T* y, u32 rows, u32 width) {
  constexpr u32 N = Step<T, WIDE>::N;
  for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* from = x + static_cast<u64>(row) * width;
    T* into = y + static_cast<u64>(to[row]) * width;
    for (u32 i = threadIdx.x * N; i < width; i += blockDim.x * N) {
      float v[N];
      load<N>(from + i, v);
      store<N>(v, into + i);
    }
  }
}

// table[ids[k]] += sum of dy[order[j]] for starts[k] <= j < starts[k + 1], in that order: one block for each distinct id, so that no two
// add to the same row, and the sum of a frequent token has one order.
template <typename T, bool WIDE>
__device__ inline void embed_backward(const T* dy, const u32* order, const u32* starts, const u32* ids, float* table, u32 segments,
                                      u32 width) {
  constexpr u32 N = Step<T, WIDE>::N;
  for (u32 segment = blockIdx.x; segment < segments; segment += gridDim.x) {
    float* to = table + static_cast<u64>(ids[segment]) * width;
    const u32 first = starts[segment], end = starts[segment + 1];
    if (first == end) continue;
    for (u32 i = threadIdx.x * N; i < width; i += blockDim.x * N) {
      float sum[N], v[N];
#pragma unroll
      for (u32 j = 0; j < N; ++j) sum[j] = 0;
#pragma unroll 4
      for (u32 at = first; at < end; ++at) {
        load<N>(dy + static_cast<u64>(order[at]) * width + i, v);
#pragma unroll
        for (u32 j = 0; j < N; ++j) sum[j] += v[j];
      }
      load<N>(to + i, v);
#pragma unroll
      for (u32 j = 0; j < N; ++j) v[j] += sum[j];
      store<N>(v, to + i);
    }
  }
}

// Copies (rows, width) between matrices whose rows begin so many values apart: columns of a wider matrix, out of it or into it.
template <typename T, bool WIDE>
__device__ inline void columns(const T* x, T* y, u32 rows, u32 width, u32 from_stride, u32 to_stride) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u32 parts = width / N;
  const u64 all = static_cast<u64>(rows) * parts;
  for (u64 at = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += static_cast<u64>(gridDim.x) * blockDim.x) {
    const u64 row = at / parts;
    const u32 i = static_cast<u32>(at % parts) * N;
    float v[N];
    load<N>(x + row * from_stride + i, v);
    store<N>(v, y + row * to_stride + i);
  }
}

#define ROWS(suffix, T, WIDE)                                                                                                   \
  KERNEL(embed_##suffix, const float* table, const u32* ids, T* y, u32 rows, u32 width) {                                       \
    gather<float, T, WIDE>(table, ids, y, rows, width);                                                                         \
  }                                                                                                                             \
  KERNEL(gather_##suffix, const T* x, const u32* ids, T* y, u32 rows, u32 width) {                                              \
    gather<T, T, WIDE>(x, ids, y, rows, width);                                                                                 \
  }                                                                                                                             \
  KERNEL(scatter_##suffix, const T* x, const u32* to, T* y, u32 rows, u32 width) { scatter<T, WIDE>(x, to, y, rows, width); }   \
  KERNEL(columns_##suffix, const T* x, T* y, u32 rows, u32 width, u32 from_stride, u32 to_stride) {                             \
    columns<T, WIDE>(x, y, rows, width, from_stride, to_stride);                                                                \
  }                                                                                                                             \
  KERNEL(embed_backward_##suffix, const T* dy, const u32* order, const u32* starts, const u32* ids, float* table, u32 segments, \
         u32 width) {                                                                                                           \
    embed_backward<T, WIDE>(dy, order, starts, ids, table, segments, width);                                                    \
  }
ROWS(f32_wide, float, true)
ROWS(f32_single, float, false)
ROWS(bf16_wide, bf16, true)
ROWS(bf16_single, bf16, false)
