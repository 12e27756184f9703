// What host code may ask the runtime: `run` computes only where each answer is as the documentation says.

#include <atomic>
#include <mutex>

#include "gemm.cuh"

__global__ void sgemm_kernel(Gemm g) {
  int row = static_cast<int>(blockIdx.x) / g.n, col = static_cast<int>(blockIdx.x) % g.n;
  float sum = 0.0f;
  for (int p = 0; p < g.k; ++p) {
    sum += g.A[row * g.lda + p] * g.B[p * g.ldb + col];
  }
  store_result(g, row, col, sum);
}

static std::atomic<unsigned> calls{0};
static std::atomic<bool> warned;
static std::atomic<uint64_t> largest;

// Counts a call, and keeps the most steps of k that any had.
static bool counts(const Gemm& g) {
  unsigned before = calls.fetch_add(1);
  bool first = !warned.exchange(true), no = false;
  uint64_t steps = static_cast<uint64_t>(g.k), known = largest.load();
  while (known < steps && !largest.compare_exchange_weak(known, steps)) {
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  calls.store(calls.load(std::memory_order_relaxed), std::memory_order_release);
  calls.fetch_or(0x80);
  calls.fetch_and(0x7F);
  return first == (before == 0) && calls == before + 1 && largest >= steps && !warned.compare_exchange_strong(no, no);
}

static bool answers(cudaStream_t stream) {
  int pitch = 0, clusters = 0, persisting = 0, driver = 0, runtime = 0, least = 0, greatest = 0, priority = 1;
  unsigned flags = 0;
  unsigned long long id = 0, other_id = 0;
  size_t granularity = 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusInvalidated;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  cudaStream_t other = nullptr;
  bool called = cudaDeviceGetAttribute(&pitch, cudaDevAttrMaxPitch, 0) == cudaSuccess &&
                cudaDeviceGetAttribute(&clusters, cudaDevAttrClusterLaunch, 0) == cudaSuccess &&
                cudaDeviceGetAttribute(&persisting, cudaDevAttrMaxPersistingL2CacheSize, 0) == cudaSuccess &&
                cudaDriverGetVersion(&driver) == cudaSuccess && cudaRuntimeGetVersion(&runtime) == cudaSuccess &&
                cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess &&
                cudaStreamGetPriority(stream, &priority) == cudaSuccess &&
                cudaStreamGetFlags(stream, &flags) == cudaSuccess && cudaStreamGetId(stream, &id) == cudaSuccess &&
                cudaDeviceGetLimit(&granularity, cudaLimitMaxL2FetchGranularity) == cudaSuccess &&
                cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
                cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess && mode == cudaStreamCaptureModeGlobal &&
                cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess &&
                cudaStreamGetId(other, &other_id) == cudaSuccess &&
                cudaThreadExchangeStreamCaptureMode(&mode) == cudaSuccess && mode == cudaStreamCaptureModeRelaxed;
  return called && pitch == 2147483647 && clusters == 1 && persisting > 0 && driver >= runtime && runtime >= 12000 &&
         least >= greatest && priority <= least && flags <= cudaStreamNonBlocking && id != other_id &&
         granularity > 0 && status == cudaStreamCaptureStatusNone;
}

static cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static std::mutex alone;
  std::lock_guard<std::mutex> held(alone);
  if (!counts(g) || !answers(stream)) {
    return cudaErrorUnknown;
  }
  cudaLaunchAttribute attributes[1] = {};
  attributes[0].id = cudaLaunchAttributeClusterDimension;
  attributes[0].val.clusterDim = {2, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(g.m) * g.n);
  config.blockDim = dim3(1);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = 1;
  int clusters = 0, most = 0;
  cudaError_t error = cudaOccupancyMaxActiveClusters(&clusters, sgemm_kernel, &config);
  if (error != cudaSuccess || clusters < 1) {
    return cudaErrorUnknown;
  }
  error = cudaOccupancyMaxPotentialClusterSize(&most, sgemm_kernel, &config);
  if (error != cudaSuccess || most < 2) {
    return cudaErrorUnknown;
  }
  cudaStreamAttrValue window = {};
  window.accessPolicyWindow.base_ptr = const_cast<float*>(g.B);
  window.accessPolicyWindow.num_bytes = sizeof(float) * g.n;
  window.accessPolicyWindow.hitRatio = 1.0f;
  window.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
  window.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
  error = cudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &window);
  if (error != cudaSuccess) {
    return error;
  }
  sgemm_kernel<<<config.gridDim, 1, 0, stream>>>(g);
  return cudaGetLastError();
}

EXPORT_SGEMM(run)
