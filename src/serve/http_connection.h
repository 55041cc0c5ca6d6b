// One connection of an HttpServer: reads requests one after the other, checks them, writes replies.
//
// Thread rule: the server's thread, but for the Reply that it hands out.
#ifndef MOORING_SERVE_HTTP_CONNECTION_H_
#define MOORING_SERVE_HTTP_CONNECTION_H_

#include <boost/asio/generic/stream_protocol.hpp>

#include "serve/http_server.h"

namespace mooring {

struct ConnectionContext {
  const HttpLimits& limits;
  const HttpServer::Handler& handler;
  const HttpServer::Refuse& refuse;
  HttpCounters* counters;
};

// Serves the connection until it is closed; `context` outlives it. Calls `closed` then.
void StartConnection(boost::asio::generic::stream_protocol::socket socket,
                     const ConnectionContext& context, std::function<void()> closed);

}  // namespace mooring

#endif  // MOORING_SERVE_HTTP_CONNECTION_H_
