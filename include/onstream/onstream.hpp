// All public headers. World (world.hpp) is the door; kernel.hpp and user_op.hpp hold templates, which make a file
// slower to compile: one that has neither kernels nor ops of its own may include those headers that it needs.
#pragma once

#if __cplusplus < 202002L
#error "onstream needs C++20: compile this file with -std=c++20 (g++ 11 or clang++ 14, or newer)"
#endif

#include "onstream/collective.hpp"
#include "onstream/device.hpp"
#include "onstream/error.hpp"
#include "onstream/failure.hpp"
#include "onstream/halo.hpp"
#include "onstream/kernel.hpp"
#include "onstream/launch.hpp"
#include "onstream/layout.hpp"
#include "onstream/message.hpp"
#include "onstream/one_sided.hpp"
#include "onstream/parameters.hpp"
#include "onstream/path.hpp"
#include "onstream/plan.hpp"
#include "onstream/symmetric.hpp"
#include "onstream/user_op.hpp"
#include "onstream/version.hpp"
#include "onstream/world.hpp"
