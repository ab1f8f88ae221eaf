#include "runtime/mcp/oauth.h"

#include <pthread.h>
#include <sys/random.h>
#include <time.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/sha256.h"
#include "runtime/mcp/oauth-key.h"
#include "runtime/mcp/oauth-person.h"
#include "runtime/mcp/oauth-token.h"

#define LOGIN_SECONDS 300.0
#define ASK_SECONDS 30.0
/* An access token is renewed so many seconds before its end. */
enum { EARLY_SECONDS = 30, VERIFIER_BYTES = 32, WORKLOAD_MAX = 32 << 10 };

struct mcp_oauth {
    char *url;
    struct mcp_vault vault;
    tn_toolbox_visit_fn visit;
    void *visit_ctx;
};

struct mcp_oauth *mcp_oauth_new(const char *state, const char *url, tn_toolbox_visit_fn visit,
                                void *visit_ctx)
{
    struct mcp_oauth *o = tn_calloc(1, sizeof *o);

    o->url = tn_strdup(url);
    mcp_vault_init(&o->vault, state, url);
    o->visit = visit;
    o->visit_ctx = visit_ctx;
    return o;
}

void mcp_oauth_free(struct mcp_oauth *o)
{
    if (!o)
        return;
    mcp_vault_done(&o->vault);
    free(o->url);
    free(o);
}

bool mcp_oauth_is_patient(const struct mcp_oauth *o)
{
    return o->visit;
}

/* --- how strangers are asked ------------------------------------------------------------------ */

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The server may send us as near as it is itself.  peer: its address, or "". */
static struct mcp_asking asking(const struct mcp_oauth *o, const char *peer, int stop,
                                int64_t deadline)
{
    mcp_autourl struct mcp_url u = {0};
    enum tn_web_reach reach = TN_WEB_PUBLIC, seen = *peer ? tn_web_reach_of(peer) : TN_WEB_PUBLIC;

    if (mcp_url_read(o->url, &u, NULL) == 0)
        reach = tn_web_reach_of(u.host);
    return (struct mcp_asking){.reach = seen > reach ? seen : reach,
                               .deadline = sooner(deadline, tn_deadline_in(ASK_SECONDS)),
                               .stop = stop};
}

/* --- renewing --------------------------------------------------------------------------------- */

/* With the lock held.  Servers take it for theft when a refresh token comes twice: it leaves the
 * file before it is sent, and comes back only when it certainly was not used. */
static int renew(struct mcp_oauth *o, struct mcp_grant *g, int stop, int64_t deadline,
                 struct tn_error *err)
{
    struct mcp_asking how = asking(o, "", stop, deadline);
    tn_autofree char *refresh = TN_TAKE_PTR(g->refresh);
    bool spent;

    if (g->reach > (int64_t)how.reach && g->reach <= TN_WEB_LOOPBACK)
        how.reach = (enum tn_web_reach)g->reach;
    if (mcp_vault_write(&o->vault, g, err) < 0)
        return -1;
    const struct mcp_token_wish wish = {.type = "refresh_token", .refresh = refresh};
    int result = mcp_token_get(&how, &wish, g, &spent, err);
    if (!g->refresh && (result == 0 || !spent))
        g->refresh = TN_TAKE_PTR(refresh);
    if (result == 0)
        return mcp_vault_write(&o->vault, g, err);
    if (!spent)
        mcp_vault_write(&o->vault, g, NULL);
    return -1;
}

static bool has_run_out(const struct mcp_grant *g)
{
    return g->expires && (int64_t)time(NULL) >= g->expires - EARLY_SECONDS;
}

void mcp_access_done(struct mcp_access *access)
{
    if (access->token)
        explicit_bzero(access->token, strlen(access->token));
    free(access->token);
    mcp_key_free(access->key);
    *access = (struct mcp_access){0};
}

int mcp_oauth_token(struct mcp_oauth *o, struct mcp_access *access, int stop, int64_t deadline,
                    struct tn_error *err)
{
    mcp_autogrant struct mcp_grant g = {0};

    *access = (struct mcp_access){0};
    if (mcp_vault_read(&o->vault, &g, err) < 0)
        return -1;
    if (g.access && g.refresh && has_run_out(&g)) {
        tn_autofd int lock = mcp_vault_lock(&o->vault, stop, deadline, err);
        if (lock < 0)
            return -1;
        mcp_grant_done(&g);
        if (mcp_vault_read(&o->vault, &g, err) < 0)
            return -1;
        if (g.refresh && has_run_out(&g))
            renew(o, &g, stop, deadline, NULL); /* what the server says to the old one decides */
    }
    if (g.access && g.bound && !(access->key = mcp_key_parse(g.bound, err)))
        return -1;
    access->token = tn_strdup_or_null(g.access);
    return 0;
}

/* --- logging in ------------------------------------------------------------------------------- */

/* What the surroundings of a program say of it: given anew before it runs out, so read each time.
 */
static int read_workload(const char *path, struct tn_buf *token, struct tn_error *err)
{
    if (tn_fs_read(TN_FS_ANYWHERE, path, token, err) < 0)
        return tn_error_context(err, "the workload's token");
    const char *text = tn_buf_str(token);
    size_t n = strcspn(text, " \t\r\n");
    if (n == 0 || text[n + strspn(text + n, " \t\r\n")])
        return tn_fail(err, TN_E_INVALID, "%.200s: expected one word, a token", path);
    tn_buf_cut(token, n);
    tn_log_secret(tn_buf_str(token));
    return 0;
}

static int log_in_machine(const struct mcp_asking *how, const struct mcp_issuer *issuer,
                          const char *scope, struct mcp_grant *g, struct tn_error *err)
{
    tn_autobuf struct tn_buf workload = TN_BUF_INIT(WORKLOAD_MAX);
    struct mcp_token_wish wish = {.type = "client_credentials", .scope = scope};
    bool spent;

    if (g->workload) {
        if (read_workload(g->workload, &workload, err) < 0)
            return -1;
        wish.type = "urn:ietf:params:oauth:grant-type:jwt-bearer";
        wish.assertion = tn_buf_str(&workload);
    }

    if (mcp_client_settle(how, issuer, "", 0, g, err) < 0)
        return -1;
    free(g->token_url);
    g->token_url = tn_strdup(issuer->token_url);
    return mcp_token_get(how, &wish, g, &spent, err);
}

/* A secret of one login, and what may be known of it (RFC 7636). */
static int make_proof(struct tn_buf *verifier, struct tn_buf *challenge, struct tn_error *err)
{
    unsigned char random[VERIFIER_BYTES], digest[TN_SHA256_BYTES];
    struct tn_sha256 hash;

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return tn_fail_errno(err, errno, "getrandom");
    tn_base64_encode_url(verifier, random, sizeof random);
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, tn_buf_str(verifier), verifier->len);
    tn_sha256_end(&hash, digest);
    tn_base64_encode_url(challenge, digest, sizeof digest);
    return 0;
}

static int log_in_person(struct mcp_oauth *o, struct mcp_asking *how,
                         const struct mcp_issuer *issuer, struct mcp_doorstep *door,
                         const char *scope, struct mcp_grant *g, struct tn_error *err)
{
    tn_autobuf struct tn_buf verifier = TN_BUF_INIT(256), challenge = TN_BUF_INIT(256);
    bool spent;

    if (mcp_client_settle(how, issuer, mcp_doorstep_url(door), mcp_doorstep_port(door), g, err) <
            0 ||
        make_proof(&verifier, &challenge, err) < 0)
        return -1;
    const struct mcp_visit visit = {
        .issuer = issuer,
        .client = g->client,
        .scope = scope,
        .challenge = tn_buf_str(&challenge),
        .visit = o->visit,
        .visit_ctx = o->visit_ctx,
        .deadline = tn_deadline_in(LOGIN_SECONDS),
        .stop = how->stop,
    };
    tn_autofree char *code = mcp_doorstep_visit(door, &visit, err);
    if (!code)
        return -1;
    how->deadline = tn_deadline_in(ASK_SECONDS);
    free(g->token_url);
    g->token_url = tn_strdup(issuer->token_url);
    free(TN_TAKE_PTR(g->refresh));
    const struct mcp_token_wish wish = {.type = "authorization_code",
                                        .code = code,
                                        .redirect = mcp_doorstep_url(door),
                                        .verifier = tn_buf_str(&verifier)};
    int result = mcp_token_get(how, &wish, g, &spent, err);
    explicit_bzero(verifier.data, verifier.len);
    return result;
}

/* The port that was registered, or another one. */
static struct mcp_doorstep *open_door(const struct mcp_grant *g, struct tn_error *err)
{
    struct mcp_doorstep *door = g->port ? mcp_doorstep_new((int)g->port, err) : NULL;

    return door || (g->port && g->given) ? door : mcp_doorstep_new(0, err);
}

/* Where tokens are bound to a key, there is one, which never leaves this machine. */
static int bind_tokens(const struct mcp_challenge *c, struct mcp_grant *g, struct tn_error *err)
{
    if (!c->dpop) {
        free(TN_TAKE_PTR(g->bound));
        return 0;
    }
    if (g->bound)
        return 0;
    mcp_autokey struct mcp_key *key = mcp_key_new(err);
    g->bound = key ? mcp_key_pem(key, err) : NULL;
    return g->bound ? 0 : -1;
}

static int log_in(struct mcp_oauth *o, const struct mcp_challenge *c, struct mcp_asking *how,
                  struct mcp_grant *g, struct tn_error *err)
{
    mcp_autoissuer struct mcp_issuer issuer = {0};
    int result;

    if (mcp_issuer_find(how, o->url, c->metadata, &issuer, err) < 0)
        return -1;
    bool person = !g->machine;
    tn_autofree char *wanted = mcp_scope_join(g->scope, c->scope ? c->scope : issuer.scopes);
    tn_autofree char *scope =
        mcp_scope_join(wanted, person && issuer.offline ? "offline_access" : "");
    if (bind_tokens(c, g, err) < 0)
        return -1;
    free(g->resource);
    g->resource = tn_strdup(issuer.resource);
    g->reach = how->reach;
    if (g->machine) {
        result = log_in_machine(how, &issuer, scope, g, err);
    } else if (!issuer.authorize_url) {
        result = tn_fail(err, TN_E_UNSUPPORTED,
                         "%.200s lets nobody log in with a proof of the S256 kind (PKCE)",
                         issuer.issuer);
    } else {
        struct mcp_doorstep *door = open_door(g, err);
        result = door ? log_in_person(o, how, &issuer, door, scope, g, err) : -1;
        mcp_doorstep_free(door);
    }
    if (result < 0)
        return -1;
    free(g->scope);
    g->scope = *scope ? tn_strdup(scope) : NULL;
    return mcp_vault_write(&o->vault, g, err);
}

/* --- refusals --------------------------------------------------------------------------------- */

/* All headers of that name, with commas between them. */
static char *challenges(const struct tn_web_answer *answer)
{
    static const char name[] = "www-authenticate: ";
    struct tn_buf all = TN_BUF_INIT(TN_WEB_HEADERS_MAX);

    for (const char *line = tn_buf_str(&answer->headers); *line;) {
        size_t n = strcspn(line, "\n");
        if (strncmp(line, name, sizeof name - 1) == 0) {
            tn_buf_puts(&all, all.len ? ", " : "");
            tn_buf_add(&all, line + sizeof name - 1, n - (sizeof name - 1));
        }
        line += n + (line[n] == '\n');
    }
    return tn_buf_take(&all);
}

/* Whether more rights could be asked for than before. */
static int check_step_up(const struct mcp_challenge *c, const struct mcp_grant *g,
                         struct tn_error *err)
{
    if (!c->error || strcmp(c->error, "insufficient_scope") != 0 || !c->scope)
        return tn_fail(err, TN_E_DENIED, "not allowed (HTTP 403)");
    if (mcp_scope_has(g->scope, c->scope))
        return tn_fail(err, TN_E_DENIED,
                       "the server wants rights that were asked for already: %.200s", c->scope);
    return 0;
}

static int recover(struct mcp_oauth *o, const char *token, const struct tn_web_answer *answer,
                   const struct mcp_challenge *c, struct mcp_grant *g, bool visit, int stop,
                   int64_t deadline, struct tn_error *err)
{
    struct mcp_asking how = asking(o, answer->peer, stop, deadline);
    bool more = answer->status == 403;

    if (g->access && (!token || strcmp(g->access, token) != 0))
        return 0; /* another one has done it meanwhile */
    if (more && check_step_up(c, g, err) < 0)
        return -1;
    if (!more && g->refresh && token && renew(o, g, stop, deadline, NULL) == 0)
        return 0;
    if (visit || g->machine)
        return log_in(o, c, &how, g, err);
    return tn_fail(err, TN_E_DENIED, "it wants %s: tendon tools --url %.*s login",
                   more ? "a login with more rights" : "a login", (int)strcspn(o->url, "?"),
                   o->url); /* the rest may be a key */
}

int mcp_oauth_refused(struct mcp_oauth *o, const char *token, const struct tn_web_answer *answer,
                      bool alone, int stop, int64_t deadline, struct tn_error *err)
{
    tn_autofree char *header = challenges(answer);
    mcp_autochallenge struct mcp_challenge c = {0};
    mcp_autogrant struct mcp_grant g = {0};
    bool visit = o->visit && !alone;
    int64_t patient = visit ? tn_deadline_in(LOGIN_SECONDS) : deadline;

    mcp_challenge_read(header, &c);
    tn_autofd int lock = mcp_vault_lock(&o->vault, stop, patient, err);
    if (lock < 0 || mcp_vault_read(&o->vault, &g, err) < 0)
        return -1;
    return recover(o, token, answer, &c, &g, visit, stop, visit ? TN_NEVER : deadline, err);
}

char *mcp_oauth_nonce(const struct tn_web_answer *answer)
{
    tn_autofree char *header = challenges(answer);
    mcp_autochallenge struct mcp_challenge c = {0};

    mcp_challenge_read(header, &c);
    if (answer->status != 401 || !c.dpop || !c.error || strcmp(c.error, "use_dpop_nonce") != 0)
        return NULL;
    return tn_web_answer_header(answer, "dpop-nonce");
}

/* --- how to log in ---------------------------------------------------------------------------- */

/* From wherever it is read.  Links stay: who replaces such a file often has one lead to the latest
 * (Kubernetes), and what it leads to today is removed with the next. */
static char *absolute(const char *path)
{
    if (!path || *path == '/')
        return tn_strdup_or_null(path);
    tn_autofree char *here = getcwd(NULL, 0);
    return here ? tn_asprintf("%s/%s", here, path) : NULL;
}

int mcp_oauth_prepare(struct mcp_oauth *o, const struct tn_toolbox_login *login,
                      struct tn_error *err)
{
    const char *client = login->document ? login->document : login->client;
    mcp_autogrant struct mcp_grant g = {
        .issuer = tn_strdup_or_null(client ? login->issuer : NULL),
        .client = tn_strdup_or_null(client),
        .secret = tn_strdup_or_null(login->secret),
        .key = absolute(login->key),
        .workload = absolute(login->workload),
        .scope = tn_strdup_or_null(login->scope),
        .given = client,
        .document = login->document,
        .machine = login->machine || login->workload,
        .port = login->port,
    };
    mcp_autourl struct mcp_url server = {0}, document = {0};

    if (mcp_url_read(o->url, &server, err) < 0)
        return -1;
    if (login->document && (mcp_url_read(login->document, &document, err) < 0 || !document.secure))
        return tn_fail(err, TN_E_INVALID, "the description of the client: expected an https URL");
    if ((login->secret || login->key || login->workload || login->machine || login->issuer) &&
        !client)
        return tn_fail(err, TN_E_INVALID, "expected the id of the client as well");
    if (!!login->secret + !!login->key + !!login->workload > 1)
        return tn_fail(err, TN_E_INVALID,
                       "expected a secret, a key or a token of the workload, found several");
    if (login->machine && !login->secret && !login->key && !login->workload)
        return tn_fail(err, TN_E_INVALID,
                       "a client that acts for itself needs a secret, a key or a token of the "
                       "workload");
    if (login->key) { /* said now, not at the first use */
        mcp_autokey struct mcp_key *key = mcp_key_read(login->key, err);
        if (!key)
            return -1;
    }
    tn_autobuf struct tn_buf workload = TN_BUF_INIT(WORKLOAD_MAX);
    if (login->workload && read_workload(login->workload, &workload, err) < 0)
        return -1;
    if ((login->key && !g.key) || (login->workload && !g.workload))
        return tn_fail(err, TN_E_NOT_FOUND, "the current directory has no name any more");
    if (login->secret)
        tn_log_secret(login->secret);
    tn_autofd int lock = mcp_vault_lock(&o->vault, -1, tn_deadline_in(ASK_SECONDS), err);
    return lock < 0 ? -1 : mcp_vault_write(&o->vault, &g, err);
}

int mcp_oauth_forget(struct mcp_oauth *o, struct tn_error *err)
{
    tn_autofd int lock = mcp_vault_lock(&o->vault, -1, tn_deadline_in(ASK_SECONDS), err);

    return lock < 0 ? -1 : mcp_vault_remove(&o->vault, err);
}
