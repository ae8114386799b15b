// The exit status of a program that ends when it can tell nobody of a failure any more.
#pragma once

namespace onstream {

// From now on the process ends with status 1 where it would end with 0. For errors that no caller can get: those of a
// function that returns nothing, or of code that runs after the program. It writes nothing; the caller logs the
// failure.
void end_with_failure();

}  // namespace onstream
