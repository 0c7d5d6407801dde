// Causal attention by products over blocks of queries: what lies between the products. Scores are fp32, (heads, queries, stride) with
// stride a multiple of 8 and at least the number of keys; query i sees the first `offset` + i + 1 keys. Logarithms of denominators and
// dots are (queries, heads).
#include "common.cuh"

// Of the scores seen so far: the largest m, and the sum of e^(z - m).
struct Sum {
  float largest, sum;
};

// A NaN makes the sum NaN and is not lost.
__device__ inline Sum merge(Sum a, Sum b) {
  if (b.sum == 0) return a;
  if (a.sum == 0) return b;
  const float largest = fmaxf(a.largest, b.largest);
  return {largest, a.sum * expf(a.largest - largest) + b.sum * expf(b.largest - largest)};
}

// Probabilities from scores, 0 behind what a query sees, and the logarithm of each denominator. In fp32 they may replace the scores.
template <typename T>
__device__ inline void attention_softmax(const float* scores, T* probabilities, float* log_sum, u32 heads, u32 queries, u32 keys,
                                         u32 stride, u32 offset, float scale) {
  constexpr u32 N = Step<float, true>::N;
  SHARED(Sum, warps);
  for (u32 row = blockIdx.x; row < heads * queries; row += gridDim.x) {
    const u32 head = row / queries, query = row % queries, seen = offset + query + 1;
    const u64 first = static_cast<u64>(row) * stride;
    Sum sum = {minus_infinity(), 0};
    for (u32 i = threadIdx.x * N; i < seen; i += blockDim.x * N) {
      float v[N];
      load<N>(scores + first + i, v);
      Sum own = {v[0] * scale, 0};
#pragma unroll
      for (u32 j = 0; j < N; ++j) {
        v[j] *= scale;
        if (i + j < seen) own.largest = fmaxf(own.largest, v[j]);
      }
#pragma unroll
      for (u32 j = 0; j < N; ++j) {
        if (i + j < seen) own.sum += expf(v[j] - own.largest);
      }
      sum = merge(sum, own);
    }
#pragma unroll
    for (u32 mask = WARP / 2; mask > 0; mask /= 2) {
      Sum other;
      other.largest = __shfl_xor_sync(0xffffffffu, sum.largest, mask);
      other.sum = __shfl_xor_sync(0xffffffffu, sum.sum, mask);
      sum = merge(sum, other);
    }
    if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = sum;
    barrier(0);
    sum = warps[0];
    for (u32 warp = 1; warp < blockDim.x / WARP; ++warp) sum = merge(sum, warps[warp]);
    const float log = sum.largest + logf(sum.sum);
    if (threadIdx.x == 0) log_sum[static_cast<u64>(query) * heads + head] = log;
    for (u32 i = threadIdx.x * N; i < keys; i += blockDim.x * N) {
      float v[N];
      load<N>(scores + first + i, v);
#pragma unroll
      for (u32 j = 0; j < N; ++j) v[j] = i + j < seen ? expf(v[j] * scale - log) : 0.0f;
      store<N>(v, probabilities + first + i);
    }
    barrier(1);
  }
}

// Probabilities again, and the gradient of the products of queries and keys: p (dp - dot) scale, with dot the sum of the products of a
// query's output and its gradient. In fp32 they may replace the scores and the gradients of the probabilities.
template <typename T>
__device__ inline void attention_gradients(const float* scores, const float* dprobabilities, const float* log_sum, const float* dots,
                                           T* probabilities, T* dscores, u32 heads, u32 queries, u32 keys, u32 stride, u32 offset,
                                           float scale) {
  constexpr u32 N = Step<float, true>::N;
  for (u32 row = blockIdx.x; row < heads * queries; row += gridDim.x) {
    const u32 head = row / queries, query = row % queries, seen = offset + query + 1;
    const u64 first = static_cast<u64>(row) * stride;
    const float log = log_sum[static_cast<u64>(query) * heads + head], dot = dots[static_cast<u64>(query) * heads + head];
    for (u32 i = threadIdx.x * N; i < keys; i += blockDim.x * N) {
      float p[N], d[N];
      load<N>(scores + first + i, p);
      load<N>(dprobabilities + first + i, d);
#pragma unroll
      for (u32 j = 0; j < N; ++j) {
        p[j] = i + j < seen ? expf(p[j] * scale - log) : 0.0f;
        d[j] = i + j < seen ? p[j] * (d[j] - dot) * scale : 0.0f;
      }
      store<N>(p, probabilities + first + i);
      store<N>(d, dscores + first + i);
    }
  }
}

// The sum of the products of two runs of `width` values, for each run: a warp takes one.
template <typename T, bool WIDE>
__device__ inline void dots(const T* x, const T* y, float* to, u32 runs, u32 width) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u32 lane = threadIdx.x % WARP, slots = blockDim.x / WARP;
  for (u32 run = blockIdx.x * slots + threadIdx.x / WARP; run < runs; run += gridDim.x * slots) {
    const u64 first = static_cast<u64>(run) * width;
    float sums[1] = {0};
    for (u32 i = lane * N; i < width; i += WARP * N) {
      float a[N], b[N];
      load<N>(x + first + i, a);
      load<N>(y + first + i, b);
#pragma unroll
      for (u32 j = 0; j < N; ++j) sums[0] += a[j] * b[j];
    }
    lane_sums<WARP>(sums, nullptr, 0);
    if (lane == 0) to[run] = sums[0];
  }
}

// Each key or value head once for every query head that reads it: (rows, kv_heads * dim) to (rows, kv_heads * each * dim).
template <typename T, bool WIDE>
__device__ inline void repeat_heads(const T* x, T* y, u32 rows, u32 kv_heads, u32 each, u32 dim) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u32 parts = dim / N;
  const u64 all = static_cast<u64>(rows) * kv_heads * each * parts;
  for (u64 at = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += static_cast<u64>(gridDim.x) * blockDim.x) {
    const u64 head = at / parts;
    float v[N];
    load<N>(x + (head / each) * dim + at % parts * N, v);
    store<N>(v, y + at * N);
  }
}

// The sums over the query heads that read a head: fp32 (rows, kv_heads * each * dim) to (rows, kv_heads * dim).
template <typename T, bool WIDE>
__device__ inline void sum_heads(const float* x, T* y, u32 rows, u32 kv_heads, u32 each, u32 dim) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u32 parts = dim / N;
  const u64 all = static_cast<u64>(rows) * kv_heads * parts;
  for (u64 at = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += static_cast<u64>(gridDim.x) * blockDim.x) {
    const float* from = x + at / parts * each * dim + at % parts * N;
    float sum[N];
    load<N>(from, sum);
    for (u32 other = 1; other < each; ++other) {
      float v[N];
      load<N>(from + other * dim, v);
#pragma unroll
      for (u32 j = 0; j < N; ++j) sum[j] += v[j];
    }
    store<N>(sum, y + at * N);
  }
}

#define SCORES(suffix, T)                                                                                                       \
  KERNEL(attention_softmax_##suffix, const float* scores, T* probabilities, float* log_sum, u32 heads, u32 queries, u32 keys,   \
         u32 stride, u32 offset, float scale) {                                                                                 \
    attention_softmax<T>(scores, probabilities, log_sum, heads, queries, keys, stride, offset, scale);                          \
  }                                                                                                                             \
  KERNEL(attention_gradients_##suffix, const float* scores, const float* dprobabilities, const float* log_sum,                  \
         const float* dots, T* probabilities, T* dscores, u32 heads, u32 queries, u32 keys, u32 stride, u32 offset,             \
         float scale) {                                                                                                         \
    attention_gradients<T>(scores, dprobabilities, log_sum, dots, probabilities, dscores, heads, queries, keys, stride, offset, \
                           scale);                                                                                              \
  }
SCORES(f32, float)
SCORES(bf16, bf16)

#define HEADS(suffix, T, WIDE)                                                                                                  \
  KERNEL(dots_##suffix, const T* x, const T* y, float* to, u32 runs, u32 width) { dots<T, WIDE>(x, y, to, runs, width); }       \
  KERNEL(repeat_heads_##suffix, const T* x, T* y, u32 rows, u32 kv_heads, u32 each, u32 dim) {                                  \
    repeat_heads<T, WIDE>(x, y, rows, kv_heads, each, dim);                                                                     \
  }                                                                                                                             \
  KERNEL(sum_heads_##suffix, const float* x, T* y, u32 rows, u32 kv_heads, u32 each, u32 dim) {                                 \
    sum_heads<T, WIDE>(x, y, rows, kv_heads, each, dim);                                                                        \
  }
HEADS(f32_wide, float, true)
HEADS(f32_single, float, false)
HEADS(bf16_wide, bf16, true)
HEADS(bf16_single, bf16, false)
