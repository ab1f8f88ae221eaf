/* What criu is told, and what it says. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>

#include "base/fs.h"
#include "jail/criu.h"

#define LOG_MAX (16u << 20)

#define FACTS struct jail_facts
static const struct tn_field rows[] = {
    TN_INT("pipe", FACTS, pipe),
    TN_INT("socket", FACTS, socket),
};
const struct tn_fields jail_facts_fields = TN_FIELDS(rows);

void jail_words_add(struct jail_words *words, const char *format, ...)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1u << 20);
    va_list ap;

    va_start(ap, format);
    tn_buf_vprintf(&text, format, ap);
    va_end(ap);
    words->items = tn_realloc(words->items, (words->count + 2) * sizeof *words->items);
    words->items[words->count++] = tn_buf_take(&text);
    words->items[words->count] = NULL;
}

void jail_words_done(struct jail_words *words)
{
    for (size_t i = 0; i < words->count; i++)
        free(words->items[i]);
    free(TN_TAKE_PTR(words->items));
    words->count = 0;
}

void jail_words_begin(struct jail_words *words, const char *command, const char *images,
                      const char *log, pid_t keeper)
{
    static const char *const common[] = {
        "-v2",
        "--manage-cgroups=ignore", /* they are ours */
        "--tcp-close",
        "--file-locks",
        "--link-remap",
        "--ghost-limit=64M",
        "--no-default-config",
    };

    jail_words_add(words, "criu");
    jail_words_add(words, "%s", command);
    jail_words_add(words, "--images-dir=%s", images);
    jail_words_add(words, "--log-file=%s", log);
    for (size_t i = 0; i < TN_COUNT(common); i++)
        jail_words_add(words, "%s", common[i]);
    jail_words_add(words, "--action-script=/proc/%d/exe", (int)keeper);
}

void jail_words_execute(const struct jail_words *words, const struct jail *j, pid_t keeper,
                        pid_t pid)
{
    jail_autowords struct jail_words env = {0};

    jail_words_add(&env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    jail_words_add(&env, JAIL_ACTION_SUBJECT "=%d %d %d", (int)keeper, j->directory, (int)pid);
    execve(j->plan.criu, words->items, env.items);
}

char *jail_criu_complaint(int images, const char *log)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(LOG_MAX);
    tn_autofd int fd = openat(images, log, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0 || tn_fs_read_fd(fd, &text, NULL) < 0)
        return tn_strdup("");
    for (const char *p = tn_buf_str(&text); (p = strstr(p, "Error ")); p++) {
        const char *words = strstr(p, "): ");
        if (!words)
            break;
        words += 3;
        if (strncmp(words, "rlimit:", 7) != 0) /* that one it can do without */
            return tn_strndup(words, strcspn(words, "\n"));
    }
    return tn_strdup("");
}
