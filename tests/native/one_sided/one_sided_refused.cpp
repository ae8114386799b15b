// The host, a stream, a batch and a plan refuse an op whole: the error names the wrong values, no byte is written on
// either side, and the world goes on.
#include <algorithm>
#include <functional>

#include "onstream/layout.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/plan.hpp"
#include "onstream/symmetric.hpp"
#include "support/check.hpp"
#include "support/own_stream.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

constexpr std::size_t kBytes = 64;  // of the segment, and of the local memory

// A place in a peer's part, as this rank's address of the same place in its own.
struct Place {
  std::byte* address;
  std::size_t bytes;
  int rank;
};

struct Told {
  std::byte* word;
  std::size_t width;
  int rank;
};

// One way to issue ops. It lacks those that are null.
struct Way {
  const char* name;
  std::function<void(const Place&, void*)> put;
  std::function<void(const Place&, void*)> get;
  std::function<void(const Told&)> signal;
  std::function<void(const Told&)> add;
  std::function<void(const Place&, void*, const Told&)> put_signal;
  std::function<void(const Place&, const Layout&, void*, const Layout&)> put_layout;
  std::function<void(const Place&, const Layout&, void*, const Layout&)> get_layout;
};

std::uint64_t* word_of(const Told& told) { return reinterpret_cast<std::uint64_t*>(told.word); }

Way by_context(Context& context) {
  Way way{"context", {}, {}, {}, {}, {}, {}, {}};
  way.put = [&](const Place& to, void* source) { context.put(to.address, source, to.bytes, to.rank); };
  way.get = [&](const Place& from, void* to) { context.get(to, from.address, from.bytes, from.rank); };
  way.signal = [&](const Told& told) { context.signal(word_of(told), 1, SignalOp::set, told.rank); };
  way.add = [&](const Told& told) {
    if (told.width == 8) (void)context.fetch_add(word_of(told), std::uint64_t{1}, told.rank);
    if (told.width == 4) (void)context.fetch_add(reinterpret_cast<std::uint32_t*>(told.word), 1U, told.rank);
  };
  way.put_signal = [&](const Place& to, void* source, const Told& told) {
    context.put_signal(to.address, source, to.bytes, word_of(told), 1, SignalOp::add, to.rank);
  };
  way.put_layout = [&](const Place& to, const Layout& there, void* source, const Layout& here) {
    context.put_layout(to.address, there, source, here, to.rank);
  };
  way.get_layout = [&](const Place& from, const Layout& there, void* to, const Layout& here) {
    context.get_layout(to, here, from.address, there, from.rank);
  };
  return way;
}

Way by_later_ops(Context& context) {
  Way way{"context, later", {}, {}, {}, {}, {}, {}, {}};
  way.put = [&](const Place& to, void* source) { context.put_later(to.address, source, to.bytes, to.rank); };
  way.get = [&](const Place& from, void* to) { context.get_later(to, from.address, from.bytes, from.rank); };
  way.put_signal = [&](const Place& to, void* source, const Told& told) {
    context.put_signal_later(to.address, source, to.bytes, word_of(told), 1, SignalOp::set, to.rank);
  };
  return way;
}

// Each op is a batch of its own that is run if it could be filled.
Way by_batch(OneSided& core, const std::function<void(const Batch&)>& run) {
  Way way{"batch", {}, {}, {}, {}, {}, {}, {}};
  const auto fill = [&core, run](const auto& add) {
    Batch batch(core);
    add(batch);
    run(batch);
  };
  const auto at = [&core](const std::byte* address, int rank) { return core.symmetric(address, rank); };
  way.put = [=](const Place& to, void* source) {
    fill([&](Batch& batch) { batch.put(at(to.address, to.rank), source, to.bytes); });
  };
  way.get = [=](const Place& from, void* to) {
    fill([&](Batch& batch) { batch.get(to, at(from.address, from.rank), from.bytes); });
  };
  way.signal = [=](const Told& told) {
    fill([&](Batch& batch) { batch.signal({at(told.word, told.rank), SignalOp::set, 1, told.width}); });
  };
  way.add = [=](const Told& told) {
    fill([&](Batch& batch) { batch.atomic(AtomicOp::add, at(told.word, told.rank), told.width, 1); });
  };
  way.put_signal = [=](const Place& to, void* source, const Told& told) {
    fill([&](Batch& batch) {
      batch.put(at(to.address, to.rank), source, to.bytes);
      batch.signal({at(told.word, told.rank), SignalOp::add, 1, told.width});
    });
  };
  way.put_layout = [=](const Place& to, const Layout& there, void* source, const Layout& here) {
    fill([&](Batch& batch) { batch.put(at(to.address, to.rank), there, source, here); });
  };
  way.get_layout = [=](const Place& from, const Layout& there, void* to, const Layout& here) {
    fill([&](Batch& batch) { batch.get(to, here, at(from.address, from.rank), there); });
  };
  return way;
}

Way by_stream(OneSided& core, Stream stream) {
  Way way{"stream", {}, {}, {}, {}, {}, {}, {}};
  const auto at = [&core](const std::byte* address, int rank) { return core.symmetric(address, rank); };
  way.put = [=, &core](const Place& to, void* source) { core.put(at(to.address, to.rank), source, to.bytes, stream); };
  way.get = [=, &core](const Place& from, void* to) { core.get(to, at(from.address, from.rank), from.bytes, stream); };
  way.signal = [=, &core](const Told& told) {
    core.signal({at(told.word, told.rank), SignalOp::set, 1, told.width}, stream);
  };
  way.add = [=, &core](const Told& told) {
    core.atomic(AtomicOp::add, at(told.word, told.rank), told.width, 1, nullptr, 0, stream);
  };
  way.put_signal = [=, &core](const Place& to, void* source, const Told& told) {
    core.put_signal(at(to.address, to.rank), source, to.bytes, {at(told.word, told.rank), SignalOp::add, 1, told.width},
                    stream);
  };
  way.put_layout = [=, &core](const Place& to, const Layout& there, void* source, const Layout& here) {
    core.put(at(to.address, to.rank), there, source, here, stream);
  };
  way.get_layout = [=, &core](const Place& from, const Layout& there, void* to, const Layout& here) {
    core.get(to, here, at(from.address, from.rank), there, stream);
  };
  return way;
}

// A plan names the place by the peer's address. The call that adds a wrong op throws, so no plan is ever built.
Way by_plan(World& world, const Segment& segment) {
  Way way{"plan", {}, {}, {}, {}, {}, {}, {}};
  const auto at = [&world, &segment](std::byte* address, int rank) {
    const std::byte* const own = segment.local();
    const bool inside = address >= own && address <= own + kBytes && rank >= 0 && rank < world.size();
    return inside ? segment.peer(rank) + (address - own) : address;
  };
  way.put = [=, &world](const Place& to, void* source) {
    const Layout all = Layout::contiguous(to.bytes);
    world.plan("refused").put(at(to.address, to.rank), all, source, all, to.rank);
  };
  way.get = [=, &world](const Place& from, void* to) {
    const Layout all = Layout::contiguous(from.bytes);
    world.plan("refused").get(to, all, at(from.address, from.rank), all, from.rank);
  };
  way.signal = [=, &world](const Told& told) {
    world.plan("refused").signal(SignalOp::set, at(told.word, told.rank), told.width, 1, told.rank);
  };
  way.add = [=, &world](const Told& told) {
    world.plan("refused").atomic(AtomicOp::add, at(told.word, told.rank), told.width, 1, told.rank);
  };
  way.put_layout = [=, &world](const Place& to, const Layout& there, void* source, const Layout& here) {
    world.plan("refused").put(at(to.address, to.rank), there, source, here, to.rank);
  };
  way.get_layout = [=, &world](const Place& from, const Layout& there, void* to, const Layout& here) {
    world.plan("refused").get(to, here, at(from.address, from.rank), there, from.rank);
  };
  return way;
}

// The call throws invalid_argument with one of these words in it.
template <class Call>
void check_refused(const std::string& what, const Call& call, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    const std::string told = error.what();
    const bool says = std::any_of(words.begin(), words.end(),
                                  [&](const std::string& one) { return told.find(one) != std::string::npos; });
    if (!says || error.code() != ErrorCode::invalid_argument) throw std::runtime_error(what + " says " + told);
    return;
  }
  throw std::runtime_error(what + " was not refused");
}

const std::vector<std::string> kOutside = {"are not within the 64 B", "in no segment", "do not lie in rank",
                                           "the buffer of"};
const std::vector<std::string> kNoRank = {"does not exist", "is not one of the world's"};

// `own`: this rank's part; `local`: other memory of this rank; `gone`: where a segment was.
void refuse_all(const Way& way, int size, std::byte* own, std::byte* local, std::byte* gone) {
  const int peer = size - 1;
  const struct {
    const char* what;
    Place place;
    const std::vector<std::string>& words;
  } places[] = {
      {"a place past the end", {own + 56, 16, peer}, kOutside},
      {"more than there is", {own, kBytes + 1, peer}, kOutside},
      {"the end itself", {own + kBytes, 1, peer}, kOutside},
      {"a size that wraps", {own + 8, ~std::size_t{0} - 3, peer}, kOutside},
      {"memory of no segment", {local, 8, peer}, kOutside},
      {"memory of a segment that was freed", {gone, 8, peer}, kOutside},
      {"rank -1", {own, 8, -1}, kNoRank},
      {"a rank too many", {own, 8, size}, kNoRank},
  };
  const auto named = [&](const char* op, const char* what) { return concat(way.name, ": ", op, " of ", what); };
  for (const auto& row : places) {
    check_refused(named("a put", row.what), [&] { way.put(row.place, local); }, row.words);
    check_refused(named("a get", row.what), [&] { way.get(row.place, local); }, row.words);
  }
  const std::vector<std::string> null = {"null"};
  check_refused(named("a put", "nothing"), [&] { way.put({own, 8, peer}, nullptr); }, null);
  check_refused(named("a get", "nothing"), [&] { way.get({own, 8, peer}, nullptr); }, null);
  const std::vector<std::string> crooked = {"aligned"};
  const struct {
    const char* what;
    Told told;
    const std::vector<std::string>& words;
  } words[] = {
      {"a word that is not aligned", {own + 4, 8, peer}, crooked},
      {"a word past the end", {own + kBytes, 8, peer}, kOutside},
      {"a word of no segment", {local, 8, peer}, kOutside},
      {"a word of a segment that was freed", {gone, 8, peer}, kOutside},
      {"a word of rank -1", {own, 8, -1}, kNoRank},
      {"a word of a rank too many", {own, 8, size}, kNoRank},
  };
  for (const auto& row : words) {
    if (way.signal) check_refused(named("a signal", row.what), [&] { way.signal(row.told); }, row.words);
    if (way.add) check_refused(named("an atomic", row.what), [&] { way.add(row.told); }, row.words);
    if (!way.put_signal || row.told.rank != peer) continue;
    check_refused(
        named("a put with its signal", row.what), [&] { way.put_signal({own, 8, peer}, local, row.told); }, row.words);
  }
  if (way.add) check_refused(named("an atomic", "2 B"), [&] { way.add({own + 2, 4, peer}); }, crooked);
  if (way.put_signal) {
    check_refused(
        named("a put with its signal", "too much"),
        [&] { way.put_signal({own + 56, 16, peer}, local, {own, 8, peer}); }, kOutside);
  }
  if (!way.put_layout) return;
  const Layout here = Layout::contiguous(12);
  const Layout there = Layout::strided(4, {3}, {32});  // its third piece begins at the end
  check_refused(
      named("a strided put", "too much"), [&] { way.put_layout({own, 0, peer}, there, local, here); }, kOutside);
  check_refused(
      named("a strided get", "too much"), [&] { way.get_layout({own, 0, peer}, there, local, here); }, kOutside);
  const std::vector<std::string> unlike = {"layouts of equal bytes", "B and the destination"};
  const Layout more = Layout::contiguous(16);
  check_refused(
      named("a strided put", "unlike sizes"), [&] { way.put_layout({own, 0, peer}, more, local, here); }, unlike);
  check_refused(
      named("a strided get", "unlike sizes"), [&] { way.get_layout({own, 0, peer}, more, local, here); }, unlike);
}

void refuse_in_every_way(World& world) {
  const auto segment = world.segment(kBytes);
  const auto freed = world.segment(kBytes);
  std::byte* const gone = freed->local();
  TestBuffer local(world, kBytes);
  const auto mine = pattern(kBytes, static_cast<unsigned>(world.rank()));
  const auto other = pattern(kBytes, 100);
  world.one_sided().copy(segment->local(), mine.data(), kBytes);
  local.write(other);
  const OwnStream stream(world);
  Context context(world.one_sided());
  world.free(freed);
  const std::vector<Way> ways = {
      by_context(context), by_later_ops(context), by_stream(world.one_sided(), stream),
      by_batch(world.one_sided(), [&](const Batch& batch) { world.one_sided().run(batch); })};
  for (const Way& way : ways) refuse_all(way, world.size(), segment->local(), local.data(), gone);
  if (segment->direct(world.size() - 1)) {
    refuse_all(by_plan(world, *segment), world.size(), segment->local(), local.data(), gone);
  }
  context.quiet();
  world.synchronize(stream);
  world.barrier();
  std::vector<unsigned char> now(kBytes);
  world.one_sided().copy(now.data(), segment->local(), kBytes);
  CHECK(now == mine);
  CHECK(local.read() == other);
  world.barrier();
  // The same ops, rightly, are done.
  const std::size_t own = 8 * static_cast<std::size_t>(world.rank());
  for (const Way& way : ways) way.put({segment->local() + own, 8, world.size() - 1}, local.data());
  context.quiet();
  world.synchronize(stream);
  world.barrier();
  world.one_sided().copy(now.data(), segment->local(), kBytes);
  for (std::size_t i = 0; world.rank() + 1 == world.size() && i < 8 * static_cast<std::size_t>(world.size()); ++i) {
    CHECK(now[i] == other[i % 8]);
  }
  world.barrier();
}

}  // namespace

CASE(what_is_refused_writes_nothing_on_either_side) { on_all_devices(2, refuse_in_every_way); }

CASE(what_is_refused_writes_nothing_where_proxies_would_do_it) {
  for (const std::string& device : device_specs()) {
    Parameters parameters = quick(device);
    parameters.path = "stage";
    run_ranks(2, parameters, refuse_in_every_way);
  }
}

int main(int argc, char** argv) { return run(argc, argv); }
