// The GIL: letting go of it and taking it, also while the interpreter ends.
//
// Python up to 3.13 ends a thread that asks for the GIL once the interpreter is ending, by pthread_exit(): that unwinds
// its stack, and neither a destructor nor nanobind's `catch (...)` lets that pass, so the process would abort. A daemon
// thread that comes back from a wait then stands still instead, as Python 3.14 has it; the end of the process ends it.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <cxxabi.h>

namespace onstream::python {

// Runs function(), which may end the thread: the thread stands still then.
template <class Function>
[[gnu::noinline]] auto or_stand_still(const Function& function) {
  try {
    return function();
  } catch (const abi::__forced_unwind&) {
    for (;;) pause();
  }
}

// Without the GIL until its end.
class GilRelease {
 public:
  GilRelease() : state_(PyEval_SaveThread()) {}
  ~GilRelease() {
    or_stand_still([this] { PyEval_RestoreThread(state_); });
  }
  GilRelease(const GilRelease&) = delete;
  GilRelease& operator=(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

// Holds the GIL until its end, in any thread.
class GilAcquire {
 public:
  GilAcquire() : state_(or_stand_still([] { return PyGILState_Ensure(); })) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
  GilAcquire& operator=(const GilAcquire&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace onstream::python
