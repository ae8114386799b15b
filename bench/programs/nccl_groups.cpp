// program_nccl_groups: groups of sends and receives, as halo exchanges and all-to-alls use them.
//
//   program_nccl_groups ID_FILE ROUNDS BYTES...
//
// Shapes: `both` receives from and sends to the rank before and the one behind (with two ranks the same one, twice),
// `ring` sends behind and receives from before, `all` exchanges with every other rank. Rank 0 prints a JSON line for
// each shape, submission and size, medians of ROUNDS: call_us, the host's time for one group; pipelined_us, the time of
// one of 64 groups in a row; synchronised_us, one group and cudaStreamSynchronize. `captured` is 64 groups in one
// graph: a launch and a synchronise, divided by 64.
#include <cstdint>

#include "nccl_ranks.hpp"

namespace {

using namespace programs;

constexpr int kGroups = 64;

struct Message {
  bool sends;
  int other;
  char* buffer;
};

class Exchange {
 public:
  Exchange(const Ranks& ranks, const std::string& shape, std::size_t bytes) : ranks_(ranks), bytes_(bytes) {
    if (shape == "both") {
      for (const int other : {ranks.before(), ranks.after()}) add(false, other);
      for (const int other : {ranks.after(), ranks.before()}) add(true, other);
    } else if (shape == "ring") {
      add(false, ranks.before());
      add(true, ranks.after());
    } else {
      for (int k = 1; k < ranks.size; ++k) {
        add(false, (ranks.rank + ranks.size - k) % ranks.size);
        add(true, (ranks.rank + k) % ranks.size);
      }
    }
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() {
    for (const Message& one : messages_) cudaFree(one.buffer);
  }

  void enqueue(cudaStream_t stream) const {
    OK(ncclGroupStart());
    for (const Message& one : messages_) {
      if (one.sends) {
        OK(ncclSend(one.buffer, bytes_, ncclChar, one.other, ranks_.comm, stream));
      } else {
        OK(ncclRecv(one.buffer, bytes_, ncclChar, one.other, ranks_.comm, stream));
      }
    }
    OK(ncclGroupEnd());
  }

  // Fills what is sent with bytes of this rank, exchanges, and looks for those of the others.
  void verify(cudaStream_t stream) const {
    std::vector<char> data(bytes_);
    std::vector<int> to(static_cast<std::size_t>(ranks_.size)), from(to);
    for (const Message& one : messages_) {
      if (one.sends) fill(data, ranks_.rank, to[static_cast<std::size_t>(one.other)]++);
      if (!one.sends) std::ranges::fill(data, char{-1});
      OK(cudaMemcpyAsync(one.buffer, data.data(), bytes_, cudaMemcpyHostToDevice, stream));
      OK(cudaStreamSynchronize(stream));
    }
    enqueue(stream);
    OK(cudaStreamSynchronize(stream));
    std::vector<char> wanted(bytes_);
    for (const Message& one : messages_) {
      if (one.sends) continue;
      fill(wanted, one.other, from[static_cast<std::size_t>(one.other)]++);
      OK(cudaMemcpyAsync(data.data(), one.buffer, bytes_, cudaMemcpyDeviceToHost, stream));
      OK(cudaStreamSynchronize(stream));
      if (data != wanted) throw std::runtime_error("a message of " + std::to_string(bytes_) + " B came wrong");
    }
  }

 private:
  void add(bool sends, int other) {
    void* buffer = nullptr;
    OK(cudaMalloc(&buffer, std::max<std::size_t>(bytes_, 16)));
    messages_.push_back({sends, other, static_cast<char*>(buffer)});
  }
  static void fill(std::vector<char>& data, int rank, int turn) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      data[i] = static_cast<char>(i * 7 + i / 251 + static_cast<std::size_t>(rank) * 37 +
                                  static_cast<std::size_t>(turn) * 101);
    }
  }

  const Ranks& ranks_;
  std::size_t bytes_;
  std::vector<Message> messages_;
};

struct Figures {
  std::vector<double> call_us, pipelined_us, synchronised_us, captured_us;
};

void round_of(const Ranks& ranks, const Exchange& exchange, cudaStream_t stream, float* word, Figures& figures) {
  ranks.meet(stream, word);
  double begin = now_us();
  for (int i = 0; i < kGroups; ++i) exchange.enqueue(stream);
  figures.call_us.push_back((now_us() - begin) / kGroups);
  OK(cudaStreamSynchronize(stream));
  figures.pipelined_us.push_back((now_us() - begin) / kGroups);
  ranks.meet(stream, word);
  begin = now_us();
  for (int i = 0; i < kGroups / 4; ++i) {
    exchange.enqueue(stream);
    OK(cudaStreamSynchronize(stream));
  }
  figures.synchronised_us.push_back((now_us() - begin) / (kGroups / 4));
}

void captured_rounds(const Ranks& ranks, const Exchange& exchange, cudaStream_t stream, float* word, int rounds,
                     Figures& figures) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t launchable = nullptr;
  OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kGroups; ++i) exchange.enqueue(stream);
  OK(cudaStreamEndCapture(stream, &graph));
  OK(cudaGraphInstantiate(&launchable, graph, 0));
  for (int round = 0; round < rounds + 2; ++round) {
    ranks.meet(stream, word);
    const double begin = now_us();
    OK(cudaGraphLaunch(launchable, stream));
    OK(cudaStreamSynchronize(stream));
    if (round >= 2) figures.captured_us.push_back((now_us() - begin) / kGroups);
  }
  OK(cudaGraphExecDestroy(launchable));
  OK(cudaGraphDestroy(graph));
}

void run(const std::vector<std::string>& words) {
  if (words.size() < 3) throw std::runtime_error("usage: program_nccl_groups ID_FILE ROUNDS BYTES...");
  const Ranks ranks(words[0]);
  const int rounds = std::stoi(words[1]);
  cudaStream_t stream = nullptr;
  float* word = nullptr;
  OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  OK(cudaMalloc(&word, sizeof *word));
  std::vector<std::string> shapes = {"both", "ring"};
  if (ranks.size > 2) shapes.emplace_back("all");
  for (const std::string& shape : shapes) {
    for (std::size_t i = 2; i < words.size(); ++i) {
      const std::size_t bytes = std::stoul(words[i]);
      const Exchange exchange(ranks, shape, bytes);
      Figures figures;
      exchange.verify(stream);
      round_of(ranks, exchange, stream, word, figures);
      figures = {};
      for (int round = 0; round < rounds; ++round) round_of(ranks, exchange, stream, word, figures);
      captured_rounds(ranks, exchange, stream, word, rounds, figures);
      exchange.verify(stream);
      if (ranks.rank != 0) continue;
      std::printf(
          "{\"program\": \"nccl_groups\", \"case\": \"%s\", \"bytes\": %zu, \"call_us\": %.2f, \"pipelined_us\": %.2f, "
          "\"synchronised_us\": %.2f, \"captured_us\": %.2f}\n",
          shape.c_str(), bytes, median_of(figures.call_us), median_of(figures.pipelined_us),
          median_of(figures.synchronised_us), median_of(figures.captured_us));
      std::fflush(stdout);
    }
  }
  OK(cudaFree(word));
  OK(cudaStreamDestroy(stream));
}

}  // namespace

int main(int argc, char** argv) { return main_of("program_nccl_groups", argc, argv, run); }
