#include "hand/file/download.h"

#include <ctype.h>

#include "hand/file/confine.h"
#include "hand/file/path.h"

struct tn_zip_plan *tn_download(const char *path, const char *spool_dir, int64_t deadline,
                                struct tn_error *err)
{
    struct stat st;

    if (path[0] != '/') {
        tn_fail(err, TN_E_INVALID, "Path must be an absolute path");
        return NULL;
    }
    struct tn_error why = {0};
    if (tn_where_stat(path, &st, &why) && (why.sys == ENOENT || why.sys == ENOTDIR)) {
        tn_fail(err, TN_E_NOT_FOUND, "File not found");
        return NULL;
    }
    return tn_zip_plan_new(path, spool_dir, deadline, err);
}

static bool is_plain(unsigned char c)
{
    return c < 0x80 && (isalnum(c) || strchr("-._~/", c));
}

void tn_download_disposition(const char *path, struct tn_buf *out)
{
    tn_autofree char *normal = tn_path_normal(tn_slice(path), NULL);
    const char *name = normal ? strrchr(normal, '/') : NULL;
    bool plain = true;

    name = name ? name + 1 : "";
    for (const char *c = name; *c; c++)
        plain = plain && is_plain((unsigned char)*c);
    tn_buf_puts(out, plain ? "attachment; filename=\"" : "attachment; filename*=utf-8''");
    for (const char *c = name; *c; c++) {
        if (is_plain((unsigned char)*c))
            tn_buf_putc(out, *c);
        else
            tn_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*c);
    }
    tn_buf_puts(out, plain ? ".zip\"" : ".zip");
}
