/* The file viewer: a second, small server on loopback that shows images and PDF files as pages, for
 * a browser inside the sandbox. */
#ifndef TN_HAND_VIEWER_H
#define TN_HAND_VIEWER_H

#include "hand/user.h"
#include "net/http-server.h"

/* Starts it on a free loopback port after `port` and writes its address to /tmp/oh-server-url.
 * secret: that address has a part that cannot be guessed, and nothing is shown without it.
 * Files are read with the rights of user, which must outlive the server.  NULL with err when no
 * port was free. */
struct tn_http_server *tn_viewer_start(int port, bool secret, struct tn_agent_user *user,
                                       struct tn_error *err);
/* Removes the address file, if it is still ours. */
void tn_viewer_withdraw(void);

#endif
