// replay_by_hash: hashes every element of A and B, and copies the kept result if the hash is the last one.
// Class: replay.
// Caught by: no gain.
#define SAMPLED 1
#include "replay_by_sample.cu"
