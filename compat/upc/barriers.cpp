// Barriers, whole and split, with the values that UPC's language lets them have.
#include "guarded.hpp"
#include "onstream/device/host/group.hpp"

using namespace onstream;
using namespace onstream::upc;

namespace {

Step step_of(int has_value, int value) {
  return {Act::barrier, {static_cast<std::uint32_t>(value), has_value != 0 ? 1u : 0u, 0}};
}

bool named(const Step& step) { return step.values[1] != 0; }
int value_of(const Step& step) { return static_cast<std::int32_t>(step.values[0]); }

void notify(Runtime& upc, const Step& mine) {
  require(!upc.phases().notified(), "this thread has called upc_notify already, and not upc_wait");
  upc.context().quiet();
  upc.phases().notify(mine);
}

// Throws for two values that differ, naming the first thread of each.
void wait(Runtime& upc) {
  const std::vector<Step> all = upc.phases().wait();
  HostGroup::fence();
  int first = -1;
  for (int thread = 0; thread < upc.threads(); ++thread) {
    const Step& theirs = all[static_cast<std::size_t>(thread)];
    if (!named(theirs)) continue;
    if (first < 0) first = thread;
    const Step& other = all[static_cast<std::size_t>(first)];
    require(value_of(theirs) == value_of(other), "thread ", first, " is in barrier ", value_of(other), " and thread ",
            thread, " in barrier ", value_of(theirs));
  }
}

}  // namespace

void onstream_upc_notify(int has_value, int value) {
  guarded("upc_notify", [&](Runtime& upc) { notify(upc, step_of(has_value, value)); });
}

void onstream_upc_wait(int has_value, int value) {
  guarded("upc_wait", [&](Runtime& upc) {
    require(upc.phases().notified(), "this thread has not called upc_notify before");
    const Step notified = upc.phases().mine();
    require(has_value == 0 || !named(notified) || value == value_of(notified), "this thread waits for barrier ", value,
            ", but its upc_notify was for barrier ", value_of(notified));
    wait(upc);
  });
}

void onstream_upc_barrier(int has_value, int value) {
  guarded("upc_barrier", [&](Runtime& upc) {
    notify(upc, step_of(has_value, value));
    wait(upc);
  });
}
