#include "cli/hand-process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/proc.h"
#include "net/listen.h"

#define PROGRAM "tendon-hand"
#define USER "tendon"

/* How long the hand may take to end in order, what it left behind after that, and the kernel to
 * kill. */
#define STOP_SECONDS 6.0
#define STRAGGLER_SECONDS 0.5
#define KILL_SECONDS 2.0

/* The number of the listening socket in the hand. */
#define LISTEN_FD 3

#define LAST_WORDS 400

/* --- finding ---------------------------------------------------------------------------------- */

static bool executable(const char *path)
{
    struct stat st;

    return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

/* Directory of this program, without the slash; on the heap, NULL when nobody knows. */
static char *own_directory(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    if (n <= 0)
        return NULL;
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    return tn_strdup(path);
}

/* directory/PROGRAM if that can be executed, else NULL. */
static char *hand_in(const char *directory, size_t n)
{
    tn_autofree char *path = tn_asprintf("%.*s/" PROGRAM, (int)n, directory);

    return executable(path) ? TN_TAKE_PTR(path) : NULL;
}

static char *hand_in_path(void)
{
    const char *list = getenv("PATH");

    for (const char *p = list ? list : ""; *p;) {
        size_t n = strcspn(p, ":");
        char *found = n && *p == '/' ? hand_in(p, n) : NULL;

        if (found)
            return found;
        p += n + (p[n] == ':');
    }
    return NULL;
}

char *find_hand(const char *given, struct tn_error *err)
{
    if (given) {
        if (executable(given))
            return tn_strdup(given);
        tn_fail(err, TN_E_NOT_FOUND, "--hand %s: no program that can be executed", given);
        return NULL;
    }

    tn_autofree char *own = own_directory();
    tn_autofree char *lib = tn_asprintf("%s/../lib/tendon", own ? own : "");
    char *found = own ? hand_in(own, strlen(own)) : NULL;
    if (!found && own)
        found = hand_in(lib, strlen(lib));
    if (!found)
        found = hand_in_path();
    if (!found)
        tn_fail(err, TN_E_NOT_FOUND,
                "there is no " PROGRAM " in %s, in %s or in PATH: build it, or name it with --hand",
                own ? own : "?", lib);
    return found;
}

/* --- starting --------------------------------------------------------------------------------- */

/* What the hand shall find in the environment, which is ours.  It needs no key on a socket that
 * only we can reach.  USER being the user it is told to work for means that it works for whoever
 * starts it, creates nobody and gives nothing away. */
static void set_environment(void)
{
    unsetenv("SESSION_API_KEY");
    setenv("SU_TO_USER", "false", 1);
    setenv("USER", USER, 1);
}

/* A socket that listens already: a client may connect at once, and is served when the hand is
 * ready. */
static int open_socket(const char *address, struct tn_error *err)
{
    struct tn_listen_address parsed;

    if (tn_listen_parse(address, &parsed, err))
        return -1;
    return tn_listen_open(&parsed, err);
}

static int spawn(struct hand_process *p, const char *program, const char *workspace,
                 struct tn_error *err)
{
    char listen[32];
    tn_autofd int listener = open_socket(p->address, err);
    if (listener < 0)
        return -1;
    tn_autofd int log = open(p->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
        return tn_fail_errno(err, errno, "%s", p->log);

    snprintf(listen, sizeof listen, "fd:%d", LISTEN_FD);
    const char *argv[] = {PROGRAM,
                          "--listen",
                          listen,
                          "--exit-with-parent",
                          "--working-dir",
                          workspace,
                          "--username",
                          USER,
                          "--log-level",
                          "warn",
                          "--no-enable-browser",
                          NULL};
    struct tn_child_fd fds[] = {{log, 1}, {log, 2}, {listener, LISTEN_FD}};

    set_environment();
    p->child = tn_child_start(&(struct tn_child_spec){.argv = argv,
                                                      .file = program,
                                                      .fds = fds,
                                                      .fd_count = TN_COUNT(fds),
                                                      .session = true,
                                                      .death_signal = SIGTERM},
                              err);
    return p->child ? 0 : tn_error_context(err, "cannot start %s", program);
}

int hand_process_start(struct hand_process *p, const char *program, const char *directory,
                       const char *workspace, struct tn_error *err)
{
    /* What the hand leaves running becomes ours, and ends with us. */
    prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
    p->address = tn_asprintf("unix:%s/hand.sock", directory);
    p->log = tn_asprintf("%s/hand.log", directory);
    if (!spawn(p, program, workspace, err))
        return 0;
    hand_process_stop(p);
    return -1;
}

/* --- ending ----------------------------------------------------------------------------------- */

void hand_process_stop(struct hand_process *p)
{
    if (p->child) {
        tn_child_signal(p->child, SIGTERM, NULL);
        tn_child_wait(p->child, tn_deadline_in(STOP_SECONDS), NULL, NULL);
        tn_proc_kill_tree(getpid(), false, tn_deadline_in(STRAGGLER_SECONDS),
                          tn_deadline_in(STRAGGLER_SECONDS + KILL_SECONDS), NULL);
        tn_child_wait(p->child, tn_deadline_in(KILL_SECONDS), NULL, NULL);
        tn_child_free(TN_TAKE_PTR(p->child));
    }
    free(TN_TAKE_PTR(p->address));
    free(TN_TAKE_PTR(p->log));
}

char *hand_process_last_words(const struct hand_process *p)
{
    char text[LAST_WORDS + 1];
    tn_autofd int fd = p->log ? open(p->log, O_RDONLY | O_CLOEXEC) : -1;
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n =
        size > 0 ? pread(fd, text, LAST_WORDS, size > LAST_WORDS ? size - LAST_WORDS : 0) : 0;

    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    const char *cut = size > LAST_WORDS ? strchr(text, '\n') : NULL;
    return tn_strdup(cut ? cut + 1 : text);
}
