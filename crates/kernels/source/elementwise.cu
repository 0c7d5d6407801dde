// What needs no other thread: rotary embedding, the gated activation, sums, casts.
#include "common.cuh"

// Rotates each head of x (rows, heads * 2 * half) in place by the angle of its row's position; sign -1 rotates back. cos and sin are
// (positions, half).
template <typename T, bool WIDE>
__device__ inline void rotary(T* x, const float* cosines, const float* sines, const u32* positions, u32 rows, u32 heads, u32 half,
                              float sign) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u32 parts = half / N;
  const u64 all = static_cast<u64>(rows) * heads * parts;
  for (u64 at = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += static_cast<u64>(gridDim.x) * blockDim.x) {
    const u32 i = static_cast<u32>(at % parts) * N;
    const u64 head = at / parts;
    const u64 angle = static_cast<u64>(positions[head / heads]) * half + i;
    T* first = x + head * 2 * half + i;
    float a[N], b[N], c[N], s[N];
    load<N>(first, a);
    load<N>(first + half, b);
    load<N>(cosines + angle, c);
    load<N>(sines + angle, s);
#pragma unroll
    for (u32 j = 0; j < N; ++j) {
      const float u = a[j], v = b[j], sine = s[j] * sign;
      a[j] = u * c[j] - v * sine;
      b[j] = v * c[j] + u * sine;
    }
    store<N>(a, first);
    store<N>(b, first + half);
  }
}

__device__ inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

template <typename T, bool WIDE>
__device__ inline void swiglu(const T* gate, const T* up, T* y, u64 count) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x * N;
  for (u64 i = (static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < count; i += stride) {
    float g[N], u[N];
    load<N>(gate + i, g);
    load<N>(up + i, u);
#pragma unroll
    for (u32 j = 0; j < N; ++j) g[j] = g[j] * sigmoid(g[j]) * u[j];
    store<N>(g, y + i);
  }
}

// d silu(g) / dg = s + g s (1 - s), with s the sigmoid of g. The outputs may be the inputs.
template <typename T, bool WIDE>
__device__ inline void swiglu_backward(const T* dy, const T* gate, const T* up, T* dgate, T* dup, u64 count) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x * N;
  for (u64 i = (static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < count; i += stride) {
    float d[N], g[N], u[N];
    load<N>(dy + i, d);
    load<N>(gate + i, g);
    load<N>(up + i, u);
#pragma unroll
    for (u32 j = 0; j < N; ++j) {
      const float s = sigmoid(g[j]), silu = g[j] * s;
      g[j] = d[j] * u[j] * (s + silu * (1.0f - s));
      u[j] = d[j] * silu;
    }
    store<N>(g, dgate + i);
    store<N>(u, dup + i);
  }
}

// The same with gate and up beside each other in a row: (rows, 2 * width).
template <typename T, bool WIDE>
__device__ inline void swiglu_joined(const T* both, T* y, u32 rows, u32 width) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u32 parts = width / N;
  const u64 all = static_cast<u64>(rows) * parts;
  for (u64 at = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += static_cast<u64>(gridDim.x) * blockDim.x) {
    const u64 first = at / parts * 2 * width + at % parts * N;
    float g[N], u[N];
    load<N>(both + first, g);
    load<N>(both + first + width, u);
#pragma unroll
    for (u32 j = 0; j < N; ++j) g[j] = g[j] * sigmoid(g[j]) * u[j];
    store<N>(g, y + at * N);
  }
}

template <typename T, bool WIDE>
__device__ inline void swiglu_joined_backward(const T* dy, const T* both, T* dboth, u32 rows, u32 width) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u32 parts = width / N;
  const u64 all = static_cast<u64>(rows) * parts;
  for (u64 at = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += static_cast<u64>(gridDim.x) * blockDim.x) {
    const u64 first = at / parts * 2 * width + at % parts * N;
    float d[N], g[N], u[N];
    load<N>(dy + at * N, d);
    load<N>(both + first, g);
    load<N>(both + first + width, u);
#pragma unroll
    for (u32 j = 0; j < N; ++j) {
      const float s = sigmoid(g[j]), silu = g[j] * s;
      g[j] = d[j] * u[j] * (s + silu * (1.0f - s));
      u[j] = d[j] * silu;
    }
    store<N>(g, dboth + first);
    store<N>(u, dboth + first + width);
  }
}

// Adds a row to each row of y (rows, width).
template <typename T, bool WIDE>
__device__ inline void add_bias(T* y, const float* bias, u32 rows, u32 width) {
  constexpr u32 N = Step<T, WIDE>::N;
  const u32 parts = width / N;
  const u64 all = static_cast<u64>(rows) * parts;
  for (u64 at = static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += static_cast<u64>(gridDim.x) * blockDim.x) {
    float v[N], b[N];
    load<N>(y + at * N, v);
    load<N>(bias + at % parts * N, b);
#pragma unroll
    for (u32 j = 0; j < N; ++j) v[j] += b[j];
    store<N>(v, y + at * N);
  }
}

template <bool WIDE>
__device__ inline void add(float* y, const float* x, u64 count) {
  constexpr u32 N = Step<float, WIDE>::N;
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x * N;
  for (u64 i = (static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < count; i += stride) {
    float a[N], b[N];
    load<N>(y + i, a);
    load<N>(x + i, b);
#pragma unroll
    for (u32 j = 0; j < N; ++j) a[j] += b[j];
    store<N>(a, y + i);
  }
}

template <typename S, typename T, bool WIDE>
__device__ inline void cast(const S* from, T* to, u64 count) {
  constexpr u32 N = WIDE ? 8 : 1;
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x * N;
  for (u64 i = (static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < count; i += stride) {
    float v[N];
    load<N>(from + i, v);
    store<N>(v, to + i);
  }
}

#define ELEMENTWISE(suffix, T, WIDE)                                                                                            \
  KERNEL(rotary_##suffix, T* x, const float* cosines, const float* sines, const u32* positions, u32 rows, u32 heads, u32 half,  \
         float sign) {                                                                                                          \
    rotary<T, WIDE>(x, cosines, sines, positions, rows, heads, half, sign);                                                     \
  }                                                                                                                             \
  KERNEL(swiglu_##suffix, const T* gate, const T* up, T* y, u64 count) { swiglu<T, WIDE>(gate, up, y, count); }                 \
  KERNEL(swiglu_backward_##suffix, const T* dy, const T* gate, const T* up, T* dgate, T* dup, u64 count) {                      \
    swiglu_backward<T, WIDE>(dy, gate, up, dgate, dup, count);                                                                  \
  }                                                                                                                             \
  KERNEL(swiglu_joined_##suffix, const T* both, T* y, u32 rows, u32 width) { swiglu_joined<T, WIDE>(both, y, rows, width); }    \
  KERNEL(swiglu_joined_backward_##suffix, const T* dy, const T* both, T* dboth, u32 rows, u32 width) {                          \
    swiglu_joined_backward<T, WIDE>(dy, both, dboth, rows, width);                                                              \
  }                                                                                                                             \
  KERNEL(add_bias_##suffix, T* y, const float* bias, u32 rows, u32 width) { add_bias<T, WIDE>(y, bias, rows, width); }
ELEMENTWISE(f32_wide, float, true)
ELEMENTWISE(f32_single, float, false)
ELEMENTWISE(bf16_wide, bf16, true)
ELEMENTWISE(bf16_single, bf16, false)

KERNEL(cast_f32_bf16_wide, const float* from, bf16* to, u64 count) { cast<float, bf16, true>(from, to, count); }
KERNEL(cast_f32_bf16_single, const float* from, bf16* to, u64 count) { cast<float, bf16, false>(from, to, count); }
KERNEL(cast_bf16_f32_wide, const bf16* from, float* to, u64 count) { cast<bf16, float, true>(from, to, count); }
KERNEL(cast_bf16_f32_single, const bf16* from, float* to, u64 count) { cast<bf16, float, false>(from, to, count); }

KERNEL(add_wide, float* y, const float* x, u64 count) { add<true>(y, x, count); }
KERNEL(add_single, float* y, const float* x, u64 count) { add<false>(y, x, count); }
