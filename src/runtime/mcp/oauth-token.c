#include "runtime/mcp/oauth-token.h"

#include <strings.h>
#include <time.h>

#include "base/base64.h"
#include "base/log.h"
#include "net/url.h"
#include "runtime/mcp/oauth-key.h"

enum { FORM_MAX = 64 << 10 };

static void replace(char **text, const char *with)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = tn_strdup_or_null(with);
}

/* --- the client ------------------------------------------------------------------------------- */

#define BY_KEY "private_key_jwt"

/* How a client with this secret (or none) proves itself there. */
static const char *method_for(const struct mcp_issuer *issuer, bool secret)
{
    if (!secret)
        return "none";
    return issuer->basic ? "client_secret_basic" : issuer->post ? "client_secret_post" : "none";
}

static bool is_method(const char *name)
{
    return strcmp(name, "none") == 0 || strcmp(name, "client_secret_basic") == 0 ||
           strcmp(name, "client_secret_post") == 0;
}

static void put_registration(const struct mcp_issuer *issuer, const char *redirect,
                             struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);
    /* A program that everybody can read keeps no secrets; but some give tokens to no other. */
    const char *method = issuer->none ? "none" : method_for(issuer, true);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "client_name", "Tendon");
    tn_jw_kstr(&w, "application_type", "native");
    tn_jw_kstr(&w, "token_endpoint_auth_method", method);
    tn_jw_key(&w, "redirect_uris");
    tn_jw_array(&w);
    tn_jw_str(&w, redirect);
    tn_jw_array_end(&w);
    tn_jw_key(&w, "grant_types");
    tn_jw_array(&w);
    tn_jw_str(&w, "authorization_code");
    tn_jw_str(&w, "refresh_token");
    tn_jw_array_end(&w);
    tn_jw_key(&w, "response_types");
    tn_jw_array(&w);
    tn_jw_str(&w, "code");
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
}

/* What an endpoint said when it refused, as one sentence. */
static int refused(const char *what, int status, const struct tn_json *json, struct tn_error *err)
{
    const char *error = tn_json_get_str(json, "error", NULL);
    const char *why = tn_json_get_str(json, "error_description", NULL);

    return tn_fail(err, TN_E_DENIED, "%s: %.100s%s%.200s (HTTP %d)", what,
                   error ? error : "refused", why ? ": " : "", why ? why : "", status);
}

static int enrol(const struct mcp_asking *how, const struct mcp_issuer *issuer,
                 const char *redirect, int port, struct mcp_grant *g, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(FORM_MAX);
    tn_autojson struct tn_json *json = NULL;
    int status;

    if (!issuer->register_url)
        return tn_fail(err, TN_E_DENIED,
                       "%.200s registers no clients by itself: ask there for one, and give its "
                       "--client-id",
                       issuer->issuer);
    put_registration(issuer, redirect, &body);
    struct tn_web_call call = {
        .type = "application/json", .body = tn_buf_str(&body), .body_len = body.len, .once = true};
    if (mcp_ask(how, issuer->register_url, &call, &status, &json, err) < 0)
        return tn_error_context(err, "registering");
    const char *client = tn_json_get_str(json, "client_id", NULL);
    const char *secret = tn_json_get_str(json, "client_secret", NULL);
    const char *method = tn_json_get_str(json, "token_endpoint_auth_method", NULL);
    if (status < 200 || status > 299 || !client)
        return refused("registering", status, json, err);
    replace(&g->client, client);
    replace(&g->secret, secret);
    replace(&g->method, method && is_method(method) ? method : method_for(issuer, secret));
    replace(&g->issuer, issuer->issuer);
    g->port = port;
    g->given = g->document = false;
    return 0;
}

static int settle_by_key(const struct mcp_issuer *issuer, struct mcp_grant *g, struct tn_error *err)
{
    mcp_autokey struct mcp_key *key = mcp_key_read(g->key, err);

    if (!key)
        return -1;
    const char *kind = mcp_key_algorithm(key);
    if (!(strcmp(kind, "ES256") == 0 ? issuer->es256 : issuer->rs256))
        return tn_fail(err, TN_E_UNSUPPORTED, "%.200s takes no proofs signed with such a key (%s)",
                       issuer->issuer, kind);
    replace(&g->issuer, issuer->issuer);
    replace(&g->method, BY_KEY);
    return 0;
}

int mcp_client_settle(const struct mcp_asking *how, const struct mcp_issuer *issuer,
                      const char *redirect, int port, struct mcp_grant *g, struct tn_error *err)
{
    bool moved = g->issuer && strcmp(g->issuer, issuer->issuer) != 0;

    if (g->client && moved && (g->secret || g->key || g->workload) && g->given)
        return tn_fail(err, TN_E_DENIED,
                       "the client's %s is for %.150s, but the server now names %.150s: log in "
                       "anew to send it there",
                       g->workload ? "token"
                       : g->key    ? "proof"
                                   : "secret",
                       g->issuer, issuer->issuer);
    if (g->key)
        return settle_by_key(issuer, g, err);
    if (g->client && g->document && !issuer->documents)
        return enrol(how, issuer, redirect, port, g, err);
    if (g->client && (g->given || (!moved && (!g->port || g->port == port)))) {
        replace(&g->issuer, issuer->issuer);
        if (!g->method || g->given)
            replace(&g->method, method_for(issuer, g->secret));
        return 0;
    }
    return enrol(how, issuer, redirect, port, g, err);
}

/* --- tokens ----------------------------------------------------------------------------------- */

static void put_member(struct tn_buf *out, const char *name, const char *value)
{
    if (!value || !*value)
        return;
    tn_buf_printf(out, "%s%s=", out->len ? "&" : "", name);
    tn_url_encode(out, value, "");
}

/* "Authorization: Basic ..." (RFC 6749, 2.3.1); NULL when it would be too long. */
static char *basic_header(const struct mcp_grant *g)
{
    tn_autobuf struct tn_buf plain = TN_BUF_INIT(FORM_MAX);
    struct tn_buf line = TN_BUF_INIT(FORM_MAX);

    tn_url_encode(&plain, g->client, "");
    tn_buf_putc(&plain, ':');
    tn_url_encode(&plain, g->secret, "");
    tn_buf_puts(&line, "Authorization: Basic ");
    tn_base64_encode(&line, tn_buf_str(&plain), plain.len);
    explicit_bzero(plain.data, plain.len);
    if (tn_buf_ok(&plain) && tn_buf_ok(&line))
        return tn_buf_take(&line);
    tn_buf_done(&line);
    return NULL;
}

/* Something that a header can carry. */
static bool is_token(const char *text)
{
    for (const char *c = text; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    return *text;
}

static int take_tokens(const struct tn_json *json, const char *scope, struct mcp_grant *g,
                       struct tn_error *err)
{
    const char *access = tn_json_get_str(json, "access_token", "");
    const char *type = tn_json_get_str(json, "token_type", "");
    const char *refresh = tn_json_get_str(json, "refresh_token", NULL);
    int64_t seconds = tn_json_int(tn_json_get(json, "expires_in"), 0);

    const char *wanted = g->bound ? "DPoP" : "Bearer";

    if (!is_token(access))
        return tn_fail(err, TN_E_PEER, "the authorization server gave no token that can be sent");
    if (strcasecmp(type, wanted) != 0)
        return tn_fail(err, TN_E_PEER, "expected a token of type %s, found one of type '%.40s'",
                       wanted, type);
    replace(&g->access, access);
    if (refresh)
        replace(&g->refresh, refresh);
    if (scope)
        replace(&g->scope, scope);
    g->expires = seconds > 0 && seconds < INT32_MAX ? (int64_t)time(NULL) + seconds : 0;
    tn_log_secret(access);
    if (refresh)
        tn_log_secret(refresh);
    return 0;
}

/* What a client that has a key says of itself. */
static int put_proof(struct tn_buf *body, const struct mcp_grant *g, struct tn_error *err)
{
    mcp_autokey struct mcp_key *key = mcp_key_read(g->key, err);
    tn_autofree char *proof = key ? mcp_key_client_proof(key, g->client, g->issuer, err) : NULL;

    if (!proof)
        return -1;
    put_member(body, "client_assertion_type",
               "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    put_member(body, "client_assertion", proof);
    return 0;
}

/* What came of it. */
struct posted {
    bool sent; /* perhaps */
    int status;
    struct tn_json *json; /* the caller's */
};

/* Posts the form, once more with the nonce that the server wants repeated; tokens that are to be
 * bound to a key are asked for with a proof of it.  No proof, of this key or the client's, is sent
 * twice. */
static int post_form(const struct mcp_asking *asking, const struct mcp_grant *g,
                     struct tn_buf *form, const char *authorization, struct posted *out,
                     struct tn_error *err)
{
    mcp_autokey struct mcp_key *key = g->bound ? mcp_key_parse(g->bound, err) : NULL;
    tn_autofree char *nonce = NULL;
    struct mcp_asking how = *asking;
    size_t len = form->len;

    if (g->bound && !key)
        return -1;
    how.nonce = &nonce;
    for (int tries = 0;; tries++) {
        tn_autofree char *proof =
            key ? mcp_key_request_proof(key, "POST", g->token_url, NULL, nonce, err) : NULL;
        tn_autofree char *line = proof ? tn_asprintf("DPoP: %s", proof) : NULL;
        const char *headers[] = {"Accept: application/json", line ? line : authorization,
                                 line ? authorization : NULL, NULL};
        if (key && !proof)
            return -1;
        tn_buf_cut(form, len);
        if (g->key && put_proof(form, g, err) < 0)
            return -1;
        if (!tn_buf_ok(form))
            return tn_fail(err, TN_E_TOO_LARGE, "what is to be shown for a token is too long");
        struct tn_web_call call = {.type = "application/x-www-form-urlencoded",
                                   .headers = headers,
                                   .body = tn_buf_str(form),
                                   .body_len = form->len,
                                   .once = true};
        out->sent = true;
        int result = mcp_ask(&how, g->token_url, &call, &out->status, &out->json, err);
        bool again = result == 0 && key && tries == 0 && nonce && out->status == 400 &&
                     strcmp(tn_json_get_str(out->json, "error", ""), "use_dpop_nonce") == 0;
        if (!again)
            return result;
        tn_json_free(TN_TAKE_PTR(out->json));
    }
}

int mcp_token_get(const struct mcp_asking *how, const struct mcp_token_wish *wish,
                  struct mcp_grant *g, bool *spent, struct tn_error *err)
{
    bool basic =
        g->client && g->secret && g->method && strcmp(g->method, "client_secret_basic") == 0;
    bool post = g->secret && g->method && strcmp(g->method, "client_secret_post") == 0;
    tn_autofree char *proof = basic ? basic_header(g) : NULL;
    tn_autobuf struct tn_buf body = TN_BUF_INIT(FORM_MAX);
    struct posted posted = {0};
    struct tn_error why = {0};

    *spent = false;
    if (!g->token_url || !g->client)
        return tn_fail(err, TN_E_INVALID, "what is kept of the login is not complete: log in anew");
    put_member(&body, "grant_type", wish->type);
    put_member(&body, "code", wish->code);
    put_member(&body, "redirect_uri", wish->redirect);
    put_member(&body, "code_verifier", wish->verifier);
    put_member(&body, "refresh_token", wish->refresh);
    put_member(&body, "assertion", wish->assertion);
    put_member(&body, "scope", wish->scope);
    put_member(&body, "resource", g->resource);
    put_member(&body, "client_id", basic ? NULL : g->client);
    put_member(&body, "client_secret", post ? g->secret : NULL);
    if (basic && !proof)
        return tn_fail(err, TN_E_TOO_LARGE, "what is to be shown for a token is too long");
    int result = post_form(how, g, &body, proof, &posted, &why);
    tn_autojson struct tn_json *json = posted.json;
    if (body.data)
        explicit_bzero(body.data, body.len);
    if (proof)
        explicit_bzero(proof, strlen(proof));
    *spent = posted.sent && (result == 0 || (why.sys != ECONNREFUSED && why.sys != EHOSTUNREACH));
    if (result < 0) {
        if (err)
            *err = why;
        return tn_error_context(err, "asking for a token");
    }
    if (posted.status == 200)
        return take_tokens(json, wish->scope, g, err);
    *spent =
        posted.status >= 500 || strcmp(tn_json_get_str(json, "error", ""), "invalid_grant") == 0;
    return refused("asking for a token", posted.status, json, err);
}
