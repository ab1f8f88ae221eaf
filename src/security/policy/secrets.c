/* Keys and passwords that stand in a text: the shapes of known vendors, and values that look random
 * behind a name that says what they are. */
#include <ctype.h>
#include <math.h>
#include <strings.h>

#include "security/policy/detect.h"

enum charset {
    SET_HEX,   /* 0-9 a-f */
    SET_UPPER, /* 0-9 A-Z */
    SET_ALNUM,
    SET_WORD, /* and _ - */
    SET_BASE, /* and + / = . */
};

struct shape {
    const char *prefix;
    enum charset set;
    size_t least, most; /* bytes behind the prefix */
    const char *text;
};

/* clang-format off */
static const struct shape shapes[] = {
    {"AKIA",             SET_UPPER, 16, 16,   "a key of AWS"},
    {"ASIA",             SET_UPPER, 16, 16,   "a session key of AWS"},
    {"ghp_",             SET_ALNUM, 36, 36,   "a token of GitHub"},
    {"gho_",             SET_ALNUM, 36, 36,   "a token of GitHub"},
    {"ghu_",             SET_ALNUM, 36, 36,   "a token of GitHub"},
    {"ghs_",             SET_ALNUM, 36, 36,   "a token of GitHub"},
    {"ghr_",             SET_ALNUM, 36, 36,   "a token of GitHub"},
    {"github_pat_",      SET_WORD,  60, 100,  "a token of GitHub"},
    {"glpat-",           SET_WORD,  20, 60,   "a token of GitLab"},
    {"sk-ant-",          SET_WORD,  40, 140,  "a key of Anthropic"},
    {"sk-proj-",         SET_WORD,  40, 200,  "a key of OpenAI"},
    {"sk-or-v1-",        SET_HEX,   64, 64,   "a key of OpenRouter"},
    {"sk-",              SET_ALNUM, 32, 64,   "a key of OpenAI's kind"},
    {"gsk_",             SET_ALNUM, 40, 60,   "a key of Groq"},
    {"hf_",              SET_ALNUM, 34, 40,   "a token of Hugging Face"},
    {"xoxb-",            SET_WORD,  30, 120,  "a token of Slack"},
    {"xoxp-",            SET_WORD,  30, 120,  "a token of Slack"},
    {"xoxa-",            SET_WORD,  30, 120,  "a token of Slack"},
    {"xapp-",            SET_WORD,  30, 160,  "a token of Slack"},
    {"hooks.slack.com/services/T", SET_BASE, 30, 80, "a webhook of Slack"},
    {"discord.com/api/webhooks/",  SET_BASE, 60, 120, "a webhook of Discord"},
    {"AIza",             SET_WORD,  35, 35,   "a key of Google"},
    {"ya29.",            SET_WORD,  30, 300,  "a token of Google"},
    {"GOCSPX-",          SET_WORD,  28, 28,   "a client secret of Google"},
    {"sk_live_",         SET_ALNUM, 24, 120,  "a live key of Stripe"},
    {"rk_live_",         SET_ALNUM, 24, 120,  "a live key of Stripe"},
    {"whsec_",           SET_BASE,  32, 80,   "a webhook secret of Stripe"},
    {"SG.",              SET_BASE,  60, 70,   "a key of SendGrid"},
    {"npm_",             SET_ALNUM, 36, 36,   "a token of npm"},
    {"pypi-AgE",         SET_WORD,  50, 300,  "a token of PyPI"},
    {"dop_v1_",          SET_HEX,   64, 64,   "a token of DigitalOcean"},
    {"dckr_pat_",        SET_WORD,  27, 40,   "a token of Docker Hub"},
    {"shpat_",           SET_HEX,   32, 32,   "a token of Shopify"},
    {"dapi",             SET_HEX,   32, 34,   "a token of Databricks"},
    {"hvs.",             SET_WORD,  24, 140,  "a token of Vault"},
    {"lin_api_",         SET_ALNUM, 32, 50,   "a key of Linear"},
    {"figd_",            SET_WORD,  40, 60,   "a token of Figma"},
    {"glsa_",            SET_WORD,  32, 60,   "a token of Grafana"},
    {"sntrys_",          SET_BASE,  40, 300,  "a token of Sentry"},
    {"tskey-",           SET_WORD,  20, 80,   "a key of Tailscale"},
    {"AGE-SECRET-KEY-1", SET_UPPER, 58, 58,   "a key of age"},
    {"AccountKey=",      SET_BASE,  86, 90,   "a storage key of Azure"},
    {"-----BEGIN PRIVATE KEY-----",         SET_BASE, 0, 0, "a private key"},
    {"-----BEGIN RSA PRIVATE KEY-----",     SET_BASE, 0, 0, "a private key"},
    {"-----BEGIN EC PRIVATE KEY-----",      SET_BASE, 0, 0, "a private key"},
    {"-----BEGIN OPENSSH PRIVATE KEY-----", SET_BASE, 0, 0, "a private key"},
    {"-----BEGIN PGP PRIVATE KEY BLOCK-----", SET_BASE, 0, 0, "a private key"},
};
/* clang-format on */

static bool in_set(enum charset set, char c)
{
    unsigned char u = (unsigned char)c;

    switch (set) {
    case SET_HEX:
        return isdigit(u) || (c >= 'a' && c <= 'f');
    case SET_UPPER:
        return isdigit(u) || isupper(u);
    case SET_ALNUM:
        return isalnum(u);
    case SET_WORD:
        return isalnum(u) || c == '_' || c == '-';
    case SET_BASE:
        return isalnum(u) || (c && strchr("_-+/=.", c));
    }
    return false;
}

/* Bits per byte. */
static double entropy(const char *text, size_t n)
{
    unsigned counts[256] = {0};
    double bits = 0;

    for (size_t i = 0; i < n; i++)
        counts[(unsigned char)text[i]]++;
    for (size_t i = 0; i < 256; i++) {
        if (counts[i])
            bits -= counts[i] / (double)n * log2(counts[i] / (double)n);
    }
    return bits;
}

/* What documentation writes in the place of a secret. */
static bool placeholder(const char *text, size_t n)
{
    static const char *const words[] = {"example",    "xxxx",        "your",     "test",
                                        "dummy",      "fake",        "sample",   "abcd",
                                        "1234567890", "placeholder", "changeme", "00000000"};

    for (size_t i = 0; i < TN_COUNT(words); i++) {
        size_t m = strlen(words[i]);
        for (size_t at = 0; at + m <= n; at++) {
            if (strncasecmp(text + at, words[i], m) == 0)
                return true;
        }
    }
    return false;
}

/* The secret itself is not told again: its first letters are. */
static void add(struct scene *s, const char *field, const char *text, size_t n, const char *what)
{
    char *quoted = tn_arena_get(s->pool, 64);

    snprintf(quoted, 64, "%.*s... (%zu bytes)", n > 6 ? 6 : (int)n / 2, text, n);
    scene_add_sign(s, "secret", what, NULL, (struct part){field, quoted, strlen(quoted)});
}

/* The shape whose prefix stands here and has a value behind it; its length in *n. */
static const struct shape *shape_at(const char *at, const char *end, size_t *n)
{
    for (size_t i = 0; i < TN_COUNT(shapes); i++) {
        const struct shape *h = &shapes[i];
        size_t prefix = strlen(h->prefix), more = 0;
        if (*at != *h->prefix || (size_t)(end - at) < prefix || memcmp(at, h->prefix, prefix) != 0)
            continue;
        while (at + prefix + more < end && more <= h->most && in_set(h->set, at[prefix + more]))
            more++;
        *n = prefix + more;
        if (h->most == 0 || (more >= h->least && more <= h->most))
            return h;
    }
    return NULL;
}

/* The name before a = or : says that a secret follows. */
static bool secret_name(const char *text, const char *sign)
{
    static const char *const words[] = {"api_key",     "apikey",     "api-key", "secret",
                                        "token",       "password",   "passwd",  "credential",
                                        "private_key", "access_key", "auth_key"};
    const char *end = sign, *at;

    while (end > text && (isspace((unsigned char)end[-1]) || end[-1] == '"' || end[-1] == '\''))
        end--;
    at = end;
    while (at > text && in_set(SET_WORD, at[-1]))
        at--;
    for (size_t i = 0; i < TN_COUNT(words); i++) {
        size_t n = strlen(words[i]);
        for (const char *c = at; c + n <= end; c++) {
            if (strncasecmp(c, words[i], n) == 0)
                return true;
        }
    }
    return false;
}

/* A value that looks random, behind such a name. */
static size_t random_value(const char *text, const char *sign, const char *end)
{
    const char *at = sign + 1;
    size_t n = 0, digits = 0, letters = 0;

    while (at < end && (*at == ' ' || *at == '"' || *at == '\'' || *at == '='))
        at++;
    while (at + n < end && n < 200 && in_set(SET_BASE, at[n])) {
        digits += isdigit((unsigned char)at[n]) != 0;
        letters += isalpha((unsigned char)at[n]) != 0;
        n++;
    }
    if (n < 20 || n > 160 || digits < 3 || letters < 3 || !secret_name(text, sign) ||
        placeholder(at, n) || memchr(at, '/', n > 8 ? 8 : n))
        return 0;
    return entropy(at, n) >= (n >= 32 ? 3.3 : 3.7) ? (size_t)(at + n - sign) : 0;
}

/* user:password@ in a URL. */
static size_t url_password(const char *at, const char *end)
{
    const char *colon = NULL, *c = at + 3;

    for (; c < end && !isspace((unsigned char)*c) && !strchr("/\"'?#", *c); c++) {
        if (*c == ':' && !colon)
            colon = c;
        else if (*c == '@' && colon && c - colon > 4 && colon > at + 3 && colon[1] != '$' &&
                 colon[1] != '{' && colon[1] != '<' &&
                 !placeholder(colon + 1, (size_t)(c - colon - 1)) &&
                 strncasecmp(colon + 1, "password", 8) != 0 &&
                 strncasecmp(colon + 1, "postgres", 8) != 0)
            return (size_t)(c - at);
    }
    return 0;
}

void find_secrets(struct scene *s, const char *field, const char *text, size_t n)
{
    const char *end = text + n;
    size_t len = 0;

    for (const char *at = text; at < end; at++) {
        bool begins = at == text || !in_set(SET_WORD, at[-1]);
        const struct shape *h = begins ? shape_at(at, end, &len) : NULL;
        if (h && !(h->most && placeholder(at, len))) {
            add(s, field, at, len, h->text);
            at += len - 1;
        } else if ((*at == '=' || *at == ':') && (len = random_value(text, at, end))) {
            add(s, field, at + 1, len - 1, "a value that looks like a secret");
            at += len - 1;
        } else if (*at == ':' && end - at > 3 && at[1] == '/' && at[2] == '/' &&
                   (len = url_password(at, end))) {
            add(s, field, at + 3, len - 3, "a password in a URL");
            at += len - 1;
        }
    }
}

static void look(struct scene *s)
{
    const struct tn_action *a = s->action;

    if (!a)
        return;
    if (a->type == TN_ACTION_RUN && a->run.command)
        find_secrets(s, "args.command", a->run.command, strlen(a->run.command));
    if (a->type == TN_ACTION_RUN_IPYTHON && a->run_ipython.code)
        find_secrets(s, "args.code", a->run_ipython.code, strlen(a->run_ipython.code));
    if (a->type != TN_ACTION_RUN) {
        for (size_t i = 0; i < s->content_count; i++)
            find_secrets(s, s->contents[i].part.field, s->contents[i].text, s->contents[i].len);
        for (size_t i = 0; i < s->url_count; i++)
            find_secrets(s, s->urls[i].part.field, s->urls[i].path, strlen(s->urls[i].path));
    }
}

const struct detector detect_secrets = {
    .name = "secrets",
    .about = "keys of known vendors, private keys, passwords in URLs, and values that look random "
             "behind a name such as api_key",
    .kinds = "secret",
    .look = look,
};
