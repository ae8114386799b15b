// A rank whose threads flush numbers below the normal ones to zero, or round upwards, as a program compiled with
// -ffast-math makes them do: its sums have the bits that every other rank's have. On the host device.
#include <cfenv>
#include <cstring>
#include <string>

#include "collective/collective_cases.hpp"
#include "onstream/collective.hpp"
#include "onstream/device/kernel/floats.hpp"
#include "support/check.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t kFlushing = 0x8040;  // FTZ and DAZ of MXCSR
std::uint32_t mode() { return __builtin_ia32_stmxcsr(); }
void set_mode(std::uint32_t bits) { __builtin_ia32_ldmxcsr(bits); }
#endif

// The thread's own arithmetic, as far as a test can change it; streams that it makes inherit it.
void disturb(bool rounding) {
#if defined(__x86_64__)
  set_mode(mode() | kFlushing);
#endif
  if (rounding) CHECK(std::fesetround(FE_UPWARD) == 0);
}

constexpr Algorithm kAlgorithms[] = {
    Algorithm::automatic, Algorithm::ll,   Algorithm::two_shot,         Algorithm::ll128,       Algorithm::simple,
    Algorithm::ring,      Algorithm::tree, Algorithm::halving_doubling, Algorithm::hierarchical};

// Below the normal numbers of a format the bits count, so sums of bits are bits of sums.
template <class Bits>
void check_sums(World& world, ElementType type, std::size_t count, const OwnStream* stream) {
  const std::size_t parts = type == ElementType::complex64 || type == ElementType::complex128 ? 2 : 1;
  const std::size_t all = count * parts;
  std::vector<Bits> values(all);
  for (std::size_t i = 0; i < all; ++i)
    values[i] = static_cast<Bits>(1 + (i + static_cast<std::size_t>(world.rank())) % 3);
  std::vector<unsigned char> bytes(all * sizeof(Bits));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  for (const Algorithm algorithm : kAlgorithms) {
    Buffer in(world, bytes.size());
    Buffer out(world, bytes.size());
    in.write(bytes);
    CollectiveCall call = collective::all_reduce({in.data(), out.data(), count, type});
    call.algorithm = algorithm;
    if (!can(world, call)) continue;
    run(world, call, stream);
    const std::vector<unsigned char> got = out.read();
    for (std::size_t i = 0; i < all; ++i) {
      Bits sum = 0;
      std::memcpy(&sum, got.data() + i * sizeof(Bits), sizeof sum);
      std::size_t wanted = 0;
      for (std::size_t rank = 0; rank < static_cast<std::size_t>(world.size()); ++rank) wanted += 1 + (i + rank) % 3;
      if (sum != wanted) {
        throw std::runtime_error(concat(name_of(type), " by ", name_of(algorithm), ": element ", i, " of ", count,
                                        " has bits ", static_cast<std::uint64_t>(sum), ", not ", wanted));
      }
    }
  }
}

void check_all(World& world, const OwnStream* stream) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{300}, std::size_t{20000}}) {
    check_sums<std::uint32_t>(world, ElementType::float32, count, stream);
    check_sums<std::uint64_t>(world, ElementType::float64, count, stream);
    check_sums<std::uint32_t>(world, ElementType::complex64, count, stream);
    check_sums<std::uint64_t>(world, ElementType::complex128, count, stream);
    check_sums<std::uint16_t>(world, ElementType::float16, count, stream);
    check_sums<std::uint16_t>(world, ElementType::bfloat16, count, stream);
  }
}

}  // namespace

CASE(a_rank_that_flushes_adds_as_the_others) {
  run_ranks(3, quick("host"), [](World& world) {
    if (world.rank() == 1) disturb(false);
    const OwnStream stream(world);
    check_all(world, nullptr);
    check_all(world, &stream);
  });
}

CASE(a_rank_that_rounds_upwards_adds_as_the_others) {
  run_ranks(3, quick("host"), [](World& world) {
    if (world.rank() == 2) disturb(true);
    const float mine = world.rank() == 0 ? 1.0f : 0x1p-30f;
    float sum = 0;
    world.collective().run(collective::all_reduce({&mine, &sum, 1, ElementType::float32}));
    const float one = 1.0f;
    CHECK(std::memcmp(&sum, &one, sizeof sum) == 0);
  });
}

CASE(what_the_thread_had_is_there_again) {
#if defined(__x86_64__)
  const std::uint32_t before = mode();
  set_mode(before | kFlushing);
  {
    const PlainFloats plain;
    CHECK((mode() & kFlushing) == 0);
  }
  CHECK((mode() & kFlushing) == kFlushing);
  set_mode(before);
  {
    const PlainFloats plain;
    CHECK(mode() == before);
  }
  CHECK(mode() == before);
#endif
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
