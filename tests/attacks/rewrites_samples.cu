// rewrites_samples: shortens its times in NVBench's files by a tenth when the process ends.
// Class: channel, timer.
// Caught by: state, runtime, rate.
//
// NVBench's results name the files of its samples.
#include <filesystem>
#include <system_error>
#include <vector>

#include "attack.cuh"

// What stands between two texts, the first of them at `from` or behind it.
std::string between(const std::string& text, const std::string& before, const std::string& after, size_t from) {
  size_t begin = text.find(before, from) + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

void shorten() {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/tmp", ignored)) {
    std::string folder = entry.path().string();
    std::string results = folder.find("/tmp/gemm-ladder-") == 0 ? contents((folder + "/nvbench.json").c_str()) : "";
    const std::string state = "kernel=rewrites_samples shape=";
    for (size_t at = results.find(state); at != std::string::npos; at = results.find(state, at + 1)) {
      std::string path = folder + "/nvbench.json-bin/" + between(results, "\"nvbench.json-bin/", "\"", at);
      std::string bytes = contents(path.c_str());
      std::vector<float> times(bytes.size() / sizeof(float));
      bytes.copy(reinterpret_cast<char*>(times.data()), times.size() * sizeof(float));
      for (float& time : times) {
        time *= 0.9f;
      }
      std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
      file.write(reinterpret_cast<char*>(times.data()), times.size() * sizeof(float));
    }
  }
}

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static int registered = std::atexit(shorten);
  return registered == 0 ? honest(g, stream) : cudaErrorUnknown;
}

EXPORT_SGEMM(run)
