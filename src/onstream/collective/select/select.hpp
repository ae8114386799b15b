// The algorithm of a call: the one that it names, else that of parameter collective_algorithm if it can do the call,
// else the cheapest by prediction.
#pragma once

#include <string>

#include "onstream/collective/call/call.hpp"
#include "onstream/collective/select/machine.hpp"

namespace onstream::collective {

// The call with the algorithm that the parameter asks for, where the call names none and that one can do it.
CollectiveCall as_asked(CollectiveCall call, const std::string& parameter, const MachineTraits& machine);
// The call with the algorithm that it takes. Throws invalid_argument with the reason where it names one that cannot.
CollectiveCall select(const CollectiveCall& call, const std::string& parameter, const MachineTraits& machine);

}  // namespace onstream::collective
