/* Settings of the host that everybody may read, and that hold a credential: a password in an
 * address, a token, a key.  A mirror's address is of use inside; a password for it is not meant for
 * what runs there. */
#include <ctype.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "jail/jail.h"

enum { SETTINGS_MAX = 1 << 20 };

const char *const jail_settings[] = {
    "/etc/npmrc",
    "/etc/yarnrc*",
    "/etc/pip.conf",
    "/etc/xdg/pip/pip.conf",
    "/etc/uv/uv.toml",
    "/etc/conda/*condarc",
    "/etc/conda/.condarc",
    "/etc/netrc",
    "/etc/wgetrc",
    "/etc/curlrc",
    "/etc/gitconfig",
    "/etc/gemrc",
    "/etc/environment",
    "/etc/environment.d/*",
    "/etc/profile.d/*",
    "/etc/fstab",
    "/etc/apt/apt.conf",
    "/etc/apt/apt.conf.d/*",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d/*",
    "/etc/yum.conf",
    "/etc/yum.repos.d/*",
    "/etc/dnf/dnf.conf",
    "/etc/maven/settings.xml",
    "/etc/mysql/conf.d/*",
    "/usr/etc/npmrc",
    "/usr/local/etc/npmrc",
    "/usr/local/etc/gitconfig",
    NULL,
};

/* --- what a credential looks like ---------------------------------------------------------- */

/* How a value follows a name. */
enum shape {
    SIGNED, /* NAME = value, NAME: value, <NAME>value */
    SPACED, /* also NAME value, in a line of netrc */
    PAIR,   /* NAME = user:password, also without a sign, as in curlrc; cifs: user%password */
    FLAG,   /* the same, where the name begins a line */
};

/* Names of settings end in one of these. */
static const struct {
    const char *text;
    enum shape shape;
} names[] = {
    {"password", SPACED},   {"passwd", SPACED},     {"pass", SIGNED},
    {"_auth", SPACED},      {"authtoken", SPACED},  {"token", SPACED},
    {"secret", SPACED},     {"api_key", SPACED},    {"apikey", SPACED},
    {"api-key", SPACED},    {"secretkey", SPACED},  {"access_key", SPACED},
    {"secret_key", SPACED}, {"credential", SPACED}, {"passphrase", SPACED},
    {"access-key", SPACED}, {"bindpw", SPACED},     {"authorization", SPACED},
    {"pgpassword", SIGNED}, {"mysql_pwd", SIGNED},  {"user", PAIR},
    {"-u", FLAG},
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static const char *skip(const char *at, const char *end)
{
    while (at < end && (is_space(*at) || *at == '"' || *at == '\''))
        at++;
    return at;
}

/* A value, and not only the name of a variable that has it. */
static bool is_value(const char *at, const char *end)
{
    at = skip(at, end);
    return at < end && !strchr("$<#;", *at);
}

static bool begins(const char *line, const char *end, const char *word)
{
    size_t n = strlen(word);

    return (size_t)(end - line) > n && strncasecmp(line, word, n) == 0 && is_space(line[n]);
}

/* Whether the words before a name are those of netrc, in which no sign comes after a name. */
static bool is_netrc(const char *line, const char *word)
{
    return word == line || begins(line, word, "machine") || begins(line, word, "default") ||
           begins(line, word, "account") || memmem(line, (size_t)(word - line), "login", 5);
}

static bool has_pair(const char *at, const char *end)
{
    while (at < end && !is_space(*at) && !strchr(":%\"',", *at))
        at++;
    return at < end && (*at == ':' || *at == '%') && at + 1 < end && !is_space(at[1]) &&
           is_value(at + 1, end);
}

static bool gives_value(const char *line, const char *word, const char *at, const char *end,
                        enum shape shape)
{
    const char *sign = skip(at, end);
    bool has_sign = sign < end && (*sign == '=' || *sign == ':' || *sign == '>');
    bool spaced = at < end && is_space(*at);

    if (shape == FLAG)
        return word == line && has_pair(sign, end);
    if (shape == PAIR)
        return (has_sign || spaced) && has_pair(skip(sign + has_sign, end), end);
    if (has_sign)
        return is_value(sign + 1, end);
    return shape == SPACED && spaced && (word == line || is_space(word[-1])) && is_value(at, end) &&
           is_netrc(line, word);
}

/* Only where a word begins, also one within a name such as authToken. */
static bool begins_word(const char *begin, const char *at)
{
    return at == begin || !isalnum((unsigned char)at[-1]) ||
           (islower((unsigned char)at[-1]) && isupper((unsigned char)*at));
}

static bool is_secret(const char *line, const char *at, const char *end)
{
    for (size_t i = 0; i < TN_COUNT(names); i++) {
        if (tolower((unsigned char)*at) != names[i].text[0])
            continue;
        size_t n = strlen(names[i].text);
        if ((size_t)(end - at) >= n && strncasecmp(at, names[i].text, n) == 0 &&
            gives_value(line, at, at + n, end, names[i].shape))
            return true;
    }
    return false;
}

/* Most bytes begin none of the names: that is asked first. */
static bool names_secret(const char *line, const char *end)
{
    static bool first[UCHAR_MAX + 1], known;

    for (size_t i = 0; !known && i < TN_COUNT(names); i++)
        first[(unsigned char)names[i].text[0]] = first[toupper((unsigned char)names[i].text[0])] =
            true;
    known = true;
    for (const char *at = line; at < end; at++)
        if (first[(unsigned char)*at] && begins_word(line, at) && is_secret(line, at, end))
            return true;
    return false;
}

/* Whether a user alone is more than a name there: servers of the web take a token for one. */
static bool is_web(const char *begin, const char *colon)
{
    return (colon - begin >= 4 && strncasecmp(colon - 4, "http", 4) == 0) ||
           (colon - begin >= 5 && strncasecmp(colon - 5, "https", 5) == 0);
}

/* scheme://user:password@host, https://token@host */
static bool has_userinfo(const char *begin, const char *end)
{
    const char *at = begin;

    while ((at = memmem(at, (size_t)(end - at), "://", 3))) {
        const char *user = at + 3, *password = NULL;
        bool web = is_web(begin, at);
        for (at = user; at < end && !is_space(*at) && !strchr("/\"'<>?#@", *at); at++)
            if (*at == ':' && !password)
                password = at + 1;
        if (at == end || *at != '@')
            continue;
        if (password && password < at) {
            if (*password != '$')
                return true;
            continue;
        }
        size_t n = (size_t)((password ? password - 1 : at) - user);
        if (web && n > 0 && *user != '$' && !(n == 3 && memcmp(user, "git", 3) == 0))
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

bool jail_holds_credential(int fd)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SETTINGS_MAX);
    char small[8192];
    struct stat st;

    ssize_t n = pread(fd, small, sizeof small, 0); /* nearly all of them */
    if (n >= 0 && n < (ssize_t)sizeof small)
        return text_holds(small, (size_t)n);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return false;
    return tn_fs_read_fd(fd, &text, NULL) < 0 || text_holds(tn_buf_str(&text), text.len);
}
