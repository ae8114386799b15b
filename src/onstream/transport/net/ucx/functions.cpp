#include "onstream/transport/net/ucx/functions.hpp"

#include <dlfcn.h>
#include <ucs/config/global_opts.h>

#include <type_traits>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/base/foreign_variable.hpp"
#include "onstream/base/log.hpp"

namespace onstream::net {
namespace {

constexpr const char* kLibrary = "libucp.so.0";  // the number of its binary interface
constexpr unsigned kOldestMajor = 1;
constexpr unsigned kOldestMinor = 13;

// A UCX that nobody else has loaded is quiet, as the caller is told all that it would print, and leaves the signals to
// the program. The user's own settings win.
void calm(void* library) {
  decltype(&::ucs_global_opts_set_value) set = nullptr;
  void (*disable)() = nullptr;
  set = reinterpret_cast<decltype(set)>(::dlsym(library, "ucs_global_opts_set_value"));
  disable = reinterpret_cast<void (*)()>(::dlsym(library, "ucs_debug_disable_signals"));
  if (set != nullptr && !foreign_variable("UCX_LOG_LEVEL")) (void)set("LOG_LEVEL", "fatal");
  if (disable != nullptr && !foreign_variable("UCX_HANDLE_ERRORS")) disable();
}

UcxFunctions loaded_from(const std::string& file) {
  const bool is_ours = ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD) == nullptr;
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const why = ::dlerror();
    fail(ErrorCode::unsupported, why != nullptr ? why : file.c_str());
  }
  UcxFunctions out;
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) fail(ErrorCode::unsupported, file, " has no ", name);
  };
  unsigned release = 0;
  find(out.get_version, "ucp_get_version");
  out.get_version(&out.major, &out.minor, &release);
  out.version = concat(out.major, ".", out.minor, ".", release);
  if (out.major != kOldestMajor || out.minor < kOldestMinor) {
    fail(ErrorCode::unsupported, file, " is UCX ", out.version, ", but ", kOldestMajor, ".", kOldestMinor,
         " or a newer 1.x is needed");
  }
  if (is_ours) calm(library);
  find(out.config_read, "ucp_config_read");
  find(out.config_modify, "ucp_config_modify");
  find(out.config_release, "ucp_config_release");
  find(out.init_version, "ucp_init_version");
  find(out.cleanup, "ucp_cleanup");
  find(out.worker_create, "ucp_worker_create");
  find(out.worker_destroy, "ucp_worker_destroy");
  find(out.worker_get_address, "ucp_worker_get_address");
  find(out.worker_release_address, "ucp_worker_release_address");
  find(out.worker_get_efd, "ucp_worker_get_efd");
  find(out.worker_arm, "ucp_worker_arm");
  find(out.worker_progress, "ucp_worker_progress");
  find(out.set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  find(out.ep_create, "ucp_ep_create");
  find(out.ep_close_nbx, "ucp_ep_close_nbx");
  find(out.ep_flush_nbx, "ucp_ep_flush_nbx");
  find(out.ep_query, "ucp_ep_query");
  find(out.am_send_nbx, "ucp_am_send_nbx");
  find(out.am_recv_data_nbx, "ucp_am_recv_data_nbx");
  find(out.am_data_release, "ucp_am_data_release");
  find(out.request_free, "ucp_request_free");
  find(out.status_string, "ucs_status_string");
  return out;
}

}  // namespace

UcxFunctions load_ucx(const UcxPlaces& places) {
  std::vector<std::string> files = {places.library};
  if (places.library == "auto") {
    files = {kLibrary};
    if (places.wheel != "none") files.push_back(places.wheel);
  }
  std::string reasons;
  for (const std::string& file : files) {
    try {
      UcxFunctions found = loaded_from(file);
      log(LogLevel::info, "the network is that of UCX ", found.version, " (", file, ")");
      return found;
    } catch (const Error& error) {
      reasons += concat("\n", error.what());
    }
  }
  fail(ErrorCode::unsupported,
       "no UCX that carries messages between hosts can be used. Install one (pip install onstream[net]), load the "
       "site's (module load ucx), or name its libucp.so.0 with the parameter ucx_library. Tried:",
       reasons);
}

}  // namespace onstream::net
