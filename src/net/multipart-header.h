/* The headers of a body part: pure parsing of Content-Type and Content-Disposition values. */
#ifndef TN_NET_MULTIPART_HEADER_H
#define TN_NET_MULTIPART_HEADER_H

#include "net/multipart.h"

/* The value of a parameter of a header value ("form-data; name=\"x\""), unquoted and on the heap.
 * 1 when it is there, 0 when it is not, -1 when the value is malformed. */
int multipart_param(const char *value, const char *name, char **out);

/* Reads one header line (NUL-terminated, without CRLF) into part.  0, or -1 with err. */
int multipart_field(const char *line, struct tn_part *part, struct tn_error *err);

void multipart_part_clear(struct tn_part *part);

#endif
