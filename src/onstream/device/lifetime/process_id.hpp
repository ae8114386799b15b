// Tells this process apart from every other, also from one with the same pid in another container.
#pragma once

#include <cstdint>

namespace onstream {

// Random, drawn on the first call; never 0. A forked child draws its own.
std::uint64_t process_id();

}  // namespace onstream
