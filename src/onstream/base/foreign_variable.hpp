// Variables of other libraries, which the interfaces in compat/ and the network over UCX read.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace onstream {

// A variable that users of another library know and that is honoured here (SHMEM_SYMMETRIC_SIZE, UCX_TLS); nothing
// where it is not set. Throws invalid_argument for a name that is not on the list of those.
std::optional<std::string> foreign_variable(std::string_view name);

}  // namespace onstream
