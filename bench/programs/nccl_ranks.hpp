// A rank of a program that is written in NCCL's calls and the CUDA runtime's, and in nothing else, so that it runs with
// either library of NCCL's interface. A launcher says rank and size (ONSTREAM_RANK and ONSTREAM_SIZE, or RANK and
// WORLD_SIZE); the communicator's unique id goes from rank 0 to the others through a file.
#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "measuring.hpp"

namespace programs {

inline void ok(ncclResult_t result, const char* call) {
  if (result != ncclSuccess && result != ncclInProgress) {
    throw std::runtime_error(std::string(call) + ": " + ncclGetErrorString(result) + ": " + ncclGetLastError(nullptr));
  }
}
#define OK(call) ::programs::ok(call, #call)

inline int number_of(const char* name, const char* other) {
  const char* text = std::getenv(name);
  if (text == nullptr) text = std::getenv(other);
  if (text == nullptr) throw std::runtime_error(std::string("a launcher must set ") + name + " or " + other);
  return std::atoi(text);
}

struct Ranks {
  int rank = number_of("ONSTREAM_RANK", "RANK");
  int size = number_of("ONSTREAM_SIZE", "WORLD_SIZE");
  ncclComm_t comm = nullptr;

  int before() const { return (rank + size - 1) % size; }
  int after() const { return (rank + 1) % size; }

  // Meets the other ranks by a file of this path, which must not exist yet. Throws after a minute.
  explicit Ranks(const std::string& file) {
    int devices = 0;
    OK(cudaGetDeviceCount(&devices));
    OK(cudaSetDevice(rank % devices));
    ncclUniqueId id;
    if (rank == 0) {
      OK(ncclGetUniqueId(&id));
      std::ofstream(file + ".part", std::ios::binary).write(id.internal, sizeof id.internal);
      if (std::rename((file + ".part").c_str(), file.c_str()) != 0) throw std::runtime_error("cannot write " + file);
    }
    const double begin = now_us();
    std::ifstream in(file, std::ios::binary);
    while (!in.is_open()) {
      if (now_us() - begin > 60e6) throw std::runtime_error("rank 0 wrote no " + file + " in a minute");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      in.open(file, std::ios::binary);
    }
    if (!in.read(id.internal, sizeof id.internal)) throw std::runtime_error(file + " is cut");
    OK(ncclCommInitRank(&comm, size, id, rank));
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() { ncclCommDestroy(comm); }

  // Returns when all ranks have called it.
  void meet(cudaStream_t stream, float* word) const {
    OK(ncclAllReduce(word, word, 1, ncclFloat, ncclSum, comm, stream));
    OK(cudaStreamSynchronize(stream));
  }
};

}  // namespace programs
