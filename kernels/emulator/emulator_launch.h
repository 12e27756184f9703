// How kernels are launched on the CPU. Every source is compiled behind this file (flags.txt).
#ifndef EMULATOR_LAUNCH_H  // it is compiled beforehand, too, and g++ includes it in itself then
#define EMULATOR_LAUNCH_H

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <utility>

// It is always a variable with a name: in a temporary one GCC 12, with -ftrivial-auto-var-init, takes 512 bytes before what is
// padding behind the first 512 bytes for padding too, and clears it. So a struct of tensor maps arrived with zeros.
template <typename... Parameters>
struct LaunchedKernel {
  void (*kernel)(Parameters...);
  std::tuple<Parameters...> arguments;

  template <size_t... I>
  EMULATOR_PLAIN void call(std::index_sequence<I...>) const {
    kernel(std::get<I>(arguments)...);
  }
  EMULATOR_PLAIN static void invoke(const void* self) {
    static_cast<const LaunchedKernel*>(self)->call(std::index_sequence_for<Parameters...>());
  }
};

template <typename... Parameters>
cudaError_t emulator_run(const LaunchedKernel<Parameters...>& launched, emulator::Configuration as) {
  as.closure_bytes = sizeof launched;
  uintptr_t kernel = reinterpret_cast<uintptr_t>(launched.kernel);
  return emulator_error(emulator::run_grid(launched.invoke, &launched, kernel, true, nullptr, as));
}

// The runtime's launches with a pointer to each argument.
template <typename... Parameters, size_t... I>
LaunchedKernel<Parameters...> emulator_arguments(void (*kernel)(Parameters...), void** arguments,
                                                 std::index_sequence<I...>) {
  return {kernel, {*static_cast<std::remove_reference_t<Parameters>*>(arguments[I])...}};
}
template <typename... Parameters>
cudaError_t emulator_launch_pointers(void (*kernel)(Parameters...), void** arguments,
                                     const emulator::Configuration& as) {
  return emulator_run(emulator_arguments(kernel, arguments, std::index_sequence_for<Parameters...>()), as);
}
template <typename... Parameters>
cudaError_t cudaLaunchKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                             size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr) {
  return emulator_launch_pointers(kernel, arguments, {grid, block, dynamic_shared_bytes, stream});
}
template <typename... Parameters>
cudaError_t cudaLaunchCooperativeKernel(void (*kernel)(Parameters...), dim3 grid, dim3 block, void** arguments,
                                        size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr) {
  return emulator_launch_pointers(kernel, arguments, {grid, block, dynamic_shared_bytes, stream, true});
}

// Launches with attributes. A kernel that is allowed to begin early runs beside the one before it, until it waits for it.
enum cudaLaunchAttributeID {
  cudaLaunchAttributeIgnore = 0,
  cudaLaunchAttributeAccessPolicyWindow = 1,
  cudaLaunchAttributeCooperative = 2,
  cudaLaunchAttributeClusterDimension = 4,
  cudaLaunchAttributeClusterSchedulingPolicyPreference = 5,
  cudaLaunchAttributeProgrammaticStreamSerialization = 6,
  cudaLaunchAttributePriority = 8
};
enum cudaAccessProperty { cudaAccessPropertyNormal, cudaAccessPropertyStreaming, cudaAccessPropertyPersisting };
struct cudaAccessPolicyWindow {
  void* base_ptr;
  size_t num_bytes;
  float hitRatio;
  cudaAccessProperty hitProp, missProp;
};
union cudaLaunchAttributeValue {
  struct {
    unsigned x, y, z;
  } clusterDim;
  cudaAccessPolicyWindow accessPolicyWindow;
  int cooperative, programmaticStreamSerializationAllowed, priority, clusterSchedulingPolicyPreference;
  char pad[64];
};
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  cudaLaunchAttributeValue val;
};
struct cudaLaunchConfig_t {
  dim3 host_gridDim, host_blockDim;  // as cuda_syntax.py renames them
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute* attrs;
  unsigned numAttrs;
};
inline emulator::Configuration emulator_configuration(const cudaLaunchConfig_t& config) {
  emulator::Configuration as = {config.host_gridDim, config.host_blockDim, config.dynamicSmemBytes, config.stream};
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttributeValue& value = config.attrs[i].val;
    switch (config.attrs[i].id) {
      case cudaLaunchAttributeClusterDimension:
        as.cluster = {value.clusterDim.x, value.clusterDim.y, value.clusterDim.z};
        break;
      case cudaLaunchAttributeCooperative:
        as.cooperative = value.cooperative != 0;
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        as.early = value.programmaticStreamSerializationAllowed != 0;
        break;
      default:
        break;
    }
  }
  return as;
}
template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  LaunchedKernel<Parameters...> launched = {kernel, {static_cast<Parameters>(arguments)...}};
  return emulator_run(launched, emulator_configuration(*config));
}
template <typename... Parameters>
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), void** arguments) {
  return emulator_launch_pointers(kernel, arguments, emulator_configuration(*config));
}

// How a stream's kernels use the caches changes no result.
using cudaStreamAttrID = cudaLaunchAttributeID;
using cudaStreamAttrValue = cudaLaunchAttributeValue;
constexpr cudaLaunchAttributeID cudaStreamAttributeAccessPolicyWindow = cudaLaunchAttributeAccessPolicyWindow;
constexpr cudaLaunchAttributeID cudaStreamAttributePriority = cudaLaunchAttributePriority;
inline cudaError_t cudaStreamSetAttribute(cudaStream_t, cudaStreamAttrID, const cudaStreamAttrValue*) {
  EMULATOR_CALL
  return cudaSuccess;
}

// How many clusters run at once: as many as there is room for, wherever the SMs are.
template <typename Kernel>
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, Kernel* kernel, const cudaLaunchConfig_t* config) {
  const dim3 block = config->host_blockDim, cluster = emulator_configuration(*config).cluster;
  int blocks = 0, threads = static_cast<int>(block.x * block.y * block.z);
  cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, config->dynamicSmemBytes);
  *clusters = blocks * emulator::sms / std::max(1, static_cast<int>(cluster.x * cluster.y * cluster.z));
  return error;
}
template <typename Kernel>
cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, Kernel*, const cudaLaunchConfig_t*) {
  EMULATOR_CALL
  *size = 8;  // more only for a kernel that has asked for it
  return cudaSuccess;
}

// kernel<<<grid, block, dynamic_shared_bytes, stream>>>(arguments), as workflow/ladder/build/cuda_syntax.py rewrites it:
// emulator_launch(EMULATOR_KERNEL(kernel), grid, block, dynamic_shared_bytes, stream)(arguments).
#define EMULATOR_TEXT_OF(...) #__VA_ARGS__
// Its address is known where it is no template, or one that is told all its arguments, and where the types of the arguments
// are those of its parameters. The first argument of emulator_pointer puts off to the call whether there is such a function.
template <typename... Parameters>
auto emulator_pointer(int, void (*kernel)(Parameters...)) {
  return kernel;
}
#define EMULATOR_KERNEL(...)                                                                                \
  EMULATOR_TEXT_OF(__VA_ARGS__),                                                                            \
      [=](auto... emulator_arguments) EMULATOR_PLAIN { __VA_ARGS__(emulator_arguments...); },               \
      [=](auto emulator_late) EMULATOR_PLAIN -> decltype(emulator_pointer(emulator_late, __VA_ARGS__)) {    \
        return emulator_pointer(emulator_late, __VA_ARGS__);                                                \
      },                                                                                                    \
      [=](auto... emulator_arguments)                                                                       \
          EMULATOR_PLAIN -> decltype(static_cast<void (*)(decltype(emulator_arguments)...)>(__VA_ARGS__)) { \
            return __VA_ARGS__;                                                                             \
          }

template <typename Kernel, typename Pointer, typename Address>
struct EmulatedLaunch {
  const char* name;
  Kernel kernel;
  Pointer pointer;
  Address address;
  dim3 grid, block;
  size_t dynamic_shared_bytes;
  cudaStream_t stream;
  const char* file;

  template <typename... Arguments>
  void operator()(Arguments... arguments) const {
    emulator::Configuration as = {grid, block, dynamic_shared_bytes, stream};
    as.file = file;
    if constexpr (std::is_invocable_v<Pointer, int>) {
      launch(pointer(0), as, arguments...);
    } else if constexpr (std::is_invocable_v<Address, Arguments...>) {
      launch(address(arguments...), as, arguments...);
    } else {
      auto run = [kernel = kernel, arguments...]() EMULATOR_PLAIN { kernel(arguments...); };
      using Run = decltype(run);
      void (*invoke)(const void*) = [](const void* closure) EMULATOR_PLAIN { (*static_cast<const Run*>(closure))(); };
      as.closure_bytes = sizeof run;
      emulator_error(emulator::run_grid(invoke, &run, reinterpret_cast<uintptr_t>(invoke), false, name, as));
    }
  }
  template <typename... Parameters, typename... Arguments>
  static void launch(void (*kernel)(Parameters...), const emulator::Configuration& as, Arguments... arguments) {
    LaunchedKernel<Parameters...> launched = {kernel, {static_cast<Parameters>(arguments)...}};
    emulator_run(launched, as);
  }
};
template <typename Kernel, typename Pointer, typename Address>
EmulatedLaunch<Kernel, Pointer, Address> emulator_launch(const char* name, Kernel kernel, Pointer pointer,
                                                         Address address, dim3 grid, dim3 block,
                                                         size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr,
                                                         const char* file = __builtin_FILE()) {
  return {name, kernel, pointer, address, grid, block, dynamic_shared_bytes, stream, file};
}

// Says when the library is loaded how strictly an array in dynamic shared memory is aligned.
template <size_t BYTES>
struct EmulatorAligned {
  static inline const bool declared = emulator::declare_dynamic_alignment(BYTES);
};

// extern __shared__ T s[]; is a reference to it. `Aligned` is a class that is aligned as the array is declared.
template <typename Array, typename Aligned>
EMULATOR_INLINE Array& emulator_extern_shared() {
  static_cast<void>(&EmulatorAligned<alignof(Aligned)>::declared);
  return reinterpret_cast<Array&>(*emulator::dynamic_shared_memory());
}

#endif
