// RMSNorm over runs of `width` values: y = x / sqrt(mean(x²) + epsilon) * weight. A run is a row, or a head of one. A warp takes a short
// run, a block a long one.
#include "common.cuh"

template <typename T, bool WIDE, u32 LANES>
__device__ inline void rms_norm(const T* x, const float* weight, T* y, u32 runs, u32 width, float epsilon) {
  constexpr u32 N = Step<T, WIDE>::N;
  SHARED(float, scratch);
  const u32 lane = threadIdx.x % LANES, slots = blockDim.x / LANES;
  for (u32 run = blockIdx.x * slots + threadIdx.x / LANES; run < runs; run += gridDim.x * slots) {
    const T* from = x + static_cast<u64>(run) * width;
    T* to = y + static_cast<u64>(run) * width;
    float sums[1] = {0};
    for (u32 i = lane * N; i < width; i += LANES * N) {
      float v[N];
      load<N>(from + i, v);
#pragma unroll
      for (u32 j = 0; j < N; ++j) sums[0] += v[j] * v[j];
    }
    lane_sums<LANES>(sums, scratch, 0);
    const float inverse = 1.0f / sqrtf(sums[0] / width + epsilon);
    for (u32 i = lane * N; i < width; i += LANES * N) {
      float v[N], w[N];
      load<N>(from + i, v);
      load<N>(weight + i, w);
#pragma unroll
      for (u32 j = 0; j < N; ++j) v[j] = v[j] * inverse * w[j];
      store<N>(v, to + i);
    }
  }
}

// With r = 1 / rms: dx = into + r w dy - x r³ mean(w dy x). `into` may be null, or dx itself. Each block leaves its part of the weight's
// gradient, r dy x summed over its runs, in a row of `partial` (blocks, width). Shared memory: 16 values and `width` for each run at a time.
template <typename T, bool WIDE, u32 LANES>
__device__ inline void rms_norm_backward(const T* dy, const T* x, const float* weight, const T* into, T* dx, float* partial, u32 runs,
                                         u32 width, float epsilon) {
  constexpr u32 N = Step<T, WIDE>::N;
  SHARED(float, shared);
  const u32 lane = threadIdx.x % LANES, slot = threadIdx.x / LANES, slots = blockDim.x / LANES;
  float* dweight = shared + 16 + slot * width;
  for (u32 i = lane * N; i < width; i += LANES * N) {
#pragma unroll
    for (u32 j = 0; j < N; ++j) dweight[i + j] = 0;
  }
  for (u32 run = blockIdx.x * slots + slot; run < runs; run += gridDim.x * slots) {
    const u64 first = static_cast<u64>(run) * width;
    // Of squares, and of w dy x.
    float sums[2] = {0, 0};
    // A row has few steps for a thread. Unrolled, the registers of the second loop do not suffice on sm_100.
#pragma unroll 1
    for (u32 i = lane * N; i < width; i += LANES * N) {
      float v[N], d[N], w[N];
      load<N>(x + first + i, v);
      load<N>(dy + first + i, d);
      load<N>(weight + i, w);
#pragma unroll
      for (u32 j = 0; j < N; ++j) {
        sums[0] += v[j] * v[j];
        sums[1] += d[j] * w[j] * v[j];
      }
    }
    lane_sums<LANES>(sums, shared, 0);
    const float inverse = 1.0f / sqrtf(sums[0] / width + epsilon);
    const float pull = sums[1] * inverse * inverse * inverse / width;
    for (u32 i = lane * N; i < width; i += LANES * N) {
      float v[N], d[N], w[N], g[N];
      load<N>(x + first + i, v);
      load<N>(dy + first + i, d);
      load<N>(weight + i, w);
      if (into) load<N>(into + first + i, g);
#pragma unroll
      for (u32 j = 0; j < N; ++j) {
        // Only this thread has these columns.
        dweight[i + j] += d[j] * v[j] * inverse;
        const float own = d[j] * w[j] * inverse - v[j] * pull;
        g[j] = into ? g[j] + own : own;
      }
      store<N>(g, dx + first + i);
    }
  }
  barrier(2);
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = 0;
    for (u32 other = 0; other < slots; ++other) sum += shared[16 + other * width + i];
    partial[static_cast<u64>(blockIdx.x) * width + i] = sum;
  }
}

// Both for rows of at most STEPS times what a block takes at a time: values stay in registers between their two uses, and so does the part of the
// weight's gradient. The sums are those of the kernels above, in the same order.
template <typename T, u32 STEPS>
__device__ inline void rms_norm_held(const T* x, const float* weight, T* y, u32 runs, u32 width, float epsilon) {
  constexpr u32 N = Step<T, true>::N;
  SHARED(float, scratch);
  for (u32 run = blockIdx.x; run < runs; run += gridDim.x) {
    const u64 first = static_cast<u64>(run) * width;
    float v[STEPS][N];
    float sums[1] = {0};
#pragma unroll
    for (u32 step = 0; step < STEPS; ++step) {
      const u32 i = (step * BLOCK + threadIdx.x) * N;
      if (i < width) {
        load<N>(x + first + i, v[step]);
#pragma unroll
        for (u32 j = 0; j < N; ++j) sums[0] += v[step][j] * v[step][j];
      }
    }
    lane_sums<BLOCK>(sums, scratch, 0);
    const float inverse = 1.0f / sqrtf(sums[0] / width + epsilon);
#pragma unroll
    for (u32 step = 0; step < STEPS; ++step) {
      const u32 i = (step * BLOCK + threadIdx.x) * N;
      if (i < width) {
        float w[N];
        load<N>(weight + i, w);
#pragma unroll
        for (u32 j = 0; j < N; ++j) v[step][j] = v[step][j] * inverse * w[j];
        store<N>(v[step], y + first + i);
      }
    }
  }
}

// The forward pass over the sum of two: sum = x + residual, and y its norm.
template <typename T, u32 STEPS>
__device__ inline void add_norm_held(const T* x, const T* residual, const float* weight, T* sum, T* y, u32 runs, u32 width, float epsilon) {
  constexpr u32 N = Step<T, true>::N;
  SHARED(float, scratch);
  for (u32 run = blockIdx.x; run < runs; run += gridDim.x) {
    const u64 first = static_cast<u64>(run) * width;
    float v[STEPS][N];
    float sums[1] = {0};
#pragma unroll
    for (u32 step = 0; step < STEPS; ++step) {
      const u32 i = (step * BLOCK + threadIdx.x) * N;
      if (i < width) {
        float r[N];
        load<N>(x + first + i, v[step]);
        load<N>(residual + first + i, r);
#pragma unroll
        for (u32 j = 0; j < N; ++j) {
          // As the backward pass reads it.
          T rounded;
          narrow(v[step][j] + r[j], rounded);
          v[step][j] = widen(rounded);
          sums[0] += v[step][j] * v[step][j];
        }
        store<N>(v[step], sum + first + i);
      }
    }
    lane_sums<BLOCK>(sums, scratch, 0);
    const float inverse = 1.0f / sqrtf(sums[0] / width + epsilon);
#pragma unroll
    for (u32 step = 0; step < STEPS; ++step) {
      const u32 i = (step * BLOCK + threadIdx.x) * N;
      if (i < width) {
        float w[N];
        load<N>(weight + i, w);
#pragma unroll
        for (u32 j = 0; j < N; ++j) v[step][j] = v[step][j] * inverse * w[j];
        store<N>(v[step], y + first + i);
      }
    }
  }
}

template <typename T, u32 STEPS>
__device__ inline void rms_norm_backward_held(const T* dy, const T* x, const float* weight, const T* into, T* dx, float* partial, u32 runs,
                                              u32 width, float epsilon) {
  constexpr u32 N = Step<T, true>::N;
  SHARED(float, scratch);
  float dweight[STEPS][N];
#pragma unroll
  for (u32 step = 0; step < STEPS; ++step) {
#pragma unroll
    for (u32 j = 0; j < N; ++j) dweight[step][j] = 0;
  }
  for (u32 run = blockIdx.x; run < runs; run += gridDim.x) {
    const u64 first = static_cast<u64>(run) * width;
    float v[STEPS][N], d[STEPS][N];
    // Of squares, and of w dy x.
    float sums[2] = {0, 0};
#pragma unroll
    for (u32 step = 0; step < STEPS; ++step) {
      const u32 i = (step * BLOCK + threadIdx.x) * N;
      if (i < width) {
        float w[N];
        load<N>(x + first + i, v[step]);
        load<N>(dy + first + i, d[step]);
        load<N>(weight + i, w);
#pragma unroll
        for (u32 j = 0; j < N; ++j) {
          sums[0] += v[step][j] * v[step][j];
          sums[1] += d[step][j] * w[j] * v[step][j];
        }
      }
    }
    lane_sums<BLOCK>(sums, scratch, 0);
    const float inverse = 1.0f / sqrtf(sums[0] / width + epsilon);
    const float pull = sums[1] * inverse * inverse * inverse / width;
#pragma unroll
    for (u32 step = 0; step < STEPS; ++step) {
      const u32 i = (step * BLOCK + threadIdx.x) * N;
      if (i < width) {
        float w[N], g[N];
        load<N>(weight + i, w);
        if (into) load<N>(into + first + i, g);
#pragma unroll
        for (u32 j = 0; j < N; ++j) {
          dweight[step][j] += d[step][j] * v[step][j] * inverse;
          const float own = d[step][j] * w[j] * inverse - v[step][j] * pull;
          g[j] = into ? g[j] + own : own;
        }
        store<N>(g, dx + first + i);
      }
    }
  }
#pragma unroll
  for (u32 step = 0; step < STEPS; ++step) {
    const u32 i = (step * BLOCK + threadIdx.x) * N;
    if (i < width) store<N>(dweight[step], partial + static_cast<u64>(blockIdx.x) * width + i);
  }
}

// A head of queries or keys in one pass: normalised as above and rotated by the angle of its row, both in fp32, rounded once. x and y are
// (rows, heads * 2 * half), cosines and sines (positions, half). A warp takes a head.
template <typename T>
__device__ inline void norm_rotary(const T* x, const float* weight, const float* cosines, const float* sines, const u32* positions, T* y,
                                   u32 rows, u32 heads, u32 half, float epsilon) {
  const u32 lane = threadIdx.x % WARP, slots = blockDim.x / WARP, width = 2 * half;
  for (u32 run = blockIdx.x * slots + threadIdx.x / WARP; run < rows * heads; run += gridDim.x * slots) {
    const T* from = x + static_cast<u64>(run) * width;
    T* to = y + static_cast<u64>(run) * width;
    const u64 angle = static_cast<u64>(positions[run / heads]) * half;
    float sums[1] = {0};
    for (u32 i = lane; i < width; i += WARP) {
      const float v = widen(from[i]);
      sums[0] += v * v;
    }
    lane_sums<WARP>(sums, nullptr, 0);
    const float inverse = 1.0f / sqrtf(sums[0] / width + epsilon);
    for (u32 i = lane; i < half; i += WARP) {
      const float u = widen(from[i]) * inverse * weight[i], v = widen(from[half + i]) * inverse * weight[half + i];
      const float c = cosines[angle + i], s = sines[angle + i];
      narrow(u * c - v * s, to[i]);
      narrow(v * c + u * s, to[half + i]);
    }
  }
}

// The gradient of x from that of y, which is rotated back as it is read; dx may be dy. Each block leaves its part of the weight's gradient in a row
// of `partial` (blocks, 2 * half). Shared memory: 16 values and 2 * half for each head at a time.
template <typename T>
__device__ inline void norm_rotary_backward(const T* dy, const T* x, const float* weight, const float* cosines, const float* sines,
                                            const u32* positions, T* dx, float* partial, u32 rows, u32 heads, u32 half, float epsilon) {
  SHARED(float, shared);
  const u32 lane = threadIdx.x % WARP, slot = threadIdx.x / WARP, slots = blockDim.x / WARP, width = 2 * half;
  float* dweight = shared + 16 + slot * width;
  for (u32 i = lane; i < half; i += WARP) dweight[i] = dweight[half + i] = 0;
  for (u32 run = blockIdx.x * slots + slot; run < rows * heads; run += gridDim.x * slots) {
    const u64 first = static_cast<u64>(run) * width, angle = static_cast<u64>(positions[run / heads]) * half;
    // Of squares, and of w dy x.
    float sums[2] = {0, 0};
#pragma unroll 1
    for (u32 i = lane; i < half; i += WARP) {
      const float u = widen(x[first + i]), v = widen(x[first + half + i]);
      const float du = widen(dy[first + i]), dv = widen(dy[first + half + i]);
      const float c = cosines[angle + i], s = sines[angle + i];
      sums[0] += u * u + v * v;
      sums[1] += (du * c + dv * s) * weight[i] * u + (dv * c - du * s) * weight[half + i] * v;
    }
    lane_sums<WARP>(sums, nullptr, 0);
    const float inverse = 1.0f / sqrtf(sums[0] / width + epsilon);
    const float pull = sums[1] * inverse * inverse * inverse / width;
#pragma unroll 1
    for (u32 i = lane; i < half; i += WARP) {
      const float u = widen(x[first + i]), v = widen(x[first + half + i]);
      const float du = widen(dy[first + i]), dv = widen(dy[first + half + i]);
      const float c = cosines[angle + i], s = sines[angle + i];
      const float back_u = du * c + dv * s, back_v = dv * c - du * s;
      // Only this thread has these columns.
      dweight[i] += back_u * u * inverse;
      dweight[half + i] += back_v * v * inverse;
      narrow(back_u * weight[i] * inverse - u * pull, dx[first + i]);
      narrow(back_v * weight[half + i] * inverse - v * pull, dx[first + half + i]);
    }
  }
  barrier(0);
  for (u32 i = threadIdx.x; i < width; i += blockDim.x) {
    float sum = 0;
    for (u32 other = 0; other < slots; ++other) sum += shared[16 + other * width + i];
    partial[static_cast<u64>(blockIdx.x) * width + i] = sum;
  }
}

// Both for heads of which each lane has N values in each half: they stay in registers, and so do the weight and its gradient. A warp takes HEADS
// at once, so that enough is on its way from memory.
template <typename T, u32 N, u32 HEADS>
__device__ inline void norm_rotary_held(const T* x, const float* weight, const float* cosines, const float* sines, const u32* positions, T* y,
                                        u32 rows, u32 heads, float epsilon) {
  constexpr u32 half = N * WARP, width = 2 * half;
  const u32 i = threadIdx.x % WARP * N;
  const u64 runs = static_cast<u64>(rows) * heads, stride = static_cast<u64>(gridDim.x) * (blockDim.x / WARP);
  float wu[N], wv[N];
  load<N>(weight + i, wu);
  load<N>(weight + half + i, wv);
  for (u64 begin = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP; begin < runs; begin += HEADS * stride) {
    float u[HEADS][N], v[HEADS][N], c[HEADS][N], s[HEADS][N], sums[HEADS];
#pragma unroll
    for (u32 k = 0; k < HEADS; ++k) {
      const u64 run = begin + k * stride;
      sums[k] = 0;
      if (run < runs) {
        const T* from = x + run * width + i;
        const u64 angle = static_cast<u64>(positions[run / heads]) * half + i;
        load<N>(from, u[k]);
        load<N>(from + half, v[k]);
        load<N>(cosines + angle, c[k]);
        load<N>(sines + angle, s[k]);
#pragma unroll
        for (u32 j = 0; j < N; ++j) sums[k] += u[k][j] * u[k][j] + v[k][j] * v[k][j];
      }
    }
    lane_sums<WARP>(sums, nullptr, 0);
#pragma unroll
    for (u32 k = 0; k < HEADS; ++k) {
      const u64 run = begin + k * stride;
      if (run < runs) {
        const float inverse = 1.0f / sqrtf(sums[k] / width + epsilon);
#pragma unroll
        for (u32 j = 0; j < N; ++j) {
          const float a = u[k][j] * inverse * wu[j], b = v[k][j] * inverse * wv[j];
          u[k][j] = a * c[k][j] - b * s[k][j];
          v[k][j] = b * c[k][j] + a * s[k][j];
        }
        T* to = y + run * width + i;
        store<N>(u[k], to);
        store<N>(v[k], to + half);
      }
    }
  }
}

// One head at a time, of which there is more to read.
template <typename T, u32 N>
__device__ inline void norm_rotary_backward_held(const T* dy, const T* x, const float* weight, const float* cosines, const float* sines,
                                                 const u32* positions, T* dx, float* partial, u32 rows, u32 heads, float epsilon) {
  constexpr u32 half = N * WARP, width = 2 * half;
  SHARED(float, shared);
  const u32 i = threadIdx.x % WARP * N, slot = threadIdx.x / WARP, slots = blockDim.x / WARP;
  float wu[N], wv[N], dwu[N], dwv[N];
  load<N>(weight + i, wu);
  load<N>(weight + half + i, wv);
#pragma unroll
  for (u32 j = 0; j < N; ++j) dwu[j] = dwv[j] = 0;
#pragma unroll 1
  for (u32 run = blockIdx.x * slots + slot; run < rows * heads; run += gridDim.x * slots) {
    const u64 at = static_cast<u64>(run) * width + i, angle = static_cast<u64>(positions[run / heads]) * half + i;
    float u[N], v[N], du[N], dv[N], c[N], s[N];
    load<N>(x + at, u);
    load<N>(x + at + half, v);
    load<N>(dy + at, du);
    load<N>(dy + at + half, dv);
    load<N>(cosines + angle, c);
    load<N>(sines + angle, s);
    // Of squares, and of w dy x.
    float sums[2] = {0, 0};
#pragma unroll
    for (u32 j = 0; j < N; ++j) {
      const float a = du[j], b = dv[j];
      du[j] = a * c[j] + b * s[j];
      dv[j] = b * c[j] - a * s[j];
      sums[0] += u[j] * u[j] + v[j] * v[j];
      sums[1] += du[j] * wu[j] * u[j] + dv[j] * wv[j] * v[j];
    }
    lane_sums<WARP>(sums, nullptr, 0);
    const float inverse = 1.0f / sqrtf(sums[0] / width + epsilon);
    const float pull = sums[1] * inverse * inverse * inverse / width;
#pragma unroll
    for (u32 j = 0; j < N; ++j) {
      dwu[j] += du[j] * u[j] * inverse;
      dwv[j] += dv[j] * v[j] * inverse;
      du[j] = du[j] * wu[j] * inverse - u[j] * pull;
      dv[j] = dv[j] * wv[j] * inverse - v[j] * pull;
    }
    store<N>(du, dx + at);
    store<N>(dv, dx + at + half);
  }
  store<N>(dwu, shared + slot * width + i);
  store<N>(dwv, shared + slot * width + half + i);
  barrier(0);
  for (u32 column = threadIdx.x; column < width; column += blockDim.x) {
    float sum = 0;
    for (u32 other = 0; other < slots; ++other) sum += shared[other * width + column];
    partial[static_cast<u64>(blockIdx.x) * width + column] = sum;
  }
}

// Column sums of (rows, width). Each of the `splits` runs of rows has its own row of sums: it replaces the row in `out`, or is added to it.
// Blocks are ordered by runs, then by columns of 32.
template <typename T>
__device__ inline void column_sum(const T* x, float* out, u32 rows, u32 width, u32 splits, u32 add) {
  SHARED(float, shared);
  const u32 tiles = (width + WARP - 1) / WARP;
  const u32 split = blockIdx.x / tiles, column = blockIdx.x % tiles * WARP + threadIdx.x % WARP;
  const u32 share = (rows + splits - 1) / splits;
  const u32 first = split * share, end = first + share < rows ? first + share : rows;
  const u32 warp = threadIdx.x / WARP, warps = blockDim.x / WARP;
  float sum = 0;
  if (column < width) {
#pragma unroll 4
    for (u32 row = first + warp; row < end; row += warps) sum += widen(x[static_cast<u64>(row) * width + column]);
  }
  shared[threadIdx.x] = sum;
  barrier(0);
  if (warp == 0 && column < width) {
    sum = 0;
    for (u32 other = 0; other < warps; ++other) sum += shared[other * WARP + threadIdx.x];
    float* to = out + static_cast<u64>(split) * width + column;
    *to = add ? *to + sum : sum;
  }
}

#define NORM(suffix, T, WIDE, LANES)                                                                                            \
  KERNEL(rms_norm_##suffix, const T* x, const float* weight, T* y, u32 runs, u32 width, float epsilon) {                        \
    rms_norm<T, WIDE, LANES>(x, weight, y, runs, width, epsilon);                                                               \
  }                                                                                                                             \
  KERNEL(rms_norm_backward_##suffix, const T* dy, const T* x, const float* weight, const T* into, T* dx, float* partial,        \
         u32 runs, u32 width, float epsilon) {                                                                                  \
    rms_norm_backward<T, WIDE, LANES>(dy, x, weight, into, dx, partial, runs, width, epsilon);                                  \
  }
NORM(f32_wide_warp, float, true, WARP)
NORM(f32_wide_block, float, true, BLOCK)
NORM(f32_single_warp, float, false, WARP)
NORM(f32_single_block, float, false, BLOCK)
NORM(bf16_wide_warp, bf16, true, WARP)
NORM(bf16_wide_block, bf16, true, BLOCK)
NORM(bf16_single_warp, bf16, false, WARP)
NORM(bf16_single_block, bf16, false, BLOCK)

#define NORM_HELD(suffix, T, STEPS)                                                                                             \
  KERNEL(rms_norm_##suffix, const T* x, const float* weight, T* y, u32 runs, u32 width, float epsilon) {                        \
    rms_norm_held<T, STEPS>(x, weight, y, runs, width, epsilon);                                                                \
  }                                                                                                                             \
  KERNEL(add_norm_##suffix, const T* x, const T* residual, const float* weight, T* sum, T* y, u32 runs, u32 width,              \
         float epsilon) {                                                                                                       \
    add_norm_held<T, STEPS>(x, residual, weight, sum, y, runs, width, epsilon);                                                 \
  }                                                                                                                             \
  KERNEL(rms_norm_backward_##suffix, const T* dy, const T* x, const float* weight, const T* into, T* dx, float* partial,        \
         u32 runs, u32 width, float epsilon) {                                                                                  \
    rms_norm_backward_held<T, STEPS>(dy, x, weight, into, dx, partial, runs, width, epsilon);                                   \
  }
NORM_HELD(bf16_held1, bf16, 1)
NORM_HELD(bf16_held2, bf16, 2)

#define NORM_ROTARY(suffix, T)                                                                                                  \
  KERNEL(norm_rotary_##suffix, const T* x, const float* weight, const float* cosines, const float* sines, const u32* positions, \
         T* y, u32 rows, u32 heads, u32 half, float epsilon) {                                                                  \
    norm_rotary<T>(x, weight, cosines, sines, positions, y, rows, heads, half, epsilon);                                        \
  }                                                                                                                             \
  KERNEL(norm_rotary_backward_##suffix, const T* dy, const T* x, const float* weight, const float* cosines, const float* sines, \
         const u32* positions, T* dx, float* partial, u32 rows, u32 heads, u32 half, float epsilon) {                           \
    norm_rotary_backward<T>(dy, x, weight, cosines, sines, positions, dx, partial, rows, heads, half, epsilon);                 \
  }
NORM_ROTARY(f32, float)
NORM_ROTARY(bf16, bf16)

#define NORM_ROTARY_HELD(suffix, T, N, HEADS)                                                                                   \
  KERNEL(norm_rotary_##suffix, const T* x, const float* weight, const float* cosines, const float* sines, const u32* positions, \
         T* y, u32 rows, u32 heads, u32 half, float epsilon) {                                                                  \
    norm_rotary_held<T, N, HEADS>(x, weight, cosines, sines, positions, y, rows, heads, epsilon);                               \
  }                                                                                                                             \
  KERNEL(norm_rotary_backward_##suffix, const T* dy, const T* x, const float* weight, const float* cosines, const float* sines, \
         const u32* positions, T* dx, float* partial, u32 rows, u32 heads, u32 half, float epsilon) {                           \
    norm_rotary_backward_held<T, N>(dy, x, weight, cosines, sines, positions, dx, partial, rows, heads, epsilon);        \
  }
NORM_ROTARY_HELD(bf16_64, bf16, 1, 2)
NORM_ROTARY_HELD(bf16_128, bf16, 2, 2)
NORM_ROTARY_HELD(bf16_256, bf16, 4, 1)

KERNEL(column_sum_f32, const float* x, float* out, u32 rows, u32 width, u32 splits, u32 add) {
  column_sum<float>(x, out, rows, width, splits, add);
}
KERNEL(column_sum_bf16, const bf16* x, float* out, u32 rows, u32 width, u32 splits, u32 add) {
  column_sum<bf16>(x, out, rows, width, splits, add);
}
