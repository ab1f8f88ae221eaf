/* Task tracking: a list in Markdown in the directory of the session. */
#include "base/fs.h"
#include "runtime/setup/session-impl.h"

#define FILE_NAME "TASKS.md"
#define TASKS_MAX (4u << 20)

static const struct {
    const char *status, *icon;
} icons[] = {
    {"todo", "\u23f3"},
    {"in_progress", "\U0001f504"},
    {"done", "\u2705"},
};

static const char *icon_of(const char *status)
{
    for (size_t i = 0; i < TN_COUNT(icons); i++)
        if (strcmp(icons[i].status, status) == 0)
            return icons[i].icon;
    return icons[0].icon;
}

static void put_list(struct tn_buf *out, const struct tn_json *tasks)
{
    tn_buf_puts(out, "# Task List\n\n");
    for (size_t i = 0, n = tn_json_count(tasks); i < n; i++) {
        const struct tn_json *task = tn_json_at(tasks, i);
        tn_buf_printf(out, "%zu. %s %s\n%s\n", i + 1, icon_of(tn_json_get_str(task, "status", "")),
                      tn_json_get_str(task, "title", ""), tn_json_get_str(task, "notes", ""));
    }
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;

    return tn_fs_write(fd, tn_buf_str(text), text->len, err);
}

static void answer(struct tn_observation *o, const struct tn_action *action, bool with_list,
                   const char *text)
{
    struct tn_json *list = action->task_tracking.task_list;

    tn_observation_init(o, TN_OBSERVATION_TASK_TRACKING);
    free(o->task_tracking.command);
    o->task_tracking.command = tn_strdup(action->task_tracking.command);
    o->task_tracking.task_list = with_list && list ? tn_json_ref(list) : NULL;
    tn_observation_set_content(o, text);
}

static void plan(const struct tn_action *action, const char *path, struct tn_observation *o)
{
    const struct tn_json *list = action->task_tracking.task_list;
    const struct tn_fs_replace how = {.mode = 0600};
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TASKS_MAX);
    struct tn_error err = {0};

    put_list(&text, list);
    int result = tn_buf_ok(&text)
                     ? tn_fs_replace(TN_FS_ANYWHERE, path, &how, write_text, &text, &err)
                     : tn_fail(&err, TN_E_TOO_LARGE, "the list is too long");
    if (result < 0) {
        tn_observation_init_error(o, NULL, "Failed to write task list to session directory %s: %s",
                                  path, err.text);
        return;
    }
    tn_autofree char *done =
        tn_asprintf("Task list has been updated with %zu items. Stored in session directory: %s",
                    tn_json_count(list), path);
    answer(o, action, true, done);
}

static void view(const struct tn_action *action, const char *path, struct tn_observation *o)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(TASKS_MAX);
    struct tn_error err = {0};

    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, &err) == 0) {
        answer(o, action, false, tn_buf_str(&text));
    } else if (err.code == TN_E_NOT_FOUND) {
        answer(o, action, false, "No task list found. Use the \"plan\" command to create one.");
    } else {
        tn_autofree char *why = tn_asprintf(
            "Failed to read the task list from session directory %s. Error: %s", path, err.text);
        answer(o, action, false, why);
    }
}

static const struct {
    const char *command;
    void (*run)(const struct tn_action *action, const char *path, struct tn_observation *o);
} commands[] = {{"plan", plan}, {"view", view}};

void session_track_tasks(struct tn_session *s, const struct tn_action *action,
                         struct tn_observation *o)
{
    const char *command = action->task_tracking.command ? action->task_tracking.command : "";

    if (!s->directory) {
        tn_observation_init_error(o, NULL, "This session has no directory for a task list.");
        return;
    }
    tn_autofree char *path = tn_asprintf("%s/%s", s->directory, FILE_NAME);
    for (size_t i = 0; i < TN_COUNT(commands); i++)
        if (strcmp(commands[i].command, command) == 0) {
            commands[i].run(action, path, o);
            return;
        }
    tn_observation_init_error(o, NULL, "Unknown command: %.60s", command);
}
