// Messages of a World: each call reads its arguments (arguments.hpp), enters the library without the GIL and
// interruptible, and keeps the array of an op on a stream until the stream is past it.
//
// Every call takes its arguments untyped, so that it can raise its own errors for wrong ones.
#include "messages.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "arrays/arguments.hpp"
#include "arrays/layouts.hpp"
#include "base/errors.hpp"
#include "base/waiting.hpp"
#include "onstream/base/error.hpp"

namespace onstream::python {

namespace {

using WorldHandle = nb::handle_t<PyWorld>;

// One array, with one rank.
struct Message {
  std::shared_ptr<World> world;
  OpKind kind = OpKind::none;
  int peer = -1;
  MessageBuffer buffer;
  MessageOptions options;
  std::unique_ptr<const Layout> layout;  // null: the buffer is contiguous
  StreamChoice choice;

  std::string text() const { return kind == OpKind::recv ? text_of(incoming()) : text_of(outgoing()); }
  Outgoing outgoing() const { return {buffer.address, buffer.bytes, peer, options}; }
  Incoming incoming() const { return {buffer.address, buffer.bytes, peer, options}; }
  LayoutMessage by_layout() const {
    return {buffer.address, layout ? *layout : Layout::contiguous(buffer.bytes), peer, options};
  }
};

WorldState& state_of(WorldHandle self) { return *nb::cast<PyWorld&>(self).state(); }

// The data of an array with gaps, or of a buffer by the layout that the call names.
void read_layout(Message& message, WorldHandle self, const char* call, nb::handle array, nb::handle layout) {
  const Access access = message.kind == OpKind::recv ? Access::write : Access::read;
  if (layout.is_none()) {
    message.buffer = message_buffer(array, access, self, message.layout);
    return;
  }
  if (!nb::isinstance<Layout>(layout)) {
    throw nb::type_error(concat(call, "(): layout is of type ", nb::type_name(layout.type()).c_str(),
                                ", but must be a Layout, such as Layout.of(array[:, 0], within=array)")
                             .c_str());
  }
  message.buffer = message_buffer(array, access, self);
  message.layout = std::make_unique<const Layout>(nb::cast<const Layout&>(layout));
  check_inside(call, *message.layout, message.buffer.bytes);
  message.buffer.bytes = message.layout->bytes();
}

Message message_from(WorldHandle self, OpKind kind, const char* call, nb::handle array, nb::handle layout, int peer,
                     const MessageOptions& options) {
  Message message;
  message.world = nb::cast<PyWorld&>(self).open();
  message.kind = kind;
  message.peer = peer;
  message.options = options;
  read_layout(message, self, call, array, layout);
  return message;
}

// Calls into the library without the GIL; an interrupt aborts the world with the op's text from `what`.
template <class What, class Function>
auto perform(World& world, const What& what, const Function& function) {
  return interruptible(function, [&] { abort_interrupted(world, what()); });
}

template <class Function>
auto perform(const Message& message, const Function& function) {
  return perform(*message.world, [&] { return message.text(); }, function);
}

PyRequest request_for(WorldHandle self, Message message, std::shared_ptr<Request> request) {
  const auto& state = nb::cast<PyWorld&>(self).state();
  const auto& on = message.choice.stream;
  PyRequest::Posted posted{.kind = message.kind,
                           .peer = message.peer,
                           .tag = message.options.tag,
                           .bytes = message.buffer.bytes,
                           .stream = on,
                           .mine = message.choice.mine ? nb::find(*message.choice.mine) : nb::object(),
                           .keeper = message.choice.keeper};
  // A graph uses the buffer as long as it lives, even if the request is gone.
  if (on && message.world->captured(request)) state->keep(message.choice, std::move(message.buffer.hold));
  return PyRequest(state, std::move(request), std::move(message.buffer.hold), std::move(posted));
}

void reap(WorldHandle self) {
  if (WorldState& state = state_of(self); !state.abandoned.empty()) state.reap();
}

std::shared_ptr<Request> post_by_layout(const Message& message) {
  World& world = *message.world;
  const auto& on = message.choice.stream;
  if (message.kind == OpKind::recv)
    return on ? world.irecv(message.by_layout(), *on) : world.irecv(message.by_layout());
  return on ? world.isend(message.by_layout(), *on) : world.isend(message.by_layout());
}

PyRequest post(WorldHandle self, Message message) {
  if (message.peer == kNullPeer) {
    const std::size_t bytes = message.buffer.bytes;
    PyRequest::Posted posted{
        .kind = message.kind, .peer = kNullPeer, .tag = message.options.tag, .bytes = bytes, .stream = {}, .mine = {}};
    return {nb::cast<PyWorld&>(self).state(), std::move(posted)};
  }
  const BlockingCall call(nb::cast<PyWorld&>(self).state());
  reap(self);
  World& world = *message.world;
  const MessageOptions& options = message.options;
  const MessageBuffer& buffer = message.buffer;
  const auto& on = message.choice.stream;
  const auto start = [&] {
    if (message.layout) [[unlikely]]
      return post_by_layout(message);
    if (message.kind == OpKind::recv) {
      return on ? world.irecv(buffer.address, buffer.bytes, message.peer, options, *on)
                : world.irecv(buffer.address, buffer.bytes, message.peer, options);
    }
    return on ? world.isend(buffer.address, buffer.bytes, message.peer, options, *on)
              : world.isend(buffer.address, buffer.bytes, message.peer, options);
  };
  // Waits only if so many sends have run ahead that the tag's ring is full.
  auto request = perform(message, start);
  return request_for(self, std::move(message), std::move(request));
}

FaultReport fault_of(Status status, const Message& message, std::size_t received) {
  return {.rank = message.world->rank(),
          .status = status,
          .op = message.kind,
          .peer = message.peer,
          .tag = message.options.tag,
          .bytes = message.buffer.bytes,
          .extra = received,
          .plan = 0};
}

// Raises how a blocking call of the host device ended, unless it ended well.
void raise_end(WorldState& state, Status status, Message message, std::size_t received) {
  if (status == Status::ok) return;
  // Another thread closes the world: until that has ended, other ranks may still use the array.
  if (status == Status::aborted && state.world == nullptr)
    state.abandoned.push_back({nullptr, std::move(message.buffer.hold)});
  raise_message_fault(*message.world, fault_of(status, message, received));
}

// The host device's own blocking forms: no request, nothing allocated. Returns the message's bytes.
std::size_t block_on(WorldState& state, Message message) {
  World& world = *message.world;
  const MessageOptions& options = message.options;
  const MessageBuffer& buffer = message.buffer;
  std::size_t received = buffer.bytes;
  const auto run = [&] {
    if (message.layout) [[unlikely]]
      return message.kind == OpKind::recv ? world.recv(message.by_layout(), &received)
                                          : world.send(message.by_layout());
    return message.kind == OpKind::recv ? world.recv(buffer.address, buffer.bytes, message.peer, options, &received)
                                        : world.send(buffer.address, buffer.bytes, message.peer, options);
  };
  const Status status = perform(message, run);
  raise_end(state, status, std::move(message), received);
  return received;
}

std::size_t block(WorldHandle self, Message message) {
  const BlockingCall call(nb::cast<PyWorld&>(self).state());
  message.options.reported_by_wait = true;
  if (message.world->device().kind() == DeviceKind::host) return block_on(state_of(self), std::move(message));
  PyRequest request = post(self, std::move(message));
  request.wait_on_host();
  return request.received();
}

void on_stream(WorldState& state, Message message) {
  const MessageBuffer& buffer = message.buffer;
  perform(message, [&] {
    if (message.layout) [[unlikely]] {
      message.kind == OpKind::recv ? message.world->recv(message.by_layout(), *message.choice.stream)
                                   : message.world->send(message.by_layout(), *message.choice.stream);
    } else if (message.kind == OpKind::recv) {
      message.world->recv(buffer.address, buffer.bytes, message.peer, message.options, *message.choice.stream);
    } else {
      message.world->send(buffer.address, buffer.bytes, message.peer, message.options, *message.choice.stream);
    }
    return true;
  });
  state.keep(message.choice, std::move(message.buffer.hold));
}

// --- sendrecv ---

// The stream of both arrays. Where only one's library gives its memory back in that order, both are held here.
StreamChoice choose_for_both(WorldHandle self, nb::handle stream, const MessageBuffer& out, const MessageBuffer& in) {
  const bool differ = out.natural && in.natural && out.natural->stream.handle != in.natural->stream.handle;
  const auto natural = out.natural ? out.natural : in.natural;
  StreamChoice choice = choose_op_stream(stream, natural, nb::cast<PyWorld&>(self).state());
  if (choice.stream && choice.mine == nullptr && stream.is_none()) {
    require(!differ,
            "sendrecv: the libraries of the two arrays are on different streams; name the one to use: stream=");
    const bool ordered = out.natural && out.natural->ordered && in.natural && in.natural->ordered;
    if (!ordered) choice.keeper = Keeper::world;
  }
  return choice;
}

// Raises how a sendrecv ended whose halves followed each other, each by its own message.
void raise_ends(WorldState& state, SendrecvEnds ends, Message out, Message in, std::size_t received) {
  const std::size_t sent = out.buffer.bytes;
  if (ends.sent == Status::ok || ends.received == Status::ok || ends.sent == Status::aborted) {
    raise_end(state, ends.sent, std::move(out), sent);
    return raise_end(state, ends.received, std::move(in), received);
  }
  raise_faults({fault_of(ends.sent, out, sent), fault_of(ends.received, in, received)});
}

template <class What>
std::size_t exchange_blocking(WorldHandle self, Message out, Message in, const What& what) {
  const BlockingCall call(nb::cast<PyWorld&>(self).state());
  reap(self);
  World& world = *out.world;
  out.options.reported_by_wait = in.options.reported_by_wait = true;
  std::size_t received = 0;
  const bool by_layout = out.layout || in.layout;
  const auto ahead = [&] {
    return by_layout ? world.sendrecv_ahead(out.by_layout(), in.by_layout(), &received)
                     : world.sendrecv_ahead(out.outgoing(), in.incoming(), &received);
  };
  if (const auto ends = perform(world, what, ahead)) {
    raise_ends(state_of(self), *ends, std::move(out), std::move(in), received);
    return received;
  }
  Exchange both = perform(world, what, [&] {
    return by_layout ? world.isendrecv(out.by_layout(), in.by_layout())
                     : world.isendrecv(out.outgoing(), in.incoming());
  });
  PyRequest arriving = request_for(self, std::move(in), std::move(both.arriving));
  PyRequest sent = request_for(self, std::move(out), std::move(both.sent));
  for (PyRequest* half : {&arriving, &sent}) half->end_on_host();
  std::vector<FaultReport> cut;
  for (PyRequest* half : {&arriving, &sent}) half->tell_fault(world, cut);
  raise_faults(cut);
  return arriving.received();
}

// With null at one end: the other half alone; nothing with null at both.
std::optional<std::size_t> exchange_half(WorldHandle self, Message out, Message in, nb::handle stream) {
  const bool sends = out.peer != kNullPeer;
  if (!sends && in.peer == kNullPeer) return 0;
  Message& half = sends ? out : in;
  half.choice = choose_op_stream(stream, half.buffer.natural, nb::cast<PyWorld&>(self).state());
  if (half.choice.stream) {
    on_stream(state_of(self), std::move(half));
    return sends ? std::optional<std::size_t>(0) : std::nullopt;
  }
  const std::size_t bytes = block(self, std::move(half));
  return sends ? 0 : bytes;
}

std::optional<std::size_t> exchange(WorldHandle self, Message out, Message in, nb::handle stream) {
  if (out.peer == kNullPeer || in.peer == kNullPeer) {
    return exchange_half(self, std::move(out), std::move(in), stream);
  }
  const StreamChoice choice = choose_for_both(self, stream, out.buffer, in.buffer);
  const auto what = [to = out.outgoing(), from = in.incoming()] { return text_of(to, from); };
  if (!choice.stream) return exchange_blocking(self, std::move(out), std::move(in), what);
  World& world = *out.world;
  perform(world, what, [&] {
    if (out.layout || in.layout) {
      world.sendrecv(out.by_layout(), in.by_layout(), *choice.stream);
    } else {
      world.sendrecv(out.outgoing(), in.incoming(), *choice.stream);
    }
    return true;
  });
  WorldState& state = state_of(self);
  state.keep(choice, std::move(out.buffer.hold));
  state.keep(choice, std::move(in.buffer.hold));
  return std::nullopt;
}

// --- the calls ---

int peer_from(const CallForm& form, const char* argument, nb::handle peer) {
  if (is_null(peer)) return kNullPeer;
  const int rank = form.integer(argument, peer, "a rank, an integer");
  return rank == kNullPeer ? -1 : rank;  // no number stands for null
}

// An argument of few calls, which the others shall not pay for.
nb::object layout_in(const nb::kwargs& unknown, const char* argument) {
  if (unknown.size() == 0 || !unknown.contains(argument)) [[likely]]
    return nb::none();
  return unknown[argument];
}

// Reads and checks the arguments of a call of one array.
Message read(WorldHandle self, OpKind kind, const CallForm& form, const nb::handle (&given)[5], const nb::args& more,
             const nb::kwargs& unknown) {
  form.refuse_more(2, more, unknown, {"layout"});
  const nb::handle array = form.array("array", given[0]);
  const int peer = peer_from(form, "peer", given[1]);
  Message message =
      message_from(self, kind, form.name, array, layout_in(unknown, "layout"), peer, form.options(given[2], given[3]));
  message.choice = choose_op_stream(given[4], message.buffer.natural, nb::cast<PyWorld&>(self).state());
  return message;
}

constexpr CallForm kSend{"send", "array, peer"};
constexpr CallForm kRecv{"recv", "array, peer"};
constexpr CallForm kIsend{"isend", "array, peer"};
constexpr CallForm kIrecv{"irecv", "array, peer"};
constexpr CallForm kExplainSend{"explain.send", "array, peer"};
constexpr CallForm kSendrecv{"sendrecv", "send_array, dest, recv_array, source"};

std::string explain_send(WorldHandle self, nb::handle array, nb::handle peer, nb::handle tag, nb::handle path) {
  const int rank = kExplainSend.integer("peer", peer, "a rank, an integer");
  Message message;
  message.world = nb::cast<PyWorld&>(self).open();
  message.kind = OpKind::send;
  message.peer = rank;
  message.options = kExplainSend.options(tag, path);
  message.buffer = message_buffer(array, Access::read, self);
  return perform(message, [&] { return message.world->explain(message.outgoing()); });
}

void send(WorldHandle self, nb::handle array, nb::handle peer, const nb::args& more, nb::handle tag, nb::handle path,
          nb::handle stream, const nb::kwargs& unknown) {
  Message message = read(self, OpKind::send, kSend, {array, peer, tag, path, stream}, more, unknown);
  if (message.peer == kNullPeer) return;
  if (message.choice.stream) return on_stream(state_of(self), std::move(message));
  block(self, std::move(message));
}

nb::object recv(WorldHandle self, nb::handle array, nb::handle peer, const nb::args& more, nb::handle tag,
                nb::handle path, nb::handle stream, const nb::kwargs& unknown) {
  Message message = read(self, OpKind::recv, kRecv, {array, peer, tag, path, stream}, more, unknown);
  if (message.peer == kNullPeer) return nb::cast(0);
  if (message.choice.stream) {
    on_stream(state_of(self), std::move(message));
    return nb::none();
  }
  if (message.peer == kAnySource) return self.attr("_recv_any")(array, tag, path, stream, layout_in(unknown, "layout"));
  return nb::cast(block(self, std::move(message)));
}

PyRequest isend(WorldHandle self, nb::handle array, nb::handle peer, const nb::args& more, nb::handle tag,
                nb::handle path, nb::handle stream, const nb::kwargs& unknown) {
  return post(self, read(self, OpKind::send, kIsend, {array, peer, tag, path, stream}, more, unknown));
}

PyRequest irecv(WorldHandle self, nb::handle array, nb::handle peer, const nb::args& more, nb::handle tag,
                nb::handle path, nb::handle stream, const nb::kwargs& unknown) {
  return post(self, read(self, OpKind::recv, kIrecv, {array, peer, tag, path, stream}, more, unknown));
}

std::optional<std::size_t> sendrecv(WorldHandle self, nb::handle send_array, nb::handle dest, nb::handle recv_array,
                                    nb::handle source, const nb::args& more, nb::handle tag, nb::handle path,
                                    nb::handle stream, const nb::kwargs& unknown) {
  kSendrecv.refuse_more(4, more, unknown, {"send_layout", "recv_layout"});
  const nb::handle from = kSendrecv.array("send_array", send_array);
  const int to_rank = peer_from(kSendrecv, "dest", dest);
  const nb::handle into = kSendrecv.array("recv_array", recv_array);
  const int from_rank = peer_from(kSendrecv, "source", source);
  const MessageOptions options = kSendrecv.options(tag, path);
  Message out = message_from(self, OpKind::send, "sendrecv", from, layout_in(unknown, "send_layout"), to_rank, options);
  Message in =
      message_from(self, OpKind::recv, "sendrecv", into, layout_in(unknown, "recv_layout"), from_rank, options);
  return exchange(self, std::move(out), std::move(in), stream);
}

// Binds a message call of one array: its function, signature and docstring.
template <class Function>
void bind_one(nb::class_<PyWorld>& world, const char* name, Function function, const char* signature, const char* doc) {
  world.def(name, function, nb::arg("array").none() = nb::ellipsis(), nb::arg("peer").none() = nb::ellipsis(),
            nb::arg("more"), nb::arg("tag").none() = 0, nb::arg("path").none() = "auto", nb::arg("stream") = nb::none(),
            nb::arg("unknown"), nb::sig(signature), doc);
}

}  // namespace

void bind_messages(nb::class_<PyWorld>& world) {
#define ONSTREAM_MESSAGE_OPTIONS "*, tag: int = 0, path: str = 'auto', stream: object | None = None, "
#define ONSTREAM_LAYOUT "layout: Layout | None = None"
  bind_one(
      world, "send", &send,
      "def send(self, array: object, peer: int, " ONSTREAM_MESSAGE_OPTIONS ONSTREAM_LAYOUT ") -> None",
      "Sends an array: contiguous, or of any strides, or the bytes of a contiguous one that `layout` names\n"
      "(docs/layouts.md). On a stream it does not block, and the array may be reused by later work of that\n"
      "stream. Without a stream: on the current stream of a torch or cupy device array; for a host array it blocks\n"
      "until the array may be reused. stream='host' blocks for any array. In a capture() the captured stream is\n"
      "the default. Only bytes travel: the receiver's element type is not compared with the sender's.\n"
      "A small message runs ahead of its receive; a larger one (ll_max_bytes, host_ll_max_bytes) waits for it. Ranks\n"
      "that all send first and receive then may wait for each other: post the receive before (irecv), or sendrecv().");
  bind_one(world, "recv", &recv,
           "def recv(self, array: object, peer: int, " ONSTREAM_MESSAGE_OPTIONS ONSTREAM_LAYOUT
           ") -> int | onstream.probes.Message | None",
           "Receives into an array, of any strides or by a `layout`, ordered as send() is. Returns the message's bytes "
           "if it blocked, else\n"
           "None. From any_source it must block, and returns the Message, received, which tells the sender. A larger\n"
           "message raises TruncatedError; the next messages are intact. A smaller one fills the front of the array;\n"
           "an array with gaps, or a layout, takes no smaller message, which raises TruncatedError too.\n"
           "Only bytes travel, of any element types.");
  world.def(
      "sendrecv", &sendrecv, nb::arg("send_array").none() = nb::ellipsis(), nb::arg("dest").none() = nb::ellipsis(),
      nb::arg("recv_array").none() = nb::ellipsis(), nb::arg("source").none() = nb::ellipsis(), nb::arg("more"),
      nb::arg("tag").none() = 0, nb::arg("path").none() = "auto", nb::arg("stream") = nb::none(), nb::arg("unknown"),
      nb::sig(
          "def sendrecv(self, send_array: object, dest: int, recv_array: object, source: int, " ONSTREAM_MESSAGE_OPTIONS
          "send_layout: Layout | None = None, recv_layout: Layout | None = None) -> int | None"),
      "Sends one array to rank `dest` and receives another from rank `source` at the same time: neither waits for the\n"
      "other, so all ranks of a ring may call it. Its halves match plain sends and receives of the tag. Ordered as\n"
      "send() is, and one kernel on cuda. Returns the received message's bytes if it blocked, else None; raises as\n"
      "send() and recv() do, once both halves have ended. The arrays must not overlap,\n"
      "unless one has gaps, or a layout: then what is sent is copied first.");
  bind_one(
      world, "isend", &isend,
      "def isend(self, array: object, peer: int, " ONSTREAM_MESSAGE_OPTIONS ONSTREAM_LAYOUT ") -> Request",
      "Starts a send; complete it with Request.wait(). Do not change the array before. Only bytes travel. It does\n"
      "not wait for its receive; on a stream, and by path ll, a small one waits once those under way fill the\n"
      "tag's ring, so post receives before, or use sendrecv().");
  bind_one(
      world, "irecv", &irecv,
      "def irecv(self, array: object, peer: int, " ONSTREAM_MESSAGE_OPTIONS ONSTREAM_LAYOUT ") -> Request",
      "Starts a receive; complete it with Request.wait(). From one rank, with one tag, tag_receives (64) may be\n"
      "posted and not waited for; one more raises InvalidArgumentError, and nothing else happens. Only bytes travel.\n"
      "From any_source the host posts and waits: it takes a message when a wait or a test asks for it, in posting\n"
      "order among those of its tag; receives from a named rank that are called before that come first.");
#undef ONSTREAM_LAYOUT
#undef ONSTREAM_MESSAGE_OPTIONS
  world.def("_explain_send", &explain_send, nb::arg("array").none(), nb::arg("peer").none(), nb::arg("tag").none(),
            nb::arg("path").none());
}

}  // namespace onstream::python
