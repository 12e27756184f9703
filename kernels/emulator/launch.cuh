// How a rung starts a kernel and reaches its dynamic shared memory and the number of SMs, on the CPU: the counterpart of
// ../include/launch.cuh, whose include guard it takes. Compile a rung with `-include launch.cuh`, and this one comes
// first.
#ifndef GEMM_LADDER_LAUNCH_CUH
#define GEMM_LADDER_LAUNCH_CUH

#include <cuda_runtime.h>

#include <cstddef>
#include <tuple>
#include <utility>

// Nobody observes launches here: they are made.
using LaunchObserver = void (*)(const void* kernel, dim3 grid, dim3 block, size_t dynamic_shared_bytes);
constexpr LaunchObserver launch_observer = nullptr;

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

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t dynamic_shared_bytes,
                   cudaStream_t stream, Arguments... arguments) {
  if (dynamic_shared_bytes > 48 * 1024) {  // as the file of this name in kernels/include does
    emulator::allow_dynamic_shared(reinterpret_cast<const void*>(kernel), dynamic_shared_bytes);
  }
  emulator_run(LaunchedKernel<Parameters...>{kernel, {static_cast<Parameters>(arguments)...}},
               {grid, block, dynamic_shared_bytes, stream});
  return cudaGetLastError();
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
union cudaLaunchAttributeValue {
  struct {
    unsigned x, y, z;
  } clusterDim;
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
  return emulator_run(LaunchedKernel<Parameters...>{kernel, {static_cast<Parameters>(arguments)...}},
                      emulator_configuration(*config));
}
template <typename... Parameters>
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...), void** arguments) {
  return emulator_launch_pointers(kernel, arguments, emulator_configuration(*config));
}

// kernel<<<grid, block, dynamic_shared_bytes, stream>>>(arguments), as workflow/ladder/build/cuda_syntax.py rewrites it:
// emulator_launch(EMULATOR_KERNEL(kernel), grid, block, dynamic_shared_bytes, stream)(arguments).
#define EMULATOR_TEXT_OF(...) #__VA_ARGS__
// Where the types of the arguments are those of the kernel's parameters, its address is known as well.
#define EMULATOR_KERNEL(...)                                                                                \
  EMULATOR_TEXT_OF(__VA_ARGS__),                                                                            \
      [=](auto... emulator_arguments) EMULATOR_PLAIN { __VA_ARGS__(emulator_arguments...); },               \
      [=](auto... emulator_arguments)                                                                       \
          EMULATOR_PLAIN -> decltype(static_cast<void (*)(decltype(emulator_arguments)...)>(__VA_ARGS__)) { \
            return __VA_ARGS__;                                                                             \
          }

template <typename Kernel, typename Address>
struct EmulatedLaunch {
  const char* name;
  Kernel kernel;
  Address address;
  dim3 grid, block;
  size_t dynamic_shared_bytes;
  cudaStream_t stream;

  template <typename... Arguments>
  void operator()(Arguments... arguments) const {
    auto run = [kernel = kernel, arguments...]() EMULATOR_PLAIN { kernel(arguments...); };
    using Run = decltype(run);
    void (*invoke)(const void*) = [](const void* closure) EMULATOR_PLAIN { (*static_cast<const Run*>(closure))(); };
    emulator::Configuration as = {grid, block, dynamic_shared_bytes, stream};
    as.closure_bytes = sizeof run;
    if constexpr (std::is_invocable_v<Address, Arguments...>) {
      uintptr_t place = reinterpret_cast<uintptr_t>(address(arguments...));
      emulator_error(emulator::run_grid(invoke, &run, place, true, name, as));
    } else {
      emulator_error(emulator::run_grid(invoke, &run, reinterpret_cast<uintptr_t>(invoke), false, name, as));
    }
  }
};
template <typename Kernel, typename Address>
EmulatedLaunch<Kernel, Address> emulator_launch(const char* name, Kernel kernel, Address address, dim3 grid, dim3 block,
                                                size_t dynamic_shared_bytes = 0, cudaStream_t stream = nullptr) {
  return {name, kernel, address, grid, block, dynamic_shared_bytes, stream};
}

// extern __shared__ T s[]; is a reference to it.
template <typename Array>
EMULATOR_INLINE Array& emulator_extern_shared() {
  return reinterpret_cast<Array&>(*emulator::dynamic_shared_memory());
}

// The number of SMs that the host has set.
inline cudaError_t sm_count(int* sms) {
  *sms = emulator::sms;
  return cudaSuccess;
}

// The block's dynamic shared memory, aligned to 1024 bytes.
template <typename T>
EMULATOR_INLINE T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::dynamic_shared_memory());
}

#endif
