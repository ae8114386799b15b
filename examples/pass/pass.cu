#include "pass.hpp"

const void* pass_on_cuda() { return reinterpret_cast<const void*>(&onstream::cuda_entry<Pass>); }
