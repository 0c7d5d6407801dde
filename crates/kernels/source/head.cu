// Log-probability and entropy of a token over the vocabulary, and their gradient, over a chunk of fp32 logits. A block takes a row and
// reads it once.
#include "common.cuh"

// e^x by the C library's function, or by the multiprocessor's instruction for powers of two, which is off by some of the last bits. Only
// exponents up to 0 are asked for.
template <bool FAST>
__device__ inline float exponential(float x) {
  if (!FAST) return expf(x);
  const float power = x * 1.44269504f;
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(power));
  return y;
#else
  return exp2f(power);
#endif
}

// a b + c, rounded once or twice.
template <bool FAST>
__device__ inline float multiply_add(float a, float b, float c) {
  return FAST ? fmaf(a, b, c) : a * b + c;
}

// Of the logits z seen so far, over the temperature: the largest m, the sum of e^(z - m), and the sum of e^(z - m) (z - m).
struct Seen {
  float largest, sum, weighted;
};

__device__ inline Seen nothing() { return {minus_infinity(), 0, 0}; }

// A NaN, or an infinite logit, makes the sum NaN and is not lost.
template <bool FAST>
__device__ inline Seen merge(Seen a, Seen b) {
  if (b.sum == 0) return a;
  if (a.sum == 0) return b;
  const float largest = fmaxf(a.largest, b.largest);
  const float below_a = a.largest - largest, below_b = b.largest - largest;
  const float scale_a = exponential<FAST>(below_a), scale_b = exponential<FAST>(below_b);
  return {largest, multiply_add<FAST>(a.sum, scale_a, b.sum * scale_b),
          multiply_add<FAST>(multiply_add<FAST>(a.sum, below_a, a.weighted), scale_a,
                             multiply_add<FAST>(b.sum, below_b, b.weighted) * scale_b)};
}

// ln p = z - m - ln S and H = ln S - sum e^(z - m) (z - m) / S, with S = sum e^(z - m). log_sum is m + ln S, for the gradient.
template <bool WIDE, bool FAST>
__device__ inline void token_scores(const float* logits, const u32* targets, float* logp, float* entropy, float* log_sum, u32 rows,
                                    u32 vocabulary, float inverse_temperature) {
  constexpr u32 N = Step<float, WIDE>::N;
  SHARED(Seen, warps);
  for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
    const float* z = logits + static_cast<u64>(row) * vocabulary;
    Seen seen = nothing();
    for (u32 i = threadIdx.x * N; i < vocabulary; i += blockDim.x * N) {
      float v[N];
      load<N>(z + i, v);
      Seen own = {v[0] * inverse_temperature, 0, 0};
#pragma unroll
      for (u32 j = 0; j < N; ++j) {
        v[j] *= inverse_temperature;
        own.largest = fmaxf(own.largest, v[j]);
      }
#pragma unroll
      for (u32 j = 0; j < N; ++j) {
        const float below = v[j] - own.largest, weight = exponential<FAST>(below);
        own.sum += weight;
        own.weighted = multiply_add<FAST>(weight, below, own.weighted);
      }
      seen = merge<FAST>(seen, own);
    }
#pragma unroll
    for (u32 mask = WARP / 2; mask > 0; mask /= 2) {
      Seen other;
      other.largest = __shfl_xor_sync(0xffffffffu, seen.largest, mask);
      other.sum = __shfl_xor_sync(0xffffffffu, seen.sum, mask);
      other.weighted = __shfl_xor_sync(0xffffffffu, seen.weighted, mask);
      seen = merge<FAST>(seen, other);
    }
    if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = seen;
    barrier(0);
    if (threadIdx.x == 0) {
      for (u32 warp = 1; warp < blockDim.x / WARP; ++warp) seen = merge<FAST>(seen, warps[warp]);
      const float log = logf(seen.sum);
      logp[row] = z[targets[row]] * inverse_temperature - seen.largest - log;
      entropy[row] = log - seen.weighted / seen.sum;
      log_sum[row] = seen.largest + log;
    }
    barrier(1);
  }
}

// d loss / d z_j = (a (1[j = target] - p_j) - b p_j (ln p_j + H)) / temperature, with a = d loss / d ln p and b = d loss / d H. In fp32 the
// gradients may replace the logits.
template <typename T, bool WIDE, bool FAST>
__device__ inline void logit_gradients(const float* logits, const u32* targets, const float* log_sum, const float* entropy,
                                       const float* dlogp, const float* dentropy, T* gradients, u32 rows, u32 vocabulary,
                                       float inverse_temperature) {
  constexpr u32 N = Step<float, WIDE>::N;
  for (u32 row = blockIdx.x; row < rows; row += gridDim.x) {
    const u64 first = static_cast<u64>(row) * vocabulary;
    const u32 target = targets[row];
    const float a = dlogp[row] * inverse_temperature, b = dentropy[row] * inverse_temperature;
    const float log = log_sum[row], h = entropy[row];
    for (u32 i = threadIdx.x * N; i < vocabulary; i += blockDim.x * N) {
      float v[N];
      load<N>(logits + first + i, v);
#pragma unroll
      for (u32 j = 0; j < N; ++j) {
        // Rounded as where log was computed: a sole logit has the probability 1.
        const float log_p = v[j] * inverse_temperature - log;
        const float own = -exponential<FAST>(log_p) * multiply_add<FAST>(b, log_p + h, a);
        v[j] = i + j == target ? own + a : own;
      }
      store<N>(v, gradients + first + i);
    }
  }
}

#define HEAD(name, suffix, WIDE, FAST)                                                                                          \
  KERNEL(token_scores_##name##suffix, const float* logits, const u32* targets, float* logp, float* entropy, float* log_sum,     \
         u32 rows, u32 vocabulary, float inverse_temperature) {                                                                 \
    token_scores<WIDE, FAST>(logits, targets, logp, entropy, log_sum, rows, vocabulary, inverse_temperature);                   \
  }                                                                                                                             \
  KERNEL(logit_gradients_##name##f32_##suffix, const float* logits, const u32* targets, const float* log_sum,                   \
         const float* entropy, const float* dlogp, const float* dentropy, float* gradients, u32 rows, u32 vocabulary,           \
         float inverse_temperature) {                                                                                           \
    logit_gradients<float, WIDE, FAST>(logits, targets, log_sum, entropy, dlogp, dentropy, gradients, rows, vocabulary,         \
                                       inverse_temperature);                                                                    \
  }                                                                                                                             \
  KERNEL(logit_gradients_##name##bf16_##suffix, const float* logits, const u32* targets, const float* log_sum,                  \
         const float* entropy, const float* dlogp, const float* dentropy, bf16* gradients, u32 rows, u32 vocabulary,            \
         float inverse_temperature) {                                                                                           \
    logit_gradients<bf16, WIDE, FAST>(logits, targets, log_sum, entropy, dlogp, dentropy, gradients, rows, vocabulary,          \
                                      inverse_temperature);                                                                     \
  }
HEAD(, wide, true, false)
HEAD(, single, false, false)
HEAD(fast_, wide, true, true)
HEAD(fast_, single, false, true)
