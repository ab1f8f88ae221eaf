/* Whole files, to and from a sandbox. */
#include <sys/mman.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/mcp/mcp.h"
#include "runtime/hand-files.h"
#include "runtime/hand-sessions.h"

#define LOOK_SECONDS 30.0
#define MOVE_SECONDS 60.0

char *mcp_absolute(struct tn_sandbox *sb, const char *path, struct tn_error *err)
{
    tn_autojson struct tn_json *session = NULL;
    struct tn_hand_address at;

    if (*path == '/')
        return tn_strdup(path);
    if (tn_sandbox_address(sb, &at.address, &at.key, tn_deadline_in(LOOK_SECONDS), err) < 0 ||
        tn_hand_session_get(&at, "main", &session, tn_deadline_in(LOOK_SECONDS), err) < 0)
        return NULL;
    const char *cwd = tn_json_get_str(session, "cwd", "");
    if (!*path || strcmp(path, ".") == 0)
        return tn_strdup(cwd);
    return tn_asprintf("%s/%s", strcmp(cwd, "/") == 0 ? "" : cwd, path);
}

/* Its files, and the path made absolute (the caller's). */
static struct tn_hand_files *open_files(struct tn_sandbox *sb, const char *path, char **absolute,
                                        struct tn_error *err)
{
    const char *address, *key;

    if (tn_sandbox_address(sb, &address, &key, tn_deadline_in(LOOK_SECONDS), err) < 0 ||
        !(*absolute = mcp_absolute(sb, path, err)))
        return NULL;
    return tn_hand_files_new(address, key, err);
}

int mcp_fetch(struct tn_sandbox *sb, const char *path, struct tn_buf *bytes, struct tn_error *err)
{
    tn_autofree char *absolute = NULL;
    tn_autofiles struct tn_hand_files *files = open_files(sb, path, &absolute, err);
    tn_autoentry struct tn_entry entry = {0};

    if (!files ||
        tn_hand_files_stat(files, absolute, true, &entry, tn_deadline_in(LOOK_SECONDS), err) < 0)
        return -1;
    if (entry.type != TN_ENTRY_FILE)
        return tn_fail(err, TN_E_INVALID, "%s is no file", path);
    if (entry.size > MCP_FILE_MAX)
        return tn_fail(err, TN_E_TOO_LARGE, "%s is larger than %d MiB: use the shell", path,
                       MCP_FILE_MAX >> 20);
    tn_autofd int memory = memfd_create("file", MFD_CLOEXEC);
    if (memory < 0)
        return tn_fail_errno(err, errno, "memory for %s", path);
    int64_t n = tn_hand_files_read(files, absolute, 0, entry.size, memory, NULL, NULL,
                                   tn_deadline_in(MOVE_SECONDS), err);
    if (n < 0)
        return -1;
    char *to = tn_buf_reserve(bytes, (size_t)n + 1);
    if (!to || pread(memory, to, (size_t)n, 0) != n)
        return tn_fail(err, TN_E_INTERNAL, "cannot hold %s", path);
    tn_buf_grew(bytes, (size_t)n);
    return 0;
}

static int make_parents(struct tn_hand_files *files, const char *path, struct tn_error *err)
{
    const char *slash = strrchr(path, '/');
    tn_autofree char *parent = tn_strndup(path, (size_t)(slash - path));

    if (!*parent)
        return 0;
    return tn_hand_files_mkdir(files, parent, -1, tn_deadline_in(LOOK_SECONDS), err);
}

int mcp_store(struct tn_sandbox *sb, const char *path, const char *bytes, size_t n,
              struct tn_error *err)
{
    tn_autofree char *absolute = NULL;
    tn_autofiles struct tn_hand_files *files = open_files(sb, path, &absolute, err);

    if (!files || make_parents(files, absolute, err) < 0)
        return -1;
    tn_autofd int memory = memfd_create("file", MFD_CLOEXEC);
    if (memory < 0 || pwrite(memory, bytes, n, 0) != (ssize_t)n)
        return tn_fail_errno(err, errno, "memory for %s", path);
    return tn_hand_files_write(files, absolute, memory, (int64_t)n, -1, NULL, NULL,
                               tn_deadline_in(MOVE_SECONDS), err);
}

bool mcp_is_text(const struct tn_buf *bytes)
{
    return !memchr(tn_buf_str(bytes), '\0', bytes->len) &&
           tn_utf8_valid(tn_buf_str(bytes), bytes->len);
}
