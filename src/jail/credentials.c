/* Settings of the host that everybody may read, and that hold a credential: a password in an
 * address, a token, a key.  A mirror's address is of use inside; a password for it is not meant for
 * what runs there. */
#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "jail/jail.h"

enum { SETTINGS_MAX = 1 << 20 };

static const struct {
    const char *host_path, *pattern;
} settings[] = {
    {"/etc", "npmrc"},
    {"/etc", "yarnrc*"},
    {"/etc", "pip.conf"},
    {"/etc", "xdg/pip/pip.conf"},
    {"/etc", "uv/uv.toml"},
    {"/etc", "conda/*condarc"},
    {"/etc", "conda/.condarc"},
    {"/etc", "netrc"},
    {"/etc", "wgetrc"},
    {"/etc", "curlrc"},
    {"/etc", "gitconfig"},
    {"/etc", "gemrc"},
    {"/etc", "environment"},
    {"/etc", "environment.d/*"},
    {"/etc", "profile.d/*"},
    {"/etc", "fstab"},
    {"/etc", "apt/apt.conf"},
    {"/etc", "apt/apt.conf.d/*"},
    {"/etc", "apt/sources.list"},
    {"/etc", "apt/sources.list.d/*"},
    {"/etc", "yum.conf"},
    {"/etc", "yum.repos.d/*"},
    {"/etc", "dnf/dnf.conf"},
    {"/etc", "maven/settings.xml"},
    {"/etc", "mysql/conf.d/*"},
    {"/usr", "etc/npmrc"},
    {"/usr", "local/etc/npmrc"},
    {"/usr", "local/etc/gitconfig"},
};

/* --- what a credential looks like ---------------------------------------------------------- */

/* Names of settings end in one of these. */
static const char *const names[] = {
    "password",   "passwd",     "_auth",      "authtoken", "token",         "secret",
    "api_key",    "apikey",     "api-key",    "secretkey", "access_key",    "secret_key",
    "credential", "passphrase", "access-key", "bindpw",    "authorization",
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* A value, and not only the name of a variable that has it. */
static bool is_value(const char *at, const char *end)
{
    while (at < end && (is_space(*at) || *at == '"' || *at == '\''))
        at++;
    return at < end && *at != '$' && *at != '<' && *at != '#' && *at != ';';
}

/* NAME = value, NAME: value, <NAME>value; netrc has neither sign: there the name begins a word. */
static bool gives_value(const char *begin, const char *word, const char *at, const char *end)
{
    const char *sign = at;
    bool first = word == begin || is_space(word[-1]);

    while (sign < end && (is_space(*sign) || *sign == '"' || *sign == '\''))
        sign++;
    if (sign < end && (*sign == '=' || *sign == ':' || *sign == '>'))
        return is_value(sign + 1, end);
    return first && at < end && is_space(*at) && is_value(at, end) &&
           (word == begin || memmem(begin, (size_t)(word - begin), "login", 5));
}

/* Only where a word begins, also one within a name such as authToken. */
static bool begins_word(const char *begin, const char *at)
{
    return at == begin || !isalnum((unsigned char)at[-1]) ||
           (islower((unsigned char)at[-1]) && isupper((unsigned char)*at));
}

static bool names_secret(const char *begin, const char *end)
{
    for (const char *at = begin; at < end; at++) {
        if (!begins_word(begin, at))
            continue;
        for (size_t i = 0; i < TN_COUNT(names); i++) {
            if (tolower((unsigned char)*at) != names[i][0])
                continue;
            size_t n = strlen(names[i]);
            if ((size_t)(end - at) >= n && strncasecmp(at, names[i], n) == 0 &&
                gives_value(begin, at, at + n, end))
                return true;
        }
    }
    return false;
}

/* scheme://user:password@host */
static bool has_userinfo(const char *begin, const char *end)
{
    const char *at = begin;

    while ((at = memmem(at, (size_t)(end - at), "://", 3))) {
        const char *user = at + 3;
        bool colon = false;
        for (at = user; at < end && !is_space(*at) && !strchr("/\"'<>?#@", *at); at++)
            colon = colon || *at == ':';
        if (at < end && *at == '@' && colon && *user != '$')
            return true;
    }
    return false;
}

static bool text_holds(const char *text, size_t length)
{
    const char *end = text + length;

    for (const char *line = text, *next; line < end; line = next + 1) {
        next = memchr(line, '\n', (size_t)(end - line));
        if (!next)
            next = end;
        while (line < next && is_space(*line))
            line++;
        if (names_secret(line, next) || has_userinfo(line, next))
            return true;
    }
    return false;
}

/* --- which files have one ------------------------------------------------------------------ */

static bool file_holds(int host, const char *path)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SETTINGS_MAX);
    tn_autofd int fd = openat(host, path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false; /* who cannot read it here cannot inside */
    return tn_fs_read_fd(fd, &text, NULL) < 0 || text_holds(tn_buf_str(&text), text.len);
}

int jail_hide_credentials(int host, int mask, const char *host_path, struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(settings); i++) {
        const char *pattern = settings[i].pattern;
        int r = 0;
        if (strcmp(settings[i].host_path, host_path) != 0)
            continue;
        if (strchr(pattern, '*'))
            r = jail_hide_matching(host, mask, pattern, file_holds, err);
        else if (file_holds(host, pattern))
            r = jail_hide(host, mask, pattern, err);
        if (r < 0)
            return -1;
    }
    return 0;
}
