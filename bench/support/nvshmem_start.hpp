// How NVSHMEM is started: the declarations of its public host interface (3.x, whose structures carry their version)
// that all its programs here need. The library is opened at run time; the ranks pass the unique id as they like.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "onstream/base/error.hpp"
#include "shared_object.hpp"

namespace onstream::bench {

// nvshmemx_uniqueid_v1, nvshmemx_uniqueid_args_v1, nvshmemx_init_args_v1, nvshmemx_init_attr_v1.
struct NvshmemId {
  int version;
  std::array<char, 124> internal;
};
struct NvshmemIdArguments {
  int version;
  NvshmemId* id;
  int rank;
  int ranks;
};
struct NvshmemInitArguments {
  int version;
  NvshmemIdArguments unique_id;
  std::array<char, 96> content;
};
struct NvshmemInitAttributes {
  int version;
  void* mpi_communicator;
  NvshmemInitArguments arguments;
};
static_assert(sizeof(NvshmemId) == 128 && sizeof(NvshmemIdArguments) == 24);
static_assert(sizeof(NvshmemInitArguments) == 128 && sizeof(NvshmemInitAttributes) == 144);

struct NvshmemStart {
  void (*get_version)(int*, int*, int*);
  int (*get_unique_id)(NvshmemId*);
  int (*set_unique_id)(int, int, const NvshmemId*, NvshmemInitAttributes*);
  int (*init)(unsigned, NvshmemInitAttributes*);
  void (*finalize)();
  void* (*malloc)(std::size_t);
  void (*free)(void*);
  void (*barrier_all)();

  explicit NvshmemStart(const SharedObject& object) {
    object.find(get_version, "nvshmemx_vendor_get_version_info");
    object.find(get_unique_id, "nvshmemx_get_uniqueid");
    object.find(set_unique_id, "nvshmemx_set_attr_uniqueid_args");
    object.find(init, "nvshmemx_hostlib_init_attr");
    object.find(finalize, "nvshmemx_hostlib_finalize");
    object.find(malloc, "nvshmem_malloc");
    object.find(free, "nvshmem_free");
    object.find(barrier_all, "nvshmem_barrier_all");
  }

  static void check(int result, const char* what) {
    if (result != 0) fail(ErrorCode::system, what, " failed with ", result, "; NVSHMEM_DEBUG=INFO tells more");
  }
  // For one rank, which gives it to all.
  void make(NvshmemId& id) const {
    id.version = version_of<NvshmemId>();
    check(get_unique_id(&id), "nvshmemx_get_uniqueid");
  }
  void start(const NvshmemId& id, int rank, int ranks) const {
    NvshmemInitAttributes attributes{};
    attributes.version = version_of<NvshmemInitAttributes>();
    attributes.arguments.version = version_of<NvshmemInitArguments>();
    attributes.arguments.unique_id.version = version_of<NvshmemIdArguments>();
    check(set_unique_id(rank, ranks, &id, &attributes), "nvshmemx_set_attr_uniqueid_args");
    constexpr unsigned kWithUniqueId = 1u << 3;
    check(init(kWithUniqueId, &attributes), "nvshmemx_hostlib_init_attr");
  }
  // Symmetric memory. Collective.
  void* allocate(std::size_t bytes) const {
    void* memory = malloc(bytes);
    if (memory == nullptr) {
      fail(ErrorCode::system, "nvshmem_malloc of ", bytes, " B failed; raise NVSHMEM_SYMMETRIC_SIZE");
    }
    return memory;
  }
  std::string version() const {
    int major = 0;
    int minor = 0;
    int patch = 0;
    get_version(&major, &minor, &patch);
    return concat(major, ".", minor, ".", patch);
  }

 private:
  template <class Struct>
  static constexpr int version_of() {
    return (1 << 16) + static_cast<int>(sizeof(Struct));
  }
};

}  // namespace onstream::bench
