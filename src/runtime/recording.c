#include "runtime/recording.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "event/action.h"
#include "event/journal.h"

/* A whole session with its pictures; the tree of it has its own limit. */
#define FILE_MAX_BYTES ((size_t)1 << 30)

void tn_recording_done(struct tn_recording *r)
{
    for (size_t i = 0; i < r->event_count; i++)
        tn_json_free(r->events[i]);
    free(r->events);
    free(r->steps);
    *r = (struct tn_recording){0};
}

/* --- events ----------------------------------------------------------------------------------- */

/* Takes a reference of its own.  What is no event is left out. */
static void add_event(struct tn_recording *r, struct tn_json *event)
{
    if (tn_event_kind(event) == TN_EVENT_NONE)
        return;
    if ((r->event_count & (r->event_count - 1)) == 0) {
        size_t room = r->event_count ? 2 * r->event_count : 1;
        r->events = tn_realloc(r->events, room * sizeof(r->events[0]));
    }
    r->events[r->event_count++] = tn_json_ref(event);
}

static int add_text(struct tn_recording *r, const char *text, size_t n, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;

    if (tn_json_parse(text, n, &tree, err))
        return -1;
    add_event(r, tree);
    return 0;
}

static void add_list(struct tn_recording *r, const struct tn_json *list)
{
    for (size_t i = 0; i < tn_json_count(list); i++) {
        struct tn_json *item = tn_json_at(list, i);
        if (tn_json_type(item) != TN_JSON_ARRAY) {
            add_event(r, item);
            continue;
        }
        for (size_t k = 0; k < tn_json_count(item); k++)
            add_event(r, tn_json_at(item, k));
    }
}

/* --- which answers which ---------------------------------------------------------------------- */

static bool is_runnable(const struct tn_json *event)
{
    enum tn_action_type type;

    return tn_event_kind(event) == TN_EVENT_ACTION &&
           !tn_action_type_from_name(tn_json_get_str(event, "action", ""), &type, NULL) &&
           tn_action_runnable(type);
}

static int64_t member(const struct tn_json *event, const char *key)
{
    return tn_json_int(tn_json_get(event, key), -1);
}

/* The step that an observation answers, or NULL.  By its cause, which is nearly always the latest;
 * recordings without ids are in the order of their making. */
static struct tn_recorded_step *find_step(struct tn_recording *r, const struct tn_json *observation)
{
    int64_t cause = member(observation, "cause");

    for (size_t i = r->step_count; i-- > 0;)
        if (cause < 0 || member(r->steps[i].action, "id") == cause)
            return &r->steps[i];
    return NULL;
}

static int pair(struct tn_recording *r, struct tn_error *err)
{
    r->steps = tn_calloc(r->event_count, sizeof *r->steps);
    for (size_t i = 0; i < r->event_count; i++) {
        struct tn_json *event = r->events[i];
        if (is_runnable(event)) {
            r->steps[r->step_count++].action = event;
        } else if (tn_event_kind(event) == TN_EVENT_OBSERVATION) {
            struct tn_recorded_step *step = find_step(r, event);
            if (step && !step->observation)
                step->observation = event;
        }
    }
    if (r->event_count == 0)
        return tn_fail(err, TN_E_INVALID, "there are no events in it");
    return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static bool is_blank(const char *text, size_t n)
{
    while (n && strchr(" \t\r", text[n - 1]) && text[n - 1])
        n--;
    return n == 0;
}

static int add_lines(struct tn_recording *r, const char *text, size_t n, struct tn_error *err)
{
    const char *end = text + n;

    for (int64_t number = 1; text < end; number++) {
        const char *lf = memchr(text, '\n', (size_t)(end - text));
        size_t len = (size_t)((lf ? lf : end) - text);
        if (!is_blank(text, len) && add_text(r, text, len, err))
            return tn_error_context(err, "line %lld", (long long)number);
        text += len + (lf != NULL);
    }
    return 0;
}

static int add_file(struct tn_recording *r, const char *text, size_t n, struct tn_error *err)
{
    static const char *const lists[] = {"history", "trajectory", "events"};
    tn_autojson struct tn_json *tree = NULL;
    const char *first_line = memchr(text, '\n', n);

    /* A list, or one object; several lines with an object each are no JSON text. */
    if (tn_json_parse(text, n, &tree, err))
        return first_line ? add_lines(r, text, n, err) : -1;
    add_event(r, tree);
    if (tn_json_type(tree) == TN_JSON_ARRAY)
        add_list(r, tree);
    for (size_t i = 0; i < TN_COUNT(lists) && r->event_count == 0; i++)
        add_list(r, tn_json_get(tree, lists[i]));
    return 0;
}

int tn_recording_parse(const char *text, size_t n, struct tn_recording *out, struct tn_error *err)
{
    *out = (struct tn_recording){0};
    if (!add_file(out, text, n, err) && !pair(out, err))
        return 0;
    tn_recording_done(out);
    return -1;
}

/* --- directories ------------------------------------------------------------------------------ */

static int add_journal(struct tn_recording *r, const char *directory, struct tn_error *err)
{
    tn_autojournalreader struct tn_journal_reader *reader =
        tn_journal_reader_new(directory, 0, err);
    struct tn_journal_event event;
    int found = reader ? 0 : -1;

    while (reader && (found = tn_journal_next(reader, &event, err)) == 1)
        if (add_text(r, event.json, event.len, err))
            return -1;
    return found;
}

/* Numbers of the files N.json, in order. */
static int list_ids(int directory, struct tn_int_list *out, struct tn_error *err)
{
    tn_autofd int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!dir)
        return tn_fail_errno(err, errno, "events");
    fd = -1;
    while ((entry = readdir(dir))) {
        char *rest;
        errno = 0;
        long long id = strtoll(entry->d_name, &rest, 10);
        if (errno || rest == entry->d_name || id < 0 || strcmp(rest, ".json") != 0)
            continue;
        out->items = tn_realloc(out->items, (out->count + 1) * sizeof *out->items);
        out->items[out->count++] = id;
    }
    closedir(dir);
    return 0;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static int add_event_files(struct tn_recording *r, int directory, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TN_EVENT_MAX);
    struct tn_int_list ids = {0};
    int failed = list_ids(directory, &ids, err);

    if (!failed && ids.count)
        qsort(ids.items, ids.count, sizeof *ids.items, by_number);
    for (size_t i = 0; !failed && i < ids.count; i++) {
        char name[32];
        snprintf(name, sizeof name, "%lld.json", (long long)ids.items[i]);
        tn_buf_reset(&text);
        failed =
            tn_fs_read(directory, name, &text, err) || add_text(r, tn_buf_str(&text), text.len, err)
                ? tn_error_context(err, "events/%s", name)
                : 0;
    }
    free(ids.items);
    return failed;
}

static int add_directory(struct tn_recording *r, const char *path, struct tn_error *err)
{
    tn_autofree char *log = tn_asprintf("%s/" TN_JOURNAL_LOG, path);
    tn_autofree char *events = tn_asprintf("%s/events", path);

    if (!access(log, F_OK))
        return add_journal(r, path, err);
    tn_autofd int fd = open(events, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return tn_fail(err, TN_E_NOT_FOUND, "neither " TN_JOURNAL_LOG " nor events/ is in it");
    return add_event_files(r, fd, err);
}

static int add_path(struct tn_recording *r, const char *path, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(FILE_MAX_BYTES);
    struct stat st;
    size_t n = strlen(path), log = strlen("/" TN_JOURNAL_LOG);

    if (stat(path, &st))
        return tn_fail_errno(err, errno, "cannot read it");
    if (S_ISDIR(st.st_mode))
        return add_directory(r, path, err);
    if (n > log && strcmp(path + n - log, "/" TN_JOURNAL_LOG) == 0) {
        tn_autofree char *directory = tn_strndup(path, n - log);
        return add_journal(r, directory, err);
    }
    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, err))
        return -1;
    return add_file(r, tn_buf_str(&text), text.len, err);
}

int tn_recording_load(const char *path, struct tn_recording *out, struct tn_error *err)
{
    *out = (struct tn_recording){0};
    if (!add_path(out, path, err) && !pair(out, err))
        return 0;
    tn_recording_done(out);
    return tn_error_context(err, "%s", path);
}
