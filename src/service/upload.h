/* A form with a file for a sandbox. */
#ifndef TN_SERVICE_UPLOAD_H
#define TN_SERVICE_UPLOAD_H

#include "service/box.h"

/* Stores the part `file` of the body where the part `path_field` says, absolute or below home; it
 * may come after the file, which is stored beside and then moved, also to another file system.
 * Where the part `zip_field` (NULL: none such) is "true" it is an archive that is unpacked there.
 * As long as the client takes. */
int upload_form(struct tn_http_exchange *x, struct box *b, const char *home, const char *path_field,
                const char *zip_field, struct tn_error *err);

#endif
