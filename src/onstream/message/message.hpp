// How faults and errors name messages (onstream/message.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "onstream/message.hpp"

namespace onstream {

std::string text_of(const Outgoing& message);  // "send of 64 B to rank 1 with tag 0"
std::string text_of(const Incoming& message);
std::string text_of(const Outgoing& out, const Incoming& in);  // "sendrecv (send of ..., recv of ...)"

// Of a call that finds its lane busy with another call of the same thread, or with a message that this thread has
// matched there. `holder`: the lane's lock (ThreadLock).
[[noreturn]] void refuse_nested(const std::string& call, const std::uint64_t& holder);

}  // namespace onstream
