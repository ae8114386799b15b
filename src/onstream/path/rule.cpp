#include "onstream/path/rule.hpp"

namespace onstream::path {

const char* name_of(Operation operation) {
  switch (operation) {
    case Operation::message: return "message";
    case Operation::posted: return "posted";
    case Operation::plan: return "plan";
    case Operation::put: return "put";
    case Operation::collective: return "collective";
  }
  return "unknown operation";
}

const char* name_of(Link link) {
  switch (link) {
    case Link::host: return "host";
    case Link::crowded_host: return "crowded_host";
    case Link::cuda: return "cuda";
  }
  return "unknown link";
}

Link link_of(DeviceKind device, bool crowded) {
  if (device == DeviceKind::cuda) return Link::cuda;
  return crowded ? Link::crowded_host : Link::host;
}

const char* Rule::way() const {
  return operation == Operation::collective ? onstream::name_of(algorithm) : onstream::name_of(path);
}

}  // namespace onstream::path
