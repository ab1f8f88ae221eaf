/* What /proc tells about a shell and its children. */
#include <fcntl.h>

#include "base/proc.h"
#include "hand/shell/process-internal.h"

static ssize_t read_proc(pid_t pid, const char *name, char *to, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    tn_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);
    to[n > 0 ? n : 0] = '\0';
    return n;
}

/* Whether it was started as the shell is, or is a child of it that has executed nothing. */
static bool has_its_words(const struct tn_shell *sh, pid_t pid)
{
    char text[512];
    ssize_t n = read_proc(pid, "cmdline", text, sizeof text);

    if (n <= 0)
        return false;
    const char *argument = text;
    for (size_t i = 0; sh->dialect->argv_tail[i]; i++) {
        argument += strlen(argument) + 1;
        if (argument >= text + n || strcmp(argument, sh->dialect->argv_tail[i]) != 0)
            return false;
    }
    return argument + strlen(argument) + 1 == text + n;
}

bool shell_is_itself(const struct tn_shell *sh)
{
    return has_its_words(sh, tn_shell_pid(sh));
}

bool tn_shell_has_terminal(const struct tn_shell *sh)
{
    return has_its_words(sh, tn_shell_foreground(sh));
}

int tn_shell_times(const struct tn_shell *sh, double *user, double *system)
{
    char text[1024];
    unsigned long long ticks[4]; /* user, system, and those of its children */
    double tick = (double)sysconf(_SC_CLK_TCK);

    if (read_proc(tn_shell_pid(sh), "stat", text, sizeof text) <= 0)
        return -1;
    const char *after_name = strrchr(text, ')');
    if (!after_name || tn_proc_numbers(after_name + 1, 11, ticks, 4) < 0)
        return -1;
    *user = (double)(ticks[0] + ticks[2]) / tick;
    *system = (double)(ticks[1] + ticks[3]) / tick;
    return 0;
}

int64_t tn_shell_peak_memory(const struct tn_shell *sh)
{
    tn_autofree struct tn_proc *below = NULL;
    char text[4096];
    int64_t peak = -1;
    size_t n = 0;

    if (tn_proc_descendants(tn_shell_pid(sh), &below, &n, NULL) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        const char *line = read_proc(below[i].pid, "status", text, sizeof text) > 0
                               ? strstr(text, "\nVmHWM:")
                               : NULL;
        int64_t bytes = line ? strtoll(line + 7, NULL, 10) * 1024 : -1;
        if (bytes > peak)
            peak = bytes;
    }
    return peak;
}
