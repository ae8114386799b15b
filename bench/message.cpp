// bench_message: times messages between ranks and prints raw samples; `onstream bench message` starts it.
//
//   bench_message [OPTIONS] CASE...       CASE: see message_case.hpp
//     --device SPEC     host, cuda, cuda:N
//     --from KIND, --to KIND    where messages come from and go to: device, pinned, managed, host
//     --path PATH       of every message
//     --set NAME=VALUE  a parameter; may be repeated
//     --samples N
//     --threads PORT    two ranks as threads of this process, which meet at this free TCP port
//     --library NAME    onstream, nccl or nvshmem; the latter two with --file, which the loader gets
//
// Several processes under any launcher. Rank 0 prints JSON lines: first what ran, then one a case with all its samples;
// the statistics are the driver's. Exits with status 1 after any error, wrong data included. Waits of onstream end at
// the deadline of the world (ONSTREAM_TIMEOUT_S); a peer that hangs is ended by the driver.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "message_modes.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/parameters.hpp"

namespace {

using namespace onstream;

struct Options {
  std::string library = "onstream";
  bench::LibraryOptions setup;
  std::vector<std::pair<std::string, std::string>> parameters;
  int samples = 10;
  std::optional<int> threads_port;
  std::vector<bench::Case> cases;
};

MemoryKind memory_from(const std::string& option, const std::string& name) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::managed, MemoryKind::host}) {
    if (name == name_of(kind)) return kind;
  }
  fail(ErrorCode::invalid_argument, option, " is '", name, "'; there are device, pinned, managed, host");
}

std::pair<std::string, std::string> setting_from(const std::string& text) {
  const std::size_t split = text.find('=');
  require(split != std::string::npos && split > 0, "--set takes NAME=VALUE, not '", text, "'");
  return {text.substr(0, split), text.substr(split + 1)};
}

int count_from(const std::string& option, const std::string& value, int most) {
  int result = 0;
  try {
    std::size_t used = 0;
    result = std::stoi(value, &used);
    if (used != value.size()) result = 0;
  } catch (const std::exception&) {
    result = 0;
  }
  require(result >= 1 && result <= most, option, " is '", value, "', not a number from 1 to ", most);
  return result;
}

void read_option(Options& options, const std::string& word, const std::string& value) {
  if (word == "--device") {
    options.setup.device = value;
  } else if (word == "--from") {
    options.setup.from = memory_from(word, value);
  } else if (word == "--to") {
    options.setup.to = memory_from(word, value);
  } else if (word == "--path") {
    options.setup.path = path_from(value);
  } else if (word == "--set") {
    options.parameters.push_back(setting_from(value));
  } else if (word == "--samples") {
    options.samples = count_from(word, value, 100'000);
  } else if (word == "--threads") {
    options.threads_port = count_from(word, value, 65535);
  } else if (word == "--library") {
    options.library = value;
  } else if (word == "--file") {
    options.setup.file = value;
  } else {
    fail(ErrorCode::invalid_argument, "unknown option ", word,
         "; there are --device, --from, --to, --path, --set, --samples, --threads, --library, --file");
  }
}

Options options_from(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      options.cases.push_back(bench::case_from(word));
      continue;
    }
    require(i + 1 < argc, word, " needs a value");
    read_option(options, word, argv[++i]);
  }
  require(!options.cases.empty(), "no case given; a case is MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW");
  for (const bench::Case& c : options.cases) {
    options.setup.largest = std::max(options.setup.largest, c.buffer_bytes());
  }
  return options;
}

std::unique_ptr<bench::Library> open(const Options& options, const Launch& launch) {
  bench::LibraryOptions setup = options.setup;
  setup.launch = launch;
  if (options.library == "onstream") {
    Parameters parameters = Parameters::from_environment();
    if (!setup.device.empty()) parameters.set("device", setup.device);
    for (const auto& [name, value] : options.parameters) parameters.set(name, value);
    return bench::open_onstream(setup, parameters);
  }
  require(!setup.file.empty(), "--library ", options.library, " needs --file, the library to load");
  if (setup.device.empty()) setup.device = "cuda";
  if (options.library == "nccl") return bench::open_nccl(setup);
  if (options.library == "nvshmem") return bench::open_nvshmem(setup);
  fail(ErrorCode::invalid_argument, "--library is '", options.library, "'; there are onstream, nccl, nvshmem");
}

void run_cases(const Options& options, const Launch& launch) {
  const std::unique_ptr<bench::Library> library = open(options, launch);
  try {
    bench::Runner runner(*library);
    if (library->rank() == 0) std::cout << library->heading() << std::endl;
    for (const bench::Case& c : options.cases) {
      const std::vector<double> samples_s = runner.run(c, options.samples);
      if (library->rank() == 0) std::cout << bench::json_of(c, samples_s) << std::endl;
    }
  } catch (const std::exception& error) {
    library->abort(error.what());  // so that the other ranks end too
    throw;
  }
}

void run_threads(const Options& options) {
  const std::string secret = concat(std::random_device{}(), "-", std::random_device{}());
  std::vector<std::exception_ptr> errors(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      Launch launch;
      launch.rank = launch.local_rank = rank;
      launch.size = launch.local_size = 2;
      launch.port = *options.threads_port;
      launch.secret = secret;
      launch.launcher = "threads";
      try {
        run_cases(options, launch);
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
    if (options.threads_port) {
      run_threads(options);
    } else {
      run_cases(options, launch_from_environment());
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_message: %s\n", error.what());
    return 1;
  }
}
