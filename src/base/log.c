#include "base/log.h"

#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <strings.h>
#include <time.h>

#include "base/json.h"
#include "base/log-secret.h"
#include "base/utc.h"
#include "base/utf8.h"

#define LINE_BYTES PIPE_BUF /* a write of this size to a pipe is never split */
#define PATIENCE_MS 100

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = STDERR_FILENO;
static bool as_json;
static uint64_t lost;
static atomic_int least_level = TN_LOG_INFO;

static const char *const level_names[] = {
    [TN_LOG_DEBUG] = "debug",
    [TN_LOG_INFO] = "info",
    [TN_LOG_WARN] = "warn",
    [TN_LOG_ERROR] = "error",
};

void tn_log_init(int fd, enum tn_log_level least, bool json)
{
    pthread_mutex_lock(&lock);
    log_fd = fd;
    as_json = json;
    lost = 0;
    pthread_mutex_unlock(&lock);
    atomic_store(&least_level, (int)least);
}

void tn_log_done(void)
{
    tn_log_init(STDERR_FILENO, TN_LOG_INFO, false);
    pthread_mutex_lock(&lock);
    tn_log_secret_clear();
    pthread_mutex_unlock(&lock);
}

bool tn_log_json_wanted(const char *value)
{
    return value && (strcmp(value, "1") == 0 || strcasecmp(value, "true") == 0);
}

int tn_log_secret(const char *value)
{
    pthread_mutex_lock(&lock);
    int result = tn_log_secret_add(value);
    pthread_mutex_unlock(&lock);
    return result;
}

bool tn_log_enabled(enum tn_log_level level)
{
    return (int)level >= atomic_load_explicit(&least_level, memory_order_relaxed);
}

/* Text with everything that could move the cursor or end the line written as \n, \x1b, ... */
static void put_escaped(struct tn_buf *line, const char *s, size_t n)
{
    static const char names[256] = {['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't', ['\\'] = '\\'};

    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        unsigned char c = (unsigned char)s[i];
        size_t width = tn_utf8_decode(s + i, n - i, &cp);
        bool control = width == 0 || cp < 0x20 || (cp >= 0x7f && cp < 0xa0);
        if (names[c])
            tn_buf_printf(line, "\\%c", names[c]);
        else if (cp == 0x2028 || cp == 0x2029)
            tn_buf_printf(line, "\\u%04x", cp);
        else if (control)
            for (size_t k = 0; k < (width ? width : 1); k++)
                tn_buf_printf(line, "\\x%02x", (unsigned char)s[i + k]);
        else
            tn_buf_add(line, s + i, width);
        i += width ? width : 1;
    }
}

static bool needs_quotes(const char *s, size_t n)
{
    return n == 0 || memchr(s, ' ', n) || memchr(s, '=', n) || memchr(s, '"', n);
}

/* A value is quoted when it would be hard to tell where it ends; a quote inside becomes \". */
static void put_text_value(struct tn_buf *line, const char *s, size_t n)
{
    if (!needs_quotes(s, n)) {
        put_escaped(line, s, n);
        return;
    }
    tn_buf_putc(line, '"');
    while (n > 0) {
        const char *quote = memchr(s, '"', n);
        size_t run = quote ? (size_t)(quote - s) : n;
        put_escaped(line, s, run);
        if (quote)
            tn_buf_puts(line, "\\\"");
        s += run + (quote != NULL);
        n -= run + (quote != NULL);
    }
    tn_buf_putc(line, '"');
}

static void put_field(struct tn_buf *line, const char *key, const struct tn_buf *value, bool bare)
{
    if (as_json) {
        struct tn_jw w = {.out = line, .comma = true};
        tn_jw_key(&w, key);
        if (bare)
            tn_jw_raw(&w, tn_buf_str(value), value->len);
        else
            tn_jw_strn(&w, tn_buf_str(value), value->len);
    } else if (key[0]) {
        tn_buf_printf(line, " %s=", key);
        put_text_value(line, tn_buf_str(value), value->len);
    } else {
        tn_buf_putc(line, ' ');
        put_escaped(line, tn_buf_str(value), value->len);
    }
}

/* The field in as much of its length as the line still holds. */
static void put_field_fitting(struct tn_buf *line, const char *key, struct tn_buf *value, bool bare)
{
    const size_t room = LINE_BYTES - sizeof "}\n" + 1, before = line->len;
    size_t keep = value->len;

    for (;;) {
        put_field(line, key, value, bare);
        if (tn_buf_ok(line) && line->len <= room)
            return;
        line->failed = false;
        tn_buf_cut(line, before);
        if (keep == 0)
            return;
        keep /= 2;
        while (keep > 0 && (value->data[keep] & 0xc0) == 0x80)
            keep--;
        tn_buf_cut(value, keep);
        value->failed = false;
        tn_buf_puts(value, "...");
        bare = false;
    }
}

static void field_text(const struct tn_log_field *f, struct tn_buf *out)
{
    char number[32];

    switch (f->kind) {
    case TN_LOG_NOTHING:
        break;
    case TN_LOG_TEXT:
        tn_log_secret_mask(out, f->text ? f->text : "(none)", f->text ? strlen(f->text) : 6);
        return;
    case TN_LOG_INTEGER:
        snprintf(number, sizeof number, "%lld", (long long)f->integer);
        tn_log_secret_mask(out, number, strlen(number));
        return;
    case TN_LOG_REAL:
        tn_format_double(number, f->real);
        tn_log_secret_mask(out, number, strlen(number));
        return;
    case TN_LOG_TRUTH:
        tn_buf_puts(out, f->truth ? "true" : "false");
        return;
    }
}

/* A number or truth value that JSON can show as such; a masked one or "nan" it cannot. */
static bool is_bare(const struct tn_log_field *f, const struct tn_buf *value)
{
    return f->kind == TN_LOG_TRUTH || ((f->kind == TN_LOG_INTEGER || f->kind == TN_LOG_REAL) &&
                                       !strpbrk(tn_buf_str(value), "*n"));
}

static void add_field(struct tn_buf *line, const struct tn_log_field *f)
{
    tn_autobuf struct tn_buf value = TN_BUF_INIT(LINE_BYTES + 3);
    field_text(f, &value);
    put_field_fitting(line, f->key, &value, is_bare(f, &value));
}

static void start_line(struct tn_buf *line, enum tn_log_level level)
{
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    tn_utc(now.tv_sec, &utc);
    tn_buf_puts(line, as_json ? "{\"timestamp\":\"" : "");
    tn_buf_printf(line, "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ", utc.tm_year + 1900, utc.tm_mon + 1,
                  utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now.tv_nsec / 1000000);
    tn_buf_printf(line, as_json ? "\",\"level\":\"%s\"" : " %-5s", level_names[level]);
}

/* False when nobody takes it: the descriptor is full, or broken. */
static bool send_line(const char *s, size_t n)
{
    struct pollfd p = {.fd = log_fd, .events = POLLOUT};
    int ready = poll(&p, 1, lost ? 0 : PATIENCE_MS);

    if (ready < 0 && errno == EINTR)
        ready = poll(&p, 1, 0);
    return ready > 0 && p.revents == POLLOUT && write(log_fd, s, n) == (ssize_t)n;
}

void tn_log_write(enum tn_log_level level, const char *message, const struct tn_log_field *fields,
                  size_t count)
{
    int saved = errno;
    /* Escapes make a value up to six times as long before it is cut to fit. */
    tn_autobuf struct tn_buf line = TN_BUF_INIT(8 * LINE_BYTES);

    pthread_mutex_lock(&lock);
    start_line(&line, level);
    struct tn_log_field text = tn_log_str(as_json ? "message" : "", message);
    add_field(&line, &text);
    for (size_t i = 0; i < count; i++)
        add_field(&line, &fields[i]);
    if (lost) {
        struct tn_log_field missing = tn_log_int("lost_lines", (int64_t)lost);
        add_field(&line, &missing);
    }
    tn_buf_puts(&line, as_json ? "}\n" : "\n");
    lost = send_line(line.data, line.len) ? 0 : lost + 1;
    pthread_mutex_unlock(&lock);
    errno = saved;
}
