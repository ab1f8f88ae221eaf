/* The encoding of a text file: found out per file, so that an edit writes back what it read.
 *
 * A byte order mark decides (UTF-8, UTF-16 of either order); without one, bytes that are valid
 * UTF-8 are UTF-8, and anything else is Windows-1252 with its five unassigned bytes standing for
 * the C1 controls of the same number.  That last mapping is one to one, so that a file in some
 * other 8-bit encoding still survives an edit of its ASCII parts byte for byte. */
#ifndef TN_HAND_FILE_ENCODING_H
#define TN_HAND_FILE_ENCODING_H

#include "base/error.h"
#include "hand/file/text.h"

enum encoding {
    ENCODING_UTF8,
    ENCODING_UTF8_BOM,
    ENCODING_UTF16LE,
    ENCODING_UTF16BE,
    ENCODING_WINDOWS_1252,
};

enum encoding encoding_detect(struct tn_slice bytes);
const char *encoding_name(enum encoding e);

/* The UTF-8 text of the bytes, without byte order mark.  Where no conversion is needed *text points
 * into bytes, else into room.  -1 with err when they are not what the mark promises. */
int encoding_decode(enum encoding e, struct tn_slice bytes, struct tn_buf *room,
                    struct tn_slice *text, struct tn_error *err);

/* The other way, byte order mark included.  -1 with err when a character does not exist in e. */
int encoding_encode(enum encoding e, struct tn_slice text, struct tn_buf *room,
                    struct tn_slice *bytes, struct tn_error *err);

#endif
