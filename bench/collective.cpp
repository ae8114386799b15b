// bench_collective: times collectives and prints raw samples; `onstream bench collective` starts it.
//
//   bench_collective [OPTIONS] CASE...       CASE: see collective_case.hpp
//     --device SPEC     host, cuda, cuda:N
//     --memory KIND     of the buffers: device, pinned, managed, host
//     --samples N
//     --library NAME    onstream, or nccl with --file, which the loader gets
//     --set NAME=VALUE  a parameter of onstream; may be repeated
//
// Several processes under any launcher. Every sample starts with a barrier of the hosts and is timed by rank 0's steady
// clock, from the first call to the stream synchronised; one untimed sample goes first. Before the timing every result
// is compared with the expected one: of reductions the sum of small whole numbers, of moves the sender's pattern.
// Rank 0 prints JSON lines: what runs, then one a case with its samples and the elements that were wrong.
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <vector>

#include "collective_library.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/base/parameters.hpp"
#include "options.hpp"

namespace {

using namespace onstream;
using bench::CollectiveCase;
using bench::CollectiveLibrary;
using bench::CollectiveSubmission;

struct Setting {
  bench::CollectiveSetup setup;
  std::string library = "onstream";
  int samples = 10;
  bench::Settings parameters;
  std::vector<CollectiveCase> cases;
};

Setting setting_from(int argc, char** argv) {
  Setting setting;
  bench::Options()
      .text("--device", setting.setup.device)
      .memory("--memory", setting.setup.memory)
      .count("--samples", setting.samples, 1, 100'000)
      .text("--library", setting.library)
      .text("--file", setting.setup.file)
      .setting("--set", setting.parameters)
      .others([&](const std::string& word) { setting.cases.push_back(bench::collective_case_from(word)); })
      .read(argc, argv);
  require(!setting.cases.empty(), "no case given; a case is KIND:TYPE:OP:SUBMISSION:BYTES:ITERATIONS:WINDOW");
  for (const CollectiveCase& c : setting.cases) setting.setup.largest = std::max(setting.setup.largest, c.bytes);
  setting.setup.launch = launch_from_environment();
  return setting;
}

std::unique_ptr<CollectiveLibrary> open(const Setting& setting) {
  bench::CollectiveSetup setup = setting.setup;
  if (setting.library == "onstream") {
    return bench::open_onstream_collectives(setup, bench::parameters_from(setup.device, setting.parameters));
  }
  require(setting.library == "nccl", "--library is '", setting.library, "'; there are onstream, nccl");
  require(!setup.file.empty(), "--library nccl needs --file, the library to load");
  if (setup.device.empty()) setup.device = "cuda";
  return bench::open_nccl_collectives(setup);
}

// Bytes 0 and 1 in the lowest byte of each element of an integer; for floating point the numbers 0 and 1.
std::vector<unsigned char> number(ElementType type, int value) {
  std::vector<unsigned char> bytes(size_of(type));
  const auto as = [&](auto one) { std::memcpy(bytes.data(), &one, sizeof one); };
  switch (type) {
    case ElementType::float64: as(static_cast<double>(value)); break;
    case ElementType::float32: as(static_cast<float>(value)); break;
    case ElementType::float16:  // 0 to 16: whole numbers of few bits
    case ElementType::bfloat16: {
      const auto single = static_cast<float>(value);
      std::uint32_t bits = 0;
      std::memcpy(&bits, &single, sizeof bits);
      const std::uint32_t half = value == 0 ? 0 : ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff);
      as(static_cast<std::uint16_t>(type == ElementType::bfloat16 ? bits >> 16 : half));
      break;
    }
    default: bytes[0] = static_cast<unsigned char>(value);
  }
  return bytes;
}

class Runner {
 public:
  explicit Runner(CollectiveLibrary& library) : library_(library), stream_(library.device().create_stream()) {}
  ~Runner() { library_.device().destroy_stream(stream_); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  struct Result {
    std::vector<double> samples_s;
    std::size_t wrong = 0;
  };

  Result run(const CollectiveCase& c, int samples) {
    Result result;
    result.wrong = check(c);
    std::shared_ptr<Graph> graph;
    if (c.submission == CollectiveSubmission::captured) {
      library_.device().begin_capture(stream_);
      for (int i = 0; i < c.window; ++i) library_.enqueue(c, stream_);
      graph = library_.device().end_capture(stream_);
    }
    for (int sample = -1; sample < samples; ++sample) {  // -1: the warm-up
      library_.barrier(stream_);
      const std::uint64_t start = now_ns();
      run_once(c, graph);
      const double elapsed_s = static_cast<double>(now_ns() - start) * 1e-9;
      if (sample >= 0) result.samples_s.push_back(elapsed_s / c.iterations / c.window);
    }
    library_.barrier(stream_);
    return result;
  }

 private:
  void run_once(const CollectiveCase& c, const std::shared_ptr<Graph>& graph) {
    const int all = c.iterations * c.window;
    if (c.submission == CollectiveSubmission::host) {
      for (int i = 0; i < all; ++i) library_.run_host(c);
      return;
    }
    if (graph != nullptr) {
      for (int i = 0; i < c.iterations; ++i) library_.device().launch(graph, stream_);
    } else {
      for (int i = 0; i < all; ++i) library_.enqueue(c, stream_);
    }
    library_.synchronize(stream_);
  }

  bool reduces(const CollectiveCase& c) const {
    return c.kind == OpKind::all_reduce || c.kind == OpKind::reduce || c.kind == OpKind::reduce_scatter;
  }

  // What element i of part `to` of rank `from` is: 0 or 1.
  static int value(int from, int to, std::size_t i) {
    return static_cast<int>((i * 7 + i / 13 + static_cast<std::size_t>(from) * 3 + static_cast<std::size_t>(to) * 5) %
                            2);
  }

  // Runs it once and counts the elements that are wrong on this rank; of sums, and of what moves by all ranks.
  std::size_t check(const CollectiveCase& c) {
    if (c.kind == OpKind::barrier) return 0;
    const int size = library_.size();
    const int rank = library_.rank();
    const std::size_t count = c.count(size);
    const std::size_t element = size_of(c.type);
    const auto parts = static_cast<std::size_t>(size);
    std::vector<std::vector<unsigned char>> numbers;
    for (int i = 0; i <= size; ++i) numbers.push_back(number(c.type, i));
    const bool sends_parts =
        c.kind == OpKind::reduce_scatter || c.kind == OpKind::all_to_all || c.kind == OpKind::scatter;
    std::vector<unsigned char> bytes(c.bytes + element);
    for (std::size_t part = 0; part < (sends_parts ? parts : 1); ++part) {
      for (std::size_t i = 0; i < count; ++i) {
        const int one = value(rank, static_cast<int>(part), i);
        std::memcpy(bytes.data() + (part * count + i) * element, numbers[static_cast<std::size_t>(one)].data(),
                    element);
      }
    }
    copy(library_.input(), bytes.data(), c.bytes);
    std::fill(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
    copy(library_.output(), bytes.data(), c.bytes);
    library_.barrier(stream_);
    if (c.submission == CollectiveSubmission::host) {
      library_.run_host(c);
    } else {
      library_.enqueue(c, stream_);
      library_.synchronize(stream_);
    }
    copy(bytes.data(), library_.output(), c.bytes);
    if (c.kind == OpKind::scan || c.op != ReduceOp::sum) return 0;
    if ((c.kind == OpKind::reduce || c.kind == OpKind::gather) && rank != 0) return 0;
    return reduces(c) ? wrong_sums(c, bytes, numbers, count) : wrong_moves(c, bytes, numbers, count);
  }

  std::size_t wrong_sums(const CollectiveCase& c, const std::vector<unsigned char>& bytes,
                         const std::vector<std::vector<unsigned char>>& numbers, std::size_t count) const {
    const std::size_t element = size_of(c.type);
    const int part = c.kind == OpKind::reduce_scatter ? library_.rank() : 0;
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < count; ++i) {
      int sum = 0;
      for (int from = 0; from < library_.size(); ++from) sum += value(from, part, i);
      const bool same =
          std::memcmp(bytes.data() + i * element, numbers[static_cast<std::size_t>(sum)].data(), element) == 0;
      wrong += same ? 0 : 1;
    }
    return wrong;
  }

  std::size_t wrong_moves(const CollectiveCase& c, const std::vector<unsigned char>& bytes,
                          const std::vector<std::vector<unsigned char>>& numbers, std::size_t count) const {
    const std::size_t element = size_of(c.type);
    const bool one = c.kind == OpKind::broadcast || c.kind == OpKind::scatter;
    std::size_t wrong = 0;
    for (int from = 0; from < (one ? 1 : library_.size()); ++from) {
      const int part = c.kind == OpKind::all_to_all || c.kind == OpKind::scatter ? library_.rank() : 0;
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t place = (static_cast<std::size_t>(from) * count + i) * element;
        const auto& expected = numbers[static_cast<std::size_t>(value(from, part, i))];
        wrong += std::memcmp(bytes.data() + place, expected.data(), element) == 0 ? 0 : 1;
      }
    }
    return wrong;
  }

  void copy(void* destination, const void* source, std::size_t bytes) {
    library_.device().copy(destination, source, bytes, stream_);
    library_.device().synchronize(stream_);
  }

  CollectiveLibrary& library_;
  Stream stream_;
};

void run_cases(const Setting& setting) {
  const std::unique_ptr<CollectiveLibrary> library = open(setting);
  try {
    Runner runner(*library);
    if (library->rank() == 0) std::cout << library->heading() << std::endl;
    for (const CollectiveCase& c : setting.cases) {
      const auto result = runner.run(c, setting.samples);
      if (result.wrong > 0) {
        std::fprintf(stderr, "bench_collective: rank %d: %zu elements of %s are wrong\n", library->rank(), result.wrong,
                     bench::text_of(c).c_str());
      }
      if (library->rank() != 0) continue;
      std::cout << "{\"case\":" << bench::quoted(bench::text_of(c))
                << ",\"bus_factor\":" << c.bus_factor(library->size()) << ",\"wrong\":" << result.wrong
                << ",\"how\":" << bench::quoted(library->explain(c))
                << ",\"samples_s\":" << bench::seconds_list(result.samples_s) << "}" << std::endl;
    }
  } catch (const std::exception& error) {
    library->abort(error.what());  // so that the other ranks end too
    throw;
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run_cases(setting_from(argc, argv));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_collective: %s\n", error.what());
    return 1;
  }
}
