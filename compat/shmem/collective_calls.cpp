// The collectives' names: of teams, and of active sets.
#include <algorithm>
#include <memory>
#include <optional>
#include <type_traits>

#include "collectives.hpp"
#include "onstream/collective/element/rules.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

template <class Function>
int of_team(const char* call, shmem_team_t team, const Function& function) {
  return attempt(call, -1, [&](Runtime& shmem) {
    shmem::Group group(shmem, shmem.team(team));
    function(group);
    return 0;
  });
}

template <class Function>
void of_set(const char* call, const shmem::Group::ActiveSet& set, const Function& function) {
  guarded(call, [&](Runtime& shmem) {
    shmem::Group group(shmem, set);
    function(group);
  });
}

// The effect of `combine` on two elements. The minimum and maximum of reals are the library's, so that an answer does
// not depend on whose loop it is: NaN where some member has NaN, and of zeros of both signs the lowest member's.
template <class T>
struct Min {
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return collective::FloatingRule<T, T>::min(a, b);
    } else {
      return std::min(a, b);
    }
  }
};
template <class T>
struct Max {
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      return collective::FloatingRule<T, T>::max(a, b);
    } else {
      return std::max(a, b);
    }
  }
};
template <class T>
struct Sum {
  T operator()(T a, T b) const { return static_cast<T>(a + b); }
};
template <class T>
struct Prod {
  T operator()(T a, T b) const { return static_cast<T>(a * b); }
};
template <class T>
struct And {
  T operator()(T a, T b) const { return static_cast<T>(a & b); }
};
template <class T>
struct Or {
  T operator()(T a, T b) const { return static_cast<T>(a | b); }
};
template <class T>
struct Xor {
  T operator()(T a, T b) const { return static_cast<T>(a ^ b); }
};

template <class T, template <class> class Op>
void combine(void* into, const void* from, std::size_t count) {
  auto* const to = static_cast<T*>(into);
  const auto* const other = static_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) to[i] = Op<T>()(to[i], other[i]);
}

// A NaN of a result is always the same one, as in the library.
template <class T>
void settle(void* results, std::size_t count) {
  if constexpr (std::is_floating_point_v<T>) {
    auto* const values = static_cast<T*>(results);
    for (std::size_t i = 0; i < count; ++i) values[i] = collective::settled(values[i]);
  }
}

// The library's own type and reduction. It has no long double; its complex product is another for infinities.
template <class T>
constexpr std::optional<ElementType> type_of() {
  if constexpr (std::is_same_v<T, float>) return ElementType::float32;
  if constexpr (std::is_same_v<T, double>) return ElementType::float64;
  if constexpr (std::is_integral_v<T>) {
    constexpr bool kSigned = std::is_signed_v<T>;
    if (sizeof(T) == 1) return kSigned ? ElementType::int8 : ElementType::uint8;
    if (sizeof(T) == 2) return kSigned ? ElementType::int16 : ElementType::uint16;
    if (sizeof(T) == 4) return kSigned ? ElementType::int32 : ElementType::uint32;
    if (sizeof(T) == 8) return kSigned ? ElementType::int64 : ElementType::uint64;
  }
  return std::nullopt;
}
template <template <class> class Op>
constexpr ReduceOp kOp = ReduceOp::sum;
template <>
constexpr ReduceOp kOp<Min> = ReduceOp::min;
template <>
constexpr ReduceOp kOp<Max> = ReduceOp::max;
template <>
constexpr ReduceOp kOp<Prod> = ReduceOp::prod;
template <>
constexpr ReduceOp kOp<And> = ReduceOp::band;
template <>
constexpr ReduceOp kOp<Or> = ReduceOp::bor;
template <>
constexpr ReduceOp kOp<Xor> = ReduceOp::bxor;

template <class T, template <class> class Op>
constexpr Reduction kReduction{sizeof(T), combine<T, Op>, settle<T>, type_of<T>(), kOp<Op>};

template <class T, template <class> class Op>
int reduce_team(const char* call, shmem_team_t team, T* dest, const T* source, std::size_t count) {
  return of_team(call, team, [&](shmem::Group& group) {
    (void)bytes_of(count, sizeof(T));
    reduce(group, dest, source, count, kReduction<T, Op>);
  });
}

template <class T, template <class> class Op>
void reduce_set(const char* call, T* dest, const T* source, int count, const shmem::Group::ActiveSet& set) {
  of_set(call, set, [&](shmem::Group& group) {
    require(count >= 0, "a reduction of ", count, " elements");
    reduce(group, dest, source, static_cast<std::size_t>(count), kReduction<T, Op>);
  });
}

}  // namespace

// clang-format off
#define MOVES(PREFIX, SUFFIX, TYPE, BYTES)                                                                               \
  int shmem_##PREFIX##broadcast##SUFFIX(shmem_team_t team, TYPE* dest, const TYPE* source, size_t n, int root) {         \
    return of_team("shmem_" #PREFIX "broadcast" #SUFFIX, team, [&](shmem::Group& group) {                                       \
      broadcast(group, dest, source, bytes_of(n, BYTES), root, AtRoot::copied);                                          \
    });                                                                                                                  \
  }                                                                                                                      \
  int shmem_##PREFIX##collect##SUFFIX(shmem_team_t team, TYPE* dest, const TYPE* source, size_t n) {                     \
    return of_team("shmem_" #PREFIX "collect" #SUFFIX, team,                                                             \
                   [&](shmem::Group& group) { collect(group, dest, source, bytes_of(n, BYTES)); });                             \
  }                                                                                                                      \
  int shmem_##PREFIX##fcollect##SUFFIX(shmem_team_t team, TYPE* dest, const TYPE* source, size_t n) {                    \
    return of_team("shmem_" #PREFIX "fcollect" #SUFFIX, team,                                                            \
                   [&](shmem::Group& group) { fcollect(group, dest, source, bytes_of(n, BYTES)); });                            \
  }                                                                                                                      \
  int shmem_##PREFIX##alltoall##SUFFIX(shmem_team_t team, TYPE* dest, const TYPE* source, size_t n) {                    \
    return of_team("shmem_" #PREFIX "alltoall" #SUFFIX, team,                                                            \
                   [&](shmem::Group& group) { alltoall(group, dest, source, bytes_of(n, BYTES)); });                            \
  }                                                                                                                      \
  int shmem_##PREFIX##alltoalls##SUFFIX(shmem_team_t team, TYPE* dest, const TYPE* source, ptrdiff_t dst, ptrdiff_t sst, \
                                        size_t n) {                                                                      \
    return of_team("shmem_" #PREFIX "alltoalls" #SUFFIX, team,                                                           \
                   [&](shmem::Group& group) { alltoalls(group, dest, source, {dst, sst, BYTES, n}); });                         \
  }
#define TYPED_MOVES(NAME, TYPE) MOVES(NAME##_, , TYPE, sizeof(TYPE))
ONSTREAM_SHMEM_RMA_TYPES(TYPED_MOVES)
MOVES(, mem, void, 1)

#define OLD_MOVES(SIZE, BYTES)                                                                                           \
  void shmem_broadcast##SIZE(void* dest, const void* source, size_t n, int root, int start, int stride, int size,        \
                             long* sync) {                                                                               \
    of_set("shmem_broadcast" #SIZE, {start, stride, size, sync}, [&](shmem::Group& group) {                                     \
      broadcast(group, dest, source, bytes_of(n, BYTES), root, AtRoot::kept);                                            \
    });                                                                                                                  \
  }                                                                                                                      \
  void shmem_collect##SIZE(void* dest, const void* source, size_t n, int start, int stride, int size, long* sync) {      \
    of_set("shmem_collect" #SIZE, {start, stride, size, sync},                                                           \
           [&](shmem::Group& group) { collect(group, dest, source, bytes_of(n, BYTES)); });                                     \
  }                                                                                                                      \
  void shmem_fcollect##SIZE(void* dest, const void* source, size_t n, int start, int stride, int size, long* sync) {     \
    of_set("shmem_fcollect" #SIZE, {start, stride, size, sync},                                                          \
           [&](shmem::Group& group) { fcollect(group, dest, source, bytes_of(n, BYTES)); });                                    \
  }                                                                                                                      \
  void shmem_alltoall##SIZE(void* dest, const void* source, size_t n, int start, int stride, int size, long* sync) {     \
    of_set("shmem_alltoall" #SIZE, {start, stride, size, sync},                                                          \
           [&](shmem::Group& group) { alltoall(group, dest, source, bytes_of(n, BYTES)); });                                    \
  }                                                                                                                      \
  void shmem_alltoalls##SIZE(void* dest, const void* source, ptrdiff_t dst, ptrdiff_t sst, size_t n, int start,          \
                             int stride, int size, long* sync) {                                                         \
    of_set("shmem_alltoalls" #SIZE, {start, stride, size, sync},                                                         \
           [&](shmem::Group& group) { alltoalls(group, dest, source, {dst, sst, BYTES, n}); });                                 \
  }
OLD_MOVES(32, 4)
OLD_MOVES(64, 8)

#define REDUCE(NAME, TYPE, OP, RULE)                                                                                     \
  int shmem_##NAME##_##OP##_reduce(shmem_team_t team, TYPE* dest, const TYPE* source, size_t n) {                        \
    return reduce_team<TYPE, RULE>("shmem_" #NAME "_" #OP "_reduce", team, dest, source, n);                             \
  }
#define BITS(NAME, TYPE) REDUCE(NAME, TYPE, and, And) REDUCE(NAME, TYPE, or, Or) REDUCE(NAME, TYPE, xor, Xor)
#define ORDER(NAME, TYPE) REDUCE(NAME, TYPE, min, Min) REDUCE(NAME, TYPE, max, Max)
#define SUMS(NAME, TYPE) REDUCE(NAME, TYPE, sum, Sum) REDUCE(NAME, TYPE, prod, Prod)
ONSTREAM_SHMEM_BITS_REDUCE_TYPES(BITS)
ONSTREAM_SHMEM_ORDER_REDUCE_TYPES(ORDER)
ONSTREAM_SHMEM_ORDER_REDUCE_TYPES(SUMS)
ONSTREAM_SHMEM_COMPLEX_TYPES(SUMS)

#define TO_ALL(NAME, TYPE, OP, RULE)                                                                                     \
  void shmem_##NAME##_##OP##_to_all(TYPE* dest, const TYPE* source, int n, int start, int stride, int size, TYPE*,       \
                                    long* sync) {                                                                        \
    reduce_set<TYPE, RULE>("shmem_" #NAME "_" #OP "_to_all", dest, source, n, {start, stride, size, sync});              \
  }
#define OLD_BITS(NAME, TYPE) TO_ALL(NAME, TYPE, and, And) TO_ALL(NAME, TYPE, or, Or) TO_ALL(NAME, TYPE, xor, Xor)
#define OLD_ORDER(NAME, TYPE) TO_ALL(NAME, TYPE, min, Min) TO_ALL(NAME, TYPE, max, Max)
#define OLD_SUMS(NAME, TYPE) TO_ALL(NAME, TYPE, sum, Sum) TO_ALL(NAME, TYPE, prod, Prod)
ONSTREAM_SHMEM_OLD_INTEGERS(OLD_BITS)
ONSTREAM_SHMEM_OLD_INTEGERS(OLD_ORDER)
ONSTREAM_SHMEM_OLD_REALS(OLD_ORDER)
ONSTREAM_SHMEM_OLD_INTEGERS(OLD_SUMS)
ONSTREAM_SHMEM_OLD_REALS(OLD_SUMS)
ONSTREAM_SHMEM_COMPLEX_TYPES(OLD_SUMS)
// clang-format on

void shmem_barrier(int start, int stride, int size, long* sync) {
  of_set("shmem_barrier", {start, stride, size, sync}, [](shmem::Group& group) {
    group.shmem().default_context().quiet();
    group.meet();
  });
}

void shmem_sync(int start, int stride, int size, long* sync) {
  of_set("shmem_sync", {start, stride, size, sync}, [](shmem::Group& group) { group.meet(); });
}
