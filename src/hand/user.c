#include "hand/user.h"

#include <fcntl.h>
#include <fts.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "base/log.h"

#define USUAL_NAME "openhands"
#define USUAL_UID 1000
#define USUAL_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* --- making a user -------------------------------------------------------------------------- */

/* Appends a line to a file of the system's, which is created if it is missing. */
static int append_line(const char *path, mode_t mode, const char *line, struct tn_error *err)
{
    tn_autofd int fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, mode);
    off_t end = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);
    char last = '\n';

    if (end < 0 || (end > 0 && pread(fd, &last, 1, end - 1) != 1))
        return tn_fail_errno(err, errno, "%s", path);
    tn_autofree char *text = tn_asprintf("%s%s", last == '\n' ? "" : "\n", line);
    return tn_fs_write(fd, text, strlen(text), err);
}

/* Passwordless sudo, where there is a sudo. */
static int add_sudoer(struct tn_error *err)
{
    if (access("/etc/sudoers", F_OK) < 0)
        return 0;
    if (append_line("/etc/sudoers", 0440, "%sudo ALL=(ALL) NOPASSWD:ALL\n", err) < 0)
        return tn_error_context(err, "Failed to add sudoer");
    return 0;
}

static int write_buf(int fd, void *ctx, struct tn_error *err)
{
    const struct tn_buf *text = ctx;

    if (write(fd, text->data, text->len) != (ssize_t)text->len)
        return tn_fail_errno(err, errno, "write");
    return 0;
}

/* The line of the group sudo, up to its end; NULL when there is none. */
static const char *sudo_line(const char *groups, const char **end)
{
    const char *line = strncmp(groups, "sudo:", 5) == 0 ? groups : strstr(groups, "\nsudo:");
    int colons = 0;

    if (!line)
        return NULL;
    line += *line == '\n';
    *end = line + strcspn(line, "\n");
    for (const char *p = line; p < *end; p++)
        colons += *p == ':';
    return colons == 3 ? line : NULL;
}

/* Adds the user to the group sudo, where there is one: on file, so that a later start finds it
 * there. */
static int join_sudo(const char *name, struct tn_error *err)
{
    tn_autobuf struct tn_buf old = TN_BUF_INIT(8 << 20), new = TN_BUF_INIT(9 << 20);
    struct tn_fs_replace how = {.mode = 0644, .sync = true, .in_place = true};
    const char *end;

    if (access("/etc/group", F_OK) < 0)
        return 0;
    if (tn_fs_read(TN_FS_ANYWHERE, "/etc/group", &old, err) < 0)
        return -1;
    if (!sudo_line(tn_buf_str(&old), &end))
        return 0;
    tn_buf_add(&new, old.data, (size_t)(end - old.data));
    if (end[-1] != ':')
        tn_buf_putc(&new, ',');
    tn_buf_puts(&new, name);
    tn_buf_puts(&new, end);
    return tn_fs_replace(TN_FS_ANYWHERE, "/etc/group", &how, write_buf, &new, err);
}

static bool is_taken(uid_t uid)
{
    tn_autouser struct tn_user other = {0};
    return tn_user_by_uid(TN_FS_ANYWHERE, uid, &other, NULL) == 0;
}

/* One whose uid another account has too comes first: it is the name that everybody sees then. */
static int add_account(const char *line, bool first, struct tn_error *err)
{
    tn_autobuf struct tn_buf all = TN_BUF_INIT(9 << 20);
    const struct tn_fs_replace how = {.mode = 0644, .sync = true, .in_place = true};

    if (!first)
        return append_line("/etc/passwd", 0644, line, err);
    tn_buf_puts(&all, line);
    if (tn_fs_read(TN_FS_ANYWHERE, "/etc/passwd", &all, err) < 0)
        return -1;
    return tn_fs_replace(TN_FS_ANYWHERE, "/etc/passwd", &how, write_buf, &all, err);
}

static int make_home(const char *home, uid_t uid, gid_t gid, struct tn_error *err)
{
    if ((mkdir("/home", 0755) < 0 && errno != EEXIST) ||
        (mkdir(home, 0755) < 0 && errno != EEXIST) || chown(home, uid, gid) < 0)
        return tn_fail_errno(err, errno, "home directory %s", home);
    return 0;
}

/* Written by hand rather than through useradd: any image will do, also one without it. */
static int create_user(const char *name, uid_t uid, struct tn_user *account, struct tn_error *err)
{
    tn_autofree char *home = tn_asprintf("/home/%s", name);
    const char *shell = access("/bin/bash", X_OK) == 0 ? "/bin/bash" : "/bin/sh";
    tn_autofree char *passwd = tn_asprintf("%s:x:%u:0::%s:%s\n", name, (unsigned)uid, home, shell);
    tn_autofree char *shadow = tn_asprintf("%s:!:::::::\n", name);

    if (strpbrk(name, ":/\n") || !*name || name[0] == '-')
        return tn_fail(err, TN_E_INVALID, "Failed to create user %s: not a user name", name);
    if (add_sudoer(err) < 0)
        return -1;
    if ((mkdir("/etc", 0755) < 0 && errno != EEXIST) ||
        add_account(passwd, is_taken(uid), err) < 0 ||
        (access("/etc/shadow", F_OK) == 0 && append_line("/etc/shadow", 0640, shadow, err) < 0) ||
        join_sudo(name, err) < 0)
        return tn_error_context(err, "Failed to create user %s", name);
    if (make_home(home, uid, 0, err) < 0)
        return tn_error_context(err, "Failed to create user %s", name);
    return tn_user_by_name(TN_FS_ANYWHERE, name, account, err);
}

/* Whoever we are; a uid without a name, as in many containers, gets one from the environment. */
static void take_ourselves(struct tn_user *account)
{
    const char *name = getenv("USER"), *home = getenv("HOME");

    if (tn_user_by_uid(TN_FS_ANYWHERE, geteuid(), account, NULL) == 0)
        return;
    *account = (struct tn_user){
        .name = tn_strdup(geteuid() == 0 ? "root"
                          : name         ? name
                                         : "user"),
        .uid = geteuid(),
        .gid = getegid(),
        .home = tn_strdup(home             ? home
                          : geteuid() == 0 ? "/root"
                                           : "/"),
        .shell = tn_strdup("/bin/sh"),
    };
}

/* Whoever has the uid; a new user if nobody has, of the usual name if that is free. */
static int find_uid(uid_t uid, struct tn_user *account, struct tn_error *err)
{
    tn_autofree char *other = tn_asprintf("user%u", (unsigned)uid);
    const char *const names[] = {USUAL_NAME, other};

    if (tn_user_by_uid(TN_FS_ANYWHERE, uid, account, NULL) == 0)
        return 0;
    for (size_t i = 0; i < TN_COUNT(names); i++) {
        struct tn_user taken = {0};
        if (tn_user_by_name(TN_FS_ANYWHERE, names[i], &taken, NULL) < 0)
            return create_user(names[i], uid, account, err);
        tn_user_done(&taken);
    }
    return tn_fail(err, TN_E_CONFLICT,
                   "user %u: nobody has this uid, and the users %s and %s have others",
                   (unsigned)uid, names[0], names[1]);
}

static int find_name(const char *name, uid_t uid, struct tn_user *account, struct tn_error *err)
{
    if (tn_user_by_name(TN_FS_ANYWHERE, name, account, NULL) < 0)
        return create_user(name, uid, account, err);
    if (account->uid != uid)
        tn_log(TN_LOG_WARN, "the user exists with another uid, which is used from now on",
               tn_log_str("user", account->name), tn_log_int("uid", account->uid));
    return 0;
}

static int find_user(const struct tn_hand_options *o, struct tn_agent_user *user,
                     struct tn_error *err)
{
    const char *env_user = getenv("USER"), *name = o->username ? o->username : USUAL_NAME;
    struct tn_user *account = &user->account;
    uid_t uid = o->user_id.set ? (uid_t)o->user_id.value : USUAL_UID;
    bool by_uid = !o->username && o->user_id.set;
    bool known_name = strcmp(name, "root") == 0 || strcmp(name, USUAL_NAME) == 0;
    bool is_us = env_user && strcmp(env_user, name) == 0 && !known_name;

    user->as_started = geteuid() != 0 || is_us || !o->su_to_user;
    if (by_uid && o->su_to_user && geteuid() != 0 && uid != geteuid())
        return tn_fail(err, TN_E_DENIED, "user %u: only root can become another user than %u",
                       (unsigned)uid, (unsigned)geteuid());
    if (user->as_started || strcmp(name, "root") == 0 || (by_uid && uid == 0)) {
        take_ourselves(account);
        return 0;
    }
    if ((by_uid ? find_uid(uid, account, err) : find_name(name, uid, account, err)) < 0)
        return -1;
    user->switch_user = account->uid != 0;
    /* An account of the machine whose directories a sandbox has: its home was left out. */
    if (strncmp(account->home, "/home/", 6) == 0 && access(account->home, F_OK) < 0 &&
        make_home(account->home, account->uid, account->gid, err) < 0)
        return -1;
    return tn_user_groups(TN_FS_ANYWHERE, account, &user->groups, &user->group_count, err);
}

void tn_agent_user_done(struct tn_agent_user *user)
{
    tn_user_done(&user->account);
    free(TN_TAKE_PTR(user->groups));
}

/* --- the working directory ------------------------------------------------------------------ */

static gid_t workspace_group(void)
{
    const char *name = getenv("SANDBOX_GROUP_ID");
    gid_t gid = 0;
    char *end;

    if (!name || !*name || tn_group_by_name(TN_FS_ANYWHERE, name, &gid, NULL) == 0)
        return gid;
    unsigned long number = strtoul(name, &end, 10);
    return *end ? 0 : (gid_t)number;
}

/* Gives a whole tree to the user, following no link and crossing to no other file system. */
static void give_tree(const char *dir, uid_t uid, gid_t gid)
{
    size_t refused = 0;
    char *const paths[] = {(char *)dir, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_XDEV, NULL);

    for (FTSENT *e; tree && (e = fts_read(tree));) {
        if (e->fts_info != FTS_DP && e->fts_statp->st_uid != uid &&
            fchownat(AT_FDCWD, e->fts_accpath, uid, gid, AT_SYMLINK_NOFOLLOW) < 0)
            refused++;
    }
    if (refused) /* read-only mounts and the like: the agent will meet them as such */
        tn_log(TN_LOG_WARN, "some files could not be given to the user",
               tn_log_int("count", (int64_t)refused));
    if (tree)
        fts_close(tree);
}

static int make_directories(const char *dir, struct tn_error *err)
{
    tn_autofree char *path = tn_strdup(dir);

    for (char *p = path + 1;; p++) {
        if (*p && *p != '/')
            continue;
        char c = *p;
        *p = '\0';
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return tn_fail_errno(err, errno, "working directory %s", path);
        *p = c;
        if (!c)
            break;
    }
    return tn_fs_is_directory(dir) ? 0
                                   : tn_fail(err, TN_E_INVALID,
                                             "working directory %s: there is something else there, "
                                             "not a directory",
                                             dir);
}

/* As the original does, except that a directory that is the user's already is not walked again: on
 * a large mount that takes minutes. */
static int set_up_directory(const char *dir, const struct tn_agent_user *user, struct tn_error *err)
{
    struct stat st;
    mode_t before = umask(002);
    int r = make_directories(dir, err);

    umask(before);
    if (r < 0 || user->as_started)
        return r;
    if (strspn(dir, "/") == strlen(dir)) /* the whole system is nobody's workspace */
        return 0;
    if (stat(dir, &st) == 0 && st.st_uid != user->account.uid)
        give_tree(dir, user->account.uid, workspace_group());
    if (stat(dir, &st) == 0 && (st.st_mode & 0060) != 0060) /* on an overlay a change is a copy */
        chmod(dir, (st.st_mode | 0060) & 07777);
    return 0;
}

int tn_agent_user_set_up(const struct tn_hand_options *o, struct tn_agent_user *user,
                         struct tn_error *err)
{
    *user = (struct tn_agent_user){0};
    if (o->working_dir[0] != '/')
        return tn_fail(err, TN_E_INVALID, "--working-dir must be an absolute path, not %s",
                       o->working_dir);
    if (find_user(o, user, err) < 0)
        return -1;
    return set_up_directory(o->working_dir, user, err);
}

/* --- the shell ------------------------------------------------------------------------------- */

bool tn_agent_has(const char *program)
{
    const char *path = getenv("PATH");

    for (const char *at = path ? path : USUAL_PATH; *at;) {
        size_t n = strcspn(at, ":");
        tn_autofree char *file = tn_asprintf("%.*s/%s", (int)n, at, program);
        if (n > 0 && access(file, X_OK) == 0)
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

const char *tn_agent_shell(const char *wanted)
{
    return strcmp(wanted, "bash") == 0 && !tn_agent_has("bash") && tn_agent_has("sh") ? "sh"
                                                                                      : wanted;
}

/* --- the environment ------------------------------------------------------------------------ */

/* What only the server itself needs, or what is set anew. */
static const char *const dropped[] = {
    "SESSION_API_KEY", "HOME", "USER",   "LOGNAME", "SHELL", "TERM",
    "TENDON_HAND",     "PWD",  "OLDPWD", "SHLVL",   "_",
};

static bool is_dropped(const char *entry)
{
    size_t n = strcspn(entry, "=");
    for (size_t i = 0; i < TN_COUNT(dropped); i++) {
        if (strlen(dropped[i]) == n && memcmp(dropped[i], entry, n) == 0)
            return true;
    }
    return false;
}

char **tn_agent_env(const struct tn_agent_user *user, const char *shell, const char *id)
{
    size_t count = 0, n = 0;
    const struct tn_user *a = &user->account;

    while (environ[count])
        count++;
    char **env = tn_calloc(count + 8, sizeof *env);
    for (size_t i = 0; i < count; i++) {
        if (!is_dropped(environ[i]))
            env[n++] = tn_strdup(environ[i]);
    }
    if (!getenv("PATH"))
        env[n++] = tn_strdup("PATH=" USUAL_PATH);
    const char *home = user->as_started ? getenv("HOME") : NULL;
    env[n++] = tn_asprintf("HOME=%s", home && *home ? home : a->home);
    env[n++] = tn_asprintf("USER=%s", a->name);
    env[n++] = tn_asprintf("LOGNAME=%s", a->name);
    env[n++] = tn_asprintf("SHELL=%s", a->shell[0] ? a->shell : shell);
    env[n++] = tn_strdup("TERM=xterm-256color");
    env[n++] = tn_asprintf("TENDON_HAND=%s", id);
    return env;
}

void tn_agent_env_free(char **env)
{
    for (size_t i = 0; env && env[i]; i++)
        free(env[i]);
    free(env);
}
