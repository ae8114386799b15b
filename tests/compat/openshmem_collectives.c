/* Collectives of OpenSHMEM on teams of all kinds - all PEs, every second one, in reverse, rows and columns, a team of a
 * team - in every kind of symmetric memory, from one element to more than what is done at once.
 *
 * Memory is filled and looked at by puts and gets to the PE itself, as a GPU's is not the CPU's to touch. */
#include <math.h>
#include <pthread.h>

#include "openshmem.h"

enum { MOST = 40000, PES = 8, TEAMS = 7 };

static long static_to[PES * 1100 * 3], static_from[PES * 1100 * 3];

struct memory {
  const char* name;
  long *to, *from;
  size_t counts[3];
};

static void fill(long* at, const long* values, size_t count) { shmem_long_put(at, values, count, me); }

static void look(long* values, const long* at, size_t count) {
  shmem_quiet();
  shmem_long_get(values, at, count, me);
}

static long value(int member, size_t i) { return 1000003L * (member + 1) + (long)i; }

/* What the calls leave in `to` is read into `got`; `given` is what each member gives. */
static long given[PES * MOST * 2], got[PES * MOST * 2];

static void give(struct memory* memory, int mine, size_t count) {
  for (size_t i = 0; i < count; ++i) given[i] = value(mine, i);
  fill(memory->from, given, count);
  memset(got, 0, sizeof got);
}

static void moves(shmem_team_t team, struct memory* memory, size_t count) {
  const int mine = shmem_team_my_pe(team), all = shmem_team_n_pes(team);
  long *to = memory->to, *from = memory->from;
  const long before[] = {-7};
  for (int root = 0; root < all; root += all > 1 ? all - 1 : 1) {
    give(memory, mine, count);
    fill(to, before, 1);
    shmem_team_sync(team);
    CHECK(shmem_long_broadcast(team, to, from, count, root) == 0);
    look(got, to, count);
    for (size_t i = 0; i < count; ++i) CHECK(got[i] == value(root, i));
    look(got, from, count); /* nobody's source has changed */
    for (size_t i = 0; i < count; ++i) CHECK(got[i] == value(mine, i));
  }
  give(memory, mine, count);
  CHECK(shmem_long_fcollect(team, to, from, count) == 0);
  look(got, to, count * (size_t)all);
  for (int pe = 0; pe < all; ++pe) {
    for (size_t i = 0; i < count; ++i) CHECK(got[(size_t)pe * count + i] == value(pe, i));
  }
  /* every third member gives nothing, the others count, count + 1, ... */
  const size_t uneven = mine % 3 == 1 ? 0 : count + (size_t)mine;
  give(memory, mine, uneven);
  CHECK(shmem_long_collect(team, to, from, uneven) == 0);
  size_t length = 0;
  for (int pe = 0; pe < all; ++pe) length += pe % 3 == 1 ? 0 : count + (size_t)pe;
  look(got, to, length);
  size_t k = 0;
  for (int pe = 0; pe < all; ++pe) {
    for (size_t i = 0; i < (pe % 3 == 1 ? 0 : count + (size_t)pe); ++i) CHECK(got[k++] == value(pe, i));
  }
  CHECK(shmem_long_collect(team, to, from, 0) == 0); /* nobody gives anything */
  CHECK(shmem_long_fcollect(team, to, from, 0) == 0 && shmem_long_alltoall(team, to, from, 0) == 0);
  CHECK(shmem_long_broadcast(team, to, from, 0, 0) == 0);
}

/* Ranges that overlap are undefined, but not the end of a job: every PE comes back, what lies outside of `dest` is as
 * it was, and the next collective is right. Where a part of a PE lies in its destination differs from PE to PE. */
static void overlapping(shmem_team_t team, struct memory* memory, size_t count) {
  enum { CALLS = 6 };
  const int mine = shmem_team_my_pe(team), all = shmem_team_n_pes(team);
  const size_t whole = count * (size_t)all, part = count / 2 + 1, room = whole + 2 * part;
  /* how much a call writes from `to` on, and where behind `to` its source begins */
  const size_t written[CALLS] = {whole, whole, whole, count, count, whole};
  const size_t begins[CALLS] = {all > 1 ? count : 0, count / 2, 0, count / 2, count / 2, count / 2};
  for (int call = 0; call < CALLS; ++call) {
    long *to = memory->to + part, *from = to + begins[call];
    for (size_t i = 0; i < room; ++i) given[i] = value(mine, i);
    fill(memory->to, given, room);
    shmem_team_sync(team);
    switch (call) {
      case 0:
      case 1: CHECK(shmem_long_fcollect(team, to, from, count) == 0); break;
      case 2: CHECK(shmem_long_collect(team, to, from, mine % 2 == 0 ? count : 0) == 0); break;
      case 3: CHECK(shmem_long_broadcast(team, to, from, count, all - 1) == 0); break;
      case 4: CHECK(shmem_long_sum_reduce(team, to, from, count) == 0); break;
      default: CHECK(shmem_long_alltoall(team, to, from, count) == 0);
    }
    shmem_team_sync(team);
    look(got, memory->to, room);
    for (size_t i = 0; i < room; ++i) CHECK((i >= part && i < part + written[call]) || got[i] == value(mine, i));
  }
  give(memory, mine, count);
  CHECK(shmem_long_fcollect(team, memory->to, memory->from, count) == 0);
  look(got, memory->to, whole);
  for (int pe = 0; pe < all; ++pe) CHECK(got[(size_t)pe * count] == value(pe, 0));
}

static void exchanges(shmem_team_t team, struct memory* memory, size_t count) {
  const int mine = shmem_team_my_pe(team), all = shmem_team_n_pes(team);
  long *to = memory->to, *from = memory->from;
  give(memory, mine, count * (size_t)all);
  CHECK(shmem_long_alltoall(team, to, from, count) == 0);
  look(got, to, count * (size_t)all);
  for (int pe = 0; pe < all; ++pe) {
    for (size_t i = 0; i < count; ++i) CHECK(got[(size_t)pe * count + i] == value(pe, (size_t)mine * count + i));
  }
  const size_t few = count < 300 ? count : 300;
  const ptrdiff_t steps[][2] = {{1, 1}, {3, 1}, {1, 2}, {2, 3}};
  for (int s = 0; s < 4; ++s) {
    const size_t dst = (size_t)steps[s][0], sst = (size_t)steps[s][1];
    give(memory, mine, few * (size_t)all * sst);
    fill(to, got, few * (size_t)all * dst);
    shmem_team_sync(team);
    CHECK(shmem_long_alltoalls(team, to, from, steps[s][0], steps[s][1], few) == 0);
    look(got, to, few * (size_t)all * dst);
    for (int pe = 0; pe < all; ++pe) {
      for (size_t i = 0; i < few * dst; ++i) {
        const size_t source = ((size_t)mine * few + i / dst) * sst;
        CHECK(got[(size_t)pe * few * dst + i] == (i % dst == 0 ? value(pe, source) : 0));
      }
    }
    shmem_team_sync(team);
  }
}

static void reductions(shmem_team_t team, struct memory* memory, size_t count) {
  const int mine = shmem_team_my_pe(team), all = shmem_team_n_pes(team);
  long *to = memory->to, *from = memory->from;
  for (int in_place = 0; in_place < 2; ++in_place) {
    give(memory, mine, count);
    CHECK(shmem_long_sum_reduce(team, in_place ? from : to, from, count) == 0);
    look(got, in_place ? from : to, count);
    for (size_t i = 0; i < count; ++i) CHECK(got[i] == 1000003L * all * (all + 1) / 2 + all * (long)i);
    give(memory, mine, count);
    CHECK(shmem_long_max_reduce(team, in_place ? from : to, from, count) == 0);
    look(got, in_place ? from : to, count);
    for (size_t i = 0; i < count; ++i) CHECK(got[i] == value(all - 1, i));
  }
  CHECK(shmem_long_min_reduce(team, to, from, 0) == 0);
}

/* In the order of the members, so that all have the same bits, whatever does it. */
static void sums_of_reals(shmem_team_t team, struct memory* memory, size_t count) {
  const int mine = shmem_team_my_pe(team), all = shmem_team_n_pes(team);
  double* values = (double*)(void*)given;
  for (size_t i = 0; i < count; ++i) values[i] = (mine % 2 == 0 ? 1e17 : 1.0) / (double)(i + 3 + (size_t)mine);
  fill(memory->from, given, count);
  CHECK(shmem_double_sum_reduce(team, (double*)(void*)memory->to, (double*)(void*)memory->from, count) == 0);
  look(got, memory->to, count);
  for (size_t i = 0; i < count; ++i) {
    double expected = 0;
    for (int pe = 0; pe < all; ++pe) expected += (pe % 2 == 0 ? 1e17 : 1.0) / (double)(i + 3 + (size_t)pe);
    CHECK(((double*)(void*)got)[i] == expected);
  }
  /* what the library does not reduce itself */
  long double* wide = (long double*)(void*)given;
  const size_t half = count / 2;
  for (size_t i = 0; i < half; ++i) wide[i] = (long double)(i + (size_t)mine);
  fill(memory->from, given, 2 * half);
  CHECK(shmem_longdouble_sum_reduce(team, (long double*)(void*)memory->to, (long double*)(void*)memory->from, half) ==
        0);
  look(got, memory->to, 2 * half);
  for (size_t i = 0; i < half; ++i) {
    CHECK(((long double*)(void*)got)[i] == (long double)((size_t)all * i + (size_t)(all * (all - 1) / 2)));
  }
}

/* 1e17 + 1 is 1e17: any other order than that of the members leaves another sum of four. */
static void sums_that_cancel_are_in_the_order_of_the_members(void) {
  static const double values[] = {1e17, 1, -1e17, 3};
  static double from[3000], to[3000];
  double expected = 0;
  for (int pe = 0; pe < size; ++pe) expected += values[pe % 4];
  CHECK(size != 4 || expected == 3);
  for (size_t count = 1; count <= 3000; count *= 3000) {
    for (size_t i = 0; i < count; ++i) from[i] = values[me % 4];
    CHECK(shmem_double_sum_reduce(SHMEM_TEAM_WORLD, to, from, count) == 0);
    for (size_t i = 0; i < count; ++i) CHECK(to[i] == expected);
    shmem_barrier_all();
  }
}

/* Element i is special at member i % all: NaN in the first half of the elements, -0 among zeros in the second. The
 * answer is always NaN, the same one, or else the lowest member's zero: of teams and active sets of all and of some. */
#define NANS_AND_ZEROS(NAME, TYPE)                                                                                  \
  static void NAME##_nans_and_zeros(shmem_team_t team, long* sync, size_t count) {                                  \
    static TYPE from[PES * 100], to[PES * 100];                                                                     \
    const int mine = shmem_team_my_pe(team), all = shmem_team_n_pes(team);                                          \
    for (int way = 0; way < 4; ++way) {                                                                             \
      for (size_t i = 0; i < count; ++i) {                                                                          \
        const int special = (int)(i % (size_t)all) == mine;                                                         \
        from[i] = i < count / 2 ? (special ? (TYPE) - NAN : (TYPE)(mine + 1)) : (special ? (TYPE) - 0.0 : (TYPE)0); \
      }                                                                                                             \
      shmem_team_sync(team);                                                                                        \
      if (way == 0) CHECK(shmem_##NAME##_max_reduce(team, to, from, count) == 0);                                   \
      if (way == 1) CHECK(shmem_##NAME##_min_reduce(team, to, from, count) == 0);                                   \
      if (way == 2) shmem_##NAME##_max_to_all(to, from, (int)count, 0, 0, all, NULL, sync);                         \
      if (way == 3) shmem_##NAME##_min_to_all(to, from, (int)count, 0, 0, all, NULL, sync);                         \
      for (size_t i = 0; i < count; ++i) {                                                                          \
        const int negative = i >= count / 2 && i % (size_t)all == 0;                                                \
        CHECK(i < count / 2 ? isnan(to[i]) : to[i] == 0);                                                           \
        CHECK((signbit(to[i]) != 0) == negative);                                                                   \
      }                                                                                                             \
      shmem_team_sync(team);                                                                                        \
    }                                                                                                               \
  }
NANS_AND_ZEROS(float, float)
NANS_AND_ZEROS(double, double)
NANS_AND_ZEROS(longdouble, long double)

static void nans_and_zeros_have_one_rule_on_every_set(void) {
  static long sync[SHMEM_REDUCE_SYNC_SIZE];
  for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; ++i) sync[i] = SHMEM_SYNC_VALUE;
  shmem_team_t teams[] = {SHMEM_TEAM_WORLD, SHMEM_TEAM_INVALID};
  shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, size > 1 ? size - 1 : 1, NULL, 0, &teams[1]);
  for (int team = 0; team < 2 && teams[team] != SHMEM_TEAM_INVALID; ++team) {
    for (size_t count = 16; count <= PES * 100; count *= 50) {
      float_nans_and_zeros(teams[team], sync, count);
      double_nans_and_zeros(teams[team], sync, count);
      longdouble_nans_and_zeros(teams[team], sync, count);
    }
  }
  shmem_barrier_all();
  shmem_team_destroy(teams[1]);
}

/* The root keeps its own destination, and does what the others do wherever the two lie. */
static void active_sets_broadcast_from_one_memory_to_another(void) {
  enum { COUNT = 300 };
  static long sync[SHMEM_BCAST_SYNC_SIZE];
  for (int i = 0; i < SHMEM_BCAST_SYNC_SIZE; ++i) sync[i] = SHMEM_SYNC_VALUE;
  const size_t bytes = COUNT * sizeof(long);
  long* const memories[] = {shmem_malloc(2 * bytes), shmem_malloc_with_hints(2 * bytes, SHMEMX_MALLOC_DEVICE),
                            static_from};
  for (int pair = 0; pair < 9; ++pair) {
    long *const from = memories[pair / 3], *const to = memories[pair % 3] + COUNT;
    for (int root = 0; root < size; ++root) {
      for (size_t i = 0; i < COUNT; ++i) given[i] = value(me, i);
      fill(from, given, COUNT);
      for (size_t i = 0; i < COUNT; ++i) given[i] = -7;
      fill(to, given, COUNT);
      shmem_barrier_all();
      shmem_broadcast64(to, from, COUNT, root, 0, 0, size, sync);
      look(got, to, COUNT);
      for (size_t i = 0; i < COUNT; ++i) CHECK(got[i] == (me == root ? -7 : value(root, i)));
      shmem_barrier_all();
    }
  }
  for (int m = 0; m < 2; ++m) shmem_free(memories[m]);
}

/* For more PEs than the library's collectives take (64), too: a team of all, one in reverse, and every second one. */
static void teams_of_any_size_reduce(void) {
  shmem_team_t teams[] = {SHMEM_TEAM_WORLD, SHMEM_TEAM_INVALID, SHMEM_TEAM_INVALID};
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, size - 1, -1, size, NULL, 0, &teams[1]) == 0);
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, size > 1 ? 2 : 1, (size + 1) / 2, NULL, 0, &teams[2]) == 0);
  for (int team = 0; team < 3; ++team) {
    if (teams[team] == SHMEM_TEAM_INVALID) continue;
    const long all = shmem_team_n_pes(teams[team]);
    static_from[0] = shmem_team_my_pe(teams[team]);
    CHECK(shmem_long_sum_reduce(teams[team], static_to, static_from, 1) == 0);
    CHECK(static_to[0] == all * (all - 1) / 2);
    CHECK(shmem_long_fcollect(teams[team], static_to + 1, static_from, 1) == 0);
    for (long pe = 0; pe < all; ++pe) CHECK(static_to[1 + pe] == pe);
    shmem_team_sync(teams[team]);
  }
}

static void with_each(void (*run)(shmem_team_t, struct memory*, size_t)) {
  shmem_team_t teams[TEAMS] = {SHMEM_TEAM_WORLD, SHMEM_TEAM_SHARED};
  shmem_team_t* const odd = &teams[2];
  const int pairs = size > 1 ? size / 2 : 1;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, size > 1 ? 1 : 0, size > 1 ? 2 : 1, pairs, NULL, 0, odd) == 0);
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, size - 1, -1, size, NULL, 0, &teams[3]) == 0);
  CHECK(shmem_team_split_2d(SHMEM_TEAM_WORLD, 2, NULL, 0, &teams[4], NULL, 0, &teams[5]) == 0);
  teams[6] = SHMEM_TEAM_INVALID;
  if (*odd != SHMEM_TEAM_INVALID) shmem_team_split_strided(*odd, pairs - 1, -1, pairs, NULL, 0, &teams[6]);
  const size_t room = (size_t)(size + 1) * (MOST + 2) * sizeof(long);
  struct memory memories[] = {
      {"heap", shmem_calloc(room, 1), shmem_calloc(room, 1), {1, 1000, MOST}},
      {"device",
       shmem_malloc_with_hints(room, SHMEMX_MALLOC_DEVICE),
       shmem_malloc_with_hints(room, SHMEMX_MALLOC_DEVICE),
       {1, 1000, MOST}},
      {"static", static_to, static_from, {1, 30, 1000}},
  };
  for (size_t m = 0; m < sizeof memories / sizeof *memories; ++m) {
    CHECK(memories[m].to != NULL && memories[m].from != NULL);
    for (int team = 0; team < TEAMS; ++team) {
      for (int c = 0; c < 3 && teams[team] != SHMEM_TEAM_INVALID; ++c)
        run(teams[team], &memories[m], memories[m].counts[c]);
      shmem_barrier_all();
    }
  }
  for (int team = TEAMS - 1; team > 1; --team) shmem_team_destroy(teams[team]);
  for (int m = 0; m < 2; ++m) shmem_free(memories[m].to), shmem_free(memories[m].from);
}

static void every_team_moves_in_every_memory(void) { with_each(moves); }
static void every_team_exchanges_in_every_memory(void) { with_each(exchanges); }
static void every_team_reduces_in_every_memory(void) { with_each(reductions); }
static void overlapping_ranges_end_no_job(void) { with_each(overlapping); }
static void sums_of_reals_are_in_the_order_of_the_members(void) { with_each(sums_of_reals); }

/* Each thread has a team of its own, of all PEs; they meet in whatever order they come. */
static void* reduce_often(void* team) {
  long* memory = static_from + (*(shmem_team_t*)team == SHMEM_TEAM_WORLD ? 0 : 1000);
  for (long round = 0; round < 300; ++round) {
    for (int i = 0; i < 100; ++i) memory[i] = me + round;
    CHECK(shmem_long_sum_reduce(*(shmem_team_t*)team, memory + 500, memory, 100) == 0);
    CHECK(memory[599] == (long)size * (size - 1) / 2 + size * round);
    shmem_team_sync(*(shmem_team_t*)team);
  }
  return NULL;
}

static void threads_reduce_on_teams_of_their_own_at_once(void) {
  shmem_team_t all = SHMEM_TEAM_WORLD, again;
  pthread_t thread;
  CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, 1, size, NULL, 0, &again) == 0);
  CHECK(pthread_create(&thread, NULL, reduce_often, &again) == 0);
  reduce_often(&all);
  pthread_join(thread, NULL);
  shmem_barrier_all();
  shmem_team_destroy(again);
}

/* More than there is room for at once, and each for a short while. */
static void teams_come_and_go(void) {
  long* words = shmem_calloc(2, sizeof *words);
  for (int round = 0; round < 100; ++round) {
    shmem_team_t team;
    CHECK(shmem_team_split_strided(SHMEM_TEAM_WORLD, 0, size > 1 ? 2 : 1, (size + 1) / 2, NULL, 0, &team) == 0);
    long mine = me + round, most = 0;
    fill(words, &mine, 1);
    if (team != SHMEM_TEAM_INVALID) {
      CHECK(shmem_long_max_reduce(team, words + 1, words, 1) == 0);
      look(&most, words + 1, 1);
      CHECK(most == (size - 1) / 2 * 2 + round);
    }
    shmem_team_destroy(team);
  }
  shmem_free(words);
}

int main(int argc, char** argv) {
  /* clang-format off */
  static const struct test_case cases[] = {
    CASE(every_team_moves_in_every_memory)
    CASE(every_team_exchanges_in_every_memory)
    CASE(overlapping_ranges_end_no_job)
    CASE(every_team_reduces_in_every_memory)
    CASE(sums_of_reals_are_in_the_order_of_the_members)
    CASE(teams_come_and_go)
    CASE(sums_that_cancel_are_in_the_order_of_the_members)
    CASE(nans_and_zeros_have_one_rule_on_every_set)
    CASE(active_sets_broadcast_from_one_memory_to_another)
    CASE(teams_of_any_size_reduce)
    CASE(threads_reduce_on_teams_of_their_own_at_once)
  };
  /* clang-format on */
  /* The last case alone needs threads, and runs when asked for: with them, teams of some PEs take other ways. */
  const size_t count = sizeof cases / sizeof *cases;
  const char* const name = argc > 1 ? argv[1] : NULL;
  const int threads = name != NULL && strcmp(name, cases[count - 1].name) == 0;
  int level = 0;
  CHECK(shmem_init_thread(threads ? SHMEM_THREAD_MULTIPLE : SHMEM_THREAD_SINGLE, &level) == 0);
  me = shmem_my_pe(), size = shmem_n_pes();
  const int status = run_cases(cases, name != NULL ? count : count - 1, name);
  shmem_finalize();
  return status;
}
