/* HTTP/2 for the server of http-server.h: a handler does not know which of the two it answers.
 *
 * Every stream of a connection becomes a connection of its own to the same server: an ordinary one
 * of HTTP/1.1 over a socket pair, with one request.  So all limits, deadlines and checks are those
 * of http-server.h, and none is written twice.  The connection's thread carries between nghttp2 and
 * these pairs.  WebSockets and other upgrades stay HTTP/1.1's: browsers then open one of those. */
#ifndef TN_NET_HTTP2_H
#define TN_NET_HTTP2_H

#include "net/http-server.h"

/* For tn_http_options.http2.  Serves the connection, whose first bytes are those of HTTP/2, until
 * it ends; false where there is no nghttp2, and nothing happened. */
bool tn_http2_serve(struct http_conn *c);

#endif
