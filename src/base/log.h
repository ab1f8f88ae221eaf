/* The log: one line per event on a descriptor, as text or as JSON.
 *
 *     tn_log(TN_LOG_INFO, "request", tn_log_str("path", path), tn_log_int("status", 200));
 *
 * A line is always one line: control bytes are escaped.  It is at most 4096 bytes (values are
 * shortened to fit) and leaves in one write(2), so lines of threads and of processes that share a
 * pipe never mix.  A reader that does not read cannot stop the program: after 0.1 s lines are
 * dropped and counted, and the next line that gets through says how many.  Registered secrets are
 * replaced by ******** everywhere.  Not for use in signal handlers or between fork and exec. */
#ifndef TN_BASE_LOG_H
#define TN_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tn_log_level {
    TN_LOG_DEBUG,
    TN_LOG_INFO,
    TN_LOG_WARN,
    TN_LOG_ERROR,
};

struct tn_log_field {
    enum { TN_LOG_NOTHING, TN_LOG_TEXT, TN_LOG_INTEGER, TN_LOG_REAL, TN_LOG_TRUTH } kind;
    const char *key;
    union {
        const char *text;
        int64_t integer;
        double real;
        bool truth;
    };
};

/* Where lines go (the descriptor is borrowed), the least level that is written, and JSON or text.
 * Before this call: standard error, info, text.  May be called again at any time. */
void tn_log_init(int fd, enum tn_log_level least, bool json);
/* Forgets all secrets and returns to the state before tn_log_init. */
void tn_log_done(void);

/* The value of the variable LOG_JSON: "1", "true" in any case, as the original reads it. */
bool tn_log_json_wanted(const char *value);

/* Never show this value again.  Values shorter than 4 bytes are not registered: hiding them would
 * only make the log unreadable.  -1 when the registry is full. */
int tn_log_secret(const char *value);

bool tn_log_enabled(enum tn_log_level level);

/* Evaluates the fields only when the level is written. */
#define tn_log(level, message, ...)                                                            \
    do {                                                                                       \
        if (tn_log_enabled(level)) {                                                           \
            const struct tn_log_field fields_[] = {{.kind = TN_LOG_NOTHING}, ##__VA_ARGS__};   \
            tn_log_write(level, message, fields_ + 1, sizeof fields_ / sizeof fields_[0] - 1); \
        }                                                                                      \
    } while (0)

void tn_log_write(enum tn_log_level level, const char *message, const struct tn_log_field *fields,
                  size_t count);

static inline struct tn_log_field tn_log_str(const char *key, const char *text)
{
    return (struct tn_log_field){.kind = TN_LOG_TEXT, .key = key, .text = text};
}

static inline struct tn_log_field tn_log_int(const char *key, int64_t integer)
{
    return (struct tn_log_field){.kind = TN_LOG_INTEGER, .key = key, .integer = integer};
}

static inline struct tn_log_field tn_log_double(const char *key, double real)
{
    return (struct tn_log_field){.kind = TN_LOG_REAL, .key = key, .real = real};
}

static inline struct tn_log_field tn_log_bool(const char *key, bool truth)
{
    return (struct tn_log_field){.kind = TN_LOG_TRUTH, .key = key, .truth = truth};
}

#endif
