// The functions of UCX that are used here, and where they come from.
//
// libucp is loaded when a network is made and never linked: a process may hold another UCX already, MPI's or PyTorch's.
// It stays loaded until the process ends, because it has threads. 1.13 is the oldest with all that is used here.
#pragma once

#include <ucp/api/ucp.h>

#include <string>

namespace onstream::net {

struct UcxFunctions {
  decltype(&::ucp_get_version) get_version = nullptr;
  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_set_am_recv_handler) set_am_recv_handler = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_ep_flush_nbx) ep_flush_nbx = nullptr;
  decltype(&::ucp_ep_query) ep_query = nullptr;  // its transports from 1.14 on
  decltype(&::ucp_am_send_nbx) am_send_nbx = nullptr;
  decltype(&::ucp_am_recv_data_nbx) am_recv_data_nbx = nullptr;
  decltype(&::ucp_am_data_release) am_data_release = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;  // libucs, which libucp brings
  unsigned major = 0;
  unsigned minor = 0;
  std::string version;
};

// The parameters ucx_library and ucx_wheel.
struct UcxPlaces {
  std::string library = "auto";  // or a file
  std::string wheel = "none";    // the file of Python's package libucx, or none
};

// Loads the named file; for auto the loader's own libucp.so.0, else the wheel's. Throws unsupported, with each reason,
// where none can be used.
UcxFunctions load_ucx(const UcxPlaces& places);

}  // namespace onstream::net
