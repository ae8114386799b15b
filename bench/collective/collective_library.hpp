// The library under measurement, as the collective bench sees it.
#pragma once

#include <memory>
#include <string>

#include "collective_case.hpp"
#include "onstream/device.hpp"
#include "onstream/launch.hpp"

namespace onstream {
struct Parameters;
}

namespace onstream::bench {

class CollectiveLibrary {
 public:
  virtual ~CollectiveLibrary() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual Device& device() const = 0;
  virtual std::string heading() const = 0;  // a JSON object
  virtual std::byte* input() const = 0;     // of as many bytes as the largest case
  virtual std::byte* output() const = 0;
  virtual void enqueue(const CollectiveCase& c, Stream stream) = 0;
  virtual void run_host(const CollectiveCase& c) = 0;  // throws unsupported where there is none
  virtual void barrier(Stream stream) = 0;             // of the hosts
  virtual void synchronize(Stream stream) = 0;
  // Whether a call that it cannot capture shall be measured eagerly.
  virtual bool eager_instead() const { return false; }
  virtual std::string explain(const CollectiveCase&) { return ""; }
  virtual void abort(const std::string& reason) = 0;
};

struct CollectiveSetup {
  Launch launch;
  std::string device;
  MemoryKind memory = MemoryKind::device;
  std::size_t largest = 0;
  std::string file;    // of the library, when it is not onstream
  bool plain = false;  // NCCL: buffers are not registered with it
};

constexpr double kMeetS = 60;  // how long the ranks of a peer wait for each other at the start

std::unique_ptr<CollectiveLibrary> open_onstream_collectives(const CollectiveSetup& setup,
                                                             const Parameters& parameters);
std::unique_ptr<CollectiveLibrary> open_nccl_collectives(const CollectiveSetup& setup);
std::unique_ptr<CollectiveLibrary> open_nvshmem_collectives(const CollectiveSetup& setup);

}  // namespace onstream::bench
