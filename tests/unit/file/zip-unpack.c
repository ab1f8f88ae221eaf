/* zip-unpack ARCHIVE DIRECTORY [BYTES ENTRIES RATIO FREE]: unpacks as an upload does. */
#include <fcntl.h>
#include <stdio.h>

#include "hand/file/zip-read.h"

int main(int argc, char **argv)
{
    struct tn_zip_limits limits = TN_ZIP_LIMITS_DEFAULT;
    struct tn_file_user user = {.uid = getuid(), .gid = getgid()};
    struct tn_error err = {0};

    if (argc != 3 && argc != 7)
        return 2;
    if (argc == 7) {
        limits.bytes = strtoull(argv[3], NULL, 10);
        limits.entries = strtoull(argv[4], NULL, 10);
        limits.ratio = strtoull(argv[5], NULL, 10);
        limits.free_bytes = strtoull(argv[6], NULL, 10);
    }
    tn_autofd int archive = open(argv[1], O_RDONLY | O_CLOEXEC);
    tn_autofd int dest = open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (archive < 0 || dest < 0)
        return 2;
    if (tn_zip_unpack(archive, dest, ".tendon-staging", &user, &limits, &err) == 0)
        return 0;
    fprintf(stderr, "%d: %s\n", tn_code_row(err.code)->http_status, err.text);
    return 1;
}
