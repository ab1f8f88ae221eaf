/* libarchive, opened when the first archive is: a `tendon` that unpacks nothing does not pay for
 * loading it. */
#ifndef TN_RUNTIME_JAIL_ARCHIVE_LIB_H
#define TN_RUNTIME_JAIL_ARCHIVE_LIB_H

#include <archive.h>
#include <archive_entry.h>

#include "base/error.h"

#define JAIL_ARCHIVE_FUNCTIONS(X)        \
    X(archive_entry_gid)                 \
    X(archive_entry_filetype)            \
    X(archive_entry_hardlink)            \
    X(archive_entry_mtime)               \
    X(archive_entry_mtime_is_set)        \
    X(archive_entry_mtime_nsec)          \
    X(archive_entry_pathname)            \
    X(archive_entry_perm)                \
    X(archive_entry_size)                \
    X(archive_entry_size_is_set)         \
    X(archive_entry_symlink)             \
    X(archive_entry_uid)                 \
    X(archive_entry_xattr_next)          \
    X(archive_entry_xattr_reset)         \
    X(archive_error_string)              \
    X(archive_read_data_block)           \
    X(archive_read_free)                 \
    X(archive_read_new)                  \
    X(archive_read_next_header)          \
    X(archive_read_open)                 \
    X(archive_read_support_filter_all)   \
    X(archive_read_support_format_empty) \
    X(archive_read_support_format_raw)   \
    X(archive_read_support_format_tar)   \
    X(archive_set_error)

#define JAIL_ARCHIVE_MEMBER(name) __typeof__(&name) name;
struct jail_archive_lib {
    JAIL_ARCHIVE_FUNCTIONS(JAIL_ARCHIVE_MEMBER)
};
#undef JAIL_ARCHIVE_MEMBER

/* The library's functions, or NULL with err that says what to install.  Any thread. */
const struct jail_archive_lib *jail_archive_lib(struct tn_error *err);

#endif
