#include "hand/shell/process-limit.h"

#include <sys/resource.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/proc.h"

enum { SMALL_FILE = 4096, LAST_WORDS = 512 };
/* Whoever was refused tells so and ends, and others may end before the hand gets its turn: by this
 * part of the limit, and one. */
enum { ENDED_PART = 8 };
/* Output that repeats the words must not keep us looking. */
#define LOOK_EVERY (100 * TN_MILLI)

bool tn_process_limit_is_mentioned(const char *bytes, size_t n)
{
    static const char *const words[] = {
        "temporarily unavailable", /* strerror(EAGAIN): bash, make, git, Python, Go */
        "Cannot fork",             /* dash */
        "start new thread",        /* Python */
    };

    if (n > LAST_WORDS) {
        bytes += n - LAST_WORDS;
        n = LAST_WORDS;
    }
    for (size_t i = 0; i < TN_COUNT(words); i++)
        if (memmem(bytes, n, words[i], strlen(words[i])))
            return true;
    return false;
}

/* --- the control group ---------------------------------------------------------------------- */

/* Of our own group in a container, version 2 and version 1.  Outside of one this is the root of
 * all groups, which has no such files. */
static const char *const groups[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/pids"};

/* The number in a file of the group, after a word if there is one; -1 when there is none. */
static int64_t number_in(const char *group, const char *name, const char *word)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SMALL_FILE);
    tn_autofree char *path = tn_asprintf("%s/%s", group, name);
    unsigned long long number;

    if (tn_fs_read(TN_FS_ANYWHERE, path, &text, NULL) < 0 ||
        strncmp(tn_buf_str(&text), word, strlen(word)) != 0 ||
        tn_proc_numbers(tn_buf_str(&text) + strlen(word), 0, &number, 1) < 0)
        return -1;
    return (int64_t)number;
}

/* How often it refused a process, and which group that is. */
static int64_t hits_of(const char **group)
{
    for (size_t i = 0; i < TN_COUNT(groups); i++) {
        int64_t hits = number_in(groups[i], "pids.events", "max");
        *group = groups[i];
        if (hits >= 0)
            return hits;
    }
    return 0;
}

void tn_process_limit_init(struct tn_process_limit *p)
{
    const char *group;

    *p = (struct tn_process_limit){.hits = hits_of(&group)};
}

/* A group may also count what a group around it refused: certain is only what its own peak, where
 * the kernel tells it, confirms. */
int64_t tn_process_limit_of_group(struct tn_process_limit *p)
{
    const char *group;
    int64_t hits = hits_of(&group);

    if (hits <= p->hits)
        return 0;
    p->hits = hits;
    int64_t limit = number_in(group, "pids.max", ""), peak = number_in(group, "pids.peak", "");
    return limit > 0 && (peak < 0 || peak >= limit) ? limit : 0;
}

/* --- the resource limit --------------------------------------------------------------------- */

/* The limit is not for root of the machine, only for root of a user namespace. */
static bool is_exempt(uid_t uid)
{
    tn_autobuf struct tn_buf map = TN_BUF_INIT(SMALL_FILE);
    unsigned long long numbers[3]; /* first inside, first outside, how many */

    if (uid != 0)
        return false;
    return tn_fs_read(TN_FS_ANYWHERE, "/proc/self/uid_map", &map, NULL) < 0 ||
           tn_proc_numbers(tn_buf_str(&map), 0, numbers, 3) < 0 ||
           (numbers[1] == 0 && numbers[2] == UINT32_MAX);
}

static int64_t limit_of_user(uid_t uid)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NPROC, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || is_exempt(uid))
        return 0;
    return tn_proc_threads_of(uid) + 1 + limit.rlim_cur / ENDED_PART >= limit.rlim_cur
               ? (int64_t)limit.rlim_cur
               : 0;
}

int64_t tn_process_limit_now(struct tn_process_limit *p, uid_t uid)
{
    int64_t now = tn_now();

    if (p->looked && now < p->looked + LOOK_EVERY)
        return 0;
    p->looked = now;
    int64_t limit = tn_process_limit_of_group(p);
    return limit ? limit : limit_of_user(uid);
}
