// Rings over machines whose answers are known: as many as there can be, each visiting every GPU once, and no link used
// twice in one direction.
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "onstream/base/text.hpp"
#include "onstream/topology/rings.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::topology;

namespace {

Machine shipped(const std::string& name) {
  std::ifstream file(std::string(ONSTREAM_MACHINES) + "/" + name + ".txt");
  CHECK(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return machine_from(text.str());
}

// Every promise of rings.hpp.
void check_rings(const Machine& machine, const Rings& rings) {
  std::map<std::pair<int, int>, int> used;
  for (const Ring& ring : rings.all) {
    CHECK(static_cast<int>(ring.gpus.size()) == machine.gpus);
    CHECK(static_cast<int>(std::set(ring.gpus.begin(), ring.gpus.end()).size()) == machine.gpus);
    std::vector<int> gpus;
    for (std::size_t i = 0; i < ring.nodes.size(); ++i) {
      if (ring.nodes[i] < machine.gpus) gpus.push_back(ring.nodes[i]);
      ++used[{ring.nodes[i], ring.nodes[(i + 1) % ring.nodes.size()]}];
    }
    CHECK(gpus == ring.gpus);
  }
  for (const auto& [ends, times] : used) {
    int links = 0;
    for (const MachineLink& link : machine.links) {
      if ((link.a == ends.first && link.b == ends.second) || (link.a == ends.second && link.b == ends.first)) {
        links += link.count;
      }
    }
    CHECK(times <= links);
  }
}

std::size_t rings_of(const Machine& machine) {
  const Rings rings = find_rings(machine);
  check_rings(machine, rings);
  return rings.all.size();
}

}  // namespace

CASE(machines_have_as_many_rings_as_is_known_of_them) {
  CHECK(rings_of(shipped("dgx1-p100")) == 4);         // 4 links a GPU
  CHECK(rings_of(shipped("dgx1-v100")) == 6);         // 6 links a GPU, and 6 between the halves
  CHECK(rings_of(shipped("pcie-two-sockets")) == 1);  // one link a GPU, in and out
  CHECK(rings_of(shipped("nvswitch-8")) == 18);
  CHECK(rings_of(shipped("torus-4x4x4")) == 6);  // a torus falls into Hamiltonian cycles
}

CASE(small_machines_have_what_can_be_counted_by_hand) {
  CHECK(rings_of(machine_from("gpus 2\nlink 0 1 4")) == 4);
  CHECK(rings_of(machine_from("gpus 3\nlink 0 1\nlink 1 2\nlink 2 0")) == 2);
  CHECK(rings_of(machine_from("gpus 3\nlink 0 1\nlink 1 2")) == 0);  // a chain comes back by the link it went
  CHECK(rings_of(machine_from("torus 3 3 3")) == 6);
  CHECK(rings_of(machine_from("torus 4 4 1")) == 4);
  // Two triangles that share one GPU: it would be visited twice.
  CHECK(rings_of(machine_from("gpus 5\nlink 0 1\nlink 1 2\nlink 2 0\nlink 2 3\nlink 3 4\nlink 4 2")) == 0);
}

CASE(rings_are_the_same_in_every_run_and_are_printed) {
  const Machine machine = shipped("pcie-two-sockets");
  const std::string once = describe(machine, find_rings(machine));
  CHECK(once == describe(machine, find_rings(machine)));
  CHECK(once.find("1 ring of 8 GPUs (at most 1)\n  0 plx0 1 plx0 cpu0 plx1 2 plx1 3") != std::string::npos);
}

CASE(what_is_no_machine_is_told_with_its_line) {
  CHECK_THROWS((void)machine_from(""), "begins with");
  CHECK_THROWS((void)machine_from("gpus 2\nlink 0 7"), "line 2 of the machine, 'link 0 7'");
  CHECK_THROWS((void)machine_from("gpus 2\nlink 0 nvswitch"), "the number of a GPU or the name of a switch");
  CHECK_THROWS((void)machine_from("gpus 2\nlink 0 1 0"), "a count is from 1");
  CHECK_THROWS((void)machine_from("gpus 2\nswitch a\nswitch a"), "a switch is named once");
  CHECK_THROWS((void)machine_from("gpus 2\nswitch 1\nlink 0 1"), "a switch's name is no number");
  CHECK_THROWS((void)machine_from("gpus 2\nlink 1 1"), "two different nodes");
  CHECK_THROWS((void)machine_from("gpus 2\nwire 0 1"), "`gpus`, `switch`, `link` or `torus`");
  CHECK_THROWS((void)find_rings(machine_from("gpus 1")), "at least 2 GPUs");
}

CASE(comments_may_be_in_any_encoding_and_all_else_is_utf8) {
  const Machine machine =
      machine_from("# caf\xe9\ngpus 2  # \xff\nswitch caf\xc3\xa9\nlink 0 caf\xc3\xa9 2\nlink 0 1\n");
  CHECK(machine.switches.at(0) == "caf\xc3\xa9");
  CHECK_THROWS((void)machine_from("gpus 2\nswitch caf\xe9\n"), "line 2 of the machine is not text in UTF-8");
  for (const char* good : {"", "a", "\xc2\x80", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
    CHECK(onstream::is_utf8(good));
  }
  for (const char* bad : {"\x80", "\xc3", "\xc3(", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xe2\x82",
                          "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xff"}) {
    CHECK(!onstream::is_utf8(bad));
  }
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
