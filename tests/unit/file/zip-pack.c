/* zip-pack PATH: writes the archive of PATH to standard output, with holes for pieces of zeros, and
 * checks that it has the promised length. */
#include <stdio.h>

#include "base/clock.h"
#include "base/fs.h"
#include "hand/file/download.h"

static uint64_t written;

static int sink(void *ctx, const void *bytes, size_t n, struct tn_error *err)
{
    static const char zeros[65536];

    written += n;
    if (n == sizeof zeros && memcmp(bytes, zeros, n) == 0 && lseek(1, (off_t)n, SEEK_CUR) >= 0)
        return 0;
    return tn_fs_write(1, bytes, n, err);
}

int main(int argc, char **argv)
{
    struct tn_error err = {0};
    struct tn_zip_plan *plan =
        argc == 2 ? tn_download(argv[1], "/tmp", tn_deadline_in(60), &err) : NULL;

    if (!plan || tn_zip_plan_send(plan, sink, NULL, &err)) {
        fprintf(stderr, "%d: %s\n", tn_code_row(err.code)->http_status, err.text);
        tn_zip_plan_free(plan);
        return 1;
    }
    int wrong = written != tn_zip_plan_length(plan);
    if (wrong)
        fprintf(stderr, "promised %llu bytes, wrote %llu\n",
                (unsigned long long)tn_zip_plan_length(plan), (unsigned long long)written);
    tn_zip_plan_free(plan);
    return wrong ? 3 : 0;
}
