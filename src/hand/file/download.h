/* GET /download_files without its HTTP. */
#ifndef TN_HAND_FILE_DOWNLOAD_H
#define TN_HAND_FILE_DOWNLOAD_H

#include "base/buf.h"
#include "hand/file/zip-write.h"

/* The archive of what is below path (or of that one file), ready to be sent: its length goes into
 * content-length, tn_zip_plan_send does the rest.  With the server's rights.  NULL with err: 400
 * for a relative path, 404 for one that does not exist. */
struct tn_zip_plan *tn_download(const char *path, const char *spool_dir, int64_t deadline,
                                struct tn_error *err);

/* The value of content-disposition: attachment; filename="NAME.zip" (percent-encoded in the
 * filename* form when the name is more than plain ASCII). */
void tn_download_disposition(const char *path, struct tn_buf *out);

#endif
