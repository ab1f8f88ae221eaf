/* The two kinds of streams that engines send: framed output, and JSON line by line. */
#ifndef TN_ENGINE_STREAM_H
#define TN_ENGINE_STREAM_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "engine/engine.h"

/* Output of a container without terminal: frames of stream number, three zeros, length (big
 * endian), bytes. */
struct engine_frames {
    unsigned char head[8];
    size_t have;   /* of head */
    uint32_t left; /* of the frame that has begun */
    bool broken;   /* not frames at all */
    tn_engine_output_fn fn;
    void *ctx;
};

/* A tn_web_sink_fn; ctx is a struct engine_frames.  Non-zero when fn said so, or broken. */
int engine_frames_take(const void *bytes, size_t n, void *frames);

/* Objects, one per line.  A line that is no JSON ends the stream with an error. */
struct engine_lines {
    struct tn_buf line;
    int (*fn)(const struct tn_json *object, void *ctx, struct tn_error *err); /* non-zero stops */
    void *ctx;
    bool failed; /* err is filled */
    struct tn_error err;
};
#define ENGINE_LINE_MAX (4u << 20)

/* A tn_web_sink_fn; ctx is a struct engine_lines, whose line has its maximum. */
int engine_lines_take(const void *bytes, size_t n, void *lines);
/* After the last byte: a last line without its end. */
int engine_lines_end(struct engine_lines *l);

#endif
