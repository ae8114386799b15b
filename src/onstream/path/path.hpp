// Path: how bytes travel for an op.
#pragma once

#include <cstdint>
#include <string>

namespace onstream {

// ll: data and flag in one store. store: the sender's kernel writes into the destination. load: the receiver's kernel
// reads from the source. copy: the copy engine writes into the destination. stage: through a bounce buffer.
// memop: the copy engine between words that the streams themselves write and wait for, with no thread block; of plans.
// net: a network. automatic leaves it to the tuner.
enum class Path : std::int32_t { automatic = 0, ll, store, load, copy, stage, net, memop };

const char* name_of(Path path);
Path path_from(const std::string& name);  // throws invalid_argument listing those that work

}  // namespace onstream
