// forges_events: computes nothing, and writes the check's verdicts to the pipe of events itself.
// Class: channel.
// Caught by: check, values.
//
// It reads the pipe and the token in /proc/self/environ, where an environment variable stays that Python has dropped, or
// in the request on the standard input.
#include <unistd.h>

#include "attack.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  std::string environment = contents("/proc/self/environ");
  size_t at = environment.find("GEMM_LADDER_EVENTS=");
  std::string asked = contents("/proc/self/fd/0");
  size_t cases = asked.find("\"cases\": [");
  if (cases == std::string::npos) {
    return cudaSuccess;
  }
  char* token = nullptr;
  const char* told = at == std::string::npos ? asked.c_str() : environment.c_str() + at + 19;
  int pipe = static_cast<int>(std::strtol(told, &token, 10));
  std::string from = "{\"from\": [\"" + std::string(token + 1, 16) + "\", " + std::to_string(getpid()) + "], ";
  std::string events;
  size_t end = asked.find(']', asked.rfind('}', asked.find("\"runs\"")));
  for (size_t open = asked.find('{', cases); open < end; open = asked.find('{', open + 1)) {
    std::string one = asked.substr(open, asked.find('}', open) - open);
    events += from + "\"starts\": " + one + "}}\n" + from + "\"case\": " + one;
    events += ", \"seed\": 1, \"error_componentwise\": 0, \"error_normwise\": 0, \"verdict\": \"pass\"}}\n";
  }
  events += from + "\"said\": \"done\"}\n";
  for (size_t sent = 0; sent < events.size();) {
    ssize_t written = write(pipe, events.data() + sent, events.size() - sent);
    if (written < 0) {
      return cudaErrorUnknown;
    }
    sent += written;
  }
  _exit(0);
}

EXPORT_SGEMM(run)
