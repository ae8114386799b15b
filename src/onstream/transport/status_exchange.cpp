#include "onstream/transport/status_exchange.hpp"

#include "onstream/bootstrap/wire.hpp"

namespace onstream {

std::string word_of(const std::function<std::string()>& mine) {
  wire::Packer packed;
  try {
    const std::string value = mine();
    packed.u8(0).text(value);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::timeout) throw;
    wire::pack_error(packed.u8(1), error.code(), error.what());
  } catch (const std::exception& error) {
    wire::pack_error(packed.u8(1), ErrorCode::system, error.what());
  }
  return packed.body();
}

std::vector<std::string> agreed(const std::vector<std::string>& words) {
  std::vector<std::string> values;
  std::string problems;
  ErrorCode first = ErrorCode::system;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    wire::Unpacker body(words[rank]);
    if (body.u8() == 0) {
      values.emplace_back(body.text());
      continue;
    }
    const Error error = wire::unpack_error(body);
    if (problems.empty()) first = error.code();
    problems += concat(problems.empty() ? "" : "\n  ", "rank ", rank, ": ", error.what());
  }
  if (!problems.empty()) throw Error(first, problems);
  return values;
}

void require_alike(const std::vector<std::string>& values, std::string_view rule, std::string_view verb) {
  std::string differing;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (values[rank] == values[0]) continue;
    differing += concat(differing.empty() ? "" : ", ", "rank ", rank, " ", verb, " ", values[rank]);
  }
  require(differing.empty(), rule, " rank 0 ", verb, " ", values[0], " and ", differing);
}

}  // namespace onstream
