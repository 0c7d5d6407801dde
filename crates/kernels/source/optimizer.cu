// The global norm of a gradient, and AdamW in one pass over weight, moments and gradient.
#include "common.cuh"

// Adds what the threads of a block have, and leaves it in `partial`.
__device__ inline void leave_sum(double* shared, double sum, double* partial) {
  shared[threadIdx.x] = sum;
  barrier(0);
  for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    barrier(1);
  }
  if (threadIdx.x == 0) partial[blockIdx.x] = shared[0];
}

// Each block leaves the sum of squares of its part in `partial`.
template <bool WIDE>
__device__ inline void squares(const float* x, double* partial, u64 count) {
  constexpr u32 N = Step<float, WIDE>::N;
  SHARED(double, shared);
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x * N;
  double sum = 0;
  for (u64 i = (static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < count; i += stride) {
    float v[N];
    load<N>(x + i, v);
    float few = 0;
#pragma unroll
    for (u32 j = 0; j < N; ++j) few += v[j] * v[j];
    sum += few;
  }
  leave_sum(shared, sum, partial);
}

KERNEL(squares_wide, const float* x, double* partial, u64 count) { squares<true>(x, partial, count); }
KERNEL(squares_single, const float* x, double* partial, u64 count) { squares<false>(x, partial, count); }

// The global norm from the parts of all gradients, by one block; and the factor of an update by `scale` times the gradients, whose norm is to be
// at most `limit` (infinity: no limit): NaN if there is nothing finite to update by. As torch.nn.utils.clip_grad_norm_ has it.
KERNEL(global_norm, const double* partial, u32 count, double* norm, float* factor, double scale, double limit) {
  SHARED(double, shared);
  double sum = 0;
  for (u32 i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  shared[threadIdx.x] = sum;
  barrier(0);
  if (threadIdx.x == 0) {
    sum = 0;
    for (u32 i = 0; i < blockDim.x; ++i) sum += shared[i];
    sum = sqrt(sum);
    *norm = sum;
    const double scaled = scale * sum, clip = limit / (scaled + 1e-6);
    const float found = static_cast<float>(scale * (clip < 1 ? clip : 1));
    // What is not finite minus itself is NaN.
    *factor = scaled - scaled == 0 && found - found == 0 ? found : not_a_number();
  }
}

// m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g², w = shrink w - step m / (sqrt(v) * inverse_root + epsilon), with g the gradient times
// what `factor` holds. Each block leaves the sum of squares of what it added to weights in `partial`. Nothing is changed or left if the factor
// is NaN.
template <bool WIDE>
__device__ inline void adamw(float* weight, float* first, float* second, const float* gradient, const float* factor, double* partial, u64 count,
                             float beta1, float beta2, float step, float inverse_root, float epsilon, float shrink) {
  constexpr u32 N = Step<float, WIDE>::N;
  SHARED(double, shared);
  const float scale = *factor;
  if (scale != scale) return;
  const u64 stride = static_cast<u64>(gridDim.x) * blockDim.x * N;
  double sum = 0;
  for (u64 i = (static_cast<u64>(blockIdx.x) * blockDim.x + threadIdx.x) * N; i < count; i += stride) {
    float w[N], m[N], v[N], g[N];
    float few = 0;
    load<N>(weight + i, w);
    load<N>(first + i, m);
    load<N>(second + i, v);
    load<N>(gradient + i, g);
#pragma unroll
    for (u32 j = 0; j < N; ++j) {
      g[j] *= scale;
      m[j] = beta1 * m[j] + (1.0f - beta1) * g[j];
      v[j] = beta2 * v[j] + (1.0f - beta2) * g[j] * g[j];
      const float before = w[j];
      w[j] = shrink * before - step * m[j] / (sqrtf(v[j]) * inverse_root + epsilon);
      few += (w[j] - before) * (w[j] - before);
    }
    sum += few;
    store<N>(w, weight + i);
    store<N>(m, first + i);
    store<N>(v, second + i);
  }
  leave_sum(shared, sum, partial);
}

#define ADAMW(suffix, WIDE)                                                                                                     \
  KERNEL(adamw_##suffix, float* weight, float* first, float* second, const float* gradient, const float* factor,                \
         double* partial, u64 count, float beta1, float beta2, float step, float inverse_root, float epsilon, float shrink) {   \
    adamw<WIDE>(weight, first, second, gradient, factor, partial, count, beta1, beta2, step, inverse_root, epsilon, shrink);    \
  }
ADAMW(wide, true)
ADAMW(single, false)
