// PlainFloats: this thread's arithmetic as the language has it, while one lives: rounded to nearest, and numbers below
// the normal ones kept. A program, or a library that it loads (-ffast-math), may have changed either for its threads,
// and those that they start; with another mode on one rank a sum would have other bits there. Traps stay as they
// are. For the host alone; costs 4 ns where nothing is to change (docs/decisions/0018).
#pragma once

#include <cstdint>

namespace onstream {

class PlainFloats {
 public:
  PlainFloats() : before_(mode()) {
    if ((before_ & kOwn) != 0) [[unlikely]]
      set_mode(before_ & ~kOwn);
  }
  // Exceptions that were raised meanwhile stay raised.
  ~PlainFloats() {
    if ((before_ & kOwn) != 0) [[unlikely]]
      set_mode((mode() & ~kOwn) | (before_ & kOwn));
  }
  PlainFloats(const PlainFloats&) = delete;
  PlainFloats& operator=(const PlainFloats&) = delete;

 private:
  // By assembly that says it touches memory: results are stored, and operands loaded, on the side where they belong.
#if defined(__x86_64__)
  using Mode = std::uint32_t;               // MXCSR
  static constexpr Mode kOwn = 0x0000e040;  // flush to zero, rounding, denormals are zeroes
  static Mode mode() {
    Mode value;
    asm volatile("stmxcsr %0" : "=m"(value) : : "memory");
    return value;
  }
  static void set_mode(Mode value) { asm volatile("ldmxcsr %0" : : "m"(value) : "memory"); }
#elif defined(__aarch64__)
  using Mode = std::uint64_t;               // FPCR
  static constexpr Mode kOwn = 0x01c80000;  // flush to zero, of 16 bits too, rounding
  static Mode mode() {
    Mode value;
    asm volatile("mrs %0, fpcr" : "=r"(value) : : "memory");
    return value;
  }
  static void set_mode(Mode value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
  using Mode = std::uint32_t;
  static constexpr Mode kOwn = 0;
  static Mode mode() { return 0; }
  static void set_mode(Mode) {}
#endif

  Mode before_;
};

}  // namespace onstream
