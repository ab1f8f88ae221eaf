#include <fts.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "jail/tree-copy.h"

int tn_tree_measure(int fd, int64_t deadline, struct tn_tree_count *count, struct tn_error *err)
{
    char path[40];
    char *const paths[] = {path, NULL};

    *count = (struct tn_tree_count){0};
    snprintf(path, sizeof path, "/proc/self/fd/%d/.", fd);
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
    if (!tree)
        return tn_fail_errno(err, errno, "measure");
    int r = 0;
    for (FTSENT *e; r == 0 && (e = fts_read(tree));) {
        if (e->fts_info == FTS_DP || e->fts_info == FTS_NS || e->fts_info == FTS_ERR)
            continue;
        count->files++;
        count->bytes += (uint64_t)e->fts_statp->st_blocks * 512;
        if (tn_now() > deadline)
            r = tn_fail(err, TN_E_TIMEOUT, "the time for measuring is over");
    }
    fts_close(tree);
    return r;
}
