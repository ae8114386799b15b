// A communicator's options, as ncclConfig_t has them.
//
// Options that change results or waiting are honoured (blocking, maxCTAs, commName) or refused (netName). The others
// are hints about resources that onstream does not have, or decides about itself; they are checked for sense, and have
// no effect. The one that a program may count on (CTAPolicy) is told in the log then, once.
#pragma once

#include <optional>
#include <string>

#include "onstream_nccl/calls.h"

namespace onstream::nccl {

struct Options {
  enum class Start { blocking, background };
  Start start = Start::blocking;
  std::optional<int> most_blocks;  // maxCTAs
  std::string name;
};

// The options of a config, of any version from 2.14 on; `inherited` for null. Throws Refusal naming the option and its
// value.
Options options_of(const ncclConfig_t* config, const Options& inherited = {});

}  // namespace onstream::nccl
