#include "runtime/mcp/oauth-find.h"

#define ANSWER_MAX (1u << 20)
#define WELL_KNOWN "/.well-known/"

/* --- questions -------------------------------------------------------------------------------- */

int mcp_ask_allowed(const struct mcp_asking *how, const char *url, struct tn_error *err)
{
    mcp_autourl struct mcp_url u = {0};

    if (mcp_url_read(url, &u, err) < 0)
        return -1;
    if (u.secure || (how->reach == TN_WEB_LOOPBACK && tn_web_reach_of(u.host) == TN_WEB_LOOPBACK))
        return 0;
    return tn_fail(err, TN_E_DENIED, "expected https, found '%.100s'", u.origin);
}

int mcp_ask(const struct mcp_asking *how, const char *url, struct tn_web_call *call, int *status,
            struct tn_json **json, struct tn_error *err)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(ANSWER_MAX);
    mcp_autourl struct mcp_url u = {0};

    *json = NULL;
    if (mcp_ask_allowed(how, url, err) < 0 || mcp_url_read(url, &u, err) < 0)
        return -1;
    tn_autoweb struct tn_web *web =
        tn_web_new(&(struct tn_web_options){.base = u.origin, .reach = how->reach}, err);
    tn_autofree char *target = tn_asprintf("%s%s%s", *u.path ? "" : "/", u.path, u.query);
    call->target = target;
    call->deadline = how->deadline;
    call->cancel = how->stop > 0 ? how->stop : 0;
    int result = web ? tn_web_call(web, call, &answer, err) : -1;
    call->target = NULL;
    if (result < 0)
        return -1;
    *status = answer.status;
    char *nonce = how->nonce ? tn_web_answer_header(&answer, "dpop-nonce") : NULL;
    if (nonce) {
        free(*how->nonce);
        *how->nonce = nonce;
    }
    if (answer.body.len)
        tn_json_parse(answer.body.data, answer.body.len, json, NULL);
    if (tn_json_type(*json) != TN_JSON_OBJECT)
        tn_json_free(TN_TAKE_PTR(*json));
    if (answer.body.data)
        explicit_bzero(answer.body.data, answer.body.len);
    return 0;
}

/* A document: 1 with it, 0 when there is none of that address. */
static int fetch(const struct mcp_asking *how, const char *url, struct tn_json **json,
                 struct tn_error *err)
{
    static const char *const headers[] = {"Accept: application/json", NULL};
    struct tn_web_call call = {.headers = headers};
    int status;

    if (mcp_ask(how, url, &call, &status, json, err) < 0)
        return -1;
    if (status == 200 && *json)
        return 1;
    tn_json_free(TN_TAKE_PTR(*json));
    return 0;
}

/* --- the resource ----------------------------------------------------------------------------- */

/* "a b c" of a list of texts, or NULL. */
static char *join(const struct tn_json *list)
{
    struct tn_buf out = TN_BUF_INIT(ANSWER_MAX);

    for (size_t i = 0, n = tn_json_count(list); i < n; i++) {
        const char *word = tn_json_str(tn_json_at(list, i), NULL);
        if (word)
            tn_buf_printf(&out, "%s%s", out.len ? " " : "", word);
    }
    if (out.len)
        return tn_buf_take(&out);
    tn_buf_done(&out);
    return NULL;
}

static int find_resource(const struct mcp_asking *how, const struct mcp_url *server,
                         const char *metadata, struct tn_json **json, struct tn_error *err)
{
    tn_autofree char *beside =
        tn_asprintf("%s" WELL_KNOWN "oauth-protected-resource%s", server->origin, server->path);
    tn_autofree char *above =
        tn_asprintf("%s" WELL_KNOWN "oauth-protected-resource", server->origin);

    if (metadata) {
        int found = fetch(how, metadata, json, err);
        if (found == 0)
            return tn_fail(err, TN_E_PEER, "%.200s: there is no metadata", metadata);
        return found;
    }
    int found = strcmp(server->path, "/") == 0 ? 0 : fetch(how, beside, json, err);
    return found == 0 && strcmp(beside, above) != 0 ? fetch(how, above, json, err) : found;
}

/* The resource must be the server that we ask: else its tokens would be for somebody else. */
static int take_resource(const struct tn_json *json, const struct mcp_url *server,
                         struct mcp_issuer *out, struct tn_error *err)
{
    const char *resource = tn_json_get_str(json, "resource", "");
    const char *issuer =
        tn_json_str(tn_json_at(tn_json_get(json, "authorization_servers"), 0), NULL);
    mcp_autourl struct mcp_url u = {0};

    if (mcp_url_read(resource, &u, err) < 0)
        return tn_error_context(err, "metadata of the server: resource");
    if (!mcp_url_covers(&u, server))
        return tn_fail(err, TN_E_DENIED, "the server's metadata are about '%.200s', not about it",
                       resource);
    if (!issuer)
        return tn_fail(err, TN_E_PEER, "the server's metadata name no authorization server");
    out->resource = tn_strdup(resource);
    out->issuer = tn_strdup(issuer);
    out->scopes = join(tn_json_get(json, "scopes_supported"));
    return 0;
}

/* --- the authorization server ----------------------------------------------------------------- */

/* Its metadata, at the places where they may be: 1, 0 when there are none. */
static int find_metadata(const struct mcp_asking *how, const struct mcp_url *issuer,
                         struct tn_json **json, struct tn_error *err)
{
    static const struct {
        const char *name;
        bool after; /* the path of the issuer comes first */
    } places[] = {
        {"oauth-authorization-server", false},
        {"openid-configuration", false},
        {"openid-configuration", true},
    };
    const char *path = strcmp(issuer->path, "/") == 0 ? "" : issuer->path;
    int found = 0;

    for (size_t i = 0; i < TN_COUNT(places) && found == 0; i++) {
        bool after = places[i].after;
        tn_autofree char *url = tn_asprintf("%s%s" WELL_KNOWN "%s%s", issuer->origin,
                                            after ? path : "", places[i].name, after ? "" : path);
        if (!after || *path)
            found = fetch(how, url, json, err);
    }
    return found;
}

/* A final slash where there is no path is the only difference that is let pass: programs add it. */
static bool same_issuer(const char *told, const char *given, const struct mcp_url *u)
{
    size_t n = strlen(given), slash = strcmp(u->path, "/") == 0;

    if (strcmp(told, given) == 0)
        return true;
    return (!*u->path || slash) && !*u->query && strncmp(told, given, n - slash) == 0 &&
           strcmp(told + n - slash, slash ? "" : "/") == 0;
}

static int take_url(const struct mcp_asking *how, const struct tn_json *json, const char *name,
                    char **out, struct tn_error *err)
{
    const char *url = tn_json_get_str(json, name, NULL);

    if (url && mcp_ask_allowed(how, url, err) < 0)
        return tn_error_context(err, "metadata of the authorization server: %s", name);
    *out = tn_strdup_or_null(url);
    return 0;
}

static int take_metadata(const struct mcp_asking *how, const struct tn_json *json,
                         const struct mcp_url *u, struct mcp_issuer *out, struct tn_error *err)
{
    const char *told = tn_json_get_str(json, "issuer", "");
    const struct tn_json *methods = tn_json_get(json, "token_endpoint_auth_methods_supported");
    const struct tn_json *scopes = tn_json_get(json, "scopes_supported");

    if (!same_issuer(told, out->issuer, u))
        return tn_fail(err, TN_E_DENIED, "the authorization server %.200s says that it is %.200s",
                       out->issuer, told);
    free(out->issuer);
    out->issuer = tn_strdup(told);
    if (take_url(how, json, "authorization_endpoint", &out->authorize_url, err) < 0 ||
        take_url(how, json, "token_endpoint", &out->token_url, err) < 0 ||
        take_url(how, json, "registration_endpoint", &out->register_url, err) < 0)
        return -1;
    if (!out->token_url)
        return tn_fail(err, TN_E_PEER, "the authorization server %.200s names no token_endpoint",
                       out->issuer);
    if (out->authorize_url &&
        !tn_json_lists(tn_json_get(json, "code_challenge_methods_supported"), "S256"))
        free(TN_TAKE_PTR(out->authorize_url)); /* no PKCE: not to be used by a person */
    out->offline = tn_json_lists(scopes, "offline_access");
    out->says_iss =
        tn_json_bool(tn_json_get(json, "authorization_response_iss_parameter_supported"), false);
    out->documents =
        tn_json_bool(tn_json_get(json, "client_id_metadata_document_supported"), false);
    out->basic = !methods || tn_json_lists(methods, "client_secret_basic");
    out->post = tn_json_lists(methods, "client_secret_post");
    out->none = tn_json_lists(methods, "none");
    const struct tn_json *kinds =
        tn_json_get(json, "token_endpoint_auth_signing_alg_values_supported");
    bool by_key = tn_json_lists(methods, "private_key_jwt");
    out->es256 = by_key && (!kinds || tn_json_lists(kinds, "ES256"));
    out->rs256 = by_key && (!kinds || tn_json_lists(kinds, "RS256"));
    return 0;
}

/* Servers of 2025-03-26 have no metadata of the resource, and may have none at all. */
static void assume_endpoints(const struct mcp_url *server, struct mcp_issuer *out)
{
    out->authorize_url = tn_asprintf("%s/authorize", server->origin);
    out->token_url = tn_asprintf("%s/token", server->origin);
    out->register_url = tn_asprintf("%s/register", server->origin);
    out->basic = out->post = out->none = true;
}

static int find(const struct mcp_asking *how, const struct mcp_url *server, const char *metadata,
                struct mcp_issuer *out, struct tn_error *err)
{
    tn_autojson struct tn_json *resource = NULL, *json = NULL;
    mcp_autourl struct mcp_url u = {0};
    int known = find_resource(how, server, metadata, &resource, err);

    if (known < 0 || (known && take_resource(resource, server, out, err) < 0))
        return -1;
    if (!known) {
        out->issuer = tn_strdup(server->origin);
        out->resource = tn_asprintf("%s%s", server->origin, server->path);
    }
    if (mcp_url_read(out->issuer, &u, err) < 0)
        return tn_error_context(err, "authorization server");
    int found = find_metadata(how, &u, &json, err);
    if (found > 0)
        return take_metadata(how, json, &u, out, err);
    if (found == 0 && known)
        return tn_fail(err, TN_E_PEER, "the authorization server %.200s has no metadata",
                       out->issuer);
    if (found == 0)
        assume_endpoints(server, out);
    return found;
}

int mcp_issuer_find(const struct mcp_asking *how, const char *url, const char *metadata,
                    struct mcp_issuer *out, struct tn_error *err)
{
    mcp_autourl struct mcp_url server = {0};

    *out = (struct mcp_issuer){0};
    if (mcp_url_read(url, &server, err) < 0)
        return -1;
    if (find(how, &server, metadata, out, err) == 0)
        return 0;
    mcp_issuer_done(out);
    *out = (struct mcp_issuer){0};
    return -1;
}

void mcp_issuer_done(struct mcp_issuer *i)
{
    free(i->issuer);
    free(i->authorize_url);
    free(i->token_url);
    free(i->register_url);
    free(i->resource);
    free(i->scopes);
}
