// bench_collective: times collectives and prints raw samples; `onstream bench collective` starts it.
//
//   bench_collective [OPTIONS] CASE...       CASE: see collective_case.hpp
//     --device SPEC     host, cuda, cuda:N
//     --memory KIND     of the buffers: device, pinned, managed, host
//     --samples N
//     --library NAME    onstream, or nccl or nvshmem with --file, which the loader gets; --plain: NCCL's buffers are
//     not
//                       registered
//     --set NAME=VALUE  a parameter of onstream; may be repeated
//
// Several processes under any launcher. Every sample starts with a barrier of the hosts and is timed by rank 0's steady
// clock, from the first call to the stream synchronised; one untimed sample goes first. Before the timing every result
// is compared with the expected one: of reductions the sum of small whole numbers, of moves the sender's pattern.
// Rank 0 prints JSON lines: a heading, then one a case with its samples and the number of wrong elements, or
// "checked": false where it compares nothing: barriers, and reductions other than sums.
#include <cstdio>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

#include "collective_library.hpp"
#include "onstream/base/clock.hpp"
#include "onstream/base/error.hpp"
#include "onstream/parameters.hpp"
#include "support/options.hpp"

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
      .flag("--plain", [&] { setting.setup.plain = true; })
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
  const bool nccl = setting.library == "nccl";
  require(nccl || setting.library == "nvshmem", "--library is '", setting.library,
          "'; there are onstream, nccl, nvshmem");
  require(!setup.file.empty(), "--library ", setting.library, " needs --file, the library to load");
  if (setup.device.empty()) setup.device = "cuda";
  return nccl ? bench::open_nccl_collectives(setup) : bench::open_nvshmem_collectives(setup);
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
    std::optional<std::size_t> wrong;  // elements on this rank; none: nothing was looked at
    CollectiveSubmission submission;   // that came of it
  };

  Result run(const CollectiveCase& c, int samples) {
    Result result{{}, check(c), c.submission};
    std::shared_ptr<Graph> graph;
    if (c.submission == CollectiveSubmission::captured) {
      graph = capture(c);
      if (graph == nullptr) result.submission = CollectiveSubmission::eager;
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
  // Null: the library cannot, on any rank, and shall do without.
  std::shared_ptr<Graph> capture(const CollectiveCase& c) {
    library_.device().begin_capture(stream_);
    try {
      for (int i = 0; i < c.window; ++i) library_.enqueue(c, stream_);
      return library_.device().end_capture(stream_);
    } catch (const Error& error) {
      if (!library_.eager_instead()) throw;
      std::fprintf(stderr, "bench_collective: %s is not captured: %s\n", bench::text_of(c).c_str(), error.what());
    }
    if (library_.device().capturing(stream_)) drop_capture();
    return nullptr;
  }
  void drop_capture() {
    try {
      (void)library_.device().end_capture(stream_);
    } catch (const Error&) {
      // The capture was broken, which is why it is dropped.
    }
  }

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
    return c.kind == OpKind::all_reduce || c.kind == OpKind::reduce || c.kind == OpKind::reduce_scatter ||
           c.kind == OpKind::scan;
  }

  // A part's elements repeat after a prime number of them, so that misplaced elements show, and the CPU makes only so
  // many.
  static constexpr std::size_t kPeriod = 1'000'003;

  // Element i of part `to` of rank `from`: 0 or 1.
  static int value(int from, int to, std::size_t i) {
    return static_cast<int>((i * 7 + i / 13 + static_cast<std::size_t>(from) * 3 + static_cast<std::size_t>(to) * 5) %
                            2);
  }
  // The first period of a part of `count` elements: the sum of the elements of ranks `from` to `last`.
  static std::vector<unsigned char> period_of(ElementType type, std::size_t count, int from, int last, int to) {
    const std::size_t element = size_of(type);
    std::vector<std::vector<unsigned char>> numbers;
    for (int i = 0; i <= last - from + 1; ++i) numbers.push_back(number(type, i));
    std::vector<unsigned char> bytes(std::min(count, kPeriod) * element);
    for (std::size_t i = 0; i * element < bytes.size(); ++i) {
      int sum = 0;
      for (int rank = from; rank <= last; ++rank) sum += value(rank, to, i);
      std::memcpy(bytes.data() + i * element, numbers[static_cast<std::size_t>(sum)].data(), element);
    }
    return bytes;
  }

  // Calls act(offset, bytes) for each period of `bytes` bytes.
  template <class Act>
  static void by_period(std::size_t bytes, std::size_t period, Act&& act) {
    for (std::size_t offset = 0; offset < bytes; offset += period) act(offset, std::min(period, bytes - offset));
  }
  void write(std::byte* to, std::size_t bytes, const std::vector<unsigned char>& period) {
    by_period(bytes, period.size(), [&](std::size_t at, std::size_t some) { copy(to + at, period.data(), some); });
  }
  // The elements that differ.
  std::size_t differing(const std::byte* from, std::size_t bytes, std::size_t element,
                        const std::vector<unsigned char>& period) {
    std::vector<unsigned char> got(period.size());
    std::size_t wrong = 0;
    by_period(bytes, period.size(), [&](std::size_t at, std::size_t some) {
      copy(got.data(), from + at, some);
      if (std::memcmp(got.data(), period.data(), some) == 0) return;
      for (std::size_t i = 0; i < some; i += element) {
        wrong += std::memcmp(got.data() + i, period.data() + i, element) == 0 ? 0 : 1;
      }
    });
    return wrong;
  }

  // Runs it once and counts the elements that are wrong on this rank; of sums and of moves.
  std::optional<std::size_t> check(const CollectiveCase& c) {
    const std::size_t count = c.count(library_.size());
    if (c.kind == OpKind::barrier || count == 0) return std::nullopt;
    const int rank = library_.rank();
    const std::size_t part_bytes = count * size_of(c.type);
    const bool sends_parts =
        c.kind == OpKind::reduce_scatter || c.kind == OpKind::all_to_all || c.kind == OpKind::scatter;
    std::byte* const input = library_.input();
    for (int part = 0; part < (sends_parts ? library_.size() : 1); ++part) {
      const std::vector<unsigned char> period = period_of(c.type, count, rank, rank, part);
      write(input + static_cast<std::size_t>(part) * part_bytes, part_bytes, period);
    }
    write(library_.output(), c.bytes, std::vector<unsigned char>(std::min(c.bytes, kPeriod * size_of(c.type))));
    library_.barrier(stream_);
    if (c.submission == CollectiveSubmission::host) {
      library_.run_host(c);
    } else {
      library_.enqueue(c, stream_);
      library_.synchronize(stream_);
    }
    if (reduces(c) && c.op != ReduceOp::sum) return std::nullopt;
    if ((c.kind == OpKind::reduce || c.kind == OpKind::gather) && rank != 0) return 0;
    return reduces(c) ? wrong_sums(c, count) : wrong_moves(c, count);
  }

  std::size_t wrong_sums(const CollectiveCase& c, std::size_t count) {
    const int part = c.kind == OpKind::reduce_scatter ? library_.rank() : 0;
    const int last = c.kind == OpKind::scan ? library_.rank() : library_.size() - 1;
    const std::vector<unsigned char> sums = period_of(c.type, count, 0, last, part);
    return differing(library_.output(), count * size_of(c.type), size_of(c.type), sums);
  }

  std::size_t wrong_moves(const CollectiveCase& c, std::size_t count) {
    const std::size_t part_bytes = count * size_of(c.type);
    const bool one = c.kind == OpKind::broadcast || c.kind == OpKind::scatter;
    const int part = c.kind == OpKind::all_to_all || c.kind == OpKind::scatter ? library_.rank() : 0;
    const std::byte* const output = library_.output();
    std::size_t wrong = 0;
    for (int from = 0; from < (one ? 1 : library_.size()); ++from) {
      wrong += differing(output + static_cast<std::size_t>(from) * part_bytes, part_bytes, size_of(c.type),
                         period_of(c.type, count, from, from, part));
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

int run_cases(const Setting& setting) {
  const std::unique_ptr<CollectiveLibrary> library = open(setting);
  bool good = true;
  try {
    Runner runner(*library);
    if (library->rank() == 0) std::cout << library->heading() << std::endl;
    for (const CollectiveCase& c : setting.cases) {
      const auto result = runner.run(c, setting.samples);
      const std::size_t wrong = result.wrong.value_or(0);
      good = good && wrong == 0;
      if (wrong > 0) {
        std::fprintf(stderr, "bench_collective: rank %d: %zu elements of %s are wrong\n", library->rank(), wrong,
                     bench::text_of(c).c_str());
      }
      if (library->rank() != 0) continue;
      std::cout << "{\"case\":" << bench::quoted(bench::text_of(c))
                << ",\"bus_factor\":" << c.bus_factor(library->size()) << ",\"wrong\":" << wrong
                << ",\"checked\":" << (result.wrong ? "true" : "false") << ",\"submission\":\""
                << bench::name_of(result.submission) << "\",\"how\":" << bench::quoted(library->explain(c))
                << ",\"samples_s\":" << bench::seconds_list(result.samples_s) << "}" << std::endl;
    }
  } catch (const std::exception& error) {
    library->abort(error.what());  // so that the other ranks end too
    throw;
  }
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_cases(setting_from(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_collective: %s\n", error.what());
    return 1;
  }
}
