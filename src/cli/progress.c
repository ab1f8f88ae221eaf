#include "cli/progress.h"

#include <pthread.h>
#include <sys/ioctl.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cli/clean.h"
#include "cli/units.h"

#define FIRST (1 * TN_SECOND)
#define EVERY (150 * TN_MILLI)

enum { BAR = 24, LINE_MAX_BYTES = 512 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool allowed, active, drawn;
    pthread_t thread;
    int64_t since;
    char what[128], detail[256];
    int64_t done, total, files; /* done -1: not about bytes */
} p = {.lock = PTHREAD_MUTEX_INITIALIZER};

void progress_allow(bool allowed)
{
    p.allowed = allowed && isatty(STDERR_FILENO);
    tn_cond_init(&p.changed);
}

static void wipe(void)
{
    if (p.drawn)
        fputs("\r\033[K", stderr);
    p.drawn = false;
}

static size_t columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

static void put_bar(struct tn_buf *line)
{
    int full = (int)(p.done * BAR / (p.total > p.done ? p.total : p.done));

    tn_buf_puts(line, " [");
    for (int i = 0; i < BAR; i++)
        tn_buf_putc(line, i < full ? '#' : '.');
    tn_buf_printf(line, "] %3d%%", (int)(p.done * 100 / (p.total > p.done ? p.total : p.done)));
}

static void put_amounts(struct tn_buf *line)
{
    double elapsed = (double)(tn_now() - p.since) / 1e9;
    char text[32];

    if (p.total > 0)
        put_bar(line);
    tn_buf_printf(line, " %s", format_bytes(p.done, text));
    if (p.files > 1)
        tn_buf_printf(line, ", %lld files", (long long)p.files);
    tn_buf_printf(line, ", %s/s", format_bytes((int64_t)((double)p.done / elapsed), text));
}

/* One line of printable characters that fits the terminal. */
static void draw(void)
{
    tn_autobuf struct tn_buf line = TN_BUF_INIT(4 * LINE_MAX_BYTES);
    int width;

    tn_buf_puts(&line, p.what);
    if (p.done >= 0)
        put_amounts(&line);
    else if (*p.detail)
        tn_buf_printf(&line, ": %s", p.detail);
    tn_buf_printf(&line, " (%lld s)", (long long)((tn_now() - p.since) / TN_SECOND));
    tn_autofree char *safe = clean_text(tn_buf_str(&line), (int)columns() - 1, &width);
    fprintf(stderr, "\r%s\033[K", safe);
    p.drawn = true;
}

static void *redraw(void *arg)
{
    int64_t next = p.since + FIRST;

    pthread_mutex_lock(&p.lock);
    while (p.active) {
        struct timespec until = tn_timespec(next);
        pthread_cond_timedwait(&p.changed, &p.lock, &until);
        if (p.active && tn_now() >= next) {
            draw();
            next = tn_now() + EVERY;
        }
    }
    pthread_mutex_unlock(&p.lock);
    return NULL;
}

void progress_begin(const char *what)
{
    progress_end();
    if (!p.allowed)
        return;
    snprintf(p.what, sizeof p.what, "%s", what);
    p.detail[0] = '\0';
    p.done = p.total = -1;
    p.files = 0;
    p.since = tn_now();
    p.active = true;
    if (tn_thread_start(&p.thread, redraw, NULL) != 0)
        p.active = false;
}

void progress_end(void)
{
    pthread_mutex_lock(&p.lock);
    bool was = p.active;
    p.active = false;
    if (was)
        pthread_cond_broadcast(&p.changed);
    wipe();
    pthread_mutex_unlock(&p.lock);
    if (was)
        pthread_join(p.thread, NULL);
}

void progress_say(const char *text, void *ctx)
{
    pthread_mutex_lock(&p.lock);
    snprintf(p.detail, sizeof p.detail, "%s", text);
    pthread_mutex_unlock(&p.lock);
}

void progress_bytes(int64_t done, int64_t total, int64_t files)
{
    if (!p.allowed)
        return;
    pthread_mutex_lock(&p.lock);
    p.done = done;
    p.total = total;
    p.files = files;
    pthread_mutex_unlock(&p.lock);
}

void progress_pause(void)
{
    pthread_mutex_lock(&p.lock);
    wipe();
    pthread_mutex_unlock(&p.lock);
}
