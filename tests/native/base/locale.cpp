// Texts and their numbers, which no locale of the program's changes. Ranks of which only some have such a locale, and
// the faces of other libraries: tests/python/test_locale.py.
#include <limits>
#include <locale>

#include "onstream/collective.hpp"
#include "onstream/one_sided.hpp"
#include "plan/plan_ring.hpp"
#include "support/check.hpp"
#include "support/grouping.hpp"
#include "support/ranks.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// The program's locale groups digits while this lives.
class Grouped {
 public:
  Grouped() : before_(std::locale::global(grouping_locale())) {}
  ~Grouped() { std::locale::global(before_); }
  Grouped(const Grouped&) = delete;
  Grouped& operator=(const Grouped&) = delete;

 private:
  std::locale before_;
};

std::string joined() {
  const std::vector<std::uint8_t> bytes = {0, 65, 255};
  std::string text = concat(1234567, ' ', -7654321L, ' ', 18446744073709551615u, ' ', true, ' ', 1234.5, ' ', 0.25f);
  text +=
      concat(' ', 1e300, ' ', std::numeric_limits<double>::infinity(), ' ', reinterpret_cast<const void*>(0xabc1234));
  text += concat(' ', static_cast<const void*>(nullptr), " [", "a", std::string("b"), std::string_view("c"), 'd', "]");
  return text + listed(bytes) + ' ' + human_bytes(1536 << 20) + ' ' + general(1234.5678, 3) + ' ' + scientific(0.5, 9);
}

// Every text that ranks tell each other, and read, while they use the faces.
std::string all_faces(World& world) {
  const auto segment = world.segment(1'234'568);
  constexpr std::size_t kCount = 300'000;
  const auto mine = world.allocate(kCount * sizeof(double), MemoryKind::pinned);
  const auto sum = world.allocate(kCount * sizeof(double), MemoryKind::pinned);
  std::fill_n(reinterpret_cast<double*>(mine->data()), kCount, world.rank() + 1.0);
  const auto call = collective::all_reduce({mine->data(), sum->data(), 10'000, ElementType::float64});
  world.collective().run(call);
  CHECK(reinterpret_cast<const double*>(sum->data())[9'999] == world.size() * (world.size() + 1) / 2.0);
  const auto window = world.window(sum->data(), kCount * sizeof(double));
  std::vector<int> everyone;
  for (int rank = 0; rank < world.size(); ++rank) everyone.push_back(rank);
  const auto team = world.collective().among(everyone);
  team->run(call);
  const std::string told = ring(world, 100'008, Path::automatic, MemoryKind::host, 2);
  world.barrier();
  return concat(told.substr(told.find(" on rank ")), '\n',
                world.collective().explain(call));  // behind the plan's number
}

}  // namespace

CASE(texts_are_those_of_the_c_locale) {
  const std::string wanted =
      "1234567 -7654321 18446744073709551615 1 1234.5 0.25 1e+300 inf 0xabc1234 0 [abcd] 0 65 255 1.5 GiB 1.23e+03 "
      "5.000000000e-01";
  CHECK(joined() == wanted);
  const Grouped grouped;
  CHECK(joined() == wanted);
}

CASE(numbers_are_read_whole_or_not_at_all) {
  const Grouped grouped;
  CHECK(number_in<int>("1234567") == 1234567);
  CHECK(number_in<std::int64_t>("-12") == -12);
  for (const char* text : {"", "1,234", "12 ", " 12", "0x10", "99999999999"}) CHECK(!number_in<int>(text));
  CHECK(!number_in<unsigned>("-1"));
}

CASE(words_and_lines_are_parts_of_a_text) {
  using Parts = std::vector<std::string_view>;
  CHECK(words_of(" one\t two\n") == (Parts{"one", "two"}));
  CHECK(words_of("  ").empty());
  CHECK(lines_of("a b\n\nc") == (Parts{"a b", "", "c"}));
  CHECK(lines_of("a\n") == (Parts{"a"}));
  CHECK(lines_of("").empty());
}

CASE(a_world_of_a_program_that_groups_digits_says_what_any_other_says) {
  for (const std::string& device : device_specs()) {
    std::string wanted;
    const auto look = [&](World& world) {
      const std::string told = all_faces(world);
      if (world.rank() != 0) return;
      if (wanted.empty()) wanted = told;
      if (told != wanted) failed(__FILE__, __LINE__, concat("not as in the C locale: ", told, "\nbut: ", wanted));
    };
    run_ranks(3, quick(device), look);
    const Grouped grouped;
    run_ranks(3, quick(device), look);
  }
}

CASE(a_world_does_not_mind_a_locale_that_is_set_behind_its_start) {
  for (const std::string& device : device_specs()) {
    run_ranks(2, quick(device), [](World& world) {
      static std::locale before;
      if (world.rank() == 0) before = std::locale::global(grouping_locale());
      world.barrier();
      (void)all_faces(world);
      world.barrier();
      if (world.rank() == 0) std::locale::global(before);
    });
  }
}

int main(int argc, char** argv) { return run(argc, argv); }
