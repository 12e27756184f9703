// cublas_best: the best of NVIDIA's library, the second baseline. FP32 FMAs, no TF32.
//
// cublasSgemm chooses its algorithm by a model. This rung asks cublasLt for every algorithm that its heuristics return
// for a product, times each, and keeps the fastest.
//
// The first call of a product on stream 0 is the trial. It waits for the stream, launches every algorithm once to load
// its kernel, then times it with an empty L2 cache, and times those within MARGIN of the fastest ROUNDS times in turn.
// A trial writes C only where beta = 0; else it writes to the workspace. So the caller makes one call on stream 0,
// with nothing blocked, before it measures. On another stream, or where a stream is being captured, a product that had
// no trial gets the first algorithm of the heuristics: nothing waits.
//
// The operands change places, as in cublas.cuh, and the library is found in the same way. What is declared here of
// cublasLt follows its documented C interface (cublasLt.h).
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "gemm.cuh"

constexpr int COMPUTE_FP32 = 68;  // CUBLAS_COMPUTE_32F
constexpr int TYPE_FP32 = 0;      // CUDA_R_32F
enum Preference { MAX_WORKSPACE_BYTES = 1, MIN_ALIGNMENT_A = 5, MIN_ALIGNMENT_B, MIN_ALIGNMENT_C, MIN_ALIGNMENT_D };
enum Configuration { ALGORITHM = 0, TILE = 1, SPLIT_K = 2, STAGES = 6 };

constexpr size_t WORKSPACE = 32u << 20;  // bytes that an algorithm may use
constexpr int ASKED = 64;                // algorithms
constexpr int ROUNDS = 5;
constexpr float MARGIN = 1.1f;

struct Algorithm {
  uint64_t data[8];
};
struct Found {  // cublasLtMatmulHeuristicResult_t
  Algorithm algorithm;
  size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};

using Handle = void*;
using Descriptor = void*;

struct CublasLt {
  int (*create)(Handle*);
  int (*create_product)(Descriptor*, int compute, int scale);
  int (*create_layout)(Descriptor*, int type, uint64_t rows, uint64_t cols, int64_t ld);
  int (*create_preference)(Descriptor*);
  int (*destroy_preference)(Descriptor);
  int (*prefer)(Descriptor, int attribute, const void* value, size_t bytes);
  int (*heuristics)(Handle, Descriptor product, Descriptor a, Descriptor b, Descriptor c, Descriptor d,
                    Descriptor preference, int asked, Found* found, int* count);
  int (*configuration)(const Algorithm*, int attribute, void* value, size_t bytes, size_t* written);
  int (*matmul)(Handle, Descriptor product, const void* alpha, const void* A, Descriptor a, const void* B, Descriptor b,
                const void* beta, const void* C, Descriptor c, void* D, Descriptor d, const Algorithm*, void* workspace,
                size_t workspace_bytes, cudaStream_t);
  bool complete = true;

  CublasLt() {
    const char* path = std::getenv("GEMM_LADDER_CUBLAS");
    void* library = dlopen(path != nullptr ? path : "libcublas.so", RTLD_NOW);  // which loads libcublasLt
    auto find = [&](auto& function, const char* name) {
      void* found = library != nullptr ? dlsym(library, name) : nullptr;
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
      complete = complete && found != nullptr;
    };
    find(create, "cublasLtCreate");
    find(create_product, "cublasLtMatmulDescCreate");
    find(create_layout, "cublasLtMatrixLayoutCreate");
    find(create_preference, "cublasLtMatmulPreferenceCreate");
    find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
    find(prefer, "cublasLtMatmulPreferenceSetAttribute");
    find(heuristics, "cublasLtMatmulAlgoGetHeuristic");
    find(configuration, "cublasLtMatmulAlgoConfigGetAttribute");
    find(matmul, "cublasLtMatmul");
  }
};

// The library, loaded at the first product.
static const CublasLt& lt() {
  static const CublasLt loaded;
  return loaded;
}

// The largest power of two, up to 256, that divides an address.
static uint32_t alignment(const void* pointer) {
  uintptr_t address = reinterpret_cast<uintptr_t>(pointer) | 256;
  return static_cast<uint32_t>(address & -address);
}

// What the choice of an algorithm may depend on.
using Key = std::tuple<int, int, int, int, int64_t, int64_t, int64_t, uint32_t, uint32_t, uint32_t, bool>;

static Key key_of(const Gemm& g, int device) {
  return {device, g.m, g.n, g.k, g.lda, g.ldb, g.ldc, alignment(g.A), alignment(g.B), alignment(g.C), g.beta == 0.0f};
}

// One product as cublasLt describes it, and the algorithm that computes it.
struct Plan {
  Handle handle = nullptr;
  Descriptor product = nullptr, first = nullptr, second = nullptr, result = nullptr;
  std::vector<Found> found;  // all before the trial, the chosen one after it
  bool tried = false;
  char name[128] = "";

  // What the heuristics return for the product, the one that they expect to be fastest first.
  void ask(const Gemm& g, Handle of_device) {
    const CublasLt& library = lt();
    handle = of_device;
    Descriptor preference = nullptr;
    if (library.create_product(&product, COMPUTE_FP32, TYPE_FP32) != 0 ||
        library.create_layout(&first, TYPE_FP32, g.n, g.k, g.ldb) != 0 ||
        library.create_layout(&second, TYPE_FP32, g.k, g.m, g.lda) != 0 ||
        library.create_layout(&result, TYPE_FP32, g.n, g.m, g.ldc) != 0 ||
        library.create_preference(&preference) != 0) {
      return;
    }
    size_t bytes = WORKSPACE;
    bool ok = library.prefer(preference, MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)) == 0;
    for (auto [attribute, pointer] : {std::pair<int, const void*>{MIN_ALIGNMENT_A, g.B},
                                      {MIN_ALIGNMENT_B, g.A},
                                      {MIN_ALIGNMENT_C, g.C},
                                      {MIN_ALIGNMENT_D, g.C}}) {
      uint32_t value = alignment(pointer);
      ok = ok && library.prefer(preference, attribute, &value, sizeof(value)) == 0;
    }
    found.resize(ASKED);
    int count = 0;
    ok = ok && library.heuristics(handle, product, first, second, result, result, preference, ASKED, found.data(),
                                  &count) == 0;
    library.destroy_preference(preference);
    found.resize(ok ? count : 0);
    found.erase(std::remove_if(found.begin(), found.end(), [](const Found& each) { return each.status != 0; }),
                found.end());
    describe();
  }

  int queue(const Gemm& g, const Found& chosen, float* C, void* workspace, cudaStream_t stream) const {
    const float beta = g.beta == 0.0f ? 0.0f : g.beta;  // of a beta of -0.0 some of its kernels read C
    return lt().matmul(handle, product, &g.alpha, g.B, first, g.A, second, &beta, C, result, C, result,
                       &chosen.algorithm, workspace, WORKSPACE, stream);
  }

  // Keeps the fastest algorithm; the heuristics' first where none can be timed.
  void choose(const Gemm& g, char* workspace, size_t scratch_bytes);

  // What is known of the algorithm that computes the product.
  void describe() {
    if (found.empty()) {
      return;
    }
    int values[4] = {-1, -1, -1, -1};
    const int asked[4] = {ALGORITHM, TILE, STAGES, SPLIT_K};
    size_t written = 0;
    for (int i = 0; i < 4; ++i) {
      lt().configuration(&found[0].algorithm, asked[i], &values[i], sizeof(int), &written);
    }
    std::snprintf(name, sizeof(name), "algorithm %d, tile %d, stages %d, split k %d, %s", values[0], values[1],
                  values[2], values[3], tried ? "fastest" : "first of the heuristics");
  }
};

// The time of one launch, with `scratch` written just before it, so that the L2 cache holds nothing of the operands.
// While the GPU writes, the host queues the launch: the time holds none of the host's.
struct Stopwatch {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  bool ok = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
            cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess;

  template <typename Launch>
  bool time(void* scratch, size_t bytes, Launch queue, float* ms) {
    return cudaMemsetAsync(scratch, 0, bytes, stream) == cudaSuccess && cudaEventRecord(begin, stream) == cudaSuccess &&
           queue(stream) == 0 && cudaEventRecord(end, stream) == cudaSuccess &&
           cudaEventSynchronize(end) == cudaSuccess && cudaEventElapsedTime(ms, begin, end) == cudaSuccess;
  }
  ~Stopwatch() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaStreamDestroy(stream);
  }
};

void Plan::choose(const Gemm& g, char* workspace, size_t scratch_bytes) {
  struct Candidate {
    Found found;
    std::vector<float> ms;
    float median() {
      std::sort(ms.begin(), ms.end());
      return ms[ms.size() / 2];
    }
  };
  char* scratch = workspace + WORKSPACE;
  float* C = g.beta == 0.0f ? g.C : reinterpret_cast<float*>(scratch);
  Stopwatch watch;
  auto timed = [&](const Found& each, float* ms) {
    return watch.time(
        scratch, scratch_bytes, [&](cudaStream_t stream) { return queue(g, each, C, workspace, stream); }, ms);
  };
  std::vector<Candidate> candidates;
  for (const Found& each : found) {
    float ms = 0;
    if (watch.ok && timed(each, &ms) && timed(each, &ms)) {  // the first launch loads the kernel
      candidates.push_back({each, {ms}});
    }
  }
  tried = true;
  if (!candidates.empty()) {
    auto faster = [](Candidate& a, Candidate& b) { return a.median() < b.median(); };
    float limit = MARGIN * std::min_element(candidates.begin(), candidates.end(), faster)->ms[0];
    candidates.erase(
        std::remove_if(candidates.begin(), candidates.end(), [&](const Candidate& each) { return each.ms[0] > limit; }),
        candidates.end());
    for (int round = 0; round < ROUNDS; ++round) {
      for (Candidate& each : candidates) {
        float ms = 0;
        if (timed(each.found, &ms)) {
          each.ms.push_back(ms);
        }
      }
    }
    found = {std::min_element(candidates.begin(), candidates.end(), faster)->found};
  }
  describe();
}

// Behind the 32 MiB for algorithms: what is written to empty the L2 cache, and where a trial writes C if beta != 0.
static size_t scratch_bytes(const Gemm& g) {
  int device = 0, l2_bytes = 0;
  if (cudaGetDevice(&device) == cudaSuccess) {
    cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, device);
  }
  size_t result = g.beta == 0.0f ? 0 : sizeof(float) * g.m * g.ldc;
  return std::max({static_cast<size_t>(l2_bytes), result, size_t{1} << 20});
}

static size_t needed(const Gemm& g) { return WORKSPACE + scratch_bytes(g); }

static std::mutex guard;
static char latest[sizeof(Plan::name)] = "";

// Which algorithm computed the latest product.
extern "C" const char* sgemm_algorithm() { return latest; }

// Whether a trial may run: on stream 0, with no capture.
static bool may_wait(cudaStream_t stream) {
  cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
  if (stream != nullptr || (cudaStreamIsCapturing(stream, &capturing) == cudaSuccess &&
                            capturing == cudaStreamCaptureStatusNone && cudaStreamSynchronize(stream) == cudaSuccess)) {
    return stream == nullptr;
  }
  cudaGetLastError();  // stream 0 cannot be asked while another stream is captured
  return false;
}

static cudaError_t run(const Gemm& g, void* workspace, cudaStream_t stream) {
  if (launch_observer != nullptr) {
    return cudaSuccess;  // the kernels that cuBLAS would launch are its own secret
  }
  static std::map<int, Handle> handles;  // by device
  static std::map<Key, Plan> plans;
  std::lock_guard<std::mutex> lock(guard);
  int device = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error != cudaSuccess) {
    return error;
  }
  Handle& handle = handles[device];
  if (!lt().complete || (handle == nullptr && lt().create(&handle) != 0)) {
    return cudaErrorSharedObjectInitFailed;
  }
  auto [place, is_new] = plans.try_emplace(key_of(g, device));
  Plan& plan = place->second;
  if (is_new) {
    plan.ask(g, handle);
  }
  if (plan.found.empty()) {
    return cudaErrorNotSupported;
  }
  if (!plan.tried && may_wait(stream)) {
    plan.choose(g, static_cast<char*>(workspace), scratch_bytes(g));
  }
  std::copy(std::begin(plan.name), std::end(plan.name), latest);
  return plan.queue(g, plan.found[0], g.C, workspace, stream) == 0 ? cudaSuccess : cudaErrorUnknown;
}

EXPORT_SGEMM_WITH_WORKSPACE(run, needed)
