// The exit status of a program that ends although nobody can be told any more what failed.
#pragma once

namespace onstream {

// From now on the process ends with status 1 where it would end with 0. For errors that a caller cannot get: of a
// function that returns nothing, or of what runs after the program. Says nothing; the caller logs what failed.
void end_with_failure();

}  // namespace onstream
