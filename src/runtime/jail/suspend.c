#include "runtime/jail/suspend.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>

#include "base/buf.h"
#include "base/child.h"
#include "runtime/programs.h"

#define WORDS_MAX (64u << 10)

/* The last line that speaks of an error, without its place in criu's source; on the heap. */
static char *complaint(const struct tn_buf *words)
{
    const char *found = NULL;

    for (const char *p = tn_buf_str(words); (p = strstr(p, "Error ")); p++)
        if (!found)
            found = p;
    const char *text = found ? strstr(found, "): ") : NULL;
    if (!text)
        return tn_strdup("it does not say why");
    return tn_strndup(text + 3, strcspn(text + 3, "\n"));
}

/* NULL when `criu check` finds nothing wrong. */
static char *check(const char *criu, int64_t deadline)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(WORDS_MAX);
    const char *const argv[] = {"criu", "check", NULL};
    struct tn_exit result;
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return tn_strdup(tn_strerror(errno));
    tn_autofd int ours = ends[0], theirs = ends[1];
    const struct tn_child_fd fds[] = {{theirs, 1}, {theirs, 2}};
    tn_autochild struct tn_child *child =
        tn_child_start(&(struct tn_child_spec){.argv = argv,
                                               .file = criu,
                                               .cwd = "/",
                                               .fds = fds,
                                               .fd_count = TN_COUNT(fds),
                                               .death_signal = SIGKILL},
                       NULL);
    tn_close(TN_TAKE_FD(theirs));
    struct pollfd p = {.fd = ours, .events = POLLIN};
    for (ssize_t n = child ? 1 : 0; n > 0;) {
        char *to = tn_buf_reserve(&words, 4096);
        n = to && poll(&p, 1, tn_poll_ms(deadline)) > 0 ? read(ours, to, 4096) : 0;
        tn_buf_grew(&words, n > 0 ? (size_t)n : 0);
    }
    if (child && tn_child_wait(child, deadline, &result, NULL) < 0) {
        tn_child_signal(child, SIGKILL, NULL);
        tn_child_wait(child, tn_deadline_in(1.0), NULL, NULL);
        return tn_strdup("criu check does not end");
    }
    return child && tn_exit_code(&result) == 0 ? NULL : complaint(&words);
}

char *jail_suspend_obstacle(int64_t deadline)
{
    tn_autofree char *criu = tn_program_find("criu", NULL, NULL);

    if (!criu)
        return tn_strdup("there is no criu program (Debian: apt-get install criu)");
    if (geteuid() != 0)
        return tn_strdup("criu needs root");
    tn_autofree char *words = check(criu, deadline);
    if (words)
        return tn_asprintf("criu does not work on this machine: %s", words);
    return tn_strdup(
        "criu works on this machine, but making a jail anew with it is not implemented");
}
