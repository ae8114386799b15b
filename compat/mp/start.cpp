// Start and end: mp_init's part behind MPI, mp_finalize, mp_query_param.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "guarded.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/exit_status.hpp"
#include "onstream/bootstrap/host.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/device.hpp"

namespace onstream::mp {

namespace {

// As the program is loaded, before it calls CUDA, which reads these when it starts; a value that the user chose stays.
// Programs of this interface have kernels wait for messages and launch others beside them: none may have to be loaded
// then, nor share a hardware queue with one that waits.
[[gnu::constructor]] void prepare_environment() {
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

void copy_text(char text[ONSTREAM_MP_TEXT], const std::string& from) {
  std::memset(text, 0, ONSTREAM_MP_TEXT);
  from.copy(text, ONSTREAM_MP_TEXT - 1);
}

std::string random_hex() {
  std::random_device random;
  return to_hex(sha256(concat(random(), ' ', random(), ' ', random(), ' ', random()))).substr(0, 32);
}

// "ADDRESS PORT SECRET".
Launch launch_of(const onstream_mp_start& start) {
  const std::string meeting = start.meeting;
  const std::size_t port = meeting.find(' ');
  const std::size_t secret = meeting.rfind(' ');
  demand(port != std::string::npos && secret > port, MP_FAILURE, "rank 0 could not say where to meet");
  Launch launch;
  launch.rank = start.rank;
  launch.size = start.size;
  launch.local_rank = start.local_rank;
  launch.local_size = start.local_size;
  launch.address = meeting.substr(0, port);
  launch.port = std::stoi(meeting.substr(port + 1, secret - port - 1));
  launch.secret = meeting.substr(secret + 1);
  launch.launcher = "mp_init";
  return launch;
}

// Like libmp's queue pairs: one tag a pair; 1024 receives ahead (libmp: 512); sends run ahead by half a megabyte.
Parameters parameters_of(const onstream_mp_start& start) {
  Parameters parameters = Parameters::from_environment();
  const auto prefer = [&](const char* name, const std::string& value) {
    for (const ParameterRow& row : parameters.rows()) {
      if (row.name == name && row.set_by == "default") return parameters.set(name, value);
    }
  };
  prefer("tags", "1");
  prefer("tag_bytes", "1048576");
  prefer("tag_receives", "1024");
  const bool gpus = no_cuda_reason().empty();
  prefer("device", gpus ? concat("cuda:", start.device) : "host");
  return parameters;
}

// The errors that this rank can tell before it meets the others, which would wait for it.
void demand_start(const onstream_mp_start& start) {
  demand(running() == nullptr, MP_FAILURE, "libmp is initialised already; call mp_finalize first");
  demand(start.peer_count >= 0 && (start.peers != nullptr || start.peer_count == 0), MP_FAILURE, "there are ",
         start.peer_count, " peers at ", start.peers);
  for (const int peer : std::span(start.peers, static_cast<std::size_t>(start.peer_count))) {
    demand(peer >= 0 && peer < start.size, MP_FAILURE, "peer ", peer, " is no rank of the communicator, which has ",
           start.size);
  }
  parameters_of(start);
}

}  // namespace

std::unique_ptr<Runtime>& running() {
  // Never destroyed: a program that ends without mp_finalize takes its threads with it.
  static auto* const runtime = new std::unique_ptr<Runtime>;
  return *runtime;
}

}  // namespace onstream::mp

using namespace onstream;
using namespace onstream::mp;

void onstream_mp_host(char text[ONSTREAM_MP_TEXT]) {
  try {
    const Host host = this_host();
    copy_text(text, concat(host.boot_id, ' ', host.network_namespace));
  } catch (const std::exception& error) {
    log(LogLevel::error, "mp_init: ", error.what());
    copy_text(text, "unknown");
  }
}

void onstream_mp_refusal(const onstream_mp_start* start, char text[ONSTREAM_MP_TEXT]) {
  try {
    copy_text(text, "");
    demand_start(*start);
  } catch (const std::exception& error) {
    copy_text(text, error.what());
  }
}

void onstream_mp_refused(int rank, const char* text) { log(LogLevel::error, "mp_init: rank ", rank, ": ", text); }

void onstream_mp_meeting(char text[ONSTREAM_MP_TEXT], int one_host) {
  try {
    if (one_host != 0) return copy_text(text, concat("unix:onstream-mp-", random_hex(), " 0 ", random_hex()));
    constexpr int kFirstPort = 20000;
    constexpr int kPorts = 10000;
    std::random_device random;
    const int port = kFirstPort + static_cast<int>(random() % kPorts);
    copy_text(text, concat(this_host().name, ' ', port, ' ', random_hex()));
  } catch (const std::exception& error) {
    log(LogLevel::error, "mp_init: ", error.what());
    copy_text(text, "");
  }
}

int onstream_mp_begin(const onstream_mp_start* start) {
  try {
    const std::span peers(start->peers, static_cast<std::size_t>(start->peer_count));
    running() = std::make_unique<Runtime>(launch_of(*start), parameters_of(*start), peers);
    return MP_SUCCESS;
  } catch (const std::exception& error) {
    log(LogLevel::error, "mp_init: ", error.what());
    return MP_FAILURE;
  }
}

void mp_finalize(void) {
  guarded("mp_finalize", [](Runtime& runtime) {
    try {
      runtime.world().finish();
    } catch (const Error& error) {
      // This process's own, which mp_finalize cannot return. A message that was cut is told by its wait.
      if (error.of_failure() && !runtime.failure_told()) {
        log(LogLevel::error, "mp_finalize: ", runtime.told(error));
        end_with_failure();
      }
    }
    try {
      runtime.world().barrier();  // peers may still be putting
    } catch (const std::exception& error) {
      if (!runtime.failure_told()) log(LogLevel::error, "mp_finalize: ", runtime.told(error));
    }
    running().reset();
    return MP_SUCCESS;
  });
}

int mp_query_param(mp_param_t param, int* value) {
  if (param != MP_PARAM_VERSION || value == nullptr) return EINVAL;
  *value = MP_API_VERSION;
  return MP_SUCCESS;
}
