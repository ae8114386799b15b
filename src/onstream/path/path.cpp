#include "onstream/path.hpp"

#include <array>

#include "onstream/base/error.hpp"

namespace onstream {

namespace {

struct NamedPath {
  Path path;
  const char* name;
};

// net is read, but not offered: no build has a network.
constexpr std::array<NamedPath, 8> kPaths{{{Path::automatic, "auto"},
                                           {Path::ll, "ll"},
                                           {Path::store, "store"},
                                           {Path::load, "load"},
                                           {Path::copy, "copy"},
                                           {Path::stage, "stage"},
                                           {Path::memop, "memop"},
                                           {Path::net, "net"}}};

}  // namespace

const char* name_of(Path path) {
  for (const NamedPath& known : kPaths) {
    if (known.path == path) return known.name;
  }
  return "unknown path";
}

Path path_from(const std::string& name) {
  for (const NamedPath& known : kPaths) {
    if (name == known.name) return known.path;
  }
  std::string names;
  for (const NamedPath& known : kPaths) {
    if (known.path != Path::net) names += concat(names.empty() ? "" : ", ", known.name);
  }
  fail(ErrorCode::invalid_argument, "'", name, "' is no path; the paths are ", names);
}

}  // namespace onstream
