/* Names of previews: pure. */
#ifndef TN_SERVICE_PREVIEW_HOST_H
#define TN_SERVICE_PREVIEW_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* "8080-abcdefghij.localhost:7171" -> port and id, ignoring case.  False: no name of a preview. */
bool preview_parse_host(const char *host, const char *domain, int *port, char id[11]);
/* A port of a preview, 1 to 65535 in decimal without leading zeros; 0: it is none. */
int preview_port(const char *text, size_t n);
bool preview_is_id(const char *text, size_t n);

/* Whether who reaches the service by this URL also reaches names below the domain: every name below
 * localhost is this machine, to browsers on it; any other domain was set up by somebody. */
bool preview_reaches(const char *url, const char *domain);
/* "http://8080-ID.localhost:7171", on the heap; url is the service's. */
char *preview_origin(const char *url, const char *domain, const char *id, int port);

#endif
