#include "cli/processes.h"

#include <ctype.h>
#include <sys/mman.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fs.h"
#include "runtime/hand-files.h"

/* Of every Linux a program of ours runs on. */
enum { TICKS = 100, PAGE = 4096 };

struct reader {
    struct tn_hand_files *files;
    struct processes *list;
    int64_t deadline;
    int scratch; /* a file in memory: what was fetched last */
};

void processes_done(struct processes *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].command);
    free(list->items);
    *list = (struct processes){0};
}

static int fetch(struct reader *r, const char *path, struct tn_buf *out, struct tn_error *err)
{
    tn_buf_reset(out);
    if (ftruncate(r->scratch, 0) < 0 || lseek(r->scratch, 0, SEEK_SET) < 0)
        return tn_fail_errno(err, errno, "memfd");
    if (tn_hand_files_read(r->files, path, 0, -1, r->scratch, NULL, NULL, r->deadline, err) < 0)
        return -1;
    if (lseek(r->scratch, 0, SEEK_SET) < 0)
        return tn_fail_errno(err, errno, "memfd");
    return tn_fs_read_fd(r->scratch, out, err);
}

/* "pid (name) state parent ...": the name may hold anything, so it ends with the last bracket. */
static bool parse_stat(const char *text, struct process *p)
{
    const char *open = strchr(text, '('), *close = strrchr(text, ')');
    unsigned long user, system;
    long pages;

    if (!open || !close || close < open ||
        sscanf(close + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d"
               " %*u %*u %ld",
               &p->state, &p->parent, &user, &system, &pages) != 5)
        return false;
    p->pid = (int)strtol(text, NULL, 10);
    p->cpu_seconds = (double)(user + system) / TICKS;
    p->memory = (int64_t)pages * PAGE;
    p->command = tn_asprintf("[%.*s]", (int)(close - open - 1), open + 1);
    return true;
}

/* Arguments are separated by NUL bytes. */
static void use_cmdline(struct process *p, struct tn_buf *text)
{
    while (text->len && text->data[text->len - 1] == '\0')
        tn_buf_cut(text, text->len - 1);
    if (!text->len)
        return;
    for (size_t i = 0; i < text->len; i++)
        if (text->data[i] == '\0')
            text->data[i] = ' ';
    free(p->command);
    p->command = tn_strdup(tn_buf_str(text));
}

/* One that ends meanwhile is left out. */
static int read_process(const struct tn_entry *e, void *ctx, struct tn_error *err)
{
    struct reader *r = ctx;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(4 << 20);
    tn_autofree char *stat = tn_asprintf("/proc/%s/stat", e->name);
    tn_autofree char *cmdline = tn_asprintf("/proc/%s/cmdline", e->name);
    struct process p = {.uid = e->uid};
    struct tn_error why = {0};

    if (e->type != TN_ENTRY_DIRECTORY || !isdigit((unsigned char)e->name[0]))
        return 0;
    if (fetch(r, stat, &text, &why) < 0)
        return why.code == TN_E_PEER || why.code == TN_E_TIMEOUT ? (*err = why, -1) : 0;
    if (!parse_stat(tn_buf_str(&text), &p))
        return 0;
    if (fetch(r, cmdline, &text, NULL) == 0)
        use_cmdline(&p, &text);
    r->list->items = tn_realloc(r->list->items, (r->list->count + 1) * sizeof p);
    r->list->items[r->list->count++] = p;
    return 0;
}

static const struct process *find(const struct processes *list, int pid)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].pid == pid)
            return &list->items[i];
    return NULL;
}

static bool descends(const struct processes *list, const struct process *p, int root)
{
    for (size_t steps = 0; p && steps <= list->count; steps++) {
        if (p->parent == root)
            return true;
        p = find(list, p->parent);
    }
    return false;
}

static int by_pid(const void *a, const void *b)
{
    const struct process *x = a, *y = b;

    return (x->pid > y->pid) - (x->pid < y->pid);
}

/* Where nothing is isolated, /proc shows the processes of everybody. */
static void keep_descendants(struct processes *list, int root)
{
    tn_autofree bool *keep = tn_calloc(list->count, sizeof *keep);
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++)
        keep[i] = descends(list, &list->items[i], root);
    for (size_t i = 0; i < list->count; i++) {
        if (keep[i])
            list->items[kept++] = list->items[i];
        else
            free(list->items[i].command);
    }
    list->count = kept;
}

/* The hand shows nothing of itself but its number. */
static int read_all(struct reader *r, struct tn_error *err)
{
    tn_autoentry struct tn_entry self = {0};

    if (tn_hand_files_stat(r->files, "/proc/self", false, &self, r->deadline, err) < 0 ||
        tn_hand_files_list(r->files, "/proc", read_process, r, r->deadline, err) < 0)
        return -1;
    keep_descendants(r->list, self.target ? (int)strtol(self.target, NULL, 10) : 1);
    qsort(r->list->items, r->list->count, sizeof *r->list->items, by_pid);
    return 0;
}

int processes_read(struct processes *list, const char *address, const char *key, int64_t deadline,
                   struct tn_error *err)
{
    tn_autofiles struct tn_hand_files *files = tn_hand_files_new(address, key, err);
    tn_autofd int scratch = memfd_create("proc", MFD_CLOEXEC);
    struct reader r = {.files = files, .list = list, .deadline = deadline, .scratch = scratch};

    *list = (struct processes){0};
    if (!files)
        return -1;
    if (scratch < 0)
        return tn_fail_errno(err, errno, "memfd");
    return read_all(&r, err);
}
