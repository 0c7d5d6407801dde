// Runs CUDA kernels on a CPU: each thread of a block is a fibre. Between two points where threads wait for each other a fibre runs alone,
// and which of them runs next is random, so that a missing barrier shows as other results. Shared memory begins as NaN, and what a kernel
// writes behind it is found. Blocks run one after another.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#define __device__

namespace shim {

struct Index {
  unsigned x;
};

Index current_thread();
extern Index current_block, block_size, grid_size;

// Both wait for others and return when these have come.
void barrier(unsigned site);
float shuffle_xor(float value, unsigned mask);
unsigned char* shared_memory();

// Calls a kernel with its arguments, each given by its address.
using Invoke = void (*)(void** arguments);
bool enter(const char* name, Invoke invoke, unsigned arguments);

template <typename... A, size_t... I>
void call(void (*kernel)(A...), void** arguments, std::index_sequence<I...>) {
  kernel(*static_cast<A*>(arguments[I])...);
}

template <auto kernel>
struct Entry;

template <typename... A, void (*kernel)(A...)>
struct Entry<kernel> {
  static void invoke(void** arguments) { call(kernel, arguments, std::index_sequence_for<A...>()); }
  static bool enter(const char* name) { return shim::enter(name, invoke, sizeof...(A)); }
};

}  // namespace shim

#define threadIdx shim::current_thread()
#define blockIdx shim::current_block
#define blockDim shim::block_size
#define gridDim shim::grid_size
#define barrier(site) shim::barrier(site)
#define SHARED(T, name) T* const name = reinterpret_cast<T*>(shim::shared_memory())
#define KERNEL(name, ...)                                                       \
  extern "C" void name(__VA_ARGS__);                                            \
  static const bool entered_##name = shim::Entry<&name>::enter(#name);          \
  extern "C" void name(__VA_ARGS__)

inline float __shfl_xor_sync(unsigned, float value, unsigned mask) { return shim::shuffle_xor(value, mask); }

inline float __uint_as_float(unsigned bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline unsigned __float_as_uint(float value) {
  unsigned bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
