// Start and end of a PE, and its queries about itself.
#include <cstring>
#include <string>

#include "ending.hpp"
#include "guarded.hpp"
#include "settings.hpp"

using namespace onstream;
using namespace onstream::shmem;

namespace {

constexpr const char* kName = SHMEM_VENDOR_STRING;

void say_what_was_asked(const Runtime& shmem) {
  const Settings settings = settings_from_environment();
  if (shmem.rank() != 0) return;
  std::string text;
  if (settings.prints_version)
    text +=
        concat(kName, " " ONSTREAM_SHMEM_VERSION ", OpenSHMEM ", SHMEM_MAJOR_VERSION, '.', SHMEM_MINOR_VERSION, '\n');
  if (settings.prints_variables) {
    text += concat("SHMEM_SYMMETRIC_SIZE  bytes of the symmetric heap, k, M, G or T may follow: ", settings.heap_bytes,
                   "\nSHMEM_VERSION         prints the library's name at the start\n"
                   "SHMEM_INFO            prints this at the start\n"
                   "SHMEM_DEBUG           accepted; ONSTREAM_LOG=debug tells more\n"
                   "SMA_...               older names of these, which give way to them\n"
                   "ONSTREAM_...          `onstream info` lists them\n");
  }
  say(text);
}

void start(int level) {
  try {
    if (running() != nullptr) {
      log(LogLevel::warn, "shmem_init: OpenSHMEM is initialised already; this call does nothing");
      return;
    }
    running() = new Runtime(level);
    watch_the_end();
    say_what_was_asked(*running());
  } catch (const std::exception& error) {
    end_job("shmem_init", error);
  }
}

}  // namespace

void shmem_init(void) { start(SHMEM_THREAD_SINGLE); }

int shmem_init_thread(int requested, int* provided) {
  if (requested < SHMEM_THREAD_SINGLE || requested > SHMEM_THREAD_MULTIPLE) {
    log(LogLevel::error, "shmem_init_thread: there is no thread level ", requested);
    return -1;
  }
  start(requested);
  if (provided != nullptr) *provided = running()->thread_level();
  return 0;
}

void shmem_query_thread(int* provided) {
  guarded("shmem_query_thread", [&](Runtime& shmem) {
    require(provided != nullptr, "there is no place for the answer");
    *provided = shmem.thread_level();
  });
}

void shmem_finalize(void) {
  if (running() == nullptr && was_finalized()) {
    return log(LogLevel::warn, "shmem_finalize: OpenSHMEM is finalised already; this call does nothing");
  }
  guarded("shmem_finalize", [](Runtime& shmem) {
    finish(shmem);
    return 0;
  });
}

void shmem_global_exit(int status) {
  guarded("shmem_global_exit", [&](Runtime& shmem) -> int { end_all(shmem, status); });
  leave(kFailedExit);  // not reached
}

int shmem_my_pe(void) {
  return guarded("shmem_my_pe", [](Runtime& shmem) { return shmem.rank(); });
}
int shmem_n_pes(void) {
  return guarded("shmem_n_pes", [](Runtime& shmem) { return shmem.size(); });
}

int shmem_pe_accessible(int pe) {
  return guarded("shmem_pe_accessible", [&](Runtime& shmem) { return pe >= 0 && pe < shmem.size() ? 1 : 0; });
}

int shmem_addr_accessible(const void* addr, int pe) {
  return guarded("shmem_addr_accessible", [&](Runtime& shmem) {
    const bool symmetric = shmem.in_globals(addr) || shmem.heap_of(addr) != nullptr;
    return symmetric && pe >= 0 && pe < shmem.size() ? 1 : 0;
  });
}

void* shmem_ptr(const void* dest, int pe) {
  return guarded("shmem_ptr", [&](Runtime& shmem) { return shmem.pointer(dest, shmem.default_context().rank_of(pe)); });
}

void* shmem_team_ptr(shmem_team_t team, const void* dest, int pe) {
  return guarded("shmem_team_ptr", [&](Runtime& shmem) -> void* {
    if (team == SHMEM_TEAM_INVALID) return nullptr;
    return shmem.pointer(dest, shmem.team(team).team->world_rank(pe));
  });
}

void shmem_info_get_version(int* major, int* minor) {
  *major = SHMEM_MAJOR_VERSION;
  *minor = SHMEM_MINOR_VERSION;
}

void shmem_info_get_name(char* name) { std::memcpy(name, kName, std::strlen(kName) + 1); }

void shmem_pcontrol(int, ...) {}

void start_pes(int) {
  if (running() == nullptr) start(SHMEM_THREAD_SINGLE);
}
int _my_pe(void) { return shmem_my_pe(); }
int _num_pes(void) { return shmem_n_pes(); }

void shmem_set_cache_inv(void) {}
void shmem_clear_cache_inv(void) {}
void shmem_set_cache_line_inv(void*) {}
void shmem_clear_cache_line_inv(void*) {}
void shmem_udcflush(void) {}
void shmem_udcflush_line(void*) {}
