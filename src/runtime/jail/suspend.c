#include "runtime/jail/suspend.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/fs.h"
#include "runtime/programs.h"

#define WORDS_MAX (64u << 10)
#define CHECKED "criu-checked" /* in the state directory: the criu and the kernel that fit */

enum { NEEDED_MAJOR = 4, NEEDED_MINOR = 2 };

/* --- the program ---------------------------------------------------------------------------- */

static int run(const char *criu, const char *word, struct tn_buf *words, int64_t deadline,
               struct tn_error *err)
{
    const char *const argv[] = {"criu", word, NULL};

    return tn_program_ask(criu, argv, words, deadline, err);
}

/* The first line that speaks of an error, without its place in criu's source; on the heap. */
static char *complaint(const struct tn_buf *words)
{
    const char *found = strstr(tn_buf_str(words), "Error ");
    const char *text = found ? strstr(found, "): ") : NULL;

    if (!text)
        return tn_strdup("it does not say why");
    return tn_strndup(text + 3, strcspn(text + 3, "\n"));
}

static char *check_version(const char *criu, int64_t deadline)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
    struct tn_error err = {0};
    int major = 0, minor = 0;

    if (run(criu, "--version", &words, deadline, &err) < 0)
        return tn_asprintf("criu --version: %s", err.text);
    if (sscanf(tn_buf_str(&words), "Version: %d.%d", &major, &minor) != 2)
        return tn_strdup("criu does not tell its version");
    if (major > NEEDED_MAJOR || (major == NEEDED_MAJOR && minor >= NEEDED_MINOR))
        return NULL;
    return tn_asprintf("criu is %d.%d, and must be %d.%d or newer", major, minor, NEEDED_MAJOR,
                       NEEDED_MINOR);
}

static char *check(const char *criu, int64_t deadline)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
    struct tn_error err = {0};
    char *version = check_version(criu, deadline);

    if (version)
        return version;
    int code = run(criu, "check", &words, deadline, &err);
    if (code < 0)
        return tn_asprintf("criu check: %s", err.text);
    tn_autofree char *why = code == 0 ? NULL : complaint(&words);
    return why ? tn_asprintf("criu does not work on this machine: %s", why) : NULL;
}

/* --- what was found out before ---------------------------------------------------------------- */

/* Which criu on which kernel. */
static char *identity(const char *criu)
{
    struct utsname kernel;
    struct stat st;

    if (stat(criu, &st) < 0 || uname(&kernel) < 0)
        return tn_strdup("");
    return tn_asprintf("%s %lld %lld.%09ld on %s %s", criu, (long long)st.st_size,
                       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec, kernel.release,
                       kernel.machine);
}

static int write_text(int fd, void *text, struct tn_error *err)
{
    return tn_fs_write(fd, text, strlen(text), err);
}

static char *check_once(const char *state, const char *criu, int64_t deadline)
{
    tn_autobuf struct tn_buf known = TN_BUF_INIT(WORDS_MAX);
    tn_autofree char *path = tn_asprintf("%s/" CHECKED, state);
    tn_autofree char *now = identity(criu);

    if (tn_fs_read(TN_FS_ANYWHERE, path, &known, NULL) == 0 && strcmp(tn_buf_str(&known), now) == 0)
        return NULL;
    char *why = check(criu, deadline);
    if (!why)
        tn_fs_replace(TN_FS_ANYWHERE, path, &(struct tn_fs_replace){.mode = 0600}, write_text, now,
                      NULL);
    return why;
}

char *jail_suspend_obstacle(const struct jail_engine *e, char **criu, int64_t deadline)
{
    tn_autofree char *found = tn_program_find("criu", NULL, NULL);

    if (!found)
        return tn_strdup("there is no criu program (Debian 14 has one: apt-get install criu)");
    if (geteuid() != 0)
        return tn_strdup("criu needs root");
#ifndef __x86_64__
    return tn_strdup("it was never tried on this kind of processor");
#endif
    if (!e->cgroups.base[TN_CGROUP_MEMORY])
        return tn_strdup("it was never tried where control groups are version 2 alone");
    char *why = check_once(e->host->state, found, deadline);
    if (!why && criu)
        *criu = TN_TAKE_PTR(found);
    return why;
}

int jail_forget_memory(const struct tn_subject *subject, struct tn_error *err)
{
    tn_autofree char *from = tn_asprintf("%s/" TN_JAIL_SUSPENDED, subject->directory);
    tn_autofree char *to = tn_asprintf("%s/" TN_JAIL_TRASH TN_JAIL_SUSPENDED, subject->directory);

    if (rename(from, to) < 0)
        return errno == ENOENT ? 0 : tn_fail_errno(err, errno, "%s", from);
    jail_storage_clear_trash(subject->directory);
    return 0;
}
