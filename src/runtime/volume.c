#include "runtime/volume.h"

#include <stdint.h>

#include "base/buf.h"
#include "jail/tree-copy.h"

#define LONG_FORM "volume:"

void tn_volume_done(struct tn_volume *v)
{
    free(v->host);
    free(v->inside);
    free(v->below);
    free(v->mode);
    *v = (struct tn_volume){0};
}

/* --- the mode ---------------------------------------------------------------------------- */

struct mode_word {
    const char *word;
    size_t flag; /* offset of the bool it sets, or SIZE_MAX */
};

static const struct mode_word mode_words[] = {
    {"rw", SIZE_MAX},
    {"ro", offsetof(struct tn_volume, read_only)},
    {"overlay", offsetof(struct tn_volume, overlay)},
    {"z", SIZE_MAX},
    {"Z", SIZE_MAX},
};

static const struct mode_word *find_mode(const char *s, size_t n)
{
    for (size_t i = 0; i < TN_COUNT(mode_words); i++)
        if (strlen(mode_words[i].word) == n && memcmp(mode_words[i].word, s, n) == 0)
            return &mode_words[i];
    return NULL;
}

static int read_mode(const char *mode, struct tn_volume *out, struct tn_error *err)
{
    bool writable = false;

    for (const char *at = mode;; at++) {
        size_t n = strcspn(at, ",");
        const struct mode_word *m = find_mode(at, n);
        if (!m)
            return tn_fail(err, TN_E_INVALID,
                           "expected a mode of rw, ro, overlay, z or Z, found '%.*s'",
                           (int)(n < 40 ? n : 40), at);
        if (m->flag != SIZE_MAX)
            *(bool *)((char *)out + m->flag) = true;
        writable |= strcmp(m->word, "rw") == 0;
        at += n;
        if (!*at)
            break;
    }
    if (writable && out->read_only)
        return tn_fail(err, TN_E_INVALID, "the mode '%.40s' is both rw and ro", mode);
    return 0;
}

/* --- the two places ---------------------------------------------------------------------- */

static bool has_dot_dot(const char *path)
{
    for (const char *at = path; at; at = strchr(at, '/')) {
        at += strspn(at, "/");
        size_t n = strcspn(at, "/");
        if (n == 2 && at[0] == '.' && at[1] == '.')
            return true;
        if (!*at)
            break;
    }
    return false;
}

/* As every engine names its volumes. */
static bool is_volume_name(const char *s)
{
    static const char others[] = "_.-";
    size_t n = 0;

    for (; s[n]; n++) {
        bool alphanumeric = (s[n] >= 'a' && s[n] <= 'z') || (s[n] >= 'A' && s[n] <= 'Z') ||
                            (s[n] >= '0' && s[n] <= '9');
        if (!alphanumeric && (n == 0 || !strchr(others, s[n])))
            return false;
    }
    return n > 1 && n <= 255;
}

/* Without doubled and trailing slashes, and without "." parts. */
static char *clean_path(const char *path)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(strlen(path) + 2);

    for (const char *at = path; *at;) {
        at += strspn(at, "/");
        size_t n = strcspn(at, "/");
        if (n > 0 && !(n == 1 && at[0] == '.')) {
            tn_buf_putc(&out, '/');
            tn_buf_add(&out, at, n);
        }
        at += n;
    }
    if (out.len == 0)
        tn_buf_putc(&out, '/');
    return tn_buf_take(&out);
}

bool tn_inside_is_ours(const char *path)
{
    tn_autofree char *clean = clean_path(path);
    size_t n = strlen(TN_INSIDE);

    return strncmp(clean, TN_INSIDE, n) == 0 && (clean[n] == '/' || !clean[n]);
}

static int check_places(struct tn_volume *v, struct tn_error *err)
{
    if (!v->named && v->host[0] != '/') {
        if (v->host[0] == '.' || v->host[0] == '~' || strchr(v->host, '/'))
            return tn_fail(err, TN_E_INVALID,
                           "'%.80s' is neither an absolute path nor the name of a volume", v->host);
        v->named = true;
    }
    if (v->named && !is_volume_name(v->host))
        return tn_fail(
            err, TN_E_INVALID,
            "'%.80s' is no name for a volume: two or more letters, digits, '_', '.', '-'", v->host);
    if (v->below && (has_dot_dot(v->below) || strcmp(v->below, "/") == 0))
        return tn_fail(err, TN_E_INVALID, "expected a directory of the volume without '..'");
    if (v->named && v->overlay)
        return tn_fail(err, TN_E_INVALID,
                       "overlay needs a directory of this machine, not the volume '%.80s'",
                       v->host);
    if (v->inside[0] != '/' || has_dot_dot(v->inside))
        return tn_fail(err, TN_E_INVALID,
                       "expected an absolute path without '..' inside the sandbox, found '%.80s'",
                       v->inside);
    if (strcmp(v->inside, "/") == 0)
        return tn_fail(err, TN_E_INVALID, "nothing can be mounted over the root of a sandbox");
    if (tn_inside_is_ours(v->inside))
        return tn_fail(err, TN_E_INVALID, "nothing can be mounted in " TN_INSIDE ", which is ours");
    return 0;
}

static int read_parts(const char *text, struct tn_volume *out, struct tn_error *err)
{
    /* volume:/data is a volume with that name. */
    bool named =
        strncmp(text, LONG_FORM, sizeof LONG_FORM - 1) == 0 && text[sizeof LONG_FORM - 1] != '/';
    const char *host = named ? text + sizeof LONG_FORM - 1 : text;
    size_t host_len = strcspn(host, ":");
    const char *inside = host[host_len] ? host + host_len + 1 : "";
    size_t inside_len = strcspn(inside, ":");
    const char *mode = inside[inside_len] ? inside + inside_len + 1 : "rw";

    if (host_len == 0 || inside_len == 0 || strchr(mode, ':'))
        return tn_fail(err, TN_E_INVALID, "expected HOST:INSIDE or HOST:INSIDE:MODE");
    tn_autofree char *host_text = tn_strndup(host, host_len);
    tn_autofree char *inside_text = tn_strndup(inside, inside_len);
    out->named = named;
    char *slash = named ? strchr(host_text, '/') : NULL;
    if (slash) {
        out->below = has_dot_dot(slash) ? tn_strdup(slash) : clean_path(slash);
        *slash = '\0';
    }
    out->host = host_text[0] == '/' && !has_dot_dot(host_text) ? clean_path(host_text)
                                                               : tn_strdup(host_text);
    out->inside = inside_text[0] == '/' ? clean_path(inside_text) : tn_strdup(inside_text);
    out->mode = tn_strdup(mode);
    if (read_mode(mode, out, err) < 0)
        return -1;
    return check_places(out, err);
}

int tn_volume_parse(const char *text, struct tn_volume *out, struct tn_error *err)
{
    *out = (struct tn_volume){0};
    if (read_parts(text, out, err) == 0)
        return 0;
    tn_volume_done(out);
    return tn_error_context(err, "volume '%.120s'", text);
}

int64_t tn_volume_measure(int fd, struct tn_tree_walk **walk, int64_t deadline, bool *partial)
{
    struct tn_tree_count count = {0};
    struct tn_error why = {0};

    if (*walk && !tn_tree_walk_is_of(*walk, fd)) /* another one by that name */
        tn_volume_walk_end(walk);
    if (!*walk)
        *walk = tn_tree_walk_new(fd, &why);
    if (!*walk || tn_tree_walk_on(*walk, deadline, &count, &why))
        *partial = true;
    if (why.code != TN_E_TIMEOUT)
        tn_volume_walk_end(walk);
    return (int64_t)count.bytes;
}

void tn_volume_walk_end(struct tn_tree_walk **walk)
{
    tn_tree_walk_free(TN_TAKE_PTR(*walk));
}

static bool starts_as_path(const char *text, const char *name)
{
    size_t n = strlen(name);

    return strncmp(text, name, n) == 0 && (text[n] == '/' || text[n] == ':');
}

char *tn_volume_absolute(const char *text, struct tn_error *err)
{
    bool home = starts_as_path(text, "~");
    bool here = starts_as_path(text, "."), above = starts_as_path(text, "..");
    size_t n = strcspn(text, ":");

    if (!home && !here && !above)
        return tn_strdup(text);
    if (home) {
        const char *directory = getenv("HOME");
        if (directory && directory[0] == '/')
            return tn_asprintf("%s%s", directory, text + 1);
        tn_fail(err, TN_E_INVALID, "volume '%.120s': HOME is not set", text);
        return NULL;
    }
    tn_autofree char *relative = tn_strndup(text, n);
    tn_autofree char *path = realpath(relative, NULL);
    if (path)
        return tn_asprintf("%s%s", path, text + n);
    tn_fail_errno(err, errno, "volume '%.120s'", text);
    return NULL;
}

/* --- several ----------------------------------------------------------------------------- */

int tn_volumes_each(const char *text, tn_volume_fn fn, void *ctx)
{
    while (*text) {
        size_t n = strcspn(text, ",");
        /* A comma also stands between the words of a mode. */
        while (text[n]) {
            size_t word = strcspn(text + n + 1, ",");
            if (!find_mode(text + n + 1, word))
                break;
            n += 1 + word;
        }
        const char *from = text, *to = text + n;
        while (from < to && *from == ' ')
            from++;
        while (to > from && to[-1] == ' ')
            to--;
        tn_autofree char *one = tn_strndup(from, (size_t)(to - from));
        int result = *one ? fn(one, ctx) : 0;
        if (result)
            return result;
        text += n + (text[n] == ',');
    }
    return 0;
}
