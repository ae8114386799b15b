// bench_message: times messages between ranks and prints raw samples; `onstream bench message` starts it.
//
//   bench_message [OPTIONS] GROUP [--then GROUP]...      GROUP: [OPTIONS OF THE GROUP] CASE...
//     CASE              see message_case.hpp
//     --device SPEC     host, cuda, cuda:N
//     --samples N
//     --threads         two ranks as threads of this process
//     --library NAME    onstream, nccl or nvshmem; the latter two with --file, which the loader gets
//     --then            begins another group, with a world of its own
//   of a group:
//     --from KIND, --to KIND    where messages come from and go to: device, pinned, managed, host
//     --path PATH       of every message
//     --set NAME=VALUE  a parameter; may be repeated
//
// Several processes under any launcher. Rank 0 prints JSON lines: for each group a heading, then one a case with all
// its samples, and if it failed {"error": why}; the statistics are the driver's. Exits with status 1 after any error,
// wrong data included; of several groups only if all failed. Waits of onstream end at the deadline of the world
// (ONSTREAM_TIMEOUT_S); a peer that hangs is ended by the driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "message_modes.hpp"
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/parameters.hpp"
#include "support/options.hpp"

namespace {

using namespace onstream;

struct Group {
  MemoryKind from = MemoryKind::device;
  MemoryKind to = MemoryKind::device;
  Path path = Path::automatic;
  bench::Settings parameters;
  std::vector<bench::Case> cases;
};

struct Setup {
  std::string library = "onstream";
  std::string file;
  std::string device;
  int samples = 10;
  bool threads = false;  // of this process; else the ranks are processes
  std::vector<Group> groups;
};

Setup setup_from(int argc, char** argv) {
  Setup setup;
  Group group;
  const auto next_group = [&] { setup.groups.push_back(std::exchange(group, Group())); };
  bench::Options()
      .text("--device", setup.device)
      .memory("--from", group.from)
      .memory("--to", group.to)
      .value("--path", [&](const std::string& name) { group.path = path_from(name); })
      .setting("--set", group.parameters)
      .count("--samples", setup.samples, 1, 100'000)
      .flag("--threads", [&] { setup.threads = true; })
      .text("--library", setup.library)
      .text("--file", setup.file)
      .flag("--then", next_group)
      .others([&](const std::string& word) { group.cases.push_back(bench::case_from(word)); })
      .read(argc, argv);
  next_group();
  for (const Group& each : setup.groups) {
    require(!each.cases.empty(), "no case given; a case is MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW");
  }
  return setup;
}

std::unique_ptr<bench::Library> open(const Setup& setup, const Group& group, const Launch& launch) {
  bench::LibraryOptions wanted{launch, setup.device, group.from, group.to, group.path, 0, setup.file};
  for (const bench::Case& c : group.cases) wanted.largest = std::max(wanted.largest, c.buffer_bytes());
  if (setup.library == "onstream") {
    return bench::open_onstream(wanted, bench::parameters_from(setup.device, group.parameters));
  }
  require(!wanted.file.empty(), "--library ", setup.library, " needs --file, the library to load");
  require(setup.groups.size() == 1, "--library ", setup.library, " has one group, --then is onstream's");
  if (wanted.device.empty()) wanted.device = "cuda";
  if (setup.library == "nccl") return bench::open_nccl(wanted);
  if (setup.library == "nvshmem") return bench::open_nvshmem(wanted);
  fail(ErrorCode::invalid_argument, "--library is '", setup.library, "'; there are onstream, nccl, nvshmem");
}

void run_group(const Setup& setup, const Group& group, const Launch& launch) {
  const std::unique_ptr<bench::Library> library = open(setup, group, launch);
  try {
    bench::Runner runner(*library);
    if (library->rank() == 0) std::cout << library->heading() << std::endl;
    for (const bench::Case& c : group.cases) {
      const std::vector<double> samples_s = runner.run(c, setup.samples);
      if (library->rank() == 0) std::cout << bench::json_of(c, samples_s) << std::endl;
    }
  } catch (const std::exception& error) {
    library->abort(error.what());  // so that the other ranks end too
    throw;
  }
}

// A group that fails fails on every rank, so all go on to the next together.
void run_groups(const Setup& setup, const Launch& launch) {
  std::size_t failed = 0;
  for (const Group& group : setup.groups) {
    if (launch.rank == 0 && setup.groups.size() > 1) {
      std::cout << "{\"group\":" << &group - setup.groups.data() << "}" << std::endl;
    }
    try {
      run_group(setup, group, launch);
    } catch (const std::exception& error) {
      if (launch.rank == 0) std::cout << "{\"error\":" << bench::quoted(error.what()) << "}" << std::endl;
      if (++failed == setup.groups.size()) throw;
    }
  }
}

void run_threads(const Setup& setup) {
  const std::string secret = to_hex(random_bytes(16));
  const std::string address = "unix:onstream-bench-" + to_hex(random_bytes(16));
  std::vector<std::exception_ptr> errors(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      Launch launch;
      launch.rank = launch.local_rank = rank;
      launch.size = launch.local_size = 2;
      launch.address = address;
      launch.secret = secret;
      launch.launcher = "threads";
      try {
        run_groups(setup, launch);
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace

void onstream::bench::end_process(const std::string& reason) {
  std::fprintf(stderr, "bench_message: %s\n", reason.c_str());
  std::_Exit(1);
}

int main(int argc, char** argv) {
  try {
    const Setup setup = setup_from(argc, argv);
    if (setup.threads) {
      run_threads(setup);
    } else {
      run_groups(setup, launch_from_environment());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_message: %s\n", error.what());
    return 1;
  }
}
