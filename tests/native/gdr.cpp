// gdrcopy found at run time: with a library that stands in for it, without a driver, and without the library.
#include "onstream/device/gdr.hpp"

#include <dlfcn.h>

#include <array>
#include <vector>

#include "check.hpp"
#include "onstream/device/devices.hpp"

using namespace onstream;
using namespace onstream::test;

namespace {

// Aligned like GPU memory.
struct alignas(Gdr::kPageBytes) Pages {
  std::array<unsigned char, 2 * Gdr::kPageBytes> bytes{};
};

int asked(const char* function) {
  void* library = dlopen(ONSTREAM_STAND_IN_GDR, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) failed(__FILE__, __LINE__, dlerror());
  auto* call = reinterpret_cast<int (*)()>(dlsym(library, function));
  const int answer = call();
  dlclose(library);
  return answer;
}

}  // namespace

CASE(what_the_cpu_writes_through_a_window_is_in_the_memory) {
  const auto pages = std::make_unique<Pages>();
  const Gdr gdr(ONSTREAM_STAND_IN_GDR);
  {
    const Gdr::Window window(gdr, reinterpret_cast<std::uintptr_t>(pages.get()), sizeof(Pages));
    CHECK(asked("stand_in_pinned") == 1 && asked("stand_in_mapped") == 1);
    window.write(70'000, "twelve bytes", 12);
    CHECK(std::memcmp(pages->bytes.data() + 70'000, "twelve bytes", 12) == 0);
    std::array<char, 5> back{};
    window.read(back.data(), 70'007, 5);
    CHECK(std::string(back.data(), 5) == "bytes");
  }
  CHECK(asked("stand_in_pinned") == 0 && asked("stand_in_mapped") == 0);
}

CASE(a_range_of_parts_of_pages_is_refused) {
  const auto pages = std::make_unique<Pages>();
  const auto address = reinterpret_cast<std::uintptr_t>(pages.get());
  const Gdr gdr(ONSTREAM_STAND_IN_GDR);
  CHECK_THROWS(Gdr::Window(gdr, address + 8, Gdr::kPageBytes), "no whole pages");
  CHECK_THROWS(Gdr::Window(gdr, address, 100), "100 B at");
  CHECK_THROWS(Gdr::Window(gdr, address, 0), "0 B at");
}

CASE(a_missing_library_is_told) { CHECK_THROWS(Gdr("libnowhere_gdrapi.so.9"), "libnowhere_gdrapi.so.9"); }

CASE(a_library_of_something_else_is_told) { CHECK_THROWS(Gdr("libm.so.6"), "has no gdr_open"); }

CASE(a_missing_driver_is_told) { CHECK_THROWS(Gdr(ONSTREAM_STAND_IN_GDR_ALONE), "not its driver (gdrdrv)"); }

CASE(every_kind_of_device_says_how_small_copies_work_and_why) {
  const SmallCopies host = small_copies_of(DeviceKind::host);
  CHECK(host.how == "stores" && !host.why.empty());
  const SmallCopies cuda = small_copies_of(DeviceKind::cuda);
  CHECK(!cuda.why.empty());
  CHECK((cuda.how == "none") == !no_cuda_reason().empty());
  std::string why_none;
  if (cuda.how != "none") CHECK((cuda.how == "gdrcopy") == (Gdr::of_process(why_none) != nullptr));
  if (cuda.how == "mapped host memory") CHECK(cuda.why.find("gdr") != std::string::npos);
}

int main(int argc, char** argv) { return onstream::test::run(argc, argv); }
