// A native test program: named cases, run one by one, `N passed, N failed, N skipped` at the end.
//
// Our two commands may take from PyPI only, and PyPI has no C++ test library (docs/decisions/0001). pytest starts these
// programs (tests/python/test_native.py), so every case is a row of `make test`; sanitizer builds run them as they are.
//
//   CASE(recv_before_send_is_matched) { CHECK(1 + 1 == 2); CHECK_THROWS(f(), "rank 7"); }
//   SKIP("no cuda device");  inside a case whose device or library is missing
//   int main(int argc, char** argv) { return onstream::test::run(argc, argv); }   // [--list] [NAME...]
#pragma once

#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace onstream::test {

struct Case {
  const char* name;
  void (*body)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

struct Registration {
  Registration(const char* name, void (*body)()) { cases().push_back({name, body}); }
};

class CheckFailed : public std::exception {
 public:
  explicit CheckFailed(std::string what) : what_(std::move(what)) {}
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

struct Skipped {
  std::string why;
};

// How long a test waits for an event that comes at once on an idle machine; nothing takes this long unless it fails.
constexpr double kSoonS = 25;

// Exit status of a program that skipped cases and failed none, and ran no other.
constexpr int kAllSkipped = 77;

[[noreturn]] inline void failed(const char* file, int line, const std::string& what) {
  throw CheckFailed(std::string(file) + ":" + std::to_string(line) + ": " + what);
}

inline int run(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--list") == 0) {
    for (const Case& c : cases()) std::printf("%s\n", c.name);
    return 0;
  }
  int passed = 0;
  int failures = 0;
  int skips = 0;
  for (const Case& c : cases()) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strcmp(argv[i], c.name) == 0;
    if (!wanted) continue;
    try {
      c.body();
      ++passed;
      std::printf("ok      %s\n", c.name);
    } catch (const Skipped& skipped) {
      ++skips;
      std::printf("skipped %s\n        %s\n", c.name, skipped.why.c_str());
    } catch (const std::exception& error) {
      ++failures;
      std::printf("FAILED  %s\n        %s\n", c.name, error.what());
    }
    std::fflush(stdout);
  }
  std::printf("%d passed, %d failed, %d skipped\n", passed, failures, skips);
  if (failures == 0 && passed == 0 && skips > 0) return kAllSkipped;
  return failures == 0 && passed > 0 ? 0 : 1;
}

}  // namespace onstream::test

#define CASE(name)                                                                 \
  static void name();                                                              \
  static const ::onstream::test::Registration registration_of_##name(#name, name); \
  static void name()
#define CHECK(condition)                                                                          \
  do {                                                                                            \
    if (!(condition)) ::onstream::test::failed(__FILE__, __LINE__, "does not hold: " #condition); \
  } while (false)
#define SKIP(why) \
  throw ::onstream::test::Skipped { why }
// The call must throw, and its message must contain `text`.
#define CHECK_THROWS(call, text)                                                                         \
  do {                                                                                                   \
    bool threw = false;                                                                                  \
    try {                                                                                                \
      call;                                                                                              \
    } catch (const std::exception& error) {                                                              \
      threw = true;                                                                                      \
      const std::string wanted(text);                                                                    \
      if (std::string(error.what()).find(wanted) == std::string::npos)                                   \
        ::onstream::test::failed(__FILE__, __LINE__, "threw without '" + wanted + "': " + error.what()); \
    }                                                                                                    \
    if (!threw) ::onstream::test::failed(__FILE__, __LINE__, "did not throw: " #call);                   \
  } while (false)
