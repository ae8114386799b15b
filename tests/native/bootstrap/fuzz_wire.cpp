// Damaged bytes from outside, from other ranks, launchers and machines' files: the library answers or refuses them, and
// nothing reads past an end, hangs, or disturbs the other ranks.
//
// As a test it makes its own inputs, from valid ones by seeded mutation, so a failure repeats; run it under the address
// and undefined-behaviour sanitizers. With -fsanitize=fuzzer -DONSTREAM_LIBFUZZER (clang) it is a libFuzzer target.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/host.hpp"
#include "onstream/bootstrap/launch_parse.hpp"
#include "onstream/bootstrap/mesh/mesh.hpp"
#include "onstream/bootstrap/mesh/mesh_connect.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/socket.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/bootstrap/store/store_protocol.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/plan/build/match.hpp"
#include "onstream/plan/build/route.hpp"
#include "onstream/topology/machine.hpp"
#include "onstream/transport/failure.hpp"
#include "support/check.hpp"

namespace {

using namespace onstream;
namespace protocol = store_protocol;

// Runs one parser; an Error is an answer too.
void tolerate(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::invalid_argument) throw;
  }
}

void read_frames(std::string_view bytes, std::size_t piece) {
  wire::FrameReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(bytes.substr(at, piece));
    while (const auto frame = reader.next())
      if (frame->body.size() > wire::kMaxStrangerBodyBytes) std::abort();
  }
}

void read_fields(std::string_view bytes) {
  wire::Unpacker body(bytes);
  std::size_t taken = 0;
  for (int i = 0; i < 8; ++i) {
    taken += body.text().size() + 4;
    if (taken > bytes.size()) std::abort();
  }
  body.u64();
  body.u8();
  wire::unpack_error(body);
}

void parse_all(std::string_view bytes) {
  const std::size_t piece = bytes.empty() ? 1 : 1 + static_cast<unsigned char>(bytes[0]);
  tolerate([&] { read_frames(bytes, piece); });
  tolerate([&] { read_fields(bytes); });
  tolerate([&] { decode_host(std::string(bytes)); });
  tolerate([&] { slurm_tasks_on_node(bytes, 3); });
  tolerate([&] { slurm_first_host(bytes); });
  tolerate([&] { parse_process_stat(std::string(bytes)); });
  tolerate([&] { (void)topology::machine_from(bytes); });
}

}  // namespace

#ifdef ONSTREAM_LIBFUZZER

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  parse_all(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}

#else

namespace {

using onstream::test::kSoonS;
using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) {
  return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
}

std::string noise(std::size_t bytes, Random& random) {
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(below(random, 256));
  return text;
}

// One to four small damages: a byte or a bit changed, bytes removed, doubled or put in, an integer made extreme.
std::string damage(std::string bytes, Random& random) {
  for (std::size_t left = 1 + below(random, 4); left > 0 && !bytes.empty(); --left) {
    const std::size_t at = below(random, bytes.size());
    const std::size_t some = 1 + below(random, 8);
    switch (below(random, 6)) {
      case 0: bytes[at] = static_cast<char>(below(random, 256)); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8))); break;
      case 2: bytes.erase(at, some); break;
      case 3: bytes.insert(at, bytes.substr(at, some)); break;
      case 4: bytes.insert(at, noise(some, random)); break;
      default: bytes.replace(at, 4, std::string(4, below(random, 2) == 0 ? '\xff' : '\0')); break;
    }
  }
  return bytes;
}

std::vector<std::string> valid_frames() {
  const auto body = [] { return wire::Packer(); };
  return {
      wire::encode(protocol::set, body().text("key").text("value").body()),
      wire::encode(protocol::get, body().u64(1).text("key").body()),
      wire::encode(protocol::gather, body().u64(2).text("topic").text("value").body()),
      wire::encode(protocol::missing, body().u64(3).text("topic").body()),
      wire::encode(protocol::cancel, body().u64(2).body()),
      wire::encode(protocol::hello,
                   body().text(std::string(32, 'n')).text("").u64(7).u32(1).u32(2).text("proof").body()),
      wire::encode(protocol::bye, ""),
  };
}

// The mesh's own kinds: request, notify, answer, failure, gather, and one that announces a descriptor.
std::vector<std::string> valid_mesh_frames() {
  const auto body = [] { return wire::Packer(); };
  return {
      wire::encode(3, body().u64(1).text("echo").text("payload").body()),
      wire::encode(4, body().text("echo").text("payload").body()),
      wire::encode(5, body().u64(1).text("payload").body()),
      wire::encode(6, body().u64(1).u32(2).text("error").body()),
      wire::encode(7, body().text("topic").u64(1).text("value").body()),
      wire::encode(3, body().u64(2).text("echo").text("payload").body(), wire::kCarriesFd),
  };
}

Launch launch_of(int rank, int size, const std::string& address) {
  Launch launch;
  launch.rank = launch.local_rank = rank;
  launch.size = launch.local_size = size;
  launch.address = address;
  launch.secret = "secret of the test";
  return launch;
}

std::string fresh_name() { return "unix:onstream-fuzz-" + to_hex(random_bytes(8)); }

// Sends until the other end closes; whether it took all is its own affair.
void send_damaged(const Fd& socket, const std::vector<std::string>& frames, Random& random) {
  try {
    for (int i = 0; i < 4; ++i) {
      const std::string& frame = frames[below(random, frames.size())];
      send_all(socket, below(random, 3) == 0 ? frame : damage(frame, random), Deadline(kSoonS));
    }
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::closed);
  }
}

CASE(parsers_answer_or_refuse_damaged_bytes) {
  Random random(20240611);
  std::vector<std::string> inputs = valid_frames();
  for (const std::string& frame : valid_mesh_frames()) inputs.push_back(frame);
  for (const char* text :
       {"2(x3),1", "node[07-09,12],login1", "42 (a) S 7 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18",
        "gpus 4 # of two sockets\nswitch plx0 cpu0\nlink 0 plx0 2\nlink plx0 cpu0\n", "torus 4 2 3\n"})
    inputs.emplace_back(text);
  inputs.push_back(encode(this_host()));
  std::string all;
  for (const std::string& input : inputs) all += input;
  inputs.push_back(all);
  for (int i = 0; i < 30000; ++i) parse_all(damage(inputs[below(random, inputs.size())], random));
}

// Ranks' messages to each other about plans and faults. The test works with each readable one, as the library does.
CASE(statements_exports_and_faults_are_answered_or_refused) {
  Random random(20261122);
  plan::Statement statement;
  statement.name = "exchange";
  for (const OpKind kind : {OpKind::send, OpKind::recv, OpKind::put}) {
    plan::StatedOp op;
    op.kind = kind;
    op.peer = kind == OpKind::put ? 1 : 0;
    op.layout = Layout::strided(8, {4, 5}, {256, 16}).view();
    op.bytes = 160;
    if (kind != OpKind::send) op.landing = {op.peer, 4096, op.layout};
    op.note = "halo";
    statement.ops.push_back(op);
  }
  statement.calls.push_back({"all_reduce", 1, {0, 1}, {}, {}});
  FaultReport fault;
  fault.rank = 0;
  fault.set_plan_name("exchange");
  std::string peer_exports(24, 'x');
  peer_exports += std::string("\3\0\0\0\0\0\0\0why", 11);
  const std::vector<std::string> inputs = {plan::pack(statement), peer_exports, pack_fault(fault)};
  int read = 0;
  const auto attempt = [&](const std::function<void()>& parse) {
    try {
      parse();
      ++read;
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::system || error.code() == ErrorCode::invalid_argument);
    }
  };
  for (int i = 0; i < 30000; ++i) {
    const std::string bytes = damage(inputs[below(random, inputs.size())], random);
    attempt([&] {
      const std::vector<plan::Statement> all = {plan::unpack(bytes), statement};
      attempt([&] { (void)plan::match(all); });
      for (const int owner : {0, 1}) (void)plan::find_overlaps(all, owner);
    });
    attempt([&] { (void)plan::unpack_exports(bytes); });
    attempt([&] { (void)describe(unpack_fault(bytes, 2)); });
  }
  CHECK(read > 1000);
}

// A valid statement may reach from the first address to the last, and no further.
CASE(a_destination_at_the_end_of_all_addresses_is_looked_at_or_refused) {
  constexpr std::int64_t kFar = std::int64_t{3} << 61;
  const auto statement_at = [](std::int64_t address) {
    plan::StatedOp op;
    op.kind = OpKind::put;
    op.peer = 0;
    op.layout = {.run_bytes = 8, .dims = 1, .counts = {2}, .strides = {kFar}};
    op.bytes = 16;
    op.landing = {0, address, op.layout};
    plan::Statement statement;
    statement.name = "far";
    statement.ops = {op, op};
    return plan::pack(statement);
  };
  const std::int64_t last = INT64_MAX - kFar - 8;
  for (const std::int64_t address : {std::int64_t{0}, INT64_MIN, last}) {
    CHECK(plan::find_overlaps({plan::unpack(statement_at(address))}, 0).story.find("overlap") != std::string::npos);
  }
  CHECK_THROWS(plan::unpack(statement_at(last + 1)), "a layout that is none");
}

CASE(destinations_of_more_runs_than_can_be_counted_are_not_listed) {
  plan::StatedOp op;
  op.kind = OpKind::put;
  op.peer = 0;
  op.layout = {.run_bytes = 1, .dims = 2, .counts = {std::int64_t{1} << 62, 2}, .strides = {0, 0}};
  op.bytes = std::uint64_t{1} << 63;
  op.landing = {0, 4096, op.layout};
  plan::Statement statement;
  statement.name = "many";
  statement.ops = {op, op};
  const plan::Overlaps found = plan::find_overlaps({plan::unpack(plan::pack(statement))}, 0);
  CHECK(found.story.empty() && found.unlisted == UINT64_MAX);
}

CASE(a_store_survives_ranks_that_send_damaged_frames) {
  Random random(20240612);
  const std::string address = fresh_name();
  const Launch launch = launch_of(0, 2, address);
  Store first(launch, Deadline(kSoonS));
  Store second(launch_of(1, 2, address), Deadline(kSoonS));
  const std::vector<std::string> frames = valid_frames();
  for (std::uint64_t liar = 1000; liar < 1300; ++liar) {
    std::string why;
    const Fd socket = connect_once({address, 0}, Deadline(kSoonS), why);
    std::string bytes;
    wire::FrameReader reader;
    std::optional<wire::Frame> challenge;
    while (!(challenge = reader.next())) {
      CHECK(wait_for(socket, POLLIN, Deadline(kSoonS)));
      CHECK(receive_some(socket, bytes) != Received::end);
      reader.feed(std::exchange(bytes, ""));
    }
    const protocol::Hello hello{std::string(32, 'n'), "of liars", liar, 1, 2};
    wire::Packer body;
    body.text(hello.client_nonce).text(hello.generation).u64(hello.process).u32(hello.rank).u32(hello.size);
    body.text(protocol::client_proof(launch.secret, wire::Unpacker(challenge->body).text(), hello));
    send_all(socket, wire::encode(protocol::hello, body.body()), Deadline(kSoonS));
    send_damaged(socket, frames, random);
  }
  second.set("key", "value");
  CHECK(first.get("key", Deadline(kSoonS)) == "value");
}

CASE(a_mesh_survives_a_rank_that_sends_damaged_frames) {
  Random random(20240613);
  const std::vector<std::string> frames = valid_mesh_frames();
  for (int i = 0; i < 60; ++i) {
    const std::string address = fresh_name();
    std::atomic<int> done{0};
    std::future<void> liar = std::async(std::launch::async, [&] {
      const Launch launch = launch_of(1, 3, address);
      Store store(launch, Deadline(kSoonS));
      std::vector<ConnectedPeer> peers = connect_mesh(launch, store, {}, Deadline(kSoonS));
      for (const int peer : {0, 2}) send_damaged(peers[static_cast<std::size_t>(peer)].link.socket(), frames, random);
    });
    const auto honest = [&](int rank) {
      const Launch launch = launch_of(rank, 3, address);
      Store store(launch, Deadline(kSoonS));
      Mesh mesh(launch, store, Deadline(kSoonS));
      mesh.on("echo", [](int, std::string payload, Fd) { return payload; });
      mesh.start();
      try {
        mesh.request(1, "echo", "anyone?", Fd(), Deadline(kSoonS));  // a liar's answer may be valid by chance
      } catch (const Error& error) {
        CHECK(error.code() != ErrorCode::timeout);
      }
      CHECK(mesh.request(2 - rank, "echo", "still here?", Fd(), Deadline(kSoonS)) == "still here?");
      CHECK_THROWS(mesh.all_gather("end", "", Deadline(kSoonS)), "rank 1 (pid");
      ++done;
      const Deadline deadline(kSoonS);
      while (done < 2 && !deadline.passed()) std::this_thread::yield();  // the other may still be asking
    };
    std::future<void> other = std::async(std::launch::async, honest, 2);
    honest(0);
    other.get();
    liar.get();
  }
}

}  // namespace

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }

#endif
