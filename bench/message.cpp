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
// Several processes under any launcher. Rank 0 prints JSON lines: for each group what runs, then one a case with all
// its samples, and if it failed {"error": why}; the statistics are the driver's. Exits with status 1 after any error,
// wrong data included; of several groups only if all failed. Waits of onstream end at the deadline of the world
// (ONSTREAM_TIMEOUT_S); a peer that hangs is ended by the driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "message_modes.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/parameters.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "options.hpp"

namespace {

using namespace onstream;

struct Group {
  MemoryKind from = MemoryKind::device;
  MemoryKind to = MemoryKind::device;
  Path path = Path::automatic;
  std::vector<std::pair<std::string, std::string>> parameters;
  std::vector<bench::Case> cases;
};

struct Options {
  std::string library = "onstream";
  std::string file;
  std::string device;
  int samples = 10;
  bool threads = false;
  std::vector<Group> groups = {Group()};
};

bool read_group_option(Group& group, const std::string& word, bench::Words& words) {
  if (word == "--from") {
    group.from = bench::memory_from(word, words.value());
  } else if (word == "--to") {
    group.to = bench::memory_from(word, words.value());
  } else if (word == "--path") {
    group.path = path_from(words.value());
  } else if (word == "--set") {
    group.parameters.push_back(bench::setting_from(words.value()));
  } else {
    return false;
  }
  return true;
}

void read_option(Options& options, const std::string& word, bench::Words& words) {
  if (read_group_option(options.groups.back(), word, words)) return;
  if (word == "--then") {
    options.groups.emplace_back();
  } else if (word == "--device") {
    options.device = words.value();
  } else if (word == "--samples") {
    options.samples = bench::count_from(word, words.value(), 1, 100'000);
  } else if (word == "--threads") {
    options.threads = true;
  } else if (word == "--library") {
    options.library = words.value();
  } else if (word == "--file") {
    options.file = words.value();
  } else {
    fail(ErrorCode::invalid_argument, "unknown option ", word,
         "; there are --device, --from, --to, --path, --set, --samples, --threads, --library, --file, --then");
  }
}

Options options_from(int argc, char** argv) {
  Options options;
  bench::Words words(argc, argv);
  while (words.more()) {
    const std::string& word = words.next();
    if (word.rfind("--", 0) == 0) {
      read_option(options, word, words);
    } else {
      options.groups.back().cases.push_back(bench::case_from(word));
    }
  }
  for (const Group& group : options.groups) {
    require(!group.cases.empty(), "no case given; a case is MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW");
  }
  return options;
}

std::unique_ptr<bench::Library> open(const Options& options, const Group& group, const Launch& launch) {
  bench::LibraryOptions setup{launch, options.device, group.from, group.to, group.path, 0, options.file};
  for (const bench::Case& c : group.cases) setup.largest = std::max(setup.largest, c.buffer_bytes());
  if (options.library == "onstream") {
    Parameters parameters = Parameters::from_environment();
    if (!setup.device.empty()) parameters.set("device", setup.device);
    for (const auto& [name, value] : group.parameters) parameters.set(name, value);
    return bench::open_onstream(setup, parameters);
  }
  require(!setup.file.empty(), "--library ", options.library, " needs --file, the library to load");
  require(options.groups.size() == 1, "--library ", options.library, " has one group, --then is onstream's");
  if (setup.device.empty()) setup.device = "cuda";
  if (options.library == "nccl") return bench::open_nccl(setup);
  if (options.library == "nvshmem") return bench::open_nvshmem(setup);
  fail(ErrorCode::invalid_argument, "--library is '", options.library, "'; there are onstream, nccl, nvshmem");
}

void run_group(const Options& options, const Group& group, const Launch& launch) {
  const std::unique_ptr<bench::Library> library = open(options, group, launch);
  try {
    bench::Runner runner(*library);
    if (library->rank() == 0) std::cout << library->heading() << std::endl;
    for (const bench::Case& c : group.cases) {
      const std::vector<double> samples_s = runner.run(c, options.samples);
      if (library->rank() == 0) std::cout << bench::json_of(c, samples_s) << std::endl;
    }
  } catch (const std::exception& error) {
    library->abort(error.what());  // so that the other ranks end too
    throw;
  }
}

// A group that fails fails on every rank, so all go on to the next together.
void run_groups(const Options& options, const Launch& launch) {
  std::size_t failed = 0;
  for (const Group& group : options.groups) {
    if (launch.rank == 0 && options.groups.size() > 1) {
      std::cout << "{\"group\":" << &group - options.groups.data() << "}" << std::endl;
    }
    try {
      run_group(options, group, launch);
    } catch (const std::exception& error) {
      if (++failed == options.groups.size()) throw;
      if (launch.rank == 0) std::cout << "{\"error\":" << bench::quoted(error.what()) << "}" << std::endl;
    }
  }
}

void run_threads(const Options& options) {
  std::random_device random;
  const std::string secret = concat(random(), "-", random(), "-", random(), "-", random());
  const std::string address = concat("unix:onstream-bench-", to_hex(sha256(secret)).substr(0, 32));
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
        run_groups(options, launch);
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
    const Options options = options_from(argc, argv);
    if (options.threads) {
      run_threads(options);
    } else {
      run_groups(options, launch_from_environment());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_message: %s\n", error.what());
    return 1;
  }
}
