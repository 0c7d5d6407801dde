// Common to all kernels. Compiles with nvcc without any of CUDA's headers, and with a C++ compiler over crates/kernel-checks/tests/shim, where
// each thread is a fibre.
//
// Sums are taken in a fixed order, given the launch: the same launch gives the same bits.
#pragma once

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#ifdef EVENKEEL_SHIM
#include "shim.h"
#else
// The launch's shared memory.
extern __shared__ __align__(16) unsigned char block_memory[];
#define SHARED(T, name) T* const name = reinterpret_cast<T*>(block_memory)
// Waits for all threads of the block. Tests take single barriers out, by their number in the kernel.
#define barrier(site) __syncthreads()
#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(256) name(__VA_ARGS__)
#endif

// Threads of a warp, and of a block: every kernel runs with 256 threads or fewer.
static constexpr u32 WARP = 32;
static constexpr u32 BLOCK = 256;

// Without the names of a C library.
__device__ inline float minus_infinity() { return __uint_as_float(0xff800000u); }
__device__ inline float not_a_number() { return __uint_as_float(0x7fc00000u); }

struct bf16 {
  u16 bits;
};

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(bf16 x) { return __uint_as_float(static_cast<u32>(x.bits) << 16); }

__device__ inline void narrow(float x, float& y) { y = x; }
// To the nearest, ties to even; NaN stays NaN.
__device__ inline void narrow(float x, bf16& y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
  u32 bits = __float_as_uint(x);
  bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  y.bits = nan ? 0x7fff : static_cast<u16>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

// Values that one instruction loads or stores.
template <typename T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};

// Values that a thread takes at a time: 16 bytes of the compute type where rows are so long and so aligned, else one.
template <typename T, bool WIDE>
struct Step {
  static constexpr u32 N = WIDE ? 16 / sizeof(T) : 1;
};

template <int N, typename T>
__device__ inline void load(const T* from, float (&to)[N]) {
  constexpr int M = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
#pragma unroll
  for (int part = 0; part < N; part += M) {
    Pack<T, M> values = *reinterpret_cast<const Pack<T, M>*>(from + part);
#pragma unroll
    for (int i = 0; i < M; ++i) to[part + i] = widen(values.at[i]);
  }
}

template <int N, typename T>
__device__ inline void store(const float (&from)[N], T* to) {
  constexpr int M = N * sizeof(T) > 16 ? 16 / sizeof(T) : N;
#pragma unroll
  for (int part = 0; part < N; part += M) {
    Pack<T, M> values;
#pragma unroll
    for (int i = 0; i < M; ++i) narrow(from[part + i], values.at[i]);
    *reinterpret_cast<Pack<T, M>*>(to + part) = values;
  }
}

// The sums of K values over LANES neighbouring threads, in each of them. With more than a warp it takes the whole block, two barriers
// (`site` and the next number) and 8 K values of scratch.
template <u32 LANES, int K>
__device__ inline void lane_sums(float (&values)[K], float* scratch, u32 site) {
#pragma unroll
  for (int k = 0; k < K; ++k) {
#pragma unroll
    for (u32 mask = WARP / 2; mask > 0; mask /= 2) values[k] += __shfl_xor_sync(0xffffffffu, values[k], mask);
  }
  if (LANES > WARP) {
    const u32 warps = blockDim.x / WARP;
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (threadIdx.x % WARP == 0) scratch[k * warps + threadIdx.x / WARP] = values[k];
    }
    barrier(site);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      values[k] = 0;
      for (u32 warp = 0; warp < warps; ++warp) values[k] += scratch[k * warps + warp];
    }
    barrier(site + 1);
  }
}
