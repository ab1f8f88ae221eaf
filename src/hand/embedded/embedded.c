#include "hand/embedded.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fs.h"

enum { UNPACKED_MAX = 1 << 20 };

const struct tn_embedded *tn_embedded_find(const char *name)
{
    return tn_embedded_in(tn_embedded_files, name);
}

static int make_parents(int dir, const char *path, struct tn_error *err)
{
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        tn_autofree char *parent = tn_strndup(path, (size_t)(slash - path));
        if (mkdirat(dir, parent, 0755) < 0 && errno != EEXIST)
            return tn_fail_errno(err, errno, "make %s", parent);
    }
    return 0;
}

static bool is_packed(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".gz") == 0;
}

char *tn_embedded_text(const char *name)
{
    const struct tn_embedded *f = tn_embedded_find(name);
    tn_autobuf struct tn_buf text = TN_BUF_INIT(UNPACKED_MAX);

    if (!f || tn_embedded_inflate(f, &text, NULL) < 0)
        abort(); /* the build packed it */
    return tn_buf_take(&text);
}

static int unpack(int dir, const char *name, const struct tn_embedded *f, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(UNPACKED_MAX);
    bool packed = is_packed(name);
    tn_autofree char *path = tn_strndup(name, strlen(name) - (packed ? 3 : 0));

    if (make_parents(dir, path, err) < 0 || (packed && tn_embedded_inflate(f, &text, err) < 0))
        return -1;
    tn_autofd int fd =
        openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0)
        return tn_fail_errno(err, errno, "write %s", path);
    if ((packed ? tn_fs_write(fd, text.data, text.len, err)
                : tn_fs_write(fd, f->bytes, f->size, err)) < 0)
        return tn_error_context(err, "write %s", path);
    return 0;
}

int tn_embedded_unpack(const char *prefix, const char *directory, struct tn_error *err)
{
    tn_autofd int dir = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t n = strlen(prefix), strip = n;

    if (dir < 0)
        return tn_fail_errno(err, errno, "open %s", directory);
    if (strip)
        strip--; /* a final slash belongs to the last component */
    while (strip && prefix[strip - 1] != '/')
        strip--;
    for (const struct tn_embedded *f = tn_embedded_files; f->name; f++) {
        if (strncmp(f->name, prefix, n) == 0 && unpack(dir, f->name + strip, f, err) < 0)
            return -1;
    }
    return 0;
}
