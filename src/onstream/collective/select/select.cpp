#include "onstream/collective/select/select.hpp"

#include "onstream/collective/select/algorithm.hpp"

namespace onstream::collective {

CollectiveCall as_asked(CollectiveCall call, const std::string& parameter, const MachineTraits& machine) {
  if (call.algorithm != Algorithm::automatic || parameter == "auto") return call;
  const Algorithm algorithm = algorithm_of(parameter);
  for (const AlgorithmRow& row : algorithms()) {
    if (row.algorithm == algorithm && refusal_of(row, call, machine) == Refusal::none) call.algorithm = algorithm;
  }
  return call;
}

CollectiveCall select(const CollectiveCall& call, const std::string& parameter, const MachineTraits& machine) {
  CollectiveCall asked = as_asked(call, parameter, machine);
  asked.algorithm = choose(asked, machine).algorithm;
  return asked;
}

}  // namespace onstream::collective
