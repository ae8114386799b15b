// How faults and errors name messages (onstream/message.hpp).
#pragma once

#include <string>

#include "onstream/message.hpp"

namespace onstream {

std::string text_of(const Outgoing& message);  // "send of 64 B to rank 1 with tag 0"
std::string text_of(const Incoming& message);
std::string text_of(const Outgoing& out, const Incoming& in);  // "sendrecv (send of ..., recv of ...)"

}  // namespace onstream
