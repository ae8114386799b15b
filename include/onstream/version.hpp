// The version of these headers: that of CMakeLists.txt's project(), as a test sees to.
#pragma once

#define ONSTREAM_VERSION_MAJOR 0
#define ONSTREAM_VERSION_MINOR 1
#define ONSTREAM_VERSION_PATCH 0

namespace onstream {

constexpr const char* kVersion = "0.1.0";

}  // namespace onstream
