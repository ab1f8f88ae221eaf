/* Sockets that are files, where somebody else may write too: a sandbox that shares the directory of
 * its socket with the host can put anything in its place, a link to another server's socket above
 * all. */
#ifndef TN_NET_SOCKET_FILE_H
#define TN_NET_SOCKET_FILE_H

#include <sys/un.h>

#include "base/error.h"

/* An O_PATH descriptor of the socket at that path; the directories before its last part are ours
 * and may be links, the last part must be a socket: anything else, a link to one included, is
 * TN_E_DENIED.  -1 with err. */
int net_socket_file(const char *path, struct tn_error *err);
/* The address by which connect(2) reaches exactly that file, whatever has its name by now. */
struct sockaddr_un net_socket_file_address(int file);

#endif
