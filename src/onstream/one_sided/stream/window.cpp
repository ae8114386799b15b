#include "onstream/one_sided.hpp"

#include <string_view>

#include "onstream/base/error.hpp"
#include "onstream/one_sided/proxy/lent_memory.hpp"
#include "onstream/transport/fabric.hpp"

namespace onstream {

namespace {

// A rank's account of its part: lines of text. First its bytes, its address and the id by which it is lent; then one
// line for every peer, the address at which that peer sees it or why it does not.
class WindowNotice {
 public:
  WindowNotice(Fabric& fabric, one_sided::LentId id, void* address, std::size_t bytes) {
    const auto own = reinterpret_cast<std::uint64_t>(address);
    text_ = concat(bytes, '\n', own, '\n', id, '\n');
    for (int peer = 0; peer < fabric.size(); ++peer) {
      if (bytes == 0) {
        text_ += "0\n";
      } else if (const std::optional<std::uint64_t> there = fabric.export_in_time(address, bytes, peer)) {
        text_ += concat(*there, '\n');
      } else {
        text_ += concat("not: ", fabric.why_not(address, peer), '\n');
      }
    }
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::uint64_t number_of(std::string_view text) { return number_in<std::uint64_t>(text).value_or(0); }

}  // namespace

Window::Window(Fabric& fabric, one_sided::Lent& lent, void* address, std::size_t bytes) {
  const std::vector<std::string> notices = fabric.agree("window", [&] {
    require(address != nullptr || bytes == 0, "window: ", bytes, " B at a null pointer");
    one_sided::LentId id = one_sided::kByAddress;
    if (bytes > 0) {
      const std::shared_ptr<const one_sided::Lent::Loan> loan = lent.lend(address, bytes);
      id = loan->id;
      loan_ = loan;
    }
    return WindowNotice(fabric, id, address, bytes).text();
  });
  for (const std::string& notice : notices) {
    const std::vector<std::string_view> lines = lines_of(notice);
    WindowPart part;
    part.bytes = number_of(lines.at(0));
    part.there = number_of(lines.at(1));
    part.lent_id = number_of(lines.at(2));
    for (const std::string_view line : lines) needs_proxy_ = needs_proxy_ || line.starts_with("not: ");
    const std::string_view mine = lines.at(3 + static_cast<std::size_t>(fabric.rank()));
    if (mine.starts_with("not: ")) {
      part.why_not = mine.substr(5);
    } else {
      part.here = number_of(mine);
    }
    parts_.push_back(std::move(part));
  }
  if (!needs_proxy_) loan_.reset();
}

Window::Window(const Fabric& fabric, std::shared_ptr<Segment> segment) : segment_(std::move(segment)) {
  require(segment_ != nullptr, "window: the segment is null");
  for (int rank = 0; rank < fabric.size(); ++rank) {
    const bool direct = segment_->direct(rank);
    const auto here = direct ? reinterpret_cast<std::uint64_t>(segment_->peer(rank)) : 0;
    parts_.push_back({segment_->bytes(), here, segment_->address_at(rank), segment_->why_not(rank),
                      one_sided::id_of_segment(segment_->number())});
  }
  needs_proxy_ = !segment_->direct_everywhere();
}

Window::Window(const Fabric& fabric, const KnownMemory& known) {
  parts_.resize(static_cast<std::size_t>(fabric.size()));
  parts_.at(static_cast<std::size_t>(known.rank)) = {known.bytes, known.here, known.there, "", one_sided::kByAddress};
  needs_proxy_ = known.here == 0;
}

void Window::check(bool good, const auto&... why) const {
  if (good) return;
  const std::string name = segment_ == nullptr ? "window" : concat("segment ", segment_->number());
  fail(ErrorCode::invalid_argument, name, ": ", why...);
}

const Window::WindowPart& Window::part(int rank) const {
  check(rank >= 0 && rank < ranks(), "rank ", rank, " does not exist; there are ranks 0 to ", ranks() - 1);
  return parts_[static_cast<std::size_t>(rank)];
}

std::uint64_t Window::at(int rank, std::size_t offset, std::size_t bytes) const {
  const WindowPart& whole = part(rank);
  if (segment_ != nullptr) static_cast<void>(segment_->address_at(rank));  // throws once the segment was freed
  check(offset <= whole.bytes && bytes <= whole.bytes - offset, bytes, " B at offset ", offset, " are not within the ",
        whole.bytes, " B of rank ", rank, "'s part");
  return (whole.here != 0 ? whole.here : whole.there) + offset;
}

}  // namespace onstream
