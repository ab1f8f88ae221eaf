/* What the file viewer answers.
 *
 * A page may run the scripts of this server and nothing else: what a file or its name holds is
 * shown, never executed.  Without a viewer for PDF in this build (see the option pdfjs) a PDF file
 * is left to the browser's own. */
#ifndef TN_HAND_VIEWER_PAGE_H
#define TN_HAND_VIEWER_PAGE_H

#include "hand/user.h"
#include "net/http-server.h"

/* The context of both is a struct tn_agent_user, whose rights count. */
void viewer_view(struct tn_http_exchange *x, void *user); /* ?path=: the page */
void viewer_file(struct tn_http_exchange *x, void *user); /* ?path=: bytes of a PDF, for the page */
void viewer_script(struct tn_http_exchange *x, void *user); /* {name}: what pages run */

/* Lets in what was sent to a name of this machine.  Any other name means that a page from elsewhere
 * made its own name point here, to read files as if they were its own. */
bool viewer_allow(struct tn_http_exchange *x, void *user);

#endif
