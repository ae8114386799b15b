#include "globals.hpp"

#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "onstream/base/error.hpp"
#include "onstream/base/fd.hpp"
#include "onstream/base/log.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream::shmem {

namespace {

struct Pages {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  int protection = PROT_READ | PROT_WRITE;
};

// Adds to ascending ranges, of which no two touch.
void add_pages(std::vector<Pages>& all, const Pages& more) {
  if (more.begin >= more.end) return;
  if (!all.empty() && more.begin <= all.back().end) {
    all.back().end = std::max(all.back().end, more.end);
    all.back().protection |= more.protection;
  } else {
    all.push_back(more);
  }
}

// The pages of the executable, which the loader names first, that may be written once relocation is done. A linker may
// leave any room between the parts that it loads, in which nothing is mapped, or anything by now.
int writable_pages(dl_phdr_info* info, std::size_t, void* found) {
  auto& all = *static_cast<std::vector<Pages>*>(found);
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto down = [page](std::uintptr_t address) { return address / page * page; };
  const std::span parts(info->dlpi_phdr, info->dlpi_phnum);
  const auto begin_of = [info](const ElfW(Phdr) & part) { return info->dlpi_addr + part.p_vaddr; };
  const auto relocated = std::ranges::find(parts, ElfW(Word){PT_GNU_RELRO}, &ElfW(Phdr)::p_type);
  Pages constant;  // rounded as the loader rounds the pages that it protects
  if (relocated != parts.end()) {
    constant = {down(begin_of(*relocated)), down(begin_of(*relocated) + relocated->p_memsz)};
  }
  for (const ElfW(Phdr) & part : parts) {
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) == 0) continue;
    const std::uintptr_t begin = down(begin_of(part));
    const std::uintptr_t end = down(begin_of(part) + part.p_memsz + page - 1);
    const int protection = PROT_READ | PROT_WRITE | ((part.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    add_pages(all, {begin, std::clamp(constant.begin, begin, end), protection});
    add_pages(all, {std::clamp(constant.end, begin, end), end, protection});
  }
  return 1;
}

// The build ID in the notes [begin, end); empty if it is not there.
std::string_view build_id_in(const char* begin, const char* end, std::size_t alignment) {
  const auto padded = [&](std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  constexpr std::string_view kOwner("GNU", sizeof "GNU");
  while (static_cast<std::size_t>(end - begin) >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, begin, sizeof note);
    const std::string_view rest(begin + sizeof note, end);
    const std::size_t at = padded(sizeof note + note.n_namesz) - sizeof note;
    if (at > rest.size() || note.n_descsz > rest.size() - at) return {};
    if (note.n_type == NT_GNU_BUILD_ID && rest.substr(0, note.n_namesz) == kOwner)
      return rest.substr(at, note.n_descsz);
    begin = rest.data() + std::min(padded(at + note.n_descsz + sizeof note) - sizeof note, rest.size());
  }
  return {};
}

// The build ID of the executable, which the loader names first.
int build_id(dl_phdr_info* info, std::size_t, void* found) {
  constexpr std::size_t kWords = 4;  // notes are padded to them, or to twice that
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = info->dlpi_phdr[i];
    if (part.p_type != PT_NOTE) continue;
    const auto* const begin = reinterpret_cast<const char*>(info->dlpi_addr + part.p_vaddr);
    const std::string_view id =
        build_id_in(begin, begin + part.p_memsz, part.p_align == 2 * kWords ? 2 * kWords : kWords);
    if (!id.empty()) *static_cast<std::string_view*>(found) = id;
  }
  return 1;
}

// Differs between two executables: the build ID, which the linker makes of the contents; where it made none, the
// contents themselves.
std::string executable() {
  std::string_view id;
  dl_iterate_phdr(build_id, &id);
  if (!id.empty()) return concat("build ID ", to_hex(id));
  return concat("SHA-256 ", to_hex(sha256(contents_of("/proc/self/exe"))));
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
  std::vector<Pages> found;
  dl_iterate_phdr(writable_pages, &found);
  std::vector<View> views;
  std::size_t bytes = 0;
  for (const Pages& pages : found) {
    views.push_back({pages.begin, pages.end - pages.begin, bytes, pages.protection});
    bytes += views.back().bytes;
  }
  const std::vector<std::string> all = world.fabric()->all_gather("shmem.globals", concat(bytes, " B, ", executable()));
  const bool differ = std::ranges::any_of(all, [&](const std::string& one) { return one != all.front(); });
  if (differ || bytes == 0) {
    why_ = differ ? "the PEs do not run the same program" : "the program has none";
    log(LogLevel::warn, "shmem_init: global variables are not symmetric: ", why_);
    return;
  }
  segment_ = world.segment(bytes, MemoryKind::file);
  const bool made = std::ranges::all_of(views, [this](const View& view) { return lay_over(view); });
  const std::vector<std::string> took = world.fabric()->all_gather("shmem.globals.made", made ? "1" : "0");
  if (std::ranges::any_of(took, [](const std::string& one) { return one != "1"; })) {
    why_ = "the system does not map their pages twice";
    log(LogLevel::warn, "shmem_init: global variables are not symmetric: ", why_);
    return;
  }
  begin_ = views.front().begin;
  bytes_ = views.back().begin + views.back().bytes - begin_;
  base_ = reinterpret_cast<std::uintptr_t>(segment_->local());
  views_ = std::move(views);
}

// A second view of shared pages, over the first: the old size 0 asks for that.
bool Globals::lay_over(const View& view) const {
  std::byte* const part = segment_->local() + view.offset;
  void* const over = reinterpret_cast<void*>(view.begin);
  copy_pages(part, static_cast<const std::byte*>(over), view.bytes);
  if (mremap(part, 0, view.bytes, MREMAP_MAYMOVE | MREMAP_FIXED, over) != over) return false;
  return (view.protection & PROT_EXEC) == 0 || mprotect(over, view.bytes, view.protection) == 0;
}

void Globals::close(World& world) {
  bytes_ = 0;
  views_.clear();
  if (segment_ != nullptr) world.free(segment_);
  segment_.reset();
}

}  // namespace onstream::shmem
