#include "hand/v1/attributes.h"

#include <sys/xattr.h>

#include "base/utf8.h"
#include "hand/v1/v1.h"

/* TOLD: of one file, names and values together. */
enum { LIST_MAX = 64 << 10, TOLD_MAX = 8 << 10 };
static const char owners[] = "user.";

int tn_v1_query_attributes(struct tn_http_exchange *x, const char **prefix)
{
    *prefix = tn_http_query(x, "attributes");
    if (!*prefix || (strncmp(*prefix, owners, sizeof owners - 1) == 0 && strlen(*prefix) < 64))
        return 0;
    tn_http_reply_detail(x, 422, "attributes must be what names begin with, \"user.\" and more");
    return -1;
}

/* A descriptor may be one that cannot be read (O_PATH). */
static char *path_of(int fd, const char *name)
{
    return tn_asprintf("/proc/self/fd/%d%s%s", fd, *name ? "/" : "", name);
}

/* Calls fn for each whose name begins so; non-zero stops. */
typedef int (*attribute_fn)(const char *path, const char *name, void *ctx);
static int each(int fd, const char *name, const char *prefix, attribute_fn fn, void *ctx)
{
    tn_autofree char *path = path_of(fd, name), *names = tn_malloc(LIST_MAX);
    ssize_t n = *name ? llistxattr(path, names, LIST_MAX) : listxattr(path, names, LIST_MAX);
    int stopped = 0;

    for (const char *at = names; n > 0 && !stopped && at < names + n; at += strlen(at) + 1)
        if (strncmp(at, prefix, strlen(prefix)) == 0)
            stopped = fn(path, at, ctx);
    return stopped;
}

struct told {
    struct tn_jw *w;
    size_t skip, bytes;
    bool begun;
    bool follow; /* a descriptor: the name of one is a link to what it is */
};

static int tell(const char *path, const char *name, void *ctx)
{
    struct told *t = ctx;
    char value[TOLD_MAX];
    ssize_t n = (t->follow ? getxattr : lgetxattr)(path, name, value, sizeof value);

    if (n < 0 || !tn_utf8_valid(name, strlen(name)))
        return 0;
    t->bytes += strlen(name) + (size_t)n;
    if (t->bytes > TOLD_MAX)
        return 1;
    if (!t->begun) {
        tn_jw_key(t->w, "attributes");
        tn_jw_object(t->w);
    }
    t->begun = true;
    tn_jw_key(t->w, name + t->skip);
    tn_jw_strn(t->w, value, (size_t)n);
    return 0;
}

void tn_v1_put_attributes(struct tn_jw *w, int fd, const char *name, const char *prefix)
{
    struct told t = {.w = w, .skip = strlen(prefix), .follow = !*name};

    each(fd, name, prefix, tell, &t);
    if (t.begun)
        tn_jw_object_end(w);
}

static int drop(const char *path, const char *name, void *ctx)
{
    return removexattr(path, name) < 0 ? errno : 0;
}

struct change {
    const char *path, *prefix;
};

static int set(const char *key, struct tn_json *value, void *ctx)
{
    const struct change *c = ctx;
    tn_autofree char *name = tn_asprintf("%s%s", c->prefix, key);
    size_t n = 0;
    const char *text = tn_json_str(value, &n);

    if (!text)
        return EINVAL;
    return setxattr(c->path, name, text, n, 0) < 0 ? errno : 0;
}

int tn_v1_set_attributes(int fd, const char *prefix, const struct tn_json *these,
                         struct tn_error *err)
{
    tn_autofree char *path = path_of(fd, "");
    int sys = each(fd, "", prefix, drop, NULL);

    if (!sys)
        sys = tn_json_each(these, set, &(struct change){path, prefix});
    return sys ? tn_fail_errno(err, sys, "extended attributes of the file") : 0;
}
