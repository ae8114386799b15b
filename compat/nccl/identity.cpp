#include "identity.hpp"

#include <algorithm>
#include <cstring>

#include "guarded.hpp"
#include "onstream/bootstrap/sha256.hpp"

namespace onstream::nccl {

namespace {

constexpr char kKind[] = "onstream-nccl-1";
constexpr std::size_t kWordDigits = 32;

Launch launch_at(std::string_view name, std::string_view secret, int rank, int size) {
  Launch launch;
  launch.rank = launch.local_rank = rank;
  launch.size = launch.local_size = size;
  launch.address = concat("unix:onstream-nccl-", name);
  launch.secret = secret;
  launch.launcher = "nccl";
  return launch;
}

}  // namespace

ncclUniqueId make_id() {
  ncclUniqueId id{};
  const std::string text =
      concat(kKind, ' ', to_hex(random_bytes(kWordDigits / 2)), ' ', to_hex(random_bytes(kWordDigits / 2)));
  static_assert(sizeof kKind + 2 * (kWordDigits + 1) < NCCL_UNIQUE_ID_BYTES);
  text.copy(id.internal, sizeof id.internal - 1);
  return id;
}

Launch launch_of(const ncclUniqueId& id, int rank, int size) {
  const std::string text(id.internal, strnlen(id.internal, sizeof id.internal));
  const std::vector<std::string_view> words = words_of(text);
  demand(words.size() == 3 && words[0] == kKind && words[1].size() == kWordDigits && words[2].size() == kWordDigits,
         "the unique id was not made by ncclGetUniqueId of this library, or did not arrive whole; rank 0 makes it and "
         "gives all ",
         NCCL_UNIQUE_ID_BYTES, " bytes of it to the others");
  return launch_at(words[1], words[2], rank, size);
}

Launch launch_beside(const Launch& parent, const std::string& what, int rank, int size) {
  const std::string name = to_hex(sha256(concat(parent.address, ' ', what))).substr(0, kWordDigits);
  return launch_at(name, parent.secret, rank, size);
}

}  // namespace onstream::nccl
