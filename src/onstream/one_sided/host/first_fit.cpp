#include "onstream/one_sided/host/first_fit.hpp"

#include <algorithm>

namespace onstream {

namespace {

// At least one access_width; nothing where the sum does not fit a size.
std::optional<std::size_t> rounded(std::size_t bytes) {
  if (bytes > ~std::size_t{0} - FirstFit::kGrain) return std::nullopt;
  return std::max((bytes + FirstFit::kGrain - 1) / FirstFit::kGrain, std::size_t{1}) * FirstFit::kGrain;
}

}  // namespace

FirstFit::FirstFit(std::size_t bytes) : bytes_(bytes / kGrain * kGrain) {
  if (bytes_ > 0) free_.emplace(0, bytes_);
}

std::optional<std::size_t> FirstFit::allocate(std::size_t bytes, std::size_t alignment) {
  const std::optional<std::size_t> taken = rounded(bytes);
  if (!taken) return std::nullopt;
  const std::size_t step = std::max(alignment, kGrain);
  for (auto free = free_.begin(); free != free_.end(); ++free) {
    const std::size_t offset = (free->first + step - 1) / step * step;
    const std::size_t skipped = offset - free->first;
    if (skipped > free->second || *taken > free->second - skipped) continue;
    take(free, offset, *taken);
    pieces_.emplace(offset, AllocatedRange{bytes, *taken});
    used_ += *taken;
    return offset;
  }
  return std::nullopt;
}

// The rest of a free piece, in front of and behind [offset, offset + bytes), stays free.
void FirstFit::take(std::map<std::size_t, std::size_t>::iterator free, std::size_t offset, std::size_t bytes) {
  const auto [begin, length] = *free;
  free_.erase(free);
  if (offset > begin) free_.emplace(begin, offset - begin);
  const std::size_t behind = begin + length - (offset + bytes);
  if (behind > 0) free_.emplace(offset + bytes, behind);
}

void FirstFit::give(std::size_t offset, std::size_t bytes) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += bytes;
      return;
    }
  }
  free_.emplace(offset, bytes);
}

bool FirstFit::free(std::size_t offset) {
  const auto piece = pieces_.find(offset);
  if (piece == pieces_.end()) return false;
  used_ -= piece->second.taken;
  give(offset, piece->second.taken);
  pieces_.erase(piece);
  return true;
}

bool FirstFit::resize(std::size_t offset, std::size_t bytes) {
  const auto piece = pieces_.find(offset);
  const std::optional<std::size_t> wanted = rounded(bytes);
  if (piece == pieces_.end() || !wanted) return false;
  AllocatedRange& its = piece->second;
  if (*wanted > its.taken) {
    const std::size_t more = *wanted - its.taken;
    const auto behind = free_.find(offset + its.taken);
    if (behind == free_.end() || behind->second < more) return false;
    take(behind, offset + its.taken, more);
  } else if (*wanted < its.taken) {
    give(offset + *wanted, its.taken - *wanted);
  }
  used_ = used_ - its.taken + *wanted;
  its = {bytes, *wanted};
  return true;
}

std::optional<std::size_t> FirstFit::bytes_at(std::size_t offset) const {
  const auto piece = pieces_.find(offset);
  if (piece == pieces_.end()) return std::nullopt;
  return piece->second.asked;
}

std::size_t FirstFit::largest_free() const {
  std::size_t largest = 0;
  for (const auto& [offset, bytes] : free_) largest = std::max(largest, bytes);
  return largest;
}

}  // namespace onstream
