// Unique ids: a Unix-domain name that nobody else has, where rank 0 hosts the store, and the secret of the ranks.
//
// So ranks are processes or threads of one host. The 128 bytes are text: "onstream-nccl-1 NAME SECRET".
#pragma once

#include "onstream/launch.hpp"
#include "onstream_nccl/calls.h"

namespace onstream::nccl {

ncclUniqueId make_id();
// Throws ncclInvalidArgument for an id of another library, or none.
Launch launch_of(const ncclUniqueId& id, int rank, int size);
// Where ranks of a communicator meet that make a new one of it; `what` differs between any two of those.
Launch launch_beside(const Launch& parent, const std::string& what, int rank, int size);

}  // namespace onstream::nccl
