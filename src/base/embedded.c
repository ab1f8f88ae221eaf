#include "base/embedded.h"

#include <stdint.h>
#include <zlib.h>

int tn_embedded_inflate(const struct tn_embedded *f, struct tn_buf *out, struct tn_error *err)
{
    unsigned char room[8 << 10];
    z_stream z = {.next_in = (unsigned char *)(uintptr_t)f->bytes, .avail_in = (uInt)f->size};
    int status = inflateInit2(&z, 16 + MAX_WBITS), put = 0;

    while (status == Z_OK && put == 0) {
        z.next_out = room;
        z.avail_out = sizeof room;
        status = inflate(&z, Z_NO_FLUSH);
        put = tn_buf_add(out, room, sizeof room - z.avail_out);
    }
    inflateEnd(&z);
    if (put < 0 || status != Z_STREAM_END)
        return tn_fail(err, TN_E_INTERNAL, "inflate %s: %d", f->name, status);
    return 0;
}
