// Order of puts, barriers, and contexts to order by.
#include "guarded.hpp"
#include "onstream/symmetric.hpp"

using namespace onstream;
using namespace onstream::shmem;

void shmem_ctx_fence(shmem_ctx_t ctx) {
  if (ctx == SHMEM_CTX_INVALID) return;  // as the standard has it
  with_context("shmem_fence", ctx, [](Runtime&, ContextHandle&, Context& context) { context.fence(); });
}
void shmem_ctx_quiet(shmem_ctx_t ctx) {
  if (ctx == SHMEM_CTX_INVALID) return;
  with_context("shmem_quiet", ctx, [](Runtime&, ContextHandle&, Context& context) { context.quiet(); });
}
void shmem_fence(void) { shmem_ctx_fence(SHMEM_CTX_DEFAULT); }
void shmem_quiet(void) { shmem_ctx_quiet(SHMEM_CTX_DEFAULT); }

void shmem_barrier_all(void) {
  guarded("shmem_barrier_all", [](Runtime& shmem) {
    shmem.default_context().quiet();
    shmem.world().team()->sync();
  });
}

void shmem_sync_all(void) {
  guarded("shmem_sync_all", [](Runtime& shmem) { shmem.world().team()->sync(); });
}

int shmem_ctx_create(long options, shmem_ctx_t* ctx) { return shmem_team_create_ctx(SHMEM_TEAM_WORLD, options, ctx); }

int shmem_team_create_ctx(shmem_team_t team, long options, shmem_ctx_t* ctx) {
  return attempt("shmem_team_create_ctx", -1, [&](Runtime& shmem) {
    require(ctx != nullptr, "there is no place for the context");
    *ctx = SHMEM_CTX_INVALID;
    *ctx = shmem.make_context(shmem.team(team), options);
    return 0;
  });
}

void shmem_ctx_destroy(shmem_ctx_t ctx) {
  guarded("shmem_ctx_destroy", [&](Runtime& shmem) {
    if (ctx == SHMEM_CTX_INVALID) return;
    require(ctx != SHMEM_CTX_DEFAULT, "SHMEM_CTX_DEFAULT is not the program's to destroy");
    shmem.end_context(shmem.context(ctx));
  });
}

int shmem_ctx_get_team(shmem_ctx_t ctx, shmem_team_t* team) {
  return attempt("shmem_ctx_get_team", -1, [&](Runtime& shmem) {
    require(team != nullptr, "there is no place for the team");
    *team = SHMEM_TEAM_INVALID;
    if (ctx == SHMEM_CTX_INVALID) return -1;
    *team = shmem.handle_of(*shmem.context(ctx).team);
    return 0;
  });
}
