/* What comes before any sandbox: greetings, environments, apps, secrets.  An environment and an app
 * are names and nothing else; a secret is kept in memory until somebody has used it. */
#include <pthread.h>
#include <sys/random.h>

#include "base/sha256.h"
#include "service/jws.h"
#include "service/modal/modal.h"

#define TOKEN_SECONDS 86400
#define BUILDER "2025.06" /* of whose images clients put nothing of their own into ours */
enum { SECRET_ID = 3 + 22, SECRETS_MAX = 256, SECRETS_OF_TENANT = 32, SECRET_MAX = 64 << 10 };
#define SECRET_SECONDS 3600

/* Clients look at its time alone: what counts is the key that comes with every call. */
static int auth_token_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    Modal__AuthTokenGetResponse out = MODAL__AUTH_TOKEN_GET_RESPONSE__INIT;
    tn_autobuf struct tn_buf token = TN_BUF_INIT(JWS_MAX);
    char secret[SURFACE_TOKEN];

    surface_token(c->s, "modal-auth", "", secret);
    tn_autofree char *claims =
        tn_asprintf("{\"exp\":%lld}", (long long)service_time() + TOKEN_SECONDS);
    jws_sign(secret, claims, &token);
    out.token = token.data;
    return modal_send(c, &out, err);
}

static int client_hello(struct modal_call *c, const void *request, struct tn_error *err)
{
    static char builder[] = BUILDER;
    Modal__ClientHelloResponse out = MODAL__CLIENT_HELLO_RESPONSE__INIT;

    out.image_builder_version = builder;
    return modal_send(c, &out, err);
}

static int environment_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    static char builder[] = BUILDER, id[] = "en-main", name[] = "main";
    const Modal__EnvironmentGetOrCreateRequest *in = request;
    Modal__EnvironmentGetOrCreateResponse out = MODAL__ENVIRONMENT_GET_OR_CREATE_RESPONSE__INIT;
    Modal__EnvironmentMetadata metadata = MODAL__ENVIRONMENT_METADATA__INIT;
    Modal__EnvironmentSettings settings = MODAL__ENVIRONMENT_SETTINGS__INIT;

    settings.image_builder_version = builder;
    metadata.name = in->deployment_name && *in->deployment_name ? in->deployment_name : name;
    metadata.settings = &settings;
    out.environment_id = id;
    out.metadata = &metadata;
    return modal_send(c, &out, err);
}

void modal_app_id(const char *name, char out[MODAL_APP_ID])
{
    struct tn_sha256 h;
    char hex[2 * TN_SHA256_BYTES + 1];

    tn_sha256_init(&h);
    tn_sha256_add(&h, name, strlen(name));
    tn_sha256_end_hex(&h, hex);
    snprintf(out, MODAL_APP_ID, "ap-%.22s", hex);
}

static int app_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__AppGetOrCreateRequest *in = request;
    Modal__AppGetOrCreateResponse out = MODAL__APP_GET_OR_CREATE_RESPONSE__INIT;
    Modal__AppHandleMetadata metadata = MODAL__APP_HANDLE_METADATA__INIT;
    char id[MODAL_APP_ID];

    if (!in->app_name || !*in->app_name || strlen(in->app_name) > 64)
        return tn_fail(err, TN_E_INVALID, "app_name: expected 1 to 64 characters");
    modal_app_id(in->app_name, id);
    metadata.description = in->app_name;
    metadata.app_id = out.app_id = id;
    out.handle_metadata = &metadata;
    return modal_send(c, &out, err);
}

/* --- secrets --------------------------------------------------------------------------------- */

/* Newer clients send variables with the sandbox itself; older ones make a secret of them first, and
 * name it in their next call. */
static struct secret {
    char id[SECRET_ID + 1], tenant[65];
    char *env; /* JSON text of an object; NULL: the place is free */
    double made;
} secrets[SECRETS_MAX];
static pthread_mutex_t secrets_lock = PTHREAD_MUTEX_INITIALIZER;

static void forget(struct secret *s)
{
    if (s->env)
        explicit_bzero(s->env, strlen(s->env));
    free(TN_TAKE_PTR(s->env));
}

/* A free place, or that of the oldest: of this tenant, where it has its share.  Under the lock. */
static struct secret *place_for(const char *tenant, double now)
{
    struct secret *oldest = NULL, *own = NULL, *empty = NULL;
    size_t count = 0;

    for (struct secret *s = secrets; s < secrets + SECRETS_MAX; s++) {
        if (s->env && now - s->made > SECRET_SECONDS)
            forget(s);
        if (!s->env) {
            empty = s;
            continue;
        }
        if (!oldest || s->made < oldest->made)
            oldest = s;
        bool ours = strcmp(s->tenant, tenant) == 0;
        count += ours;
        if (ours && (!own || s->made < own->made))
            own = s;
    }
    return count >= SECRETS_OF_TENANT ? own : empty ? empty : oldest;
}

static int secret_make(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SecretGetOrCreateRequest *in = request;
    Modal__SecretGetOrCreateResponse out = MODAL__SECRET_GET_OR_CREATE_RESPONSE__INIT;
    tn_autobuf struct tn_buf env = TN_BUF_INIT(SECRET_MAX);
    struct tn_jw w = tn_jw(&env);
    char id[SECRET_ID + 1];

    if (in->deployment_name && *in->deployment_name)
        return tn_fail(err, TN_E_NOT_FOUND,
                       "there is no secret '%.60s': those with a name are the operator's here",
                       in->deployment_name);
    tn_jw_object(&w);
    modal_put_pairs(&w, in->env_dict, in->n_env_dict);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&env))
        return tn_fail(err, TN_E_INVALID, "env_dict: more than %d KiB", SECRET_MAX >> 10);
    unsigned char bytes[11];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return tn_fail(err, TN_E_INTERNAL, "no randomness");
    snprintf(id, sizeof id, "st-");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id + 3 + 2 * i, 3, "%02x", bytes[i]);
    double now = service_time();
    pthread_mutex_lock(&secrets_lock);
    struct secret *place = place_for(c->who->tenant, now);
    forget(place);
    memcpy(place->id, id, sizeof id);
    snprintf(place->tenant, sizeof place->tenant, "%s", c->who->tenant);
    place->env = tn_buf_take(&env);
    place->made = now;
    pthread_mutex_unlock(&secrets_lock);
    out.secret_id = id;
    return modal_send(c, &out, err);
}

/* The variables of that secret, the caller's to wipe; NULL: there is none. */
static char *secret_env(const char *tenant, const char *id)
{
    char *env = NULL;

    pthread_mutex_lock(&secrets_lock);
    for (size_t i = 0; i < SECRETS_MAX; i++)
        if (secrets[i].env && strcmp(secrets[i].id, id) == 0 &&
            strcmp(secrets[i].tenant, tenant) == 0)
            env = tn_strdup(secrets[i].env);
    pthread_mutex_unlock(&secrets_lock);
    return env;
}

void modal_put_pairs(struct tn_jw *w, Modal__Pair *const *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pairs[i]->key)
            tn_jw_kstr(w, pairs[i]->key, pairs[i]->value ? pairs[i]->value : "");
}

static int put_secret(const struct modal_call *c, struct tn_jw *w, const char *id,
                      struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    char *env = secret_env(c->who->tenant, id);

    if (!env)
        return tn_fail(err, TN_E_NOT_FOUND, "there is no secret %.40s", id);
    int failed = tn_json_parse(env, strlen(env), &tree, err);
    explicit_bzero(env, strlen(env));
    free(env);
    surface_put_words(w, tree);
    return failed;
}

int modal_put_secrets(const struct modal_call *c, struct tn_jw *w, char *const *ids, size_t count,
                      Modal__SecretSource *const *sources, size_t source_count,
                      struct tn_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (put_secret(c, w, ids[i], err))
            return -1;
    for (size_t i = 0; i < source_count; i++) {
        const Modal__SecretSource *s = sources[i];
        if (s->env)
            modal_put_pairs(w, s->env->contents, s->env->n_contents);
        else if (s->secret_id && put_secret(c, w, s->secret_id, err))
            return -1;
    }
    return 0;
}

const struct modal_method modal_account[] = {
    {"AuthTokenGet", MODAL_MESSAGE(empty), auth_token_get, SCOPE_READ},
    {"ClientHello", MODAL_MESSAGE(empty), client_hello, SCOPE_READ},
    {"EnvironmentGetOrCreate", MODAL_MESSAGE(environment_get_or_create_request), environment_get,
     SCOPE_READ},
    {"AppGetOrCreate", MODAL_MESSAGE(app_get_or_create_request), app_get, SCOPE_READ},
    {"SecretGetOrCreate", MODAL_MESSAGE(secret_get_or_create_request), secret_make, SCOPE_USE},
    {0},
};
