#include "globals.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "onstream/base/error.hpp"
#include "onstream/base/log.hpp"

namespace onstream::shmem {

namespace {

struct Pages {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// Of the executable, which the loader names first: what may be written once relocation is done.
int writable_pages(dl_phdr_info* info, std::size_t, void* found) {
  auto& pages = *static_cast<Pages*>(found);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  std::uintptr_t constant = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    const std::uintptr_t end = begin + part.p_memsz;
    if (part.p_type == PT_GNU_RELRO) constant = end / page * page;
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) == 0) continue;
    pages.begin = pages.end == 0 ? begin / page * page : std::min(pages.begin, begin / page * page);
    pages.end = std::max(pages.end, (end + page - 1) / page * page);
  }
  if (pages.begin < constant && constant <= pages.end) pages.begin = constant;
  return 1;
}

// Pages that hold nothing but zeroes need no copy: the segment has them already.
void copy_pages(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t kPiece = 4096;
  static constexpr std::byte kZeroes[kPiece] = {};
  for (std::size_t at = 0; at < bytes; at += kPiece) {
    const std::size_t now = std::min(kPiece, bytes - at);
    if (std::memcmp(from + at, kZeroes, now) != 0) std::memcpy(to + at, from + at, now);
  }
}

}  // namespace

void Globals::make(World& world) {
  Pages pages;
  dl_iterate_phdr(writable_pages, &pages);
  const std::size_t bytes = pages.end - pages.begin;
  const std::vector<std::string> all = world.fabric()->all_gather("shmem.globals", std::to_string(bytes));
  if (bytes == 0 || std::ranges::any_of(all, [&](const std::string& one) { return one != all.front(); })) {
    why_ = "the PEs do not run the same program";
    log(LogLevel::warn, "shmem_init: global variables are not symmetric: ", why_);
    return;
  }
  segment_ = world.segment(bytes, MemoryKind::file);
  std::byte* const part = segment_->local();
  copy_pages(part, reinterpret_cast<const std::byte*>(pages.begin), bytes);
  // A second view of shared pages, over the first: the old size 0 asks for that.
  void* const over = reinterpret_cast<void*>(pages.begin);
  const bool made = mremap(part, 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, over) == over;
  const std::vector<std::string> took = world.fabric()->all_gather("shmem.globals.made", made ? "1" : "0");
  if (std::ranges::any_of(took, [](const std::string& one) { return one != "1"; })) {
    why_ = "the system does not map their pages twice";
    log(LogLevel::warn, "shmem_init: global variables are not symmetric: ", why_);
    return;
  }
  begin_ = pages.begin;
  bytes_ = bytes;
  base_ = reinterpret_cast<std::uintptr_t>(part);
}

void Globals::close(World& world) {
  bytes_ = 0;
  if (segment_ != nullptr) world.free(segment_);
  segment_.reset();
}

}  // namespace onstream::shmem
