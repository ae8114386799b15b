// Teams. SHMEM_TEAM_INVALID is asked about without complaint, as the standard has it.
#include <algorithm>

#include "guarded.hpp"
#include "onstream/one_sided.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

shmem_team_config_t config_of(const shmem_team_config_t* config, long mask) {
  if (config == nullptr || (mask & SHMEM_TEAM_NUM_CONTEXTS) == 0) return {0};
  require(config->num_contexts >= 0, "a team for ", config->num_contexts, " contexts");
  return *config;
}

// Collective over the parent.
shmem_team_t adopted(Runtime& shmem, const TeamHandle& parent, std::shared_ptr<Team> team,
                     const shmem_team_config_t& config) {
  TeamHandle* const made = team == nullptr ? nullptr : shmem.adopt(std::move(team), config);
  shmem.give_collectives(parent, made);
  return made == nullptr ? SHMEM_TEAM_INVALID : made;
}

}  // namespace

int shmem_team_my_pe(shmem_team_t team) {
  return attempt("shmem_team_my_pe", -1,
                 [&](Runtime& shmem) { return team == SHMEM_TEAM_INVALID ? -1 : shmem.team(team).rank(); });
}

int shmem_team_n_pes(shmem_team_t team) {
  return attempt("shmem_team_n_pes", -1,
                 [&](Runtime& shmem) { return team == SHMEM_TEAM_INVALID ? -1 : shmem.team(team).size(); });
}

int shmem_team_get_config(shmem_team_t team, long config_mask, shmem_team_config_t* config) {
  return attempt("shmem_team_get_config", -1, [&](Runtime& shmem) {
    if (team == SHMEM_TEAM_INVALID) return -1;
    const shmem_team_config_t& its = shmem.team(team).config;
    if (config_mask == 0) return 0;
    require(config_mask == SHMEM_TEAM_NUM_CONTEXTS, "the mask ", config_mask, " has bits that no field has");
    require(config != nullptr, "there is no place for the configuration");
    *config = its;
    return 0;
  });
}

int shmem_team_translate_pe(shmem_team_t src_team, int src_pe, shmem_team_t dest_team) {
  return attempt("shmem_team_translate_pe", -1, [&](Runtime& shmem) {
    if (src_team == SHMEM_TEAM_INVALID || dest_team == SHMEM_TEAM_INVALID) return -1;
    const Team& from = *shmem.team(src_team).team;
    if (src_pe < 0 || src_pe >= from.size()) return -1;
    return shmem.team(dest_team).team->member_of(from.world_rank(src_pe)).value_or(-1);
  });
}

int shmem_team_split_strided(shmem_team_t parent_team, int start, int stride, int size,
                             const shmem_team_config_t* config, long config_mask, shmem_team_t* new_team) {
  return attempt("shmem_team_split_strided", -1, [&](Runtime& shmem) {
    require(new_team != nullptr, "there is no place for the team");
    *new_team = SHMEM_TEAM_INVALID;
    if (parent_team == SHMEM_TEAM_INVALID) return -1;
    const TeamHandle& parent = shmem.team(parent_team);
    const shmem_team_config_t wanted = config_of(config, config_mask);
    *new_team = adopted(shmem, parent, parent.team->split_strided(start, stride, size), wanted);
    return 0;
  });
}

int shmem_team_split_2d(shmem_team_t parent_team, int xrange, const shmem_team_config_t* xaxis_config, long xaxis_mask,
                        shmem_team_t* xaxis_team, const shmem_team_config_t* yaxis_config, long yaxis_mask,
                        shmem_team_t* yaxis_team) {
  return attempt("shmem_team_split_2d", -1, [&](Runtime& shmem) {
    require(xaxis_team != nullptr && yaxis_team != nullptr, "there is no place for the teams");
    *xaxis_team = *yaxis_team = SHMEM_TEAM_INVALID;
    if (parent_team == SHMEM_TEAM_INVALID) return -1;
    const TeamHandle& from = shmem.team(parent_team);
    Team& parent = *from.team;
    const shmem_team_config_t along_x = config_of(xaxis_config, xaxis_mask);
    const shmem_team_config_t along_y = config_of(yaxis_config, yaxis_mask);
    require(xrange >= 1, "rows of ", xrange, " PEs; at least 1");
    const int width = std::min(xrange, parent.size());
    auto [row, column] = parent.split_2d(width);
    *xaxis_team = adopted(shmem, from, std::move(row), along_x);
    *yaxis_team = adopted(shmem, from, std::move(column), along_y);
    return 0;
  });
}

void shmem_team_destroy(shmem_team_t team) {
  guarded("shmem_team_destroy", [&](Runtime& shmem) {
    if (team == SHMEM_TEAM_INVALID) return;
    require(team != SHMEM_TEAM_WORLD && team != SHMEM_TEAM_SHARED, "a predefined team is not the program's to destroy");
    TeamHandle& ending = shmem.team(team);
    ending.team->sync();  // nobody's collective looks at its words any more
    ending.context.reset();
    ending.collective.reset();
    ending.team.reset();
  });
}

int shmem_team_sync(shmem_team_t team) {
  return attempt("shmem_team_sync", -1, [&](Runtime& shmem) {
    if (team == SHMEM_TEAM_INVALID) return -1;
    shmem.team(team).team->sync();
    return 0;
  });
}
