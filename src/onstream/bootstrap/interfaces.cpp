#include "onstream/bootstrap/interfaces.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string_view>

#include "onstream/base/error.hpp"
#include "onstream/base/text.hpp"

namespace onstream {
namespace {

template <class Part>
std::string number_text(int family, const Part& part) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return ::inet_ntop(family, &part, text.data(), text.size()) == nullptr ? "" : text.data();
}

// "" for an address that no other host can use.
std::string usable_number(const sockaddr* address) {
  if (address == nullptr) return "";
  if (address->sa_family == AF_INET) {
    sockaddr_in four{};
    std::memcpy(&four, address, sizeof(four));
    return number_text(AF_INET, four.sin_addr);
  }
  if (address->sa_family != AF_INET6) return "";
  sockaddr_in6 six{};
  std::memcpy(&six, address, sizeof(six));
  return IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) ? "" : number_text(AF_INET6, six.sin6_addr);
}

std::string names_in(const std::vector<InterfaceAddress>& all) {
  std::string names;
  for (const InterfaceAddress& one : all)
    if (names.find(one.interface) == std::string::npos) names += concat(names.empty() ? "" : ", ", one.interface);
  return names.empty() ? "none" : names;
}

// The bytes of a number; IPv4 as IPv6 has it, so that the two kinds share no more than their first bits.
std::array<unsigned char, 16> bytes_of(const std::string& number) {
  std::array<unsigned char, 16> bytes{};
  const std::string six = number.find(':') == std::string::npos ? concat("::ffff:", number) : number;
  (void)::inet_pton(AF_INET6, six.substr(0, six.find('%')).c_str(), bytes.data());
  return bytes;
}

int common_bits(const std::string& left, const std::string& right) {
  const auto a = bytes_of(left);
  const auto b = bytes_of(right);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto differing = static_cast<unsigned char>(a.at(i) ^ b.at(i));
    if (differing != 0) return static_cast<int>(i) * 8 + std::countl_zero(differing);
  }
  return static_cast<int>(a.size()) * 8;
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* found = nullptr;
  if (::getifaddrs(&found) != 0) fail_errno("cannot list the network interfaces of this host");
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(found, &::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* one = found; one != nullptr; one = one->ifa_next) {
    const std::string number = (one->ifa_flags & IFF_UP) != 0 ? usable_number(one->ifa_addr) : "";
    if (!number.empty()) all.push_back({one->ifa_name, number, (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return all;
}

std::vector<std::string> numbers_to_reach(const std::string& wanted, const std::string& local,
                                          const std::vector<InterfaceAddress>& all) {
  std::vector<std::string> numbers;
  const auto take = [&](const auto& matches) {
    for (const InterfaceAddress& one : all)
      if (matches(one)) numbers.push_back(one.number);
  };
  if (wanted != "auto") {
    std::string names = wanted;
    std::ranges::replace(names, ',', ' ');
    for (const std::string_view name : words_of(names)) {
      const std::size_t before = numbers.size();
      take([&](const InterfaceAddress& one) { return one.interface == name; });
      require(numbers.size() > before, "network_interface=", wanted, ": this host has no interface ", name,
              " with an address; it has ", names_in(all));
    }
    require(!numbers.empty(), "network_interface=", wanted, " names no interface");
    return numbers;
  }
  const auto found = std::ranges::find(all, local, &InterfaceAddress::number);
  if (found != all.end() && !found->loopback) {
    numbers.push_back(local);
    take([&](const InterfaceAddress& one) { return one.interface == found->interface && one.number != local; });
    return numbers;
  }
  take([](const InterfaceAddress& one) { return !one.loopback; });
  take([](const InterfaceAddress& one) { return one.loopback; });
  return numbers;
}

void nearest_first(std::vector<Endpoint>& endpoints, const std::string& local) {
  if (local.empty()) return;
  std::ranges::stable_sort(endpoints, std::ranges::greater(),
                           [&](const Endpoint& one) { return common_bits(one.address, local); });
}

}  // namespace onstream
