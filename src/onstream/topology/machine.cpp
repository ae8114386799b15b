#include "onstream/topology/machine.hpp"

#include <algorithm>
#include <array>

#include "onstream/base/error.hpp"
#include "onstream/base/text.hpp"

namespace onstream::topology {

namespace {

constexpr int kMostGpus = 4096;

class MachineReader {
 public:
  Machine read(std::string_view text) {
    for (const std::string_view line : lines_of(text)) {
      ++number_;
      line_ = line.substr(0, line.find('#'));
      require(is_utf8(line_), "line ", number_, " of the machine is not text in UTF-8; only comments may be otherwise");
      const std::vector<std::string_view> words = words_of(line_);
      words_.assign(words.begin(), words.end());
      if (!words_.empty()) statement();
    }
    expect(machine_.gpus > 0, "a machine begins with `gpus COUNT` or `torus X Y Z`");
    return machine_;
  }

 private:
  void statement() {
    const std::string& what = words_[0];
    if (what == "gpus") return gpus();
    if (what == "torus") return torus();
    expect(machine_.gpus > 0, "a machine begins with `gpus COUNT` or `torus X Y Z`");
    if (what == "switch") return switches();
    expect(what == "link", "a line is `gpus`, `switch`, `link` or `torus`");
    expect(words_.size() == 3 || words_.size() == 4, "`link A B [COUNT]`");
    add(node(words_[1]), node(words_[2]), words_.size() == 4 ? count(words_[3], kMostGpus) : 1);
  }

  void gpus() {
    expect(machine_.gpus == 0 && words_.size() == 2, "`gpus COUNT`, once");
    machine_.gpus = count(words_[1], kMostGpus);
  }

  void switches() {
    for (std::size_t i = 1; i < words_.size(); ++i) {
      expect(std::ranges::find(machine_.switches, words_[i]) == machine_.switches.end(), "a switch is named once");
      expect(words_[i].find_first_not_of("0123456789") != std::string::npos, "a switch's name is no number");
      machine_.switches.push_back(words_[i]);
    }
  }

  void torus() {
    expect(machine_.gpus == 0 && words_.size() == 4, "`torus X Y Z`, alone");
    constexpr int kMostSide = 16;
    std::array<int, 3> side{};
    for (std::size_t d = 0; d < 3; ++d) side[d] = count(words_[d + 1], kMostSide);
    machine_.gpus = side[0] * side[1] * side[2];
    for (int node = 0; node < machine_.gpus; ++node) {
      const std::array<int, 3> at{node % side[0], node / side[0] % side[1], node / side[0] / side[1]};
      for (std::size_t d = 0; d < 3; ++d) {
        if (side[d] == 1) continue;
        std::array<int, 3> next = at;
        next[d] = (at[d] + 1) % side[d];
        add(node, next[0] + side[0] * (next[1] + side[1] * next[2]), 1);  // a side of 2 has both links to one node
      }
    }
  }

  void add(int a, int b, int links) {
    expect(a != b, "a link joins two different nodes");
    for (MachineLink& link : machine_.links) {
      if ((link.a == a && link.b == b) || (link.a == b && link.b == a)) {
        link.count += links;
        return;
      }
    }
    machine_.links.push_back({a, b, links});
  }

  int node(const std::string& word) const {
    const auto found = std::ranges::find(machine_.switches, word);
    if (found != machine_.switches.end()) return machine_.gpus + static_cast<int>(found - machine_.switches.begin());
    const int number = number_in<int>(word).value_or(-1);
    expect(number >= 0 && number < machine_.gpus, "a node is the number of a GPU or the name of a switch");
    return number;
  }

  int count(const std::string& word, int most) const {
    const int number = number_in<int>(word).value_or(0);
    expect(number >= 1 && number <= most, concat("a count is from 1 to ", most));
    return number;
  }

  void expect(bool holds, const std::string& rule) const {
    if (number_ == 0) require(holds, "the machine: ", rule);
    require(holds, "line ", number_, " of the machine, '", line_, "': ", rule);
  }

  Machine machine_;
  int number_ = 0;
  std::string line_;
  std::vector<std::string> words_;
};

}  // namespace

std::string Machine::name_of(int node) const {
  return node < gpus ? concat(node) : switches.at(static_cast<std::size_t>(node - gpus));
}

Machine machine_from(std::string_view text) { return MachineReader().read(text); }

}  // namespace onstream::topology
