#include "options.hpp"

#include "onstream/base/error.hpp"

namespace onstream::bench {

namespace {

MemoryKind memory_from(const std::string& option, const std::string& name) {
  for (const MemoryKind kind : {MemoryKind::device, MemoryKind::pinned, MemoryKind::managed, MemoryKind::host}) {
    if (name == name_of(kind)) return kind;
  }
  fail(ErrorCode::invalid_argument, option, " is '", name, "'; there are device, pinned, managed, host");
}

}  // namespace

int count_from(const std::string& option, const std::string& value, int least, int most) {
  const std::optional<int> count = number_in<int>(value);
  require(count && *count >= least && *count <= most, option, " is '", value, "', not a number from ", least, " to ",
          most);
  return *count;
}

Parameters parameters_from(const std::string& device, const Settings& settings) {
  Parameters parameters = Parameters::from_environment();
  if (!device.empty()) parameters.set("device", device);
  for (const auto& [name, value] : settings) parameters.set(name, value);
  return parameters;
}

Options& Options::value(const std::string& name, Take take) {
  all_.push_back({name, true, std::move(take)});
  return *this;
}

Options& Options::flag(const std::string& name, std::function<void()> take) {
  all_.push_back({name, false, [take = std::move(take)](const std::string&) { take(); }});
  return *this;
}

Options& Options::text(const std::string& name, std::string& into) {
  return value(name, [&into](const std::string& word) { into = word; });
}

Options& Options::count(const std::string& name, int& into, int least, int most) {
  return value(name, [=, &into](const std::string& word) { into = count_from(name, word, least, most); });
}

Options& Options::memory(const std::string& name, MemoryKind& into) {
  return value(name, [name, &into](const std::string& word) { into = memory_from(name, word); });
}

Options& Options::setting(const std::string& name, Settings& into) {
  return value(name, [name, &into](const std::string& word) {
    const std::size_t split = word.find('=');
    require(split != std::string::npos && split > 0, name, " takes NAME=VALUE, not '", word, "'");
    into.emplace_back(word.substr(0, split), word.substr(split + 1));
  });
}

Options& Options::others(Take take) {
  others_ = std::move(take);
  return *this;
}

const Options::One& Options::find(const std::string& word) const {
  std::string known;
  for (const One& one : all_) {
    if (one.name == word) return one;
    known += (known.empty() ? "" : ", ") + one.name;
  }
  fail(ErrorCode::invalid_argument, "unknown option ", word, "; there are ", known);
}

void Options::read(int argc, char** argv) const {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t at = 0; at < words.size(); ++at) {
    if (others_ && words[at].rfind("--", 0) != 0) {
      others_(words[at]);
      continue;
    }
    const One& one = find(words[at]);
    require(!one.has_value || at + 1 < words.size(), one.name, " needs a value");
    one.take(one.has_value ? words[++at] : one.name);
  }
}

std::string seconds_text(double seconds) {
  constexpr int kDigits = 9;
  return scientific(seconds, kDigits);
}

std::string seconds_list(const std::vector<double>& seconds) {
  std::string list;
  for (const double one : seconds) list += (list.empty() ? "" : ",") + seconds_text(one);
  return "[" + list + "]";
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + '"';
}

}  // namespace onstream::bench
