// World.call(): Python functions in the order of a stream's work.
#pragma once

namespace onstream::python {

// Throws unsupported in a thread that runs such a function just now: it would wait for its own stream, or for the
// driver.
void check_outside_call();

}  // namespace onstream::python
