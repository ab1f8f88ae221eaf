/* Code of others that comes in and is run, unseen and not pinned. */
#include <ctype.h>

#include "security/policy/detect.h"
#include "security/policy/glob.h"

static const char known_indexes[] =
    "pypi.org files.pythonhosted.org test.pypi.org pypi.python.org download.pytorch.org "
    "pypi.nvidia.com registry.npmjs.org registry.yarnpkg.com npm.pkg.github.com pypi.anaconda.org "
    "rubygems.org proxy.golang.org index.crates.io";

static const char interpreters[] =
    "bash sh zsh dash ksh ash python python3 python2 node perl ruby php lua eval source . sudo";

/* The command whose output the call runs: it feeds it, or stands in a substitution within it. */
static const struct tn_call *fetched_by(const struct scene *s, const struct seen_call *c)
{
    for (size_t i = 0; i < s->call_count; i++) {
        const struct tn_call *from = s->calls[i].call;
        bool within = from->flags & TN_CALL_SUBSTITUTION && from->start >= c->call->start &&
                      from->end <= c->call->end;
        if (s->calls[i].of == c->of && from != c->call && fetches(from) &&
            (within || (c->call->in && tn_call_feeds(c->of, from, c->call))))
            return from;
    }
    return NULL;
}

/* curl | sh, bash <(curl), sh -c "$(curl)", eval "$(curl)" */
static void look_pipe(struct scene *s, const struct seen_call *c)
{
    const struct tn_call *from;
    struct part part = c->part;

    if (c->call->unseen == TN_SEEN || !word_in(c->call->name, interpreters))
        return;
    from = fetched_by(s, c);
    if (from && from->start < c->call->start) { /* from curl to sh */
        part.text = c->of->tree->text + from->start;
        part.len = c->call->end - from->start;
    }
    if (from)
        scene_add_sign(s, "pipe-to-shell", "runs what it fetches without anybody having seen it",
                       c->call, part);
}

/* curl -o x URL, and x is run in the same action. */
static void look_downloads(struct scene *s)
{
    const struct seen_path *run = run_written(s, fetchers);

    if (run)
        scene_add_sign(s, "run-download", "runs what it fetches without anybody having seen it",
                       run->call, run->part);
}

/* @ and 40 digits of a commit, or #sha256=. */
static bool pinned(const char *url)
{
    const char *at = strrchr(url, '@');
    size_t n = 0;

    if (strstr(url, "#sha256=") || strstr(url, "#sha512="))
        return true;
    while (at && isxdigit((unsigned char)at[1 + n]))
        n++;
    const char *hash = strrchr(url, '#');
    size_t m = 0;
    while (hash && isxdigit((unsigned char)hash[1 + m]))
        m++;
    return n == 40 || m == 40;
}

static bool installs(const struct tn_call *c)
{
    static const char installers[] =
        "pip pip3 pipx uv npm pnpm yarn npx gem cargo go easy_install python python3";

    if (!word_in(c->name, installers))
        return false;
    if (word_in(c->name, "python python3"))
        return tn_call_has(c, "-m") && tn_call_has(c, "pip") && tn_call_has(c, "install");
    return word_in(c->name, "npx easy_install") || tn_call_has(c, "install") ||
           tn_call_has(c, "add") || tn_call_has(c, "i");
}

static void look_install(struct scene *s, const struct seen_call *c)
{
    static const char *const index_options[] = {"--index-url", "--extra-index-url", "-i",
                                                "--registry",  "--index",           "--find-links",
                                                "-f",          "--source"};
    const struct tn_call *call = c->call;

    for (size_t i = 1; i < call->argc; i++) {
        const char *word = call->argv[i].text, *before = call->argv[i - 1].text;
        bool url = strstr(word, "://");
        bool index = false;
        for (size_t k = 0; url && k < TN_COUNT(index_options); k++) {
            size_t n = strlen(index_options[k]);
            index |= strcmp(before, index_options[k]) == 0 ||
                     (strncmp(word, index_options[k], n) == 0 && word[n] == '=');
        }
        if (url && !index && word[0] != '-' && !pinned(word))
            scene_add_sign(s, "url-install", "installs from a URL what nobody has pinned", call,
                           c->part);
        for (size_t u = 0; index && u < s->url_count; u++) {
            if (s->urls[u].call == call && !word_in(s->urls[u].host, known_indexes) &&
                !host_is_local(s->urls[u].host) && strstr(word, s->urls[u].host)) {
                scene_add_sign(s, "index", "installs from an index that is not a known one", call,
                               c->part);
                index = false;
            }
        }
    }
}

static void look_unsigned(struct scene *s, const struct seen_call *c)
{
    static const struct {
        const char *programs, *options;
    } rows[] = {
        {"apt apt-get aptitude",
         "--allow-unauthenticated --force-yes --allow-insecure-repositories"},
        {"apt-key", "add adv"},
        {"yum dnf rpm zypper", "--nogpgcheck --nosignature --no-gpg-checks"},
        {"pip pip3", "--trusted-host"},
        {"apk", "--allow-untrusted"},
    };

    for (size_t r = 0; r < TN_COUNT(rows); r++) {
        for (size_t i = 1; word_in(c->call->name, rows[r].programs) && i < c->call->argc; i++) {
            const char *word = c->call->argv[i].text;
            char name[40];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
            if (word_in(name, rows[r].options))
                scene_add_sign(s, "unsigned", "installs without asking who made it", c->call,
                               c->part);
        }
    }
}

static void look(struct scene *s)
{
    for (size_t i = 0; i < s->call_count; i++) {
        look_pipe(s, &s->calls[i]);
        look_unsigned(s, &s->calls[i]);
        if (installs(s->calls[i].call))
            look_install(s, &s->calls[i]);
    }
    look_downloads(s);
}

const struct detector detect_supply_chain = {
    .name = "supply-chain",
    .about = "code of others that is run unseen: curl to a shell, installs from URLs that are not "
             "pinned, other indexes, packages without signature",
    .kinds = "pipe-to-shell run-download url-install index unsigned",
    .look = look,
};
