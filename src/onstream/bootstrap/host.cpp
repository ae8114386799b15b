#include "onstream/bootstrap/host.hpp"

#include <unistd.h>

#include <array>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/bootstrap/wire.hpp"

namespace onstream {
namespace {

std::string target_of(const char* link) {
  std::array<char, 128> text{};
  const ssize_t length = ::readlink(link, text.data(), text.size());
  if (length < 0) fail_errno(concat("cannot read ", link, ", needed to know which processes share this host"));
  return std::string(text.data(), static_cast<std::size_t>(length));
}

}  // namespace

Host this_host() {
  Host host;
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) == 0) host.name = name.data();
  constexpr const char* kBootId = "/proc/sys/kernel/random/boot_id";
  host.boot_id = contents_of(kBootId);
  if (host.boot_id.empty()) fail_errno(concat("cannot read ", kBootId));
  host.boot_id.erase(host.boot_id.find_last_not_of('\n') + 1);
  host.network_namespace = target_of("/proc/self/ns/net");
  host.pid_namespace = target_of("/proc/self/ns/pid");
  return host;
}

bool same_host(const Host& left, const Host& right) {
  return left.boot_id == right.boot_id && left.network_namespace == right.network_namespace;
}

std::string name_of_rank(int rank, int pid, const std::string& other_host) {
  return concat("rank ", rank, " (pid ", pid, other_host.empty() ? "" : " on ", other_host, ")");
}

std::string encode(const Host& host) {
  return wire::Packer().text(host.name).text(host.boot_id).text(host.network_namespace).text(host.pid_namespace).body();
}

Host decode_host(const std::string& text) {
  wire::Unpacker body(text);
  Host host;
  host.name = body.text();
  host.boot_id = body.text();
  host.network_namespace = body.text();
  host.pid_namespace = body.text();
  body.end();
  return host;
}

}  // namespace onstream
