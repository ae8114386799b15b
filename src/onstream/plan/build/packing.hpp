// Packing: the form in which the ranks' statements travel. Numbers in this machine's order, strings after their
// lengths.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "onstream/base/error.hpp"

namespace onstream::plan {

class PackWriter {
 public:
  template <class T>
  void number(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number(static_cast<std::uint64_t>(value.size()));
    bytes_ += value;
  }
  template <class T>
  void numbers(const std::vector<T>& values) {
    number(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) number(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class PackReader {
 public:
  explicit PackReader(std::string_view bytes) : bytes_(bytes) {}
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number<std::uint64_t>())); }
  template <class T>
  std::vector<T> numbers() {
    const auto count = number<std::uint64_t>();
    std::vector<T> values;
    for (std::uint64_t i = 0; i < count; ++i) values.push_back(number<T>());
    return values;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size()) {
      fail(ErrorCode::system, "what a rank says about a plan ends after ", bytes_.size(), " of ", count, " bytes");
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view bytes_;
};

}  // namespace onstream::plan
