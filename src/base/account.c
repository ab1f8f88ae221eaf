#include "base/account.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>

#define FILE_MAX ((size_t)8 << 20)
#define FIELDS 7
#define GROUPS_MAX 65536 /* the kernel's limit */

/* --- the files ----------------------------------------------------------------------------- */

/* The fields of one line, cut at the colons; those that are missing are NULL. */
typedef bool (*line_fn)(char *const field[FIELDS], void *ctx);

static void cut(char *line, char *field[FIELDS])
{
    for (int i = 0; i < FIELDS; i++)
        field[i] = i + 1 < FIELDS ? strsep(&line, ":") : line;
}

/* Calls fn for each line until it answers true.  Returns 1 then, 0 at the end, -1 with err. */
static int scan(int root, const char *file, line_fn fn, void *ctx, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(FILE_MAX);
    tn_autofree char *path = tn_asprintf("%s%s", root == TN_FS_ANYWHERE ? "/" : "", file);

    struct tn_error why = {0};

    if (tn_fs_read(root, path, &text, &why) < 0) {
        if (why.code == TN_E_NOT_FOUND)
            return 0; /* a bare image has no users and no groups */
        if (err)
            *err = why;
        return -1;
    }
    if (text.len == 0)
        return 0;
    char *rest = text.data, *end = rest + text.len;
    while (rest && rest < end) {
        char *line = rest, *field[FIELDS];
        rest = memchr(line, '\n', (size_t)(end - line));
        size_t n = (size_t)((rest ? rest : end) - line);
        if (rest)
            *rest++ = '\0';
        if (memchr(line, '\0', n))
            continue;
        cut(line, field);
        if (fn(field, ctx))
            return 1;
    }
    return 0;
}

/* A plain decimal number that is not the "no id" of the kernel. */
static bool read_id(const char *text, uint32_t *out)
{
    uint64_t value = 0;

    if (!text || !*text)
        return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9')
            return false;
        value = value * 10 + (uint64_t)(*text - '0');
        if (value >= UINT32_MAX)
            return false;
    }
    *out = (uint32_t)value;
    return true;
}

static bool is_name(const char *text)
{
    return text && *text && *text != '+' && *text != '-' && *text != '#';
}

/* --- users --------------------------------------------------------------------------------- */

struct user_query {
    const char *name; /* or NULL: by uid */
    uid_t uid;
    struct tn_user *out;
};

static const char *given(const char *text, const char *fallback)
{
    return text && *text ? text : fallback;
}

static bool match_user(char *const field[FIELDS], void *ctx)
{
    struct user_query *q = ctx;
    uint32_t uid, gid;

    if (!is_name(field[0]) || !read_id(field[2], &uid) || !read_id(field[3], &gid))
        return false;
    if (q->name ? strcmp(q->name, field[0]) != 0 : q->uid != uid)
        return false;
    *q->out = (struct tn_user){.name = tn_strdup(field[0]),
                               .uid = uid,
                               .gid = gid,
                               .home = tn_strdup(given(field[5], "/")),
                               .shell = tn_strdup(given(field[6], "/bin/sh"))};
    return true;
}

static int find_user(int root, struct user_query *q, struct tn_error *err)
{
    *q->out = (struct tn_user){0};
    return scan(root, "etc/passwd", match_user, q, err);
}

int tn_user_by_name(int root, const char *name, struct tn_user *out, struct tn_error *err)
{
    struct user_query q = {.name = name, .out = out};
    int found = find_user(root, &q, err);
    return found ? (found > 0 ? 0 : -1) : tn_fail(err, TN_E_NOT_FOUND, "no user named %s", name);
}

int tn_user_by_uid(int root, uid_t uid, struct tn_user *out, struct tn_error *err)
{
    struct user_query q = {.uid = uid, .out = out};
    int found = find_user(root, &q, err);
    return found ? (found > 0 ? 0 : -1)
                 : tn_fail(err, TN_E_NOT_FOUND, "no user with number %u", uid);
}

void tn_user_done(struct tn_user *user)
{
    free(user->name);
    free(user->home);
    free(user->shell);
    *user = (struct tn_user){0};
}

/* --- groups -------------------------------------------------------------------------------- */

struct group_query {
    const char *name; /* or NULL: by gid */
    gid_t gid;
    char *found_name;
};

static bool match_group(char *const field[FIELDS], void *ctx)
{
    struct group_query *q = ctx;
    uint32_t gid;

    if (!is_name(field[0]) || !read_id(field[2], &gid))
        return false;
    if (q->name ? strcmp(q->name, field[0]) != 0 : q->gid != gid)
        return false;
    q->gid = gid;
    q->found_name = tn_strdup(field[0]);
    return true;
}

int tn_group_by_name(int root, const char *name, gid_t *gid, struct tn_error *err)
{
    struct group_query q = {.name = name};
    int found = scan(root, "etc/group", match_group, &q, err);
    free(q.found_name);
    if (found == 0)
        return tn_fail(err, TN_E_NOT_FOUND, "no group named %s", name);
    *gid = q.gid;
    return found > 0 ? 0 : -1;
}

int tn_group_by_gid(int root, gid_t gid, char **name, struct tn_error *err)
{
    struct group_query q = {.gid = gid};
    int found = scan(root, "etc/group", match_group, &q, err);
    *name = q.found_name;
    if (found == 0)
        return tn_fail(err, TN_E_NOT_FOUND, "no group with number %u", gid);
    return found > 0 ? 0 : -1;
}

struct member_query {
    const char *user;
    gid_t *groups;
    size_t count;
};

static void add_group(struct member_query *q, gid_t gid)
{
    for (size_t i = 0; i < q->count; i++)
        if (q->groups[i] == gid)
            return;
    if (q->count == GROUPS_MAX)
        return;
    q->groups = tn_realloc(q->groups, (q->count + 1) * sizeof *q->groups);
    q->groups[q->count++] = gid;
}

static bool collect_membership(char *const field[FIELDS], void *ctx)
{
    struct member_query *q = ctx;
    uint32_t gid;
    char *members = field[3], *member;

    if (!is_name(field[0]) || !read_id(field[2], &gid))
        return false;
    while ((member = strsep(&members, ",")))
        if (strcmp(member, q->user) == 0)
            add_group(q, gid);
    return false;
}

int tn_user_groups(int root, const struct tn_user *user, gid_t **groups, size_t *count,
                   struct tn_error *err)
{
    struct member_query q = {.user = user->name};

    add_group(&q, user->gid);
    if (scan(root, "etc/group", collect_membership, &q, err) < 0) {
        free(q.groups);
        return -1;
    }
    *groups = q.groups;
    *count = q.count;
    return 0;
}

/* --- acting as a user ---------------------------------------------------------------------- */

/* The libc applies setgroups to all threads; the kernel knows it, like setfsuid, per thread. */
static int set_groups(const gid_t *groups, size_t count)
{
    return (int)syscall(SYS_setgroups, count, groups);
}

/* setfsuid says nothing about success; asking for an impossible id tells the present one. */
static bool become(uid_t uid, gid_t gid)
{
    syscall(SYS_setfsgid, gid);
    syscall(SYS_setfsuid, uid);
    return (gid_t)syscall(SYS_setfsgid, -1) == gid && (uid_t)syscall(SYS_setfsuid, -1) == uid;
}

int tn_act_as_begin(struct tn_act_as *guard, uid_t uid, gid_t gid, const gid_t *groups,
                    size_t count, struct tn_error *err)
{
    *guard = (struct tn_act_as){0};
    if (geteuid() != 0 || uid == 0)
        return 0;
    int have = getgroups(0, NULL);
    if (have < 0)
        return tn_fail_errno(err, errno, "getgroups");
    guard->groups = tn_calloc((size_t)have, sizeof *guard->groups);
    have = getgroups(have, guard->groups);
    if (have < 0 || set_groups(groups, count) < 0) {
        int sys = errno;
        free(TN_TAKE_PTR(guard->groups));
        return tn_fail_errno(err, sys, "act as user %u: groups", uid);
    }
    guard->group_count = (size_t)have;
    guard->gid = getegid();
    guard->active = true;
    if (become(uid, gid))
        return 0;
    tn_act_as_end(guard);
    return tn_fail(err, TN_E_DENIED, "act as user %u: the kernel refused it", uid);
}

void tn_act_as_end(struct tn_act_as *guard)
{
    if (!guard->active)
        return;
    if (!become(0, guard->gid) || set_groups(guard->groups, guard->group_count) < 0)
        abort();
    free(guard->groups);
    *guard = (struct tn_act_as){0};
}
