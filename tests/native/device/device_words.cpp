// The rules of the device contract (device/device.hpp) about words that streams write and wait for.
#include <array>
#include <memory>
#include <vector>

#include "device_rules.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// A word in pinned memory that a stream waits for. The destructor releases the stream in any case.
struct HostGate {
  explicit HostGate(Device& device) : memory(device.allocate(64, MemoryKind::pinned)) {}
  ~HostGate() { open(); }
  HostGate(const HostGate&) = delete;
  HostGate& operator=(const HostGate&) = delete;
  std::uint64_t* word() const { return words(memory); }
  void open() const { HostGroup::store_release(word(), 1); }
  std::shared_ptr<Memory> memory;
};

RULE(a_stream_writes_words_of_both_sizes_in_its_order) {
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> memory = device.allocate(64, kind);
    const OwnStream stream(device);
    auto* narrow = reinterpret_cast<std::uint32_t*>(memory->data());
    write_value(device, narrow, std::uint32_t{0xfffffff0}, stream);
    write_value(device, words(memory) + 1, std::uint64_t{0x123456789abcdef0}, stream);
    launch_one(device, AddOnce{words(memory) + 1, 1}, stream);
    write_value(device, words(memory) + 2, std::uint64_t{5}, stream);
    launch_one(device, AddOnce{words(memory) + 2, 2}, stream);
    device.synchronize(stream);
    CHECK(read(device, memory->data(), 3) == (std::vector<std::uint64_t>{0xfffffff0, 0x123456789abcdef1, 7}));
  }
}

RULE(a_stream_goes_on_when_the_host_writes_the_word_it_waits_for) {
  load_kernels(device);
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream other(device);
  const HostGate gate(device);
  wait_value(device, gate.word(), std::uint64_t{1}, stream);
  launch_one(device, AddOnce{words(memory), 1}, stream);
  launch_one(device, AddOnce{words(memory) + 1, 1}, other);  // a stream that waits keeps no other from running
  device.synchronize(other);
  CHECK(!device.idle(stream));
  CHECK(read(device, memory->data(), 2) == (std::vector<std::uint64_t>{0, 1}));
  gate.open();
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 1);
}

RULE(one_stream_waits_for_the_word_of_another_and_sees_what_came_before_it) {
  constexpr std::uint64_t kCount = 1000;
  for (const MemoryKind kind : kShared) {
    const std::shared_ptr<Memory> flag = device.allocate(64, kind);
    const std::shared_ptr<Memory> data = device.allocate(kCount * 8, MemoryKind::device);
    const std::shared_ptr<Memory> copied = device.allocate(kCount * 8, MemoryKind::device);
    const OwnStream consumer(device);
    const OwnStream producer(device);
    auto* word = reinterpret_cast<std::uint32_t*>(flag->data());
    launch_one(device, Fill{words(data), kCount, 500}, producer);
    write_value(device, word, std::uint32_t{1}, producer);
    wait_value(device, word, std::uint32_t{1}, consumer);
    device.copy(copied->data(), data->data(), kCount * 8, consumer);
    device.synchronize(consumer);
    CHECK(counts_from(read(device, copied->data(), kCount), 500));
    device.synchronize(producer);
  }
}

RULE(a_word_that_wraps_is_reached) {
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::pinned);
  const OwnStream stream(device);
  auto* word = reinterpret_cast<std::uint32_t*>(memory->data());
  const std::array ops = {WordOp{WordAct::write, 4, word, 3},  // a little past the wrap
                          WordOp{WordAct::wait_reached, 4, word, 0xfffffffe}, WordOp{WordAct::write, 8, word + 2, 10},
                          WordOp{WordAct::wait_reached, 8, word + 2, 9}, WordOp{WordAct::wait_equal, 8, word + 2, 10}};
  device.operate(ops, stream);
  device.synchronize(stream);
  CHECK(*word == 3);
}

RULE(a_batch_of_any_length_keeps_its_order) {
  constexpr std::uint64_t kSteps = 1000;
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::pinned);
  std::vector<WordOp> ops;
  for (std::uint64_t i = 0; i < kSteps; ++i) {
    ops.push_back({WordAct::write, 8, words(memory), i});
    ops.push_back({WordAct::wait_equal, 8, words(memory), i});
  }
  const OwnStream stream(device);
  device.operate({}, stream);
  device.operate(ops, stream);
  device.synchronize(stream);
  CHECK(*words(memory) == kSteps - 1);
}

RULE(captured_words_are_written_and_awaited_at_every_replay) {
  constexpr std::uint64_t kReplays = 20;
  const std::shared_ptr<Memory> flags = device.allocate(64, MemoryKind::pinned);
  const std::shared_ptr<Memory> count = device.allocate(64, MemoryKind::device);
  auto* word = reinterpret_cast<std::uint32_t*>(flags->data());
  const OwnStream stream(device);
  device.begin_capture(stream);
  write_value(device, word, std::uint32_t{1}, stream);
  wait_value(device, word, std::uint32_t{1}, stream);
  write_value(device, word, std::uint32_t{0}, stream);
  launch_one(device, AddOnce{words(count), 1}, stream);
  wait_value(device, word, std::uint32_t{0}, stream);
  const std::shared_ptr<Graph> graph = device.end_capture(stream);
  for (std::uint64_t i = 0; i < kReplays; ++i) device.launch(graph, stream);
  device.synchronize(stream);
  CHECK(read_word(device, count->data()) == kReplays);
}

RULE(a_word_that_cannot_be_is_refused) {
  const std::shared_ptr<Memory> memory = device.allocate(64, MemoryKind::pinned);
  const OwnStream stream(device);
  const auto refuse = [&](WordOp op, const char* text) { CHECK_THROWS(device.operate({&op, 1}, stream), text); };
  refuse({WordAct::write, 2, memory->data(), 0}, "a word of 2 B");
  refuse({WordAct::write, 4, nullptr, 0}, "the word is null");
  refuse({WordAct::wait_equal, 8, memory->data() + 4, 0}, "not aligned to its 8 bytes");
  refuse({WordAct::write, 4, memory->data(), std::uint64_t{1} << 32}, "does not fit a word of 4 B");
}

}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
