// Proof, frames and the store: ranks are threads here, and processes where one of them must die.
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <future>

#include "bootstrap_ranks.hpp"
#include "onstream/base/error.hpp"
#include "onstream/bootstrap/host.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/socket.hpp"
#include "onstream/bootstrap/store/meeting.hpp"
#include "onstream/bootstrap/store/store.hpp"
#include "onstream/bootstrap/store/store_protocol.hpp"
#include "onstream/bootstrap/wire.hpp"
#include "onstream/launch.hpp"
#include "support/check.hpp"
#include "support/processes.hpp"

namespace {

using namespace onstream;
using namespace onstream::test;

// --- proof and frames ---

CASE(sha256_gives_the_published_digests) {
  CHECK(to_hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(to_hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(to_hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(to_hex(sha256(std::string(1000000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

CASE(hmac_gives_the_digests_of_rfc_4231) {
  CHECK(to_hex(hmac_sha256(std::string(20, '\x0b'), "Hi There")) ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(to_hex(hmac_sha256("Jefe", "what do ya want for nothing?")) ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(to_hex(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First")) ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

CASE(frames_arrive_whole_however_the_stream_is_cut) {
  const std::string stream = wire::encode(1, "first") + wire::encode(2, "") + wire::encode(3, std::string(3000, 'x'));
  for (const std::size_t piece : {1U, 2U, 7U, 12U, 13U, 100U, 5000U}) {
    wire::FrameReader reader;
    std::vector<wire::Frame> frames;
    for (std::size_t at = 0; at < stream.size(); at += piece) {
      reader.feed(std::string_view(stream).substr(at, piece));
      while (auto frame = reader.next()) frames.push_back(*frame);
    }
    CHECK(frames.size() == 3);
    CHECK(frames[0].kind == 1 && frames[0].body == "first");
    CHECK(frames[1].kind == 2 && frames[1].body.empty());
    CHECK(frames[2].kind == 3 && frames[2].body == std::string(3000, 'x'));
  }
}

CASE(malformed_frames_are_rejected_with_a_reason) {
  const auto read = [](const std::string& bytes) {
    wire::FrameReader reader;
    reader.feed(bytes);
    reader.next();
  };
  CHECK_THROWS(read("GET / HTTP/1.1\r\n\r\n"), "magic");
  std::string reserved = wire::encode(1, "x");
  reserved[6] = 1;
  CHECK_THROWS(read(reserved), "reserved");
  CHECK_THROWS(read(wire::encode(1, std::string(wire::kMaxStrangerBodyBytes + 1, 'x'))), "the limit is 4096 B");
  std::string huge = wire::encode(1, "");
  huge[11] = '\xff';
  CHECK_THROWS(read(huge), "announces");
}

CASE(every_code_of_an_error_travels) {
  for (const ErrorCode code :
       {ErrorCode::invalid_argument, ErrorCode::unsupported, ErrorCode::system, ErrorCode::timeout, ErrorCode::aborted,
        ErrorCode::closed, ErrorCode::truncated, ErrorCode::unmapped}) {
    wire::Packer packer;
    wire::pack_error(packer, code, "what");
    wire::Unpacker unpacker(packer.body());
    const Error error = wire::unpack_error(unpacker);
    CHECK(error.code() == code && std::string(error.what()) == "what");
  }
}

CASE(bodies_of_a_wrong_length_are_rejected) {
  const std::string body = wire::Packer().u64(7).text("seven").body();
  for (std::size_t length = 0; length < body.size(); ++length) {
    const std::string cut = body.substr(0, length);
    wire::Unpacker unpacker(cut);
    CHECK_THROWS((unpacker.u64(), unpacker.text()), "too early");
  }
  const std::string longer = body + "x";
  wire::Unpacker unpacker(longer);
  CHECK(unpacker.u64() == 7 && unpacker.text() == "seven");
  CHECK_THROWS(unpacker.end(), "1 B too long");
}

// --- the store ---

// A store of three ranks, of which one dies, and then one of the other two.
void meet_without(const Launch& launch, int victim) {
  {
    Store store(launch, Deadline(kSoonS));
    const auto never = [&] {
      store.all_gather("start", "", Deadline(kSoonS));  // rank 0 may take its store along before it has answered all
      store.all_gather("end", "", Deadline(kSoonS));
    };
    check_throws(never, victim == 0 ? "lost its connection" : "died");
  }
  const Launch rest = launch.without({victim});
  Store store(rest, Deadline(kSoonS));
  const auto values = store.all_gather("start", concat(launch.rank), Deadline(kSoonS));
  CHECK(values.size() == 2 && values.at(static_cast<std::size_t>(rest.rank)) == concat(launch.rank));
}

void gather_twice(const std::string& address, int port_of_all) {
  constexpr int kSize = 4;
  std::promise<int> port;
  std::shared_future<int> known = port.get_future().share();
  as_ranks(kSize, [&](int rank) {
    Launch launch = launch_of(rank, kSize, address);
    launch.port = rank == 0 ? port_of_all : known.get();
    Store store(launch, Deadline(kSoonS));
    if (rank == 0) port.set_value(store.port());
    for (const char* topic : {"one", "two"}) {
      const auto values = store.all_gather(topic, concat(topic, rank), Deadline(kSoonS));
      CHECK(values.size() == kSize);
      for (int peer = 0; peer < kSize; ++peer) CHECK(values[static_cast<std::size_t>(peer)] == concat(topic, peer));
    }
  });
}

CASE(store_gathers_in_rank_order_over_tcp) { gather_twice("127.0.0.1", 0); }
CASE(store_gathers_in_rank_order_at_a_host_name) { gather_twice("localhost", 0); }
CASE(store_gathers_in_rank_order_over_an_abstract_name) { gather_twice(fresh_name(), 0); }

CASE(store_get_waits_until_the_key_is_set) {
  const std::string address = fresh_name();
  as_ranks(2, [&](int rank) {
    Store store(launch_of(rank, 2, address), Deadline(kSoonS));
    if (rank == 1) {
      CHECK(store.get("question", Deadline(kSoonS)) == std::string(100000, 'q'));
      store.set("answer", "42");
    } else {
      store.set("question", std::string(100000, 'q'));
      CHECK(store.get("answer", Deadline(kSoonS)) == "42");
    }
    store.all_gather("end", "", Deadline(kSoonS));
  });
}

CASE(store_timeouts_name_key_and_absent_ranks_and_leave_the_store_usable) {
  const std::string address = fresh_name();
  std::atomic<int> timed_out{0};
  as_ranks(4, [&](int rank) {
    Store store(launch_of(rank, 4, address), Deadline(kSoonS));
    store.all_gather("start", "", Deadline(kSoonS));
    if (rank < 2) {
      CHECK_THROWS(store.get("never", Deadline(0.05)), "key 'never' was not set within 0.05 s");
      CHECK_THROWS(store.all_gather("late", "", Deadline(0.2)), "ranks 2, 3 of 4 did not come to late within 0.2 s");
      ++timed_out;
    }
    if (rank == 3) store.get("go", Deadline(kSoonS));
    if (rank == 0) {
      while (timed_out < 2) std::this_thread::yield();
      store.set("go", "");
    }
    if (rank == 2) store.get("go", Deadline(kSoonS));
    const auto values = store.all_gather("end", concat(rank), Deadline(kSoonS));
    CHECK(values == (std::vector<std::string>{"0", "1", "2", "3"}));
  });
}

CASE(store_without_rank_0_is_a_timeout_that_names_the_address) {
  Launch launch = launch_of(1, 2, fresh_name());
  check_throws([&] { Store(launch, Deadline(0.1)); }, launch.address);
  launch.address = "127.0.0.1";
  CHECK_THROWS(Store(launch, Deadline(0.1)), "ONSTREAM_PORT");
  launch.port = 1;
  CHECK_THROWS(Store(launch, Deadline(0.1)), "127.0.0.1 port 1 within 0.1 s");
}

CASE(store_refuses_a_wrong_secret_and_still_serves_the_right_one) {
  const std::string address = fresh_name();
  as_ranks(2, [&](int rank) {
    if (rank == 1) {
      Launch wrong = launch_of(1, 2, address);
      wrong.secret = "guessed";
      CHECK_THROWS(Store(wrong, Deadline(0.5)), "secret");
    }
    Store store(launch_of(rank, 2, address), Deadline(kSoonS));
    store.all_gather("end", "", Deadline(kSoonS));
  });
}

// Rank 0's deadline is often the same, and its server may be gone when this rank gives up.
CASE(a_wrong_secret_is_told_though_the_server_has_gone_since) {
  Endpoint endpoint{fresh_name(), 0};
  Fd listener = listen_at(endpoint, ListenScope::this_host);
  std::future<void> server = std::async(std::launch::async, [&] {
    CHECK(wait_for(listener, POLLIN, Deadline(kSoonS)));
    const Fd socket = accept_one(listener);
    listener.reset();
    const std::string nonce(store_protocol::kNonceBytes, 'n');
    send_all(socket, wire::encode(store_protocol::challenge, wire::Packer().text(nonce).body()), Deadline(kSoonS));
    std::string hello;
    CHECK(wait_for(socket, POLLIN, Deadline(kSoonS)));
    CHECK(receive_some(socket, hello) == Received::some);
  });
  CHECK_THROWS(Store(launch_of(1, 2, endpoint.address), Deadline(3)),
               "the server did not accept this rank's secret or ended, and later: ");
  server.get();
}

CASE(rank_0_tells_that_somebody_came_with_another_secret) {
  const std::string address = fresh_name();
  Store store(launch_of(0, 3, address), Deadline(kSoonS));
  Launch wrong = launch_of(2, 3, address);
  wrong.secret = "guessed";
  CHECK_THROWS(Store(wrong, Deadline(3)), "the server did not accept this rank's secret");
  CHECK_THROWS(store.all_gather("second", "", Deadline(0.05)),
               "a process that says it is rank 2 came with another secret; all ranks must be started with the same");
}

CASE(store_says_when_two_processes_claim_one_rank_or_sizes_differ) {
  const std::string address = fresh_name();
  Store first(launch_of(0, 3, address), Deadline(kSoonS));
  Store second(launch_of(1, 3, address), Deadline(kSoonS));
  CHECK_THROWS(Store(launch_of(2, 4, address), Deadline(kSoonS)), "others said 3");
  // Another process of rank 1; here the same is said by hand.
  std::string why;
  const Fd socket = connect_once({address, 0}, Deadline(kSoonS), why);
  wire::FrameReader reader;
  const auto receive = [&] {
    std::string bytes;
    while (true) {
      if (auto frame = reader.next()) return *frame;
      CHECK(wait_for(socket, POLLIN, Deadline(kSoonS)));
      CHECK(receive_some(socket, bytes) != Received::end);
      reader.feed(std::exchange(bytes, ""));
    }
  };
  const wire::Frame challenge = receive();
  const store_protocol::Hello hello{std::string(32, 'n'), "", 77, 1, 3};
  wire::Packer body;
  body.text(hello.client_nonce).text(hello.generation).u64(hello.process).u32(hello.rank).u32(hello.size);
  body.text(store_protocol::client_proof("secret of the test", wire::Unpacker(challenge.body).text(), hello));
  send_all(socket, wire::encode(store_protocol::hello, body.body()), Deadline(kSoonS));
  const wire::Frame answer = receive();
  CHECK(answer.kind == store_protocol::failed);
  CHECK(answer.body.find("two processes say that they are rank 1 of 3") != std::string::npos);
}

CASE(strangers_are_dropped_and_delay_nobody) {
  const std::string address = fresh_name();
  Store first(launch_of(0, 2, address), Deadline(kSoonS));
  std::string why;
  std::vector<Fd> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connect_once({address, 0}, Deadline(kSoonS), why));
  const std::vector<std::string> speeches = {"GET / HTTP/1.1\r\n\r\n", std::string(100000, '\0'),
                                             wire::encode(5, "set"), wire::encode(2, std::string(4000, 'h'))};
  for (const std::string& speech : speeches) {
    const Fd rude = connect_once({address, 0}, Deadline(kSoonS), why);
    std::string heard;
    try {
      send_all(rude, speech, Deadline(kSoonS));
    } catch (const Error&) {
      // Dropped while it still spoke.
    }
    Received received = Received::some;
    while (received != Received::end) {
      CHECK(wait_for(rude, POLLIN, Deadline(kSoonS)));
      received = receive_some(rude, heard);
    }
    CHECK(heard.size() <= 100);  // the challenge, and no answer
  }
  Store second(launch_of(1, 2, address), Deadline(kSoonS));
  std::future<void> other = std::async(std::launch::async, [&] { first.all_gather("end", "", Deadline(kSoonS)); });
  second.all_gather("end", "", Deadline(kSoonS));
  other.get();
}

CASE(worlds_made_again_meet_in_order_without_stale_keys) {
  const std::string address = fresh_name();
  as_ranks(3, [&](int rank) {
    for (int world = 0; world < 30; ++world) {
      Store store(launch_of(rank, 3, address), Deadline(kSoonS));
      const auto values = store.all_gather("same topic", concat(world), Deadline(kSoonS));
      for (const std::string& value : values) CHECK(value == concat(world));
      if (rank == world % 3) store.set("same key", concat(world));
      CHECK(store.get("same key", Deadline(kSoonS)) == concat(world));
      store.all_gather("end", "", Deadline(kSoonS));
    }
  });
}

CASE(two_worlds_at_once_do_not_mix) {
  const std::string address = fresh_name();
  as_ranks(3, [&](int rank) {
    const Launch launch = launch_of(rank, 3, address);
    Store one(launch, Deadline(kSoonS));
    Store two(launch, Deadline(kSoonS));
    for (Store* store : {rank == 0 ? &two : &one, rank == 0 ? &one : &two}) {
      if (store == &one)
        store->set("key", "one");
      else
        store->set("key", "two");
    }
    CHECK(one.get("key", Deadline(kSoonS)) == "one");
    CHECK(two.get("key", Deadline(kSoonS)) == "two");
    two.all_gather("end", "", Deadline(kSoonS));
    one.all_gather("end", "", Deadline(kSoonS));
  });
}

CASE(a_port_is_free_again_after_its_world) {
  int port = 0;
  for (int world = 0; world < 3; ++world) {
    Launch launch = launch_of(0, 2, "127.0.0.1");
    launch.port = port;
    Store first(launch, Deadline(kSoonS));
    port = launch.port = first.port();
    launch.rank = 1;
    Store second(launch, Deadline(kSoonS));
    first.set("key", "value");
    CHECK(second.get("key", Deadline(kSoonS)) == "value");
  }
}

// A connection that cannot be accepted for want of a descriptor stays at the listener.
CASE(a_store_without_a_descriptor_left_does_not_spin_and_takes_the_connection_later) {
  const std::string address = fresh_name();
  Store zero(launch_of(0, 2, address), Deadline(kSoonS));
  rlimit before{};
  CHECK(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const auto busy_ns = [] {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
  };
  // This end has its descriptor, the other end gets none.
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(Fd(::dup(0)).get()) + 1;
  CHECK(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::string why;
  const Fd connection = connect_once({address, 0}, Deadline(kSoonS), why);
  CHECK(connection.valid());
  const std::uint64_t start_ns = busy_ns();
  const timespec moment{0, 500'000'000};
  ::nanosleep(&moment, nullptr);
  const std::uint64_t busy = busy_ns() - start_ns;
  CHECK(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(busy < 20'000'000);
  Store one(launch_of(1, 2, address), Deadline(kSoonS));
  one.set("key", "value");
  CHECK(zero.get("key", Deadline(kSoonS)) == "value");
}

CASE(a_port_that_another_program_holds_is_named) {
  Endpoint endpoint{"127.0.0.1", 0};
  const Fd other = listen_at(endpoint, ListenScope::this_host);
  Launch launch = launch_of(0, 2, "127.0.0.1");
  launch.port = endpoint.port;
  check_throws([&] { Store(launch, Deadline(0.1)); }, concat("port ", endpoint.port, ": another process does"));
  launch.address = "192.0.2.1";  // reserved for documentation, nobody's
  launch.local_size = 2;
  CHECK_THROWS(Store(launch, Deadline(0.1)), "must name the machine that rank 0 runs on");
}

CASE(a_rank_that_gives_up_fails_the_others_at_once) {
  const std::string address = fresh_name();
  as_ranks(3, [&](int rank) {
    Store store(launch_of(rank, 3, address), Deadline(kSoonS));
    store.all_gather("start", "", Deadline(kSoonS));
    if (rank == 2) return;
    CHECK_THROWS(store.all_gather("next", "", Deadline(kSoonS)), "rank 2 gave up before next");
  });
}

CASE(a_rank_that_gives_up_fails_the_others_with_what_was_told_first) {
  const std::string address = fresh_name();
  as_ranks(3, [&](int rank) {
    Store store(launch_of(rank, 3, address), Deadline(kSoonS));
    store.all_gather("start", "", Deadline(kSoonS));
    if (rank == 0) return store.tell_failure("no GPU is here");  // whose server ends with it
    check_throws([&] { store.all_gather("next", "", Deadline(kSoonS)); },
                 concat("rank 0 gave up before next; see its own error; the first failure was of rank 0 (pid ",
                        ::getpid(), "): no GPU is here"));
  });
}

CASE(a_rank_that_dies_in_the_store_fails_the_others_at_once) {
  const std::string address = fresh_name();
  const pid_t victim = spawn_rank("store_then_die", launch_of(1, 2, address));
  Store store(launch_of(0, 2, address), Deadline(kSoonS));
  store.all_gather("start", "", Deadline(kSoonS));
  CHECK_THROWS(store.get("never", Deadline(kSoonS)), "rank 1 died");
  CHECK_THROWS(store.all_gather("next", "", Deadline(kSoonS)), "rank 1 died before next");
  CHECK(wait_for_exit(victim) == 128 + SIGKILL);
}

CASE(store_of_one_rank_needs_no_server) {
  Store store(Launch{}, Deadline(kSoonS));
  CHECK(store.all_gather("topic", "me", Deadline(0)) == std::vector<std::string>{"me"});
  store.set("key", "value");
  CHECK(store.get("key", Deadline(0)) == "value");
  CHECK_THROWS(store.get("other", Deadline(0.01)), "key 'other'");
}

CASE(meeting_forgets_questions_that_were_cancelled) {
  Meeting meeting(2);
  CHECK(meeting.enter(0) && meeting.enter(1) && !meeting.enter(1));
  CHECK(meeting.get(0, 1, "key").empty());
  meeting.cancel(0, 1);
  CHECK(meeting.set("key", "value").empty());
  CHECK(meeting.gather(0, 2, "topic", "a").empty());
  meeting.cancel(0, 2);
  CHECK(meeting.gather(1, 3, "topic", "b").empty());          // a part that was taken back does not count
  CHECK(meeting.gather(0, 6, "topic", "again").size() == 2);  // and may be said again
  CHECK(meeting.gather(1, 4, "topic 2", "b").empty());
  const MeetingAnswers again = meeting.gather(1, 5, "topic 2", "b");
  CHECK(again.size() == 1 && again[0].frame.find("a second time") != std::string::npos);
  CHECK(meeting.leave(0).size() == 1);
  CHECK(!meeting.over());
  meeting.die(1);
  CHECK(meeting.over());
}

CASE(meeting_takes_no_value_of_a_rank_that_has_gone) {
  for (const auto go : {&Meeting::leave, &Meeting::die}) {
    Meeting meeting(2);
    CHECK(meeting.enter(0) && meeting.enter(1));
    CHECK(meeting.gather(1, 1, "topic", "stale").empty());
    CHECK((meeting.*go)(1).empty());
    const MeetingAnswers answers = meeting.gather(0, 1, "topic", "mine");
    CHECK(answers.size() == 1 && answers[0].frame.find("rank 1 ") != std::string::npos);
    CHECK(answers[0].frame.find("before topic") != std::string::npos);
    CHECK(!meeting.open_to(0) && !meeting.open_to(1));
    CHECK((meeting.*go)(0).empty() && meeting.over());
  }
}

CASE(meeting_names_the_rank_that_went_first) {
  Meeting meeting(3);
  for (int rank = 0; rank < 3; ++rank) CHECK(meeting.enter(rank));
  CHECK(meeting.leave(2).empty() && meeting.leave(0).empty());
  const MeetingAnswers answers = meeting.gather(1, 1, "topic", "mine");
  CHECK(answers.size() == 1 && answers[0].frame.find("rank 2 gave up") != std::string::npos);
}

CASE(ranks_that_tried_in_vain_before_meet_all_the_same) {
  for (const int early : {0, 1}) {
    const std::string address = fresh_name();
    const auto in_vain = [&] {
      Store store(launch_of(early, 2, address), Deadline(0.1));
      (void)store.all_gather("start", "", Deadline(0.1));
    };
    for (int i = 0; i < 2; ++i) check_throws(in_vain, "within 0.1 s");
    as_ranks(2, [&](int rank) {
      Store store(launch_of(rank, 2, address), Deadline(kSoonS));
      CHECK(store.all_gather("start", concat(rank), Deadline(kSoonS)).at(1) == "1");
    });
  }
}

// Over TCP the port stays, and the ranks are numbered anew.
CASE(the_living_meet_at_the_old_port_whoever_died) {
  for (const int victim : {0, 1, 2}) {
    const int here = victim == 0 ? 1 : 0;
    Launch launch = launch_of(here, 3, "127.0.0.1");
    Endpoint free{"127.0.0.1", 0};
    listen_at(free, ListenScope::this_host).reset();
    launch.port = free.port;
    std::vector<pid_t> children;
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == here) continue;
      Launch other = launch;
      other.rank = other.local_rank = rank;
      children.push_back(spawn_rank(rank == victim ? "store_then_die" : concat("store_without_", victim), other));
    }
    meet_without(launch, victim);
    for (const pid_t child : children) {
      const int status = wait_for_exit(child);
      CHECK(status == 0 || status == 128 + SIGKILL);
    }
  }
}

// --- the process ranks ---

void store_then_die() {
  Store store(launch_from_environment(), Deadline(kSoonS));
  store.all_gather("start", "", Deadline(kSoonS));
  ::raise(SIGKILL);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--rank") == 0) {
    const auto without = [](int victim) { return [victim] { meet_without(launch_from_environment(), victim); }; };
    return run_role({{"store_then_die", store_then_die},
                     {"store_without_0", without(0)},
                     {"store_without_1", without(1)},
                     {"store_without_2", without(2)}},
                    argv[2]);
  }
  return onstream::test::run(argc, argv);
}
