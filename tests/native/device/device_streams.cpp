// The rules of the device contract (device/device.hpp) about work on streams and about events. Graphs:
// device_graphs.cpp.
#include <array>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device_rules.hpp"
#include "onstream/device/lifetime/streams.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// --- work on a stream ---

RULE(copies_between_all_kinds_of_memory_keep_the_order_of_the_stream) {
  constexpr std::size_t kBytes = 1'000'003;
  const std::vector<std::byte> first(kBytes, std::byte{11});
  const std::vector<std::byte> second(kBytes, std::byte{22});
  for (const MemoryKind from : kAllKinds) {
    for (const MemoryKind to : kAllKinds) {
      const std::shared_ptr<Memory> source = device.allocate(kBytes, from);
      const std::shared_ptr<Memory> destination = device.allocate(kBytes, to);
      std::vector<std::byte> out(kBytes);
      const OwnStream stream(device);
      device.copy(source->data(), first.data(), kBytes, stream);
      device.copy(destination->data(), source->data(), kBytes, stream);
      device.copy(source->data(), second.data(), kBytes, stream);
      device.copy(out.data(), destination->data(), kBytes, stream);
      device.copy(destination->data(), source->data(), kBytes, stream);
      device.synchronize(stream);
      CHECK(out == first);
      device.copy(out.data(), destination->data(), kBytes, stream);
      device.synchronize(stream);
      CHECK(out == second);
    }
  }
}

RULE(a_copy_of_nothing_is_fine) {
  const OwnStream stream(device);
  device.copy(nullptr, nullptr, 0, stream);
  device.synchronize(stream);
  CHECK(device.idle(stream));
}

RULE(a_kernel_of_many_blocks_writes_every_element) {
  constexpr std::uint64_t kCount = 10'007;
  const std::shared_ptr<Memory> memory = device.allocate((kCount + 1) * 8, MemoryKind::device);
  const OwnStream stream(device);
  launch_one(device, Fill{words(memory), kCount, 42}, stream, {7, 96});
  device.synchronize(stream);
  std::vector<std::uint64_t> out = read(device, memory->data(), kCount + 1);
  CHECK(out.back() == 0);
  out.pop_back();
  CHECK(counts_from(out, 42));
}

RULE(a_group_is_the_threads_of_one_block_and_its_barrier_holds) {
  constexpr std::uint64_t kBlocks = 5;
  const std::uint64_t threads = device.kind() == DeviceKind::host ? 1 : 64;
  const std::shared_ptr<Memory> memory = device.allocate((1 + 2 * kBlocks) * 8, MemoryKind::device);
  const OwnStream stream(device);
  launch_one(device, CountThreads{words(memory), words(memory) + 1}, stream, {kBlocks, 64});
  device.synchronize(stream);
  const std::vector<std::uint64_t> out = read(device, memory->data(), 1 + 2 * kBlocks);
  CHECK(out.front() == kBlocks * threads);
  for (std::size_t i = 1; i < out.size(); ++i) CHECK(out[i] == threads);
}

RULE(kernel_arguments_of_any_size_are_copied_by_the_launch) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  StoreSum body{};
  for (std::uint64_t& value : body.values) value = 3;
  body.out = words(memory);
  launch_one(device, body, stream);
  for (std::uint64_t& value : body.values) value = 0;
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == 96 * 3);
}

RULE(work_that_makes_no_sense_is_an_error) {
  const OwnStream stream(device);
  CHECK_THROWS(launch_one(device, AddOnce{nullptr, 1}, stream, Grid{0, 32}), "0 blocks");
  CHECK_THROWS(device.copy(nullptr, nullptr, 8, stream), "null");
  CHECK_THROWS(device.call(nullptr, nullptr, stream), "null");
  CHECK_THROWS(device.wait(stream, nullptr), "null");
  CHECK_THROWS(device.launch(std::shared_ptr<Graph>(), stream), "null");
}

// Two buffers that share a page, which a GPU's driver would register only once.
RULE(kernels_access_plain_memory_while_it_is_pinned) {
  constexpr std::size_t kBytes = 6000;
  std::vector<std::uint64_t> plain(2 * kBytes / sizeof(std::uint64_t));
  std::uint64_t* second = plain.data() + kBytes / sizeof(std::uint64_t);
  const OwnStream stream(device);
  for (int round = 0; round < 2; ++round) {
    const std::shared_ptr<void> first_pin = device.pin(plain.data(), kBytes);
    std::shared_ptr<void> second_pin = device.pin(second, kBytes);
    CHECK(device.inspect(plain.data()).kernel_access && device.inspect(second).kernel_access);
    launch_one(device, StoreWord{second - 1, 5}, stream);
    launch_one(device, StoreWord{second, 6}, stream);
    device.synchronize(stream);
    second_pin.reset();
    launch_one(device, StoreWord{plain.data(), 7}, stream);
    device.synchronize(stream);
    CHECK(second[-1] == 5 && second[0] == 6 && plain[0] == 7);
    std::fill(plain.begin(), plain.end(), 0);
  }
}

RULE(threads_pin_and_let_go_of_the_same_pages) {
  constexpr int kTurns = 300;
  std::vector<std::uint64_t> plain(1000);
  std::array<std::string, 2> wrong;
  const auto turns = [&](std::string& told) {
    try {
      for (int i = 0; i < kTurns; ++i) {
        const auto hold = device.pin(plain.data(), plain.size() * sizeof(std::uint64_t));
        if (!device.inspect(plain.data()).kernel_access) told = "pinned, and no kernel may access it";
      }
    } catch (const std::exception& error) {
      told = error.what();
    }
  };
  std::thread other(turns, std::ref(wrong[1]));
  turns(wrong[0]);
  other.join();
  if (const std::string told = wrong[0] + wrong[1]; !told.empty()) throw std::runtime_error(told);
}

RULE(memory_that_kernels_access_needs_no_pin) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned}) {
    CHECK(device.pin(device.allocate(64, kind)->data(), 64) == nullptr);
  }
}

RULE(the_default_stream_works_too) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  launch_one(device, StoreWord{words(memory), 9}, Stream{});
  std::uint64_t out = 0;
  device.copy(&out, memory->data(), 8, Stream{});
  device.synchronize(Stream{});
  CHECK(out == 9);
  CHECK(device.idle(Stream{}));
}

RULE(host_functions_run_in_the_order_of_the_stream) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const std::shared_ptr<Memory> shown = device.allocate(8, MemoryKind::pinned);
  const OwnStream stream(device);
  Calls calls{words(shown), {}};
  for (int i = 0; i < 20; ++i) {
    launch_one(device, AddOnce{words(memory), 1}, stream);
    device.copy(shown->data(), memory->data(), 8, stream);
    device.call(&note, &calls, stream);
  }
  device.synchronize(stream);
  CHECK(calls.seen.size() == 20);
  CHECK(counts_from(calls.seen, 1));
}

// --- streams and events ---
RULE(streams_run_at_the_same_time) {
  const Gate gate(device);
  const OwnStream waiting(device);
  const OwnStream storing(device);
  gate.close_on(waiting);
  gate.open_on(storing);
  device.synchronize(waiting);
  CHECK(gate.passed());
}

// A call that failed half-way may leave work on its stream that waits for data of a later call.
RULE(a_stream_of_the_pool_is_not_leased_again_before_what_was_left_on_it_is_over) {
  StreamPool pool(std::shared_ptr<Device>(std::shared_ptr<void>(), &device));
  const Gate gate(device);
  Stream left;
  try {
    const StreamPool::StreamLease lease = pool.lease();
    left = lease.get();
    gate.close_on(left);
    throw std::runtime_error("half-way");
  } catch (const std::runtime_error&) {
  }
  {
    const StreamPool::StreamLease lease = pool.lease();
    CHECK(lease.get() != left);
    gate.open_on(lease.get());
    device.synchronize(lease.get());
  }
  device.synchronize(left);
  const StreamPool::StreamLease first = pool.lease();
  const StreamPool::StreamLease second = pool.lease();
  CHECK(first.get() != left && second.get() == left);
}

RULE(enqueuing_behind_unfinished_work_does_not_block) {
  const Gate gate(device);
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const std::shared_ptr<Memory> copied = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  const OwnStream other(device);
  gate.close_on(stream);
  for (int i = 0; i < 100; ++i) launch_one(device, AddOnce{words(memory), 1}, stream);
  device.copy(copied->data(), memory->data(), 8, stream);
  CHECK(!device.idle(stream));
  CHECK(device.idle(other));
  gate.open_on(other);
  device.synchronize(stream);
  CHECK(device.idle(stream));
  CHECK(gate.passed());
  CHECK(read_word(device, copied->data()) == 100);
}

RULE(an_event_orders_work_across_streams) {
  const Gate gate(device);
  constexpr std::uint64_t kCount = 1000;
  const std::shared_ptr<Memory> produced = device.allocate(kCount * 8, MemoryKind::device);
  const std::shared_ptr<Memory> consumed = device.allocate(kCount * 8, MemoryKind::device);
  const OwnStream producer(device);
  const OwnStream consumer(device);
  const OwnStream opener(device);
  gate.close_on(producer);
  launch_one(device, Fill{words(produced), kCount, 77}, producer);
  const std::shared_ptr<Event> event = device.record(producer);
  device.wait(consumer, event);
  device.copy(consumed->data(), produced->data(), kCount * 8, consumer);
  CHECK(!event->done());
  CHECK(!device.idle(consumer));
  gate.open_on(opener);
  device.synchronize(consumer);
  CHECK(event->done());
  CHECK(counts_from(read(device, consumed->data(), kCount), 77));
}

RULE(an_event_on_an_idle_stream_is_soon_done_and_may_be_waited_for_often) {
  const OwnStream stream(device);
  const std::shared_ptr<Event> event = device.record(stream);
  device.synchronize(stream);
  CHECK(event->done());
  const OwnStream other(device);
  device.wait(other, event);
  device.wait(other, event);
  device.wait(stream, event);
  device.synchronize(other);
  device.synchronize(stream);
}

RULE(an_event_outlives_its_stream) {
  std::shared_ptr<Event> event;
  {
    const OwnStream stream(device);
    event = device.record(stream);
  }
  CHECK(event->done());
}

RULE(destroying_a_stream_waits_for_its_work) {
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  for (int round = 0; round < 20; ++round) {
    const OwnStream stream(device);
    for (int i = 0; i < 50; ++i) launch_one(device, AddOnce{words(memory), 1}, stream);
  }
  CHECK(read_word(device, memory->data()) == 20 * 50);
}

RULE(many_threads_enqueue_on_one_stream) {
  constexpr int kThreads = 8;
  constexpr int kEach = 500;
  const std::shared_ptr<Memory> memory = device.allocate(8, MemoryKind::device);
  const OwnStream stream(device);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) {
        launch_one(device, AddOnce{words(memory), 1}, stream);
        if (i % 100 == 0) device.synchronize(stream);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  device.synchronize(stream);
  CHECK(read_word(device, memory->data()) == kThreads * kEach);
}

}  // namespace

// CUDA's handles for the default stream, and for another stream in each thread.
CASE(cuda_a_handle_for_a_stream_of_each_thread_is_refused_and_the_default_stream_works) {
  const auto device = open_or_skip("cuda");
  const Stream of_each_thread{reinterpret_cast<void*>(std::uintptr_t{2})};
  const Stream legacy{reinterpret_cast<void*>(std::uintptr_t{1})};
  const auto memory = device->allocate(8, MemoryKind::device);
  const auto refused = [&](const std::function<void()>& call) {
    CHECK_THROWS(call(), "cudaStreamPerThread stands for another stream in each thread");
  };
  refused([&] { (void)device->point(of_each_thread); });
  refused([&] { (void)device->record(of_each_thread); });
  refused([&] { (void)device->capturing(of_each_thread); });
  refused([&] { device->synchronize(of_each_thread); });
  refused([&] { launch_one(*device, Fill{words(memory), 1, 42}, of_each_thread); });
  for (const Stream stream : {legacy, Stream{}}) {
    launch_one(*device, Fill{words(memory), 1, 43}, stream);
    CHECK(device->point(stream) != nullptr);
    device->synchronize(stream);
    CHECK(read_word(*device, memory->data()) == 43);
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
