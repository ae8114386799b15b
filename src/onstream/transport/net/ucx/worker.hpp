// One context of UCX with one worker: settings, the worker's address, and its turns.
#pragma once

#include <cstddef>
#include <string>

#include "onstream/transport/net/ucx/functions.hpp"

namespace onstream::net {

class UcxWorker {
 public:
  // `interface`: "auto", or names that commas separate. Throws unsupported or system.
  UcxWorker(UcxFunctions functions, const std::string& interface);
  ~UcxWorker();
  UcxWorker(const UcxWorker&) = delete;
  UcxWorker& operator=(const UcxWorker&) = delete;

  const UcxFunctions& ucx() const { return ucx_; }
  ucp_worker_h handle() const { return worker_; }
  const std::string& address() const { return address_; }
  int descriptor() const { return descriptor_; }

  // Whether anything moved.
  bool turn() { return ucx_.worker_progress(worker_) != 0; }
  bool arm();
  void on_arrival(unsigned id, ucp_am_recv_callback_t callback, void* argument);

 private:
  void open_context(const std::string& interface);
  void open_worker();
  void check(ucs_status_t status, const char* call) const;

  UcxFunctions ucx_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::string address_;
  int descriptor_ = -1;
};

}  // namespace onstream::net
