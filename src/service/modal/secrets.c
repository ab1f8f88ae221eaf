/* Secrets: variables of sandboxes.  One without a name is kept in memory until somebody has used
 * it; one with a name is the words of a blob (blobs.h), sealed by the safe (security/safe.h). */
#include <pthread.h>
#include <sys/random.h>

#include "base/key-file.h"
#include "runtime/secrets.h"
#include "service/blobs.h"
#include "service/modal/modal.h"

#define OWNER "modal-secret"
enum {
    SECRET_ID = 3 + 22,
    SECRETS_OF_TENANT = 32,
    SECRET_MAX = 64 << 10,
    KEYS_MAX = 256, /* that are told */
    PAGE = 100,
};
#define SECRET_SECONDS 3600

/* Newer clients send variables with the sandbox itself; older ones make a secret of them first, and
 * name it in their next call.  Each tenant has a shelf of its own, so that none pushes out what is
 * another's; those without any are freed. */
struct secret {
    char id[SECRET_ID + 1];
    char *env; /* JSON text of an object; NULL: the place is free */
    double made;
};
struct shelf {
    struct shelf *next;
    char tenant[65];
    struct secret places[SECRETS_OF_TENANT];
};
static struct shelf *shelves;
static pthread_mutex_t secrets_lock = PTHREAD_MUTEX_INITIALIZER;

static void forget(struct secret *s)
{
    if (s->env)
        explicit_bzero(s->env, strlen(s->env));
    free(TN_TAKE_PTR(s->env));
}

/* Forgets what is old.  Whether nothing is left there. */
static bool clear_shelf(struct shelf *shelf, double now)
{
    bool empty = true;

    for (struct secret *s = shelf->places; s < shelf->places + SECRETS_OF_TENANT; s++) {
        if (s->env && now - s->made > SECRET_SECONDS)
            forget(s);
        empty = empty && !s->env;
    }
    return empty;
}

/* The tenant's, or NULL.  Under the lock. */
static struct shelf *shelf_of(const char *tenant)
{
    struct shelf *shelf = shelves;

    while (shelf && strcmp(shelf->tenant, tenant) != 0)
        shelf = shelf->next;
    return shelf;
}

/* A free place of that tenant, or that of its oldest.  Under the lock. */
static struct secret *place_for(const char *tenant, double now)
{
    for (struct shelf **at = &shelves; *at;) {
        struct shelf *shelf = *at;
        if (clear_shelf(shelf, now)) {
            *at = shelf->next;
            free(shelf);
        } else {
            at = &shelf->next;
        }
    }
    struct shelf *own = shelf_of(tenant);
    if (!own) {
        own = tn_calloc(1, sizeof *own);
        snprintf(own->tenant, sizeof own->tenant, "%s", tenant);
        own->next = shelves;
        shelves = own;
    }
    struct secret *oldest = own->places;
    for (struct secret *s = own->places; s < own->places + SECRETS_OF_TENANT; s++) {
        if (!s->env)
            return s;
        if (s->made < oldest->made)
            oldest = s;
    }
    return oldest;
}

/* One without a name. */
static int make_ephemeral(struct modal_call *c, const Modal__SecretGetOrCreateRequest *in,
                          struct tn_error *err)
{
    Modal__SecretGetOrCreateResponse out = MODAL__SECRET_GET_OR_CREATE_RESPONSE__INIT;
    tn_autobuf struct tn_buf env = TN_BUF_INIT(SECRET_MAX);
    struct tn_jw w = tn_jw(&env);
    char id[SECRET_ID + 1];

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
    const struct shelf *own = shelf_of(tenant);
    for (size_t i = 0; own && i < SECRETS_OF_TENANT; i++)
        if (own->places[i].env && strcmp(own->places[i].id, id) == 0)
            env = tn_strdup(own->places[i].env);
    pthread_mutex_unlock(&secrets_lock);
    return env;
}

/* --- those with a name ----------------------------------------------------------------------- */

static int open_named(struct modal_call *c, const struct blob *b, struct tn_json **env,
                      struct tn_error *err)
{
    const struct tn_safe safe = tn_secrets_safe(tn_runtime_host(c->s->rt));
    tn_autokeyfile struct tn_buf plain = TN_BUF_INIT(SECRET_MAX + 1024);
    tn_autofree char *what = tn_asprintf("modal %s %s", c->who->tenant, b->name);

    tn_buf_reserve(&plain, SECRET_MAX); /* what it grew out of would not be wiped */
    return tn_safe_unseal(&safe, what, b->words, &plain, err) < 0 ||
                   tn_json_parse(tn_buf_str(&plain), plain.len, env, err)
               ? tn_error_context(err, "secret %.64s", b->name)
               : 0;
}

/* The variables of both, the later ones count, as text for the blob of that name. */
static char *seal(struct modal_call *c, const char *name, const struct tn_json *before,
                  Modal__Pair *const *pairs, size_t n, struct tn_error *err)
{
    const struct tn_safe safe = tn_secrets_safe(tn_runtime_host(c->s->rt));
    tn_autokeyfile struct tn_buf plain = TN_BUF_INIT(SECRET_MAX);
    tn_autobuf struct tn_buf sealed = TN_BUF_INIT(2 * SECRET_MAX);
    tn_autofree char *what = tn_asprintf("modal %s %s", c->who->tenant, name);
    struct tn_jw w = tn_jw(&plain);

    tn_buf_reserve(&plain, SECRET_MAX - 1);
    tn_jw_object(&w);
    surface_put_words(&w, before);
    modal_put_pairs(&w, pairs, n);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&plain))
        tn_fail(err, TN_E_INVALID, "env_dict: more than %d KiB", SECRET_MAX >> 10);
    else if (tn_safe_seal(&safe, what, &plain, &sealed, err) == 0)
        return tn_buf_take(&sealed);
    return NULL;
}

static bool is_name(const char *text)
{
    size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

    return n && n <= 64 && !text[n];
}

static int find_named(struct modal_call *c, const char *id, const char *name, struct blob *out,
                      struct tn_error *err)
{
    if (!name && (!id || strncmp(id, "st-", 3) != 0))
        return tn_fail(err, TN_E_NOT_FOUND, "there is no secret %.40s", id ? id : "");
    return blob_find(c->s, c->who->tenant, OWNER, name ? NULL : id + 3, name, out, err)
               ? tn_error_context(err, "secret")
               : 0;
}

/* What clients are told of one: never a value. */
struct told {
    Modal__SecretMetadata metadata;
    Modal__CreationInfo info;
    struct tn_json *env;
    char *keys[KEYS_MAX], id[BLOB_ID + 3], name[BLOB_NAME];
};

static int add_key(const char *key, struct tn_json *value, void *ctx)
{
    struct told *t = ctx;

    t->keys[t->metadata.n_keys++] = (char *)(uintptr_t)key;
    return t->metadata.n_keys == KEYS_MAX;
}

/* env is the caller's to free, where the keys are wanted. */
static void tell(struct told *t, const struct blob *b)
{
    modal__secret_metadata__init(&t->metadata);
    modal__creation_info__init(&t->info);
    snprintf(t->id, sizeof t->id, "st-%s", b->id);
    snprintf(t->name, sizeof t->name, "%s", b->name);
    t->metadata.name = t->name;
    t->metadata.creation_info = &t->info;
    t->info.has_created_at = true;
    t->info.created_at = b->created;
    t->metadata.keys = t->keys;
    tn_json_each(t->env, add_key, t);
}

static int count_one(const struct blob *b, void *ctx)
{
    ++*(int64_t *)ctx;
    return 0;
}

/* Type 0 looks one up, 1 makes one that is missing, 2 makes one that is not there, 3 replaces. */
static int keep_named(struct modal_call *c, const Modal__SecretGetOrCreateRequest *in,
                      struct blob *b, struct tn_error *err)
{
    const char *name = in->deployment_name;
    bool there = find_named(c, NULL, name, b, err) == 0;
    int64_t count = 0, most = c->s->options->max_secrets;

    if (in->object_creation_type == 0 || (there && in->object_creation_type == 1))
        return there ? 0 : -1;
    if (there && in->object_creation_type == 2)
        return modal_exists(c, "a secret of the name", name);
    if (!is_name(name) || !(c->who->scopes & (SCOPE_MANAGE | SCOPE_ADMIN)))
        return tn_fail(err, is_name(name) ? TN_E_DENIED : TN_E_INVALID,
                       "a secret needs a name, and a key with the scope manage");
    blob_each(c->s, c->who->tenant, OWNER, count_one, &count, NULL);
    if (!there && most > 0 && count >= most)
        return tn_fail(err, TN_E_QUOTA, "there are %lld secrets, and may be no more",
                       (long long)count);
    tn_autofree char *words = seal(c, name, NULL, in->env_dict, in->n_env_dict, err);
    if (!words)
        return -1;
    int failed = there ? blob_say(c->s, b, words, err) : 0;
    free(b->words);
    b->words = tn_strdup(words);
    snprintf(b->owner, sizeof b->owner, OWNER);
    snprintf(b->name, sizeof b->name, "%s", name);
    failed = failed || (!there && blob_new(c->s, c->who, b, err)) ? -1 : 0;
    return native_audit(c->x, c->s, "secret.set", NULL, failed ? err : NULL) ? MODAL_ANSWERED
                                                                             : failed;
}

static int secret_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SecretGetOrCreateRequest *in = request;
    Modal__SecretGetOrCreateResponse out = MODAL__SECRET_GET_OR_CREATE_RESPONSE__INIT;
    tn_autojson struct tn_json *env = NULL;
    autoblob struct blob b = {0};

    if (!in->deployment_name || !*in->deployment_name)
        return make_ephemeral(c, in, err);
    int kept = keep_named(c, in, &b, err);
    if (kept || open_named(c, &b, &env, err))
        return kept ? kept : -1;
    for (size_t i = 0; i < in->n_required_keys; i++)
        if (!tn_json_has(env, in->required_keys[i]))
            return tn_fail(err, TN_E_NOT_FOUND, "secret %.64s has no %.64s", b.name,
                           in->required_keys[i]);
    struct told told = {.env = env};
    tell(&told, &b);
    out.secret_id = told.id;
    out.metadata = &told.metadata;
    return modal_send(c, &out, err);
}

static int secret_info(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SecretId *in = request;
    Modal__SecretGetInfoResponse out = MODAL__SECRET_GET_INFO_RESPONSE__INIT;
    tn_autojson struct tn_json *env = NULL;
    autoblob struct blob b = {0};

    if (find_named(c, in->secret_id, NULL, &b, err) || open_named(c, &b, &env, err))
        return -1;
    struct told told = {.env = env};
    tell(&told, &b);
    out.metadata = &told.metadata;
    return modal_send(c, &out, err);
}

static int secret_update(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SecretUpdateRequest *in = request;
    tn_autojson struct tn_json *env = NULL;
    autoblob struct blob b = {0};

    if (find_named(c, in->secret_id, NULL, &b, err) || open_named(c, &b, &env, err))
        return -1;
    tn_autofree char *words = seal(c, b.name, env, in->updates, in->n_updates, err);
    int failed = words ? blob_say(c->s, &b, words, err) : -1;
    return native_audit(c->x, c->s, "secret.set", NULL, failed ? err : NULL) ? MODAL_ANSWERED
                                                                             : failed;
}

static int secret_delete(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SecretId *in = request;
    autoblob struct blob b = {0};
    int failed = find_named(c, in->secret_id, NULL, &b, err) || blob_delete(c->s, &b, err) ? -1 : 0;

    return native_audit(c->x, c->s, "secret.delete", NULL, failed ? err : NULL) ? MODAL_ANSWERED
                                                                                : failed;
}

struct page {
    struct told told[PAGE];
    Modal__SecretListItem items[PAGE], *all[PAGE];
    size_t count, most;
    double before;
};

static int list_one(const struct blob *b, void *ctx)
{
    struct page *p = ctx;

    if (p->before > 0 && b->created >= p->before)
        return 0;
    Modal__SecretListItem *item = p->all[p->count] = &p->items[p->count];
    struct told *t = &p->told[p->count++];
    tell(t, b);
    modal__secret_list_item__init(item);
    item->label = t->name;
    item->has_created_at = true;
    item->created_at = b->created;
    item->secret_id = t->id;
    item->metadata = &t->metadata;
    return p->count == p->most;
}

static int secret_list(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__SecretListRequest *in = request;
    Modal__SecretListResponse out = MODAL__SECRET_LIST_RESPONSE__INIT;
    tn_autofree struct page *p = tn_calloc(1, sizeof *p);
    int32_t wanted = in->pagination ? in->pagination->max_objects : 0;

    p->most = wanted > 0 && wanted < PAGE ? (size_t)wanted : PAGE;
    p->before = in->pagination ? in->pagination->created_before : 0;
    if (blob_each(c->s, c->who->tenant, OWNER, list_one, p, err) < 0)
        return -1;
    out.n_items = p->count;
    out.items = p->all;
    return modal_send(c, &out, err);
}

/* --- into a sandbox -------------------------------------------------------------------------- */

void modal_put_pairs(struct tn_jw *w, Modal__Pair *const *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (pairs[i]->key)
            tn_jw_kstr(w, pairs[i]->key, pairs[i]->value ? pairs[i]->value : "");
}

static int put_secret(struct modal_call *c, struct tn_jw *w, const char *id, struct tn_error *err)
{
    tn_autojson struct tn_json *tree = NULL;
    autoblob struct blob b = {0};
    char *env = secret_env(c->who->tenant, id);

    if (!env) {
        if (find_named(c, id, NULL, &b, err) || open_named(c, &b, &tree, err))
            return -1;
        surface_put_words(w, tree);
        return 0;
    }
    int failed = tn_json_parse(env, strlen(env), &tree, err);
    explicit_bzero(env, strlen(env));
    free(env);
    surface_put_words(w, tree);
    return failed;
}

int modal_put_secrets(struct modal_call *c, struct tn_jw *w, char *const *ids, size_t count,
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

const struct modal_method modal_secrets[] = {
    {"SecretGetOrCreate", MODAL_MESSAGE(secret_get_or_create_request), secret_get, SCOPE_USE},
    {"SecretGetInfo", MODAL_MESSAGE(secret_id), secret_info, SCOPE_READ},
    {"SecretList", MODAL_MESSAGE(secret_list_request), secret_list, SCOPE_READ},
    {"SecretUpdate", MODAL_MESSAGE(secret_update_request), secret_update, SCOPE_MANAGE},
    {"SecretDelete", MODAL_MESSAGE(secret_id), secret_delete, SCOPE_MANAGE},
    {0},
};
