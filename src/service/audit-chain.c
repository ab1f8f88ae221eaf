/* A line is BODY,"hash":"HASH"} and a line break; HASH is SHA-256 over the hash of the line before,
 * BODY and }.  Everything but BODY is compared byte by byte, so no byte can change unnoticed, and
 * nothing is parsed. */
#include "service/audit-chain.h"

#include <inttypes.h>
#include <time.h>

#include "base/fs.h"
#include "base/json.h"
#include "base/sha256.h"

#define HASH_KEY ",\"hash\":\""
#define LINE_END "\"}\n"

enum {
    TAIL = sizeof HASH_KEY - 1 + AUDIT_HASH + sizeof LINE_END - 1, /* all after BODY */
    /* Escaped six times longer at worst, all of them still fit into AUDIT_LINE_MAX. */
    WORD_MAX = 64,
    DETAIL_MAX = 1024,
};

static void chain_hash(const char *before, const char *body, size_t n, char out[AUDIT_HASH + 1])
{
    struct tn_sha256 h;

    tn_sha256_init(&h);
    tn_sha256_add(&h, before, strlen(before));
    tn_sha256_add(&h, body, n);
    tn_sha256_add(&h, "}", 1);
    tn_sha256_end_hex(&h, out);
}

static void put_text(struct tn_jw *w, const char *key, const char *text, size_t most)
{
    tn_jw_key(w, key);
    if (text)
        tn_jw_strn(w, text, strnlen(text, most));
    else
        tn_jw_null(w);
}

/* What every line has; the rest of it is the hash. */
static void put_body(int64_t n, const struct audit_entry *e, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);
    struct timespec now;
    struct tm utc;
    char time[48];

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t len = strftime(time, sizeof time, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(time + len, sizeof time - len, ".%06ldZ", now.tv_nsec / 1000);

    tn_jw_object(&w);
    tn_jw_kint(&w, "n", n);
    tn_jw_kstr(&w, "time", time);
    tn_jw_kstr(&w, "key", e->who ? e->who->key_id : NULL);
    tn_jw_kstr(&w, "tenant", e->who ? e->who->tenant : NULL);
    put_text(&w, "what", e->what, WORD_MAX);
    put_text(&w, "box", e->box, WORD_MAX);
    put_text(&w, "result", e->result, WORD_MAX);
    put_text(&w, "request_id", e->request_id, WORD_MAX);
    put_text(&w, "detail", e->detail, DETAIL_MAX);
}

int audit_chain_add(struct audit_place *at, const struct audit_entry *e, struct tn_buf *out,
                    struct tn_error *err)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(AUDIT_LINE_MAX);
    char hash[AUDIT_HASH + 1];

    put_body(at->n + 1, e, &line);
    chain_hash(at->hash, tn_buf_str(&line), line.len, hash);
    if (tn_buf_printf(&line, HASH_KEY "%s" LINE_END, hash) || out->len + line.len > out->max)
        return tn_fail(err, TN_E_BUSY, "audit log: too much waits to be written");
    tn_buf_add(out, line.data, line.len);
    at->n++;
    at->offset += (int64_t)line.len;
    memcpy(at->hash, hash, sizeof hash);
    return 0;
}

/* line has n bytes, the last of them a line break. */
static int check_line(struct audit_place *at, const char *line, size_t n, struct tn_error *err)
{
    char start[32], hash[AUDIT_HASH + 1];
    int start_len = snprintf(start, sizeof start, "{\"n\":%" PRId64 ",", at->n + 1);
    const char *tail = line + n - TAIL;

    if (n < TAIL + (size_t)start_len || memcmp(line, start, (size_t)start_len))
        return tn_fail(err, TN_E_CONFLICT,
                       "audit log: after line %" PRId64 " comes something else than line %" PRId64,
                       at->n, at->n + 1);
    chain_hash(at->hash, line, n - TAIL, hash);
    if (memcmp(tail, HASH_KEY, sizeof HASH_KEY - 1) ||
        memcmp(tail + sizeof HASH_KEY - 1, hash, AUDIT_HASH) ||
        memcmp(line + n - (sizeof LINE_END - 1), LINE_END, sizeof LINE_END - 1))
        return tn_fail(err, TN_E_CONFLICT,
                       "audit log: line %" PRId64 " was changed, or the lines before it",
                       at->n + 1);
    at->n++;
    at->offset += (int64_t)n;
    memcpy(at->hash, hash, sizeof hash);
    return 0;
}

int audit_chain_walk(int fd, struct audit_place *at, int64_t last, struct tn_error *err)
{
    enum { WINDOW = 4 * AUDIT_LINE_MAX };
    tn_autofree char *window = tn_malloc(WINDOW);
    size_t have = 0;

    while (!last || at->n < last) {
        ssize_t got = pread(fd, window + have, WINDOW - have, at->offset + (int64_t)have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tn_fail_errno(err, errno, "audit log");
        size_t done = 0;
        have += (size_t)got;
        for (const char *lf;
             (!last || at->n < last) && (lf = memchr(window + done, '\n', have - done));) {
            size_t n = (size_t)(lf + 1 - (window + done));
            if (check_line(at, window + done, n, err))
                return -1;
            done += n;
        }
        if (got == 0 && !done)
            return have > 0;
        if (!done && have > AUDIT_LINE_MAX)
            return tn_fail(err, TN_E_CONFLICT, "audit log: line %" PRId64 " is too long",
                           at->n + 1);
        memmove(window, window + done, have -= done);
    }
    return 0;
}

int audit_chain_ends(int fd, const struct audit_place *at, struct tn_error *err)
{
    enum { END = AUDIT_HASH + sizeof LINE_END - 1 };
    char text[END];

    if (at->offset < END || pread(fd, text, END, at->offset - END) != END ||
        memcmp(text, at->hash, AUDIT_HASH) || memcmp(text + AUDIT_HASH, LINE_END, END - AUDIT_HASH))
        return tn_fail(err, TN_E_CONFLICT,
                       "audit log: line %" PRId64 " is not where it was written", at->n);
    return 0;
}

/* --- the head --------------------------------------------------------------------------------- */

static int take_head(const struct tn_db_row *row, void *ctx)
{
    struct audit_place *at = ctx;
    const char *text = tn_db_text(row, 0);
    char *end = NULL;

    at->n = strtoll(text, &end, 10);
    at->offset = strtoll(end, &end, 10);
    if (*end == ' ' && strlen(end + 1) == AUDIT_HASH)
        memcpy(at->hash, end + 1, sizeof at->hash);
    else
        at->n = 0;
    return 0;
}

int audit_head_read(struct tn_db *db, struct audit_place *out, struct tn_error *err)
{
    *out = (struct audit_place){0};
    int rows = tn_db_each(db, take_head, out, err, "SELECT value FROM setting WHERE name = ?", "t",
                          "audit-head");

    if (rows > 0 && (out->n <= 0 || out->offset <= 0))
        return tn_fail(err, TN_E_CONFLICT, "audit log: the head in the database makes no sense");
    return rows;
}

int audit_head_write(struct tn_db *db, const struct audit_place *at, struct tn_error *err)
{
    char text[128];

    snprintf(text, sizeof text, "%" PRId64 " %" PRId64 " %s", at->n, at->offset, at->hash);
    return tn_db_run(db, err,
                     "INSERT INTO setting (name, value) VALUES (?, ?)"
                     " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                     "tt", "audit-head", text) < 0
               ? -1
               : 0;
}
