// Collectives of a Group, on symmetric memory: the library's, where Group::in_library() says so. Else every PE fetches
// the data that it needs from where it lies; they meet before, so that it is there, and after, so that it may change.
// Lengths are in bytes, roots are members of the group.
#pragma once

#include <cstddef>
#include <optional>

#include "group.hpp"
#include "onstream/collective.hpp"

namespace onstream::shmem {

enum class AtRoot { kept, copied };  // whether the root's own destination gets the data too

void broadcast(Group& group, void* dest, const void* source, std::size_t bytes, int root, AtRoot at_root);
// Each gives as many bytes as it likes.
void collect(Group& group, void* dest, const void* source, std::size_t bytes);
void fcollect(Group& group, void* dest, const void* source, std::size_t bytes);
void alltoall(Group& group, void* dest, const void* source, std::size_t bytes);
struct Strided {
  std::ptrdiff_t dest;  // in elements
  std::ptrdiff_t source;
  std::size_t element;  // bytes
  std::size_t count;    // for each PE
};
void alltoalls(Group& group, void* dest, const void* source, const Strided& how);

// Element by element, in the order of the members, independent of the algorithm that the parameters ask for: the same
// bits on every PE.
struct Reduction {
  std::size_t element;
  void (*combine)(void* into, const void* from, std::size_t count);
  void (*settle)(void* results, std::size_t count);  // applied once all members are in
  std::optional<ElementType> type;                   // the library's, if it has it
  ReduceOp op = ReduceOp::sum;
};
void reduce(Group& group, void* dest, const void* source, std::size_t count, const Reduction& reduction);

}  // namespace onstream::shmem
