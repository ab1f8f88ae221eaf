#include "runtime/mcp/oauth-grant.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file-lock.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/sha256.h"

#define FILE_MAX (1u << 20)
#define MOMENT_SECONDS 0.2

/* --- members ---------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t at;
    enum { TEXT, FLAG, NUMBER } kind;
} members[] = {
#define MEMBER(name, kind)                            \
    {                                                 \
#name, offsetof(struct mcp_grant, name), kind \
    }
    MEMBER(issuer, TEXT),    MEMBER(client, TEXT),    MEMBER(secret, TEXT),  MEMBER(method, TEXT),
    MEMBER(given, FLAG),     MEMBER(document, FLAG),  MEMBER(machine, FLAG), MEMBER(port, NUMBER),
    MEMBER(token_url, TEXT), MEMBER(resource, TEXT),  MEMBER(access, TEXT),  MEMBER(refresh, TEXT),
    MEMBER(scope, TEXT),     MEMBER(expires, NUMBER), MEMBER(reach, NUMBER), MEMBER(key, TEXT),
    MEMBER(workload, TEXT),  MEMBER(bound, TEXT),
#undef MEMBER
};

static void *member_of(const struct mcp_grant *g, size_t i)
{
    return (char *)(uintptr_t)g + members[i].at;
}

void mcp_grant_done(struct mcp_grant *g)
{
    for (size_t i = 0; i < TN_COUNT(members); i++) {
        char **text = members[i].kind == TEXT ? member_of(g, i) : NULL;
        if (text && *text)
            explicit_bzero(*text, strlen(*text));
        if (text)
            free(*text);
    }
    *g = (struct mcp_grant){0};
}

static void put(const struct mcp_grant *g, struct tn_jw *w)
{
    tn_jw_object(w);
    for (size_t i = 0; i < TN_COUNT(members); i++) {
        const void *at = member_of(g, i);
        if (members[i].kind == TEXT && *(char *const *)at)
            tn_jw_kstr(w, members[i].name, *(char *const *)at);
        else if (members[i].kind == FLAG && *(const bool *)at)
            tn_jw_kbool(w, members[i].name, true);
        else if (members[i].kind == NUMBER && *(const int64_t *)at)
            tn_jw_kint(w, members[i].name, *(const int64_t *)at);
    }
    tn_jw_object_end(w);
}

static void take(struct mcp_grant *g, const struct tn_json *tree)
{
    for (size_t i = 0; i < TN_COUNT(members); i++) {
        const struct tn_json *value = tn_json_get(tree, members[i].name);
        void *at = member_of(g, i);
        if (members[i].kind == TEXT)
            *(char **)at = tn_strdup_or_null(tn_json_str(value, NULL));
        else if (members[i].kind == FLAG)
            *(bool *)at = tn_json_bool(value, false);
        else
            *(int64_t *)at = tn_json_int(value, 0);
    }
}

/* --- the file --------------------------------------------------------------------------------- */

void mcp_vault_init(struct mcp_vault *v, const char *state, const char *url)
{
    char name[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 hash;

    tn_sha256_init(&hash);
    tn_sha256_add(&hash, url, strlen(url));
    tn_sha256_end_hex(&hash, name);
    v->folder = tn_asprintf("%s/mcp", state);
    v->path = tn_asprintf("%s/%.32s.json", v->folder, name);
    v->locks = tn_asprintf("%s/locks", v->folder);
    name[8] = '\0';
    v->number = (uint32_t)strtoul(name, NULL, 16);
}

void mcp_vault_done(struct mcp_vault *v)
{
    free(v->folder);
    free(v->path);
    free(v->locks);
}

static bool is_readable(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLIN};

    return fd >= 0 && poll(&ready, 1, 0) > 0;
}

/* Who holds the lock may be waiting for a person: so this may take long, and is looked after. */
static int lock_byte(int fd, uint32_t number, int stop, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};

    for (;;) {
        int64_t moment = tn_deadline_in(MOMENT_SECONDS);
        bool last = deadline <= moment;
        if (tn_byte_lock(fd, number, last ? deadline : moment, &why) == 0)
            return 0;
        if (is_readable(stop))
            return tn_fail(err, TN_E_GONE, "nobody waits for the login any more");
        if (last || why.code != TN_E_BUSY)
            break;
    }
    if (err)
        *err = why;
    return -1;
}

int mcp_vault_lock(const struct mcp_vault *v, int stop, int64_t deadline, struct tn_error *err)
{
    int made = tn_fs_mkdirs(TN_FS_ANYWHERE, v->folder, 0700, NULL, NULL, err);

    if (made < 0)
        return -1;
    tn_close(made);
    int fd = tn_fs_open(TN_FS_ANYWHERE, v->locks, O_RDWR | O_CREAT | O_NOFOLLOW, 0600, err);
    if (fd < 0 || lock_byte(fd, v->number, stop, deadline, err) == 0)
        return fd;
    tn_close(fd);
    return -1;
}

int mcp_vault_read(const struct mcp_vault *v, struct mcp_grant *g, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(FILE_MAX);
    tn_autojson struct tn_json *tree = NULL;
    struct tn_error why = {0};

    *g = (struct mcp_grant){0};
    if (tn_fs_read(TN_FS_ANYWHERE, v->path, &text, &why) < 0) {
        if (why.code == TN_E_NOT_FOUND || why.code == TN_E_DENIED)
            return 0; /* what is not ours to read is not ours to use */
        if (err)
            *err = why;
        return -1;
    }
    if (tn_json_parse(tn_buf_str(&text), text.len, &tree, err) < 0)
        return tn_error_context(err, "%s", v->path);
    take(g, tree);
    explicit_bzero(text.data, text.len);
    return 0;
}

static int write_text(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;

    if (fchmod(fd, 0600) < 0)
        return tn_fail_errno(err, errno, "fchmod");
    return tn_fs_write(fd, tn_buf_str(text), text->len, err);
}

int mcp_vault_write(const struct mcp_vault *v, const struct mcp_grant *g, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(FILE_MAX);
    struct tn_jw w = tn_jw(&text);
    const struct tn_fs_replace how = {.mode = 0600, .sync = true};

    put(g, &w);
    tn_buf_putc(&text, '\n');
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "what is to be kept for the server is too large");
    int result = tn_fs_replace(TN_FS_ANYWHERE, v->path, &how, write_text, &text, err);
    explicit_bzero(text.data, text.len);
    return result;
}

int mcp_vault_remove(const struct mcp_vault *v, struct tn_error *err)
{
    if (unlink(v->path) < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "%s", v->path);
    return 0;
}
