#include "cli/record.h"

#include <time.h>

#include "cli/style.h"

const char *record_label(const struct tn_record *r)
{
    return r->name ? r->name : r->id;
}

const char *status_word(enum tn_status status)
{
    return tn_status_words[status];
}

const char *status_style(enum tn_status status)
{
    static const char *const styles[] = {
        [TN_STATUS_STARTING] = STYLE_CYAN, [TN_STATUS_RUNNING] = STYLE_GREEN,
        [TN_STATUS_PAUSED] = STYLE_YELLOW, [TN_STATUS_STOPPED] = STYLE_DIM,
        [TN_STATUS_SUSPENDED] = STYLE_DIM, [TN_STATUS_ERROR] = STYLE_RED,
        [TN_STATUS_MISSING] = STYLE_RED,
    };

    return styles[status];
}

double seconds_since(double time)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    double age = (double)now.tv_sec + (double)now.tv_nsec / 1e9 - time;
    return age > 0 ? age : 0;
}

void put_raw(struct tn_jw *w, const char *key, const char *json)
{
    tn_jw_key(w, key);
    if (json)
        tn_jw_raw(w, json, strlen(json));
    else
        tn_jw_null(w);
}

void put_record(struct tn_jw *w, const struct tn_record *r)
{
    tn_jw_kstr(w, "id", r->id);
    tn_jw_kstr(w, "name", r->name);
    tn_jw_kstr(w, "runtime", r->runtime);
    tn_jw_kstr(w, "status", status_word(r->status));
    tn_jw_kstr(w, "reason", r->reason);
    tn_jw_kdouble(w, "created", r->created);
    tn_jw_kdouble(w, "used", r->used);
    tn_jw_kdouble(w, "lease", r->lease);
    tn_jw_kstr(w, "parent", r->parent);
    tn_jw_key(w, "owner");
    if (r->owner.pid)
        tn_jw_int(w, r->owner.pid);
    else
        tn_jw_null(w);
}

static void put_amount(struct tn_jw *w, const char *key, int64_t value)
{
    if (value < 0)
        tn_jw_knull(w, key);
    else
        tn_jw_kint(w, key, value);
}

void put_usage(struct tn_jw *w, const struct tn_usage *u)
{
    put_amount(w, "memory", u->memory);
    put_amount(w, "memory_peak", u->memory_peak);
    put_amount(w, "disk", u->disk);
    if (u->cpu_seconds < 0)
        tn_jw_knull(w, "cpu_seconds");
    else
        tn_jw_kdouble(w, "cpu_seconds", u->cpu_seconds);
    put_amount(w, "processes", u->processes);
}

int print_new(struct cli *cli, struct tn_sandbox *sb, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    const struct tn_record *r = tn_sandbox_record(sb);
    struct tn_jw w = tn_jw(&text);

    if (cli->json) {
        tn_jw_object(&w);
        put_record(&w, r);
        put_raw(&w, "isolation", r->isolation);
        tn_jw_object_end(&w);
    } else {
        tn_buf_puts(&text, record_label(r));
    }
    return cli_print(&text, err);
}
