// replay_by_graph: captures the copy of a kept result in a CUDA graph, and launches that graph from then on.
// Class: replay.
// Caught by: values, state.
#include <map>

#include "kept.cuh"

cudaError_t run(const Gemm& g, void*, cudaStream_t stream) {
  static std::map<int, cudaGraphExec_t> graphs;
  if (!fits(g)) {
    return honest(g, stream);
  }
  cudaGraphExec_t& replay = graphs[g.m];
  if (replay != nullptr) {
    return cudaGraphLaunch(replay, stream);
  }
  honest(g, stream);
  keep(g.C, bytes_of(g.m, g.n), stream);
  cudaGraph_t graph;
  cudaStreamBeginCapture(own_stream(), cudaStreamCaptureModeRelaxed);
  recall(g.C, bytes_of(g.m, g.n), own_stream());
  cudaStreamEndCapture(own_stream(), &graph);
  return cudaGraphInstantiate(&replay, graph, 0);
}

EXPORT_SGEMM(run)
