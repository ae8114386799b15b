#include "onstream/transport/net/ucx/worker.hpp"

#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/foreign_variable.hpp"

namespace onstream::net {
namespace {

struct UcxSetting {
  const char* name;
  std::string value;
};

// Ranks of one host have the library's own paths, so UCX's shared memory is off. With 80 KiB a message of 64 KiB and
// its header stays one piece over TCP, which halves its time (25 us one way, 50 by default); 128 KiB is slower again.
// The times find a dead host within two seconds; by default UCX takes more than a minute.
std::vector<UcxSetting> our_settings(const std::string& interface) {
  std::vector<UcxSetting> settings = {
      {"TLS", "^sm"},       {"TCP_RX_SEG_SIZE", "80k"},     {"TCP_KEEPIDLE", "1s"},          {"TCP_KEEPINTVL", "300ms"},
      {"TCP_KEEPCNT", "3"}, {"TCP_USER_TIMEOUT", "1500ms"}, {"KEEPALIVE_INTERVAL", "500ms"},
  };
  if (interface != "auto") settings.push_back({"NET_DEVICES", interface});
  return settings;
}

}  // namespace

UcxWorker::UcxWorker(UcxFunctions functions, const std::string& interface) : ucx_(std::move(functions)) {
  open_context(interface);
  try {
    open_worker();
  } catch (...) {
    if (worker_ != nullptr) ucx_.worker_destroy(worker_);
    ucx_.cleanup(context_);
    throw;
  }
}

UcxWorker::~UcxWorker() {
  ucx_.worker_destroy(worker_);
  ucx_.cleanup(context_);
}

void UcxWorker::check(ucs_status_t status, const char* call) const {
  if (status == UCS_OK) return;
  fail(ErrorCode::system, "UCX ", ucx_.version, " refused ", call, ": ", ucx_.status_string(status),
       ". Are the interfaces up, and named rightly in network_interface and UCX_ variables?");
}

void UcxWorker::open_context(const std::string& interface) {
  ucp_config_t* config = nullptr;
  check(ucx_.config_read(nullptr, nullptr, &config), "ucp_config_read");
  for (const UcxSetting& setting : our_settings(interface)) {
    // The user's own setting is in the configuration already. One that this UCX does not have is left out.
    if (foreign_variable(concat("UCX_", setting.name))) continue;
    (void)ucx_.config_modify(config, setting.name, setting.value.c_str());
  }
  ucp_params_t how{};
  how.field_mask = UCP_PARAM_FIELD_FEATURES;
  how.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  const ucs_status_t status = ucx_.init_version(UCP_API_MAJOR, 13, &how, config, &context_);
  ucx_.config_release(config);
  check(status, "ucp_init");
}

void UcxWorker::open_worker() {
  ucp_worker_params_t how{};
  how.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  how.thread_mode = UCS_THREAD_MODE_SERIALIZED;  // any thread, one at a time
  check(ucx_.worker_create(context_, &how, &worker_), "ucp_worker_create");
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  check(ucx_.worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address");
  address_.assign(reinterpret_cast<const char*>(address), bytes);
  ucx_.worker_release_address(worker_, address);
  check(ucx_.worker_get_efd(worker_, &descriptor_), "ucp_worker_get_efd");
}

bool UcxWorker::arm() {
  const ucs_status_t status = ucx_.worker_arm(worker_);
  if (status == UCS_ERR_BUSY) return false;
  check(status, "ucp_worker_arm");
  return true;
}

void UcxWorker::on_arrival(unsigned id, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t how{};
  how.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS | UCP_AM_HANDLER_PARAM_FIELD_CB |
                   UCP_AM_HANDLER_PARAM_FIELD_ARG;
  how.id = id;
  how.flags = UCP_AM_FLAG_WHOLE_MSG;
  how.cb = callback;
  how.arg = argument;
  check(ucx_.set_am_recv_handler(worker_, &how), "ucp_worker_set_am_recv_handler");
}

}  // namespace onstream::net
