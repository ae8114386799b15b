// The protocol of the store's client and server: the kinds of frames, their bodies, and the proof of the secret.
//
//   server: challenge {nonce}                                        at once after accepting
//   client: hello {nonce, generation, process, rank, size, proof}    anything else: dropped without an answer
//   server: welcome {proof}, or failed {0, error} and the end        the server proves the secret too
//   client: set {key, value} · get {id, key} · gather {id, topic, value} · missing {id, topic} · cancel {id} · bye {}
//   server: value {id, value} · gathered {id, count, values} · absent {id, count, ranks} · failed {id, error}
//
// The server chooses the meeting: the oldest of the job's generation (Launch::without) in which this rank has not been
// and that nobody has left. So ranks that gave up, or died, and come again meet the others after any number of
// attempts, and a world destroyed and made again finds no stale key. `process` tells two processes that claim one rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "onstream/base/text.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/wire.hpp"

namespace onstream::store_protocol {

enum MessageKind : std::uint8_t {
  challenge = 1,
  hello,
  welcome,
  set,
  get,
  gather,
  missing,
  cancel,
  bye,
  value,
  gathered,
  absent,
  failed,
};

constexpr std::size_t kNonceBytes = 32;

// The key of Store::tell_failure().
constexpr std::string_view kFailure = "why the start failed";

// A failed start as one rank saw it, and the failure that was `told` first: "" if none was, or only this one.
inline std::string with_first_failure(const std::string& what, std::string_view told) {
  if (told.empty() || told.ends_with(what)) return what;
  return concat(what, "; the first failure was of ", told);
}

struct Hello {
  std::string client_nonce;
  std::string generation;
  std::uint64_t process = 0;  // process_id()
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
};

// The purpose is part of the signed text: a server's proof cannot be sent back as a client's.
inline std::string prove(std::string_view secret, std::string_view purpose, std::string_view server_nonce,
                         const Hello& hello) {
  wire::Packer signed_text;
  signed_text.text(purpose).text(server_nonce).text(hello.client_nonce);
  signed_text.text(hello.generation).u64(hello.process).u32(hello.rank).u32(hello.size);
  return hmac_sha256(secret, signed_text.body());
}

inline std::string client_proof(std::string_view secret, std::string_view server_nonce, const Hello& hello) {
  return prove(secret, "onstream store client", server_nonce, hello);
}

inline std::string server_proof(std::string_view secret, std::string_view server_nonce, const Hello& hello) {
  return prove(secret, "onstream store server", server_nonce, hello);
}

}  // namespace onstream::store_protocol
