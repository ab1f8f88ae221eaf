#include "cli/record.h"

#include <time.h>

#include "cli/style.h"
#include "runtime/record-json.h"

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

int print_new(struct cli *cli, struct tn_sandbox *sb, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    const struct tn_record *r = tn_sandbox_record(sb);
    struct tn_jw w = tn_jw(&text);

    if (cli->json) {
        tn_jw_object(&w);
        tn_record_put(r, &w);
        tn_jw_object_end(&w);
    } else {
        tn_buf_puts(&text, record_label(r));
    }
    return cli_print(&text, err);
}
