/* Where the service listens: addresses, TLS, and handing the sockets over to the next program. */
#ifndef TN_SERVICE_LISTEN_H
#define TN_SERVICE_LISTEN_H

#include "net/http-server.h"
#include "runtime/config.h"

/* Connections at a time; of them, those that may be without a key. */
enum { SERVICE_CONNECTIONS = 4096, SERVICE_STRANGERS = 1024 };

struct doors;
/* Opens every address of options.listen, or takes it over from the program before
 * (doors_hand_over). TN_E_DENIED: one is beyond loopback, without TLS, and not said to be insecure.
 * TLS is set up. */
struct doors *doors_open(const struct tn_service_options *options, struct tn_error *err);
/* Checks addresses and certificate without opening anything. */
int doors_check(const struct tn_service_options *options, struct tn_error *err);
/* Lets clients in. */
int doors_serve(struct doors *d, struct tn_http_server *http, struct tn_error *err);
/* What a person can open: "https://127.0.0.1:7171"; the caller frees it. */
char *doors_url(const struct doors *d);
bool doors_tls(const struct doors *d);
/* Another listening descriptor on the first address with a port: *port, or where that is 0 one that
 * the kernel chooses, told there.  TN_E_CONFLICT: it is taken.  Beyond loopback only those that the
 * operator has named are opened, else TN_E_INVALID. */
int doors_listen(const struct doors *d, int *port, bool named, struct tn_error *err);

/* Lets nobody in any more; the addresses stay open, so that clients wait in their backlog.  The
 * handshakes under way end first, at most until the deadline. */
void doors_shut(struct doors *d, int64_t deadline);
/* Waits for what is left of TLS connections, then closes all addresses; removes unix sockets unless
 * they were handed over. */
void doors_close(struct doors *d, int64_t deadline);

/* From here on the open addresses survive exec(2) and are told to the next program in its
 * environment; together with `lock` (a descriptor, or -1), which doors_inherited_lock gives back.
 */
void doors_hand_over(struct doors *d, int lock);
int doors_inherited_lock(void);

#endif
