#include "onstream/bootstrap/mesh/mesh_address.hpp"

#include "onstream/base/error.hpp"
#include "onstream/bootstrap/sha256.hpp"
#include "onstream/bootstrap/wire.hpp"

namespace onstream {

std::string pack(const MeshAddress& address) {
  return wire::Packer()
      .text(address.name)
      .text(address.nonce)
      .u32(static_cast<std::uint32_t>(address.pid))
      .text(encode(address.host))
      .body();
}

MeshAddress unpack_address(const std::string& text) {
  wire::Unpacker body(text);
  MeshAddress address;
  address.name = body.text();
  address.nonce = body.text();
  address.pid = static_cast<int>(body.u32());
  address.host = decode_host(std::string(body.text()));
  body.end();
  return address;
}

std::string pack(const std::vector<Endpoint>& endpoints) {
  wire::Packer body;
  body.u32(static_cast<std::uint32_t>(endpoints.size()));
  for (const Endpoint& one : endpoints) body.text(one.address).u32(static_cast<std::uint32_t>(one.port));
  return body.body();
}

std::vector<Endpoint> unpack_endpoints(const std::string& text) {
  wire::Unpacker body(text);
  std::vector<Endpoint> endpoints;
  for (std::uint32_t left = body.u32(); left > 0; --left) {
    Endpoint& one = endpoints.emplace_back(std::string(body.text()), 0);
    one.port = static_cast<int>(body.u32());
  }
  body.end();
  return endpoints;
}

std::string prove(const std::string& secret, const MeshEnd& from, const MeshEnd& to, const Endpoint& endpoint) {
  wire::Packer text;
  text.text("onstream mesh").u32(static_cast<std::uint32_t>(from.rank)).u32(static_cast<std::uint32_t>(to.rank));
  text.text(from.address.nonce).text(to.address.nonce).text(endpoint.describe());
  return hmac_sha256(secret, text.body());
}

}  // namespace onstream
