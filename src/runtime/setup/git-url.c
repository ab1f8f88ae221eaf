#include <strings.h>

#include "net/url.h"
#include "runtime/setup/git.h"
#include "runtime/setup/shell.h"

/* What a shell function prints for git.  "$t" is the token. */
#define HELPER(variable, lines)                                                                    \
    "!f() { test \"$1\" = get || exit 0; t=$" variable "; test -n \"$t\" || exit 0; printf " lines \
    "; }; f"

static const struct provider {
    const char *name, *key, *host;
    const char *user;   /* before the token in a URL; NULL: the token is the user */
    const char *helper; /* see HELPER */
    const char *shared; /* after the owner: the repository of microagents for all */
} providers[] = {
    [TN_GIT_GITHUB] = {"github", "github_token", "github.com", NULL,
                       HELPER("GITHUB_TOKEN", "'username=x-access-token\\npassword=%s\\n' \"$t\""),
                       "/.openhands"},
    [TN_GIT_GITLAB] = {"gitlab", "gitlab_token", "gitlab.com", "oauth2",
                       HELPER("GITLAB_TOKEN", "'username=oauth2\\npassword=%s\\n' \"$t\""),
                       "/openhands-config"},
    [TN_GIT_BITBUCKET] =
        {"bitbucket", "bitbucket_token", "bitbucket.org", "x-token-auth",
         HELPER("BITBUCKET_TOKEN",
                "'username=%s\\npassword=%s\\n' \"$(case $t in *:*) echo \"${t%%:*}\";; *) echo "
                "x-token-auth;; esac)\" \"${t#*:}\""),
         "/.openhands"},
    [TN_GIT_AZURE_DEVOPS] = {"azure_devops", "azure_devops_token", "dev.azure.com", NULL,
                             HELPER("AZURE_DEVOPS_TOKEN", "'username=pat\\npassword=%s\\n' \"$t\""),
                             "/openhands-config/openhands-config"},
    [TN_GIT_ENTERPRISE_SSO] = {"enterprise_sso", "enterprise_sso_token", NULL, NULL, NULL, NULL},
};

const char *tn_git_provider_name(enum tn_git_provider provider)
{
    return providers[provider].name;
}

const char *tn_git_provider_key(enum tn_git_provider provider)
{
    return providers[provider].key;
}

int tn_git_provider_find(const char *name, enum tn_git_provider *provider, struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(providers); i++)
        if (strcmp(providers[i].name, name) == 0) {
            *provider = (enum tn_git_provider)i;
            return 0;
        }
    return tn_fail(err, TN_E_NOT_FOUND,
                   "'%.60s' is no git provider: expected github, gitlab, bitbucket, azure_devops "
                   "or enterprise_sso",
                   name);
}

void git_place_done(struct git_place *p)
{
    free(p->url);
    free(p->directory);
    free(p->helper);
    free(p->helper_key);
    *p = (struct git_place){0};
}

/* --- what was asked for ------------------------------------------------------------------- */

static const char *const schemes[] = {"https://", "http://", "ssh://", "git://", "file://"};

static bool is_url(const char *s)
{
    for (size_t i = 0; i < TN_COUNT(schemes); i++)
        if (strncasecmp(s, schemes[i], strlen(schemes[i])) == 0)
            return true;
    return s[0] == '/';
}

/* user@host:path, as ssh has it. */
static bool is_scp_place(const char *s)
{
    const char *at = strchr(s, '@'), *colon = strchr(s, ':'), *slash = strchr(s, '/');

    return at && colon && at < colon && at > s && (!slash || colon < slash) && !strstr(s, "::");
}

/* The last part of the path, without ".git"; NULL with err when it is no name for a directory. */
static char *directory_of(const char *path, struct tn_error *err)
{
    size_t end = strlen(path);

    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/' && path[start - 1] != ':')
        start--;
    if (end - start > 4 && strncmp(path + end - 4, ".git", 4) == 0)
        end -= 4;
    tn_autofree char *name = tn_strndup(path + start, end - start);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || name[0] == '-') {
        tn_fail(err, TN_E_INVALID, "repository '%.120s' has no name", path);
        return NULL;
    }
    return TN_TAKE_PTR(name);
}

static const char *host_of(const struct git_place *p)
{
    return p->token && p->token->host && *p->token->host && p->provider != TN_GIT_AZURE_DEVOPS
               ? p->token->host
               : providers[p->provider].host;
}

static const struct tn_git_token *find_token(const struct tn_git_token *tokens, size_t count,
                                             enum tn_git_provider provider)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i].provider == provider && *tokens[i].token)
            return &tokens[i];
    return NULL;
}

/* The provider whose host the URL names, with its token. */
static void recognise(struct git_place *p, const char *url, const struct tn_git_token *tokens,
                      size_t count)
{
    const char *host = strstr(url, "://");

    if (strncasecmp(url, "https://", 8) != 0 || !host)
        return;
    host += 3;
    size_t n = strcspn(host, "/?#");
    if (memchr(host, '@', n)) /* brings its own credentials */
        return;
    for (size_t i = 0; i < TN_COUNT(providers); i++) {
        p->provider = (enum tn_git_provider)i;
        p->token = find_token(tokens, count, p->provider);
        const char *known = host_of(p);
        if (known && strlen(known) == n && strncasecmp(known, host, n) == 0)
            return;
    }
    p->provider = TN_GIT_PROVIDERS;
    p->token = NULL;
}

static int take_url(struct git_place *p, const char *url, const struct tn_git_token *tokens,
                    size_t count, struct tn_error *err)
{
    for (const char *c = url; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f)
            return tn_fail(err, TN_E_INVALID, "the URL of a repository has no white space");
    recognise(p, url, tokens, count);
    p->url = tn_strdup(url);
    return 0;
}

/* --- OWNER/NAME --------------------------------------------------------------------------- */

/* Splits a copy of the path; the number of its parts, or -1 with err. */
static int split(char *path, char **parts, int most, struct tn_error *err)
{
    int count = 0;

    for (char *at = path, *slash; at; at = slash) {
        slash = strchr(at, '/');
        if (slash)
            *slash++ = '\0';
        if (!*at || strcmp(at, ".") == 0 || strcmp(at, "..") == 0 || count == most)
            return tn_fail(err, TN_E_INVALID,
                           "expected a repository as OWNER/NAME, or a URL of https, http, ssh, git "
                           "or file");
        parts[count++] = at;
    }
    return count;
}

static int take_path(struct git_place *p, const char *path, struct tn_error *err)
{
    tn_autobuf struct tn_buf url = TN_BUF_INIT(8192);
    tn_autofree char *copy = tn_strdup(path);
    char *parts[16];
    bool azure = p->provider == TN_GIT_AZURE_DEVOPS;
    int count = split(copy, parts, TN_COUNT(parts), err);

    if (count < 0)
        return -1;
    if (count < (azure ? 3 : 2) || (azure && count > 3))
        return tn_fail(err, TN_E_INVALID, "expected a repository as %s, found '%.120s'",
                       azure ? "ORG/PROJECT/NAME" : "OWNER/NAME", path);
    tn_buf_printf(&url, "https://%s", host_of(p));
    for (int i = 0; i < count; i++) {
        if (azure && i == count - 1)
            tn_buf_puts(&url, "/_git");
        tn_buf_putc(&url, '/');
        tn_url_encode(&url, parts[i], "");
    }
    size_t n = strlen(parts[count - 1]);
    if (!azure && !(n > 4 && strcmp(parts[count - 1] + n - 4, ".git") == 0))
        tn_buf_puts(&url, ".git");
    if (!tn_buf_ok(&url))
        return tn_fail(err, TN_E_TOO_LARGE, "the name of the repository is too long");
    p->url = tn_buf_take(&url);
    return 0;
}

int git_place_find(struct git_place *p, const char *repository, enum tn_git_provider provider,
                   const struct tn_git_token *tokens, size_t token_count, struct tn_error *err)
{
    bool whole = is_url(repository) || is_scp_place(repository);

    *p = (struct git_place){.provider = provider};
    if (!(p->directory = directory_of(repository, err)))
        return -1;
    if (!whole && provider == TN_GIT_PROVIDERS)
        p->provider = token_count == 1 && providers[tokens[0].provider].host ? tokens[0].provider
                                                                             : TN_GIT_GITHUB;
    if (!whole && !providers[p->provider].host) {
        tn_fail(err, TN_E_INVALID, "%s has no repositories", providers[p->provider].name);
        goto failed;
    }
    if (!whole)
        p->token = find_token(tokens, token_count, p->provider);
    if (whole)
        p->provider = TN_GIT_PROVIDERS;
    if (whole ? take_url(p, repository, tokens, token_count, err) : take_path(p, repository, err))
        goto failed;
    if (p->token && providers[p->provider].helper) {
        const char *host = strstr(p->url, "://") + 3;
        p->helper = tn_strdup(providers[p->provider].helper);
        p->helper_key =
            tn_asprintf("credential.https://%.*s.helper", (int)strcspn(host, "/"), host);
    }
    return 0;
failed:
    git_place_done(p);
    return -1;
}

/* --- credentials -------------------------------------------------------------------------- */

void git_put_authenticated_url(const struct git_place *p, struct tn_buf *out)
{
    const char *token = p->token ? p->token->token : NULL, *host = strstr(p->url, "://");
    const char *colon = token ? strchr(token, ':') : NULL;

    if (!token || !host) {
        tn_buf_puts(out, p->url);
        return;
    }
    host += 3;
    tn_buf_add(out, p->url, (size_t)(host - p->url));
    if (p->provider == TN_GIT_AZURE_DEVOPS) { /* the organisation is the user */
        const char *org = host + strcspn(host, "/");
        org += *org == '/';
        tn_buf_add(out, org, strcspn(org, "/"));
        tn_buf_putc(out, ':');
    } else if (p->provider == TN_GIT_BITBUCKET && colon) {
        tn_autofree char *user = tn_strndup(token, (size_t)(colon - token));
        tn_url_encode(out, user, "");
        tn_buf_putc(out, ':');
        token = colon + 1;
    } else if (providers[p->provider].user) {
        tn_buf_printf(out, "%s:", providers[p->provider].user);
    }
    tn_url_encode(out, token, "");
    tn_buf_printf(out, "@%s", host);
}

void git_put_helper_option(const struct git_place *p, const char *option, struct tn_buf *out)
{
    if (!p->helper)
        return;
    tn_autofree char *pair = tn_asprintf("%s=%s", p->helper_key, p->helper);
    tn_buf_printf(out, " %s ", option);
    setup_put_quoted(out, pair);
}

void git_put_token_assignment(const struct git_place *p, struct tn_buf *out)
{
    if (!p->token)
        return;
    tn_buf_putc(out, ' ');
    for (const char *c = providers[p->provider].key; *c; c++)
        tn_buf_putc(out, (char)(*c >= 'a' && *c <= 'z' ? *c - ('a' - 'A') : *c));
    tn_buf_putc(out, '=');
    setup_put_quoted(out, p->token->token);
}

/* --- names -------------------------------------------------------------------------------- */

int git_check_branch(const char *branch, struct tn_error *err)
{
    size_t n = strlen(branch);
    bool bad = n == 0 || n > 255 || branch[0] == '-' || branch[0] == '/' || branch[n - 1] == '/' ||
               branch[n - 1] == '.' || strcmp(branch, "@") == 0 || strstr(branch, "..") ||
               strstr(branch, "@{") || strstr(branch, "//") || strpbrk(branch, " ~^:?*[\\");

    for (size_t i = 0; i < n; i++)
        bad |= (unsigned char)branch[i] < ' ' || branch[i] == 0x7f;
    if (bad)
        return tn_fail(err, TN_E_INVALID, "'%.120s' is no name of a branch", branch);
    return 0;
}

char *git_owner(const struct git_place *p, const char *repository)
{
    tn_autofree char *copy = tn_strdup(repository);
    char *parts[16];
    int count;

    if (is_url(repository) || is_scp_place(repository) ||
        (count = split(copy, parts, TN_COUNT(parts), NULL)) < 2)
        return NULL;
    bool azure = p->provider == TN_GIT_AZURE_DEVOPS && count >= 3;
    return tn_strdup(parts[azure ? 0 : count - 2]);
}

char *git_owner_repository(enum tn_git_provider provider, const char *owner)
{
    return tn_asprintf("%s%s", owner, providers[provider].shared);
}
