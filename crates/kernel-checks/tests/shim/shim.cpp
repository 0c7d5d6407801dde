// The scheduler of shim.h, and the kernels themselves.
#define EVENKEEL_SHIM
#include "../../../kernels/source/attention.cu"
#include "../../../kernels/source/elementwise.cu"
#include "../../../kernels/source/head.cu"
#include "../../../kernels/source/norm.cu"
#include "../../../kernels/source/optimizer.cu"
#include "../../../kernels/source/rows.cu"

#undef threadIdx
#undef barrier
#include <ucontext.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace shim {

Index current_block, block_size, grid_size;

namespace {

enum State { RUNNABLE, AT_SHUFFLE, AT_BARRIER, DONE };

struct Fibre {
  ucontext_t context;
  std::vector<char> stack;
  unsigned id;
  State state;
  unsigned site;
  // What the lane offers in its last two shuffles: a lane may begin the next one while others still read this one.
  float offered[2];
  unsigned shuffles;
};

struct Kernel {
  Invoke invoke;
  unsigned arguments;
};

// Behind shared memory, to find what is written there.
constexpr size_t GUARD = 4096;
constexpr unsigned char GUARD_BYTE = 0xa5;

std::vector<Fibre> fibres;
Fibre* current;
ucontext_t scheduler;
std::vector<unsigned char> shared;
const Kernel* kernel;
void** kernel_arguments;
unsigned removed_site;

std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

void wait(State state) {
  current->state = state;
  swapcontext(&current->context, &scheduler);
}

void run_fibre() {
  kernel->invoke(kernel_arguments);
  current->state = DONE;
  swapcontext(&current->context, &scheduler);
}

void prepare(Fibre& fibre, unsigned id) {
  fibre.id = id;
  fibre.state = RUNNABLE;
  fibre.shuffles = 0;
  fibre.stack.resize(1 << 16);
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = fibre.stack.data();
  fibre.context.uc_stack.ss_size = fibre.stack.size();
  fibre.context.uc_link = nullptr;
  makecontext(&fibre.context, run_fibre, 0);
}

// Releases the warps whose lanes have all come to the same shuffle.
bool release_shuffles() {
  bool released = false;
  for (size_t first = 0; first < fibres.size(); first += 32) {
    bool all = true;
    for (size_t i = first; i < first + 32; ++i)
      all &= fibres[i].state == AT_SHUFFLE && fibres[i].shuffles == fibres[first].shuffles;
    if (!all) continue;
    for (size_t i = first; i < first + 32; ++i) fibres[i].state = RUNNABLE;
    released = true;
  }
  return released;
}

// Releases the block if every thread has come to the same barrier.
bool release_barrier() {
  for (const Fibre& fibre : fibres)
    if (fibre.state != AT_BARRIER || fibre.site != fibres[0].site) return false;
  for (Fibre& fibre : fibres) fibre.state = RUNNABLE;
  return true;
}

void run_some(std::vector<unsigned>& ids, std::mt19937& random) {
  std::shuffle(ids.begin(), ids.end(), random);
  for (unsigned id : ids) {
    current = &fibres[id];
    swapcontext(&scheduler, &current->context);
  }
}

// Of the threads from `first` to before `end`, those that wait for nobody.
std::vector<unsigned> runnable(size_t first, size_t end) {
  std::vector<unsigned> ids;
  for (size_t i = first; i < end; ++i)
    if (fibres[i].state == RUNNABLE) ids.push_back(i);
  return ids;
}

// Whether all threads came to the end: false if some wait for others that never come.
bool run_block(unsigned threads, std::mt19937& random) {
  fibres.resize(threads);
  for (unsigned id = 0; id < threads; ++id) prepare(fibres[id], id);
  for (;;) {
    std::vector<unsigned> ids = runnable(0, threads);
    if (ids.empty()) {
      if (release_shuffles() || release_barrier()) continue;
      for (const Fibre& fibre : fibres)
        if (fibre.state != DONE) return false;
      return true;
    }
    if (random() % 3 == 0) {
      // One warp as far as it comes, while the others stay where they are.
      const size_t first = ids[random() % ids.size()] / 32 * 32;
      do {
        for (ids = runnable(first, first + 32); !ids.empty(); ids = runnable(first, first + 32)) run_some(ids, random);
      } while (release_shuffles());
    } else {
      std::shuffle(ids.begin(), ids.end(), random);
      ids.resize(1 + random() % ids.size());
      run_some(ids, random);
    }
  }
}

}  // namespace

Index current_thread() { return {current->id}; }

void barrier(unsigned site) {
  if (site == removed_site) return;
  current->site = site;
  wait(AT_BARRIER);
}

float shuffle_xor(float value, unsigned mask) {
  const unsigned turn = current->shuffles++ % 2, other = current->id ^ mask;
  current->offered[turn] = value;
  wait(AT_SHUFFLE);
  return fibres[other].offered[turn];
}

unsigned char* shared_memory() { return shared.data(); }

bool enter(const char* name, Invoke invoke, unsigned arguments) { return kernels().insert({name, {invoke, arguments}}).second; }

}  // namespace shim

// Results of a launch.
enum { LAUNCHED = 0, UNKNOWN_KERNEL = 1, OTHER_ARGUMENTS = 2, WAITS_FOREVER = 3, OUT_OF_BOUNDS = 4, BAD_BLOCK = 5 };

// Runs a kernel. `removed` is the number of the barrier that is taken out, or 2^32 - 1.
extern "C" int shim_launch(const char* name, unsigned grid, unsigned block, size_t shared_bytes, unsigned seed, unsigned removed,
                           void** arguments, unsigned count) {
  using namespace shim;
  const auto found = kernels().find(name);
  if (found == kernels().end()) return UNKNOWN_KERNEL;
  if (found->second.arguments != count) return OTHER_ARGUMENTS;
  if (block == 0 || block % 32 || block > 256) return BAD_BLOCK;
  kernel = &found->second;
  kernel_arguments = arguments;
  removed_site = removed;
  block_size = {block};
  grid_size = {grid};
  std::mt19937 random(seed);
  for (unsigned id = 0; id < grid; ++id) {
    current_block = {id};
    // All bits set: NaN as a float and as a double.
    shared.assign(shared_bytes + GUARD, 0xff);
    std::memset(shared.data() + shared_bytes, GUARD_BYTE, GUARD);
    if (!run_block(block, random)) return WAITS_FOREVER;
    for (size_t i = 0; i < GUARD; ++i)
      if (shared[shared_bytes + i] != GUARD_BYTE) return OUT_OF_BOUNDS;
  }
  return LAUNCHED;
}

// The name of the kernel at a position, or null behind the last.
extern "C" const char* shim_kernel(unsigned position) {
  for (const auto& entry : shim::kernels())
    if (position-- == 0) return entry.first.c_str();
  return nullptr;
}
