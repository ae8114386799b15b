// bench_message: times messages between two ranks and prints raw samples; `onstream bench message` starts it.
//
//   bench_message [--device SPEC] [--memory device|pinned|host] [--path PATH] [--samples N] [--threads PORT] CASE...
//
// Two processes under any launcher, or with --threads two ranks as threads of this process (PORT: a free TCP port of
// this machine). CASE: see message_case.hpp. Rank 0 prints JSON lines: first what ran, then one a case with all its
// samples; the statistics are the driver's. Exits with status 1 after any error, wrong data included. All waits end at
// the deadline of the world (ONSTREAM_TIMEOUT_S).
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "message_modes.hpp"
#include "onstream/base/error.hpp"

namespace {

using namespace onstream;

struct Options {
  std::string device;
  MemoryKind memory = MemoryKind::device;
  Path path = Path::automatic;
  int samples = 10;
  std::optional<int> threads_port;
  std::vector<bench::Case> cases;
};

MemoryKind memory_from(const std::string& name) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::host}) {
    if (name == name_of(kind)) return kind;
  }
  fail(ErrorCode::invalid_argument, "--memory is '", name, "'; there are device, pinned, host");
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

Options options_from(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0) {
      options.cases.push_back(bench::case_from(word));
      continue;
    }
    require(i + 1 < argc, word, " needs a value");
    const std::string value = argv[++i];
    if (word == "--device") {
      options.device = value;
    } else if (word == "--memory") {
      options.memory = memory_from(value);
    } else if (word == "--path") {
      options.path = path_from(value);
    } else if (word == "--samples") {
      options.samples = count_from(word, value, 100'000);
    } else if (word == "--threads") {
      options.threads_port = count_from(word, value, 65535);
    } else {
      fail(ErrorCode::invalid_argument, "unknown option ", word,
           "; there are --device, --memory, --path, --samples, --threads");
    }
  }
  require(!options.cases.empty(), "no case given; a case is MODE:SUBMISSION:BYTES:ITERATIONS:WINDOW");
  return options;
}

void print_heading(const World& world, const Options& options, const Parameters& parameters) {
  std::string rows;
  for (const ParameterRow& row : parameters.rows()) {
    rows += concat(rows.empty() ? "" : ",", "{\"name\":", bench::quoted(row.name),
                   ",\"value\":", bench::quoted(row.value), ",\"set_by\":", bench::quoted(row.set_by), "}");
  }
  std::cout << "{\"library\":\"onstream " ONSTREAM_BENCH_VERSION "\",\"build_type\":\"" ONSTREAM_BENCH_BUILD
               "\",\"compiler\":\"" ONSTREAM_BENCH_COMPILER "\",\"cuda_compiler\":\"" ONSTREAM_BENCH_CUDA
               "\",\"device\":"
            << bench::quoted(world.device().name()) << ",\"device_kind\":\"" << name_of(world.device().kind())
            << "\",\"memory\":\"" << name_of(options.memory) << "\",\"path\":\"" << name_of(options.path)
            << "\",\"world\":" << bench::quoted(world.describe()) << ",\"parameters\":[" << rows << "]}" << std::endl;
}

void run_cases(const Options& options, const Launch& launch) {
  Parameters parameters = Parameters::from_environment();
  if (!options.device.empty()) parameters.set("device", options.device);
  const std::shared_ptr<World> world = World::create(launch, parameters);
  std::size_t largest = 0;
  for (const bench::Case& c : options.cases) largest = std::max(largest, c.bytes);
  try {
    bench::Runner runner(*world, options.memory, options.path, largest);
    if (world->rank() == 0) print_heading(*world, options, parameters);
    for (const bench::Case& c : options.cases) {
      const std::vector<double> samples_s = runner.run(c, options.samples);
      if (world->rank() == 0) std::cout << bench::json_of(c, samples_s) << std::endl;
    }
    world->barrier();
  } catch (const std::exception& error) {
    world->abort(error.what());  // so that the other rank ends too
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
