/* The files of the dashboard as they are built in: compressed, by the name in their address. */
#ifndef TN_SERVICE_DASHBOARD_H
#define TN_SERVICE_DASHBOARD_H

#include "base/embedded.h"

/* Names end with .gz, which is not part of the address; the page itself is index.html.gz. */
extern const struct tn_embedded dashboard_files[];

#endif
