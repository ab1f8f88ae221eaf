/* Between the files of fs. */
#ifndef TN_BASE_FS_INTERNAL_H
#define TN_BASE_FS_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* openat2 with O_CLOEXEC and O_NOCTTY; -1 with errno. */
int fs_openat2(int dir, const char *path, int flags, mode_t mode, uint64_t resolve);
/* Whether openat2 failed with `sys` because there is no openat2. */
bool fs_openat2_missing(int sys);
/* tn_fs_open that answers with errno. */
int fs_open_quiet(int root, const char *path, int flags, mode_t mode);

#endif
