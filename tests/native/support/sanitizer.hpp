// Settings of tests under sanitizers, and nowhere else.
//
// There every access and every thread costs many times as much, and the errors show among three ranks as among nine. So
// a test that runs the same code for many ranks, sizes or launches names a few that take every way through it. All
// other builds run all.
#pragma once

#include <utility>

namespace onstream::test {

#ifdef __SANITIZE_THREAD__
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitizer = true;
#else
constexpr bool kSanitizer = false;
#endif

template <class T>
constexpr T all_or_few(T all, T few) {
  return kSanitizer ? std::move(few) : std::move(all);
}

// For a function that only computes, in memory that no other thread knows.
#ifdef __SANITIZE_THREAD__
#define ONSTREAM_TEST_ALONE __attribute__((no_sanitize("thread")))
#else
#define ONSTREAM_TEST_ALONE
#endif

}  // namespace onstream::test
