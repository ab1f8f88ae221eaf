#include "service/surface.h"

#include <ctype.h>

#include "base/clock.h"
#include "base/hmac.h"
#include "base/secret.h"
#include "net/url.h"
#include "runtime/registry.h"
#include "service/api-native.h"
#include "service/bounds.h"
#include "service/box-internal.h"
#include "service/caller.h"
#include "service/clock.h"
#include "service/daytona/daytona.h"
#include "service/e2b/e2b.h"
#include "service/modal/modal.h"
#include "service/preview-host.h"
#include "service/proxy.h"
#include "service/runloop/runloop.h"
#include "service/volume.h"

void surface_token(const struct tn_service *s, const char *purpose, const char *text,
                   char out[SURFACE_TOKEN])
{
    unsigned char mac[TN_SHA256_BYTES];
    tn_autofree char *whole = tn_asprintf("%s\n%s", purpose, text);

    tn_hmac_sha256(s->secret, strlen(s->secret), whole, strlen(whole), mac);
    for (int i = 0; i < SURFACE_TOKEN / 2; i++)
        snprintf(out + 2 * i, 3, "%02x", mac[i]);
}

bool surface_is_token(const struct tn_service *s, const char *purpose, const char *text,
                      const char *given)
{
    char token[SURFACE_TOKEN];

    surface_token(s, purpose, text, token);
    bool same = given && tn_same_secret(given, token);
    explicit_bzero(token, sizeof token);
    return same;
}

/* --- links ----------------------------------------------------------------------------------- */

static char *link_text(const char *path, const char *key, const char *until)
{
    return tn_asprintf("%s/%s/%s", path, key, until);
}

char *surface_link(struct tn_http_exchange *x, struct tn_service *s, const char *purpose,
                   const char *path, int64_t seconds)
{
    const char *key = caller_of(x)->key_id;
    tn_autofree char *until = tn_asprintf("%lld", (long long)(service_time() + (double)seconds)),
                     *text = link_text(path, key, until), *base = base_url(x);
    char token[SURFACE_TOKEN];

    surface_token(s, purpose, text, token);
    return tn_asprintf("%s%s?by=%s&until=%s&signature=%s", base, path, key, until, token);
}

bool surface_by_link(struct tn_http_exchange *x, struct tn_service *s, const char *purpose)
{
    const char *key = tn_http_query(x, "by"), *until = tn_http_query(x, "until");
    tn_autofree char *text = key && until ? link_text(tn_http_path(x), key, until) : tn_strdup("");
    struct caller who;

    if (*text && surface_is_token(s, purpose, text, tn_http_query(x, "signature")) &&
        strtod(until, NULL) >= service_time() && keyring_find(s->keys, key, &who, NULL) == 0)
        return caller_enter(x, &who);
    reply_unauthorized(x, "This link is none, or not any more");
    return false;
}

bool surface_tunnel_host(const struct tn_http_exchange *x, int *port, char key[SURFACE_TUNNEL])
{
    const char *host = tn_http_header(x, "Host");
    size_t digits = host ? strspn(host, "0123456789") : 0;
    const char *at = host + digits + 1;

    if (!digits || host[digits] != '-' || strcspn(at, ".:") != SURFACE_TUNNEL - 1 ||
        at[SURFACE_TUNNEL - 1] != '.')
        return false;
    for (int i = 0; i < SURFACE_TUNNEL - 1; i++)
        key[i] = (char)tolower((unsigned char)at[i]);
    key[SURFACE_TUNNEL - 1] = '\0';
    *port = preview_port(host, digits);
    return *port && preview_is_id(key, 10);
}

struct box *surface_tunnel_box(struct tn_service *s, const char *key)
{
    char id[11];

    snprintf(id, sizeof id, "%.10s", key);
    return box_find(s, NULL, id, NULL);
}

bool surface_enter(struct tn_http_exchange *x, struct box *b, const char *key_id)
{
    struct caller who;

    if (keyring_find(box_service(b)->keys, key_id, &who, NULL)) {
        reply_unauthorized(x, "The key that made this sandbox does not count any more");
        return false;
    }
    /* It opens this box and nothing else, whatever the key may. */
    who.scopes = SCOPE_READ | SCOPE_USE;
    snprintf(who.tenant, sizeof who.tenant, "%s", box_tenant(b));
    return caller_enter(x, &who);
}

ssize_t surface_read_body(void *ctx, void *to, size_t n, struct tn_error *err)
{
    return tn_http_read(ctx, to, n, err);
}

int surface_body(struct tn_http_exchange *x, size_t max, struct tn_json **out)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(max);
    struct tn_error err = {0};

    *out = NULL;
    if (read_whole(x, &body) < 0)
        return -1;
    if (body.len == 0)
        return 0;
    if (hold_json(x, &body, out, &err) == 0 && (!*out || tn_json_type(*out) == TN_JSON_OBJECT))
        return 0;
    if (err.code != TN_E_BUSY)
        tn_fail(&err, TN_E_INVALID, "The body is no JSON object");
    tn_json_free(TN_TAKE_PTR(*out));
    reply_error(x, &err);
    return -1;
}

void surface_write_place(double created, const char *id, char out[SURFACE_PLACE])
{
    snprintf(out, SURFACE_PLACE, "%.17g-%s", created, id);
}

int surface_read_place(struct tn_http_exchange *x, const char *name, struct box_filter *f,
                       char after[11])
{
    const char *text = tn_http_query(x, name);
    char *end;

    if (!text || !*text)
        return 0;
    f->after_created = strtod(text, &end);
    if (end == text || *end != '-' || !preview_is_id(end + 1, strlen(end + 1)))
        return native_refuse(x, TN_E_INVALID, "%s: expected that of the page before", name);
    snprintf(after, 11, "%s", end + 1);
    f->after = after;
    return 0;
}

bool surface_is_layer(const struct box_view *v)
{
    static bool (*const all[])(const struct box_view *v) = {daytona_is_layer, e2b_is_layer,
                                                            modal_is_layer, runloop_is_layer};

    for (size_t i = 0; i < TN_COUNT(all); i++)
        if (all[i](v))
            return true;
    return false;
}

struct box *surface_box(struct tn_service *s, const char *tenant, const char *id,
                        struct tn_error *err)
{
    autobox struct box *b = box_find(s, tenant, id, err);
    autoview struct box_view v = {0};

    if (b)
        box_look(b, &v);
    if (!b || !surface_is_layer(&v))
        return TN_TAKE_PTR(b);
    tn_fail(err, TN_E_NOT_FOUND, "sandbox %s not found", v.id);
    return NULL;
}

/* Takes out of an absolute path what changes nothing: "//", "/./" and the end "/".  (".." is the
 * sandbox's to follow: what is before it may be a link.) */
static char *without_idle_parts(char *path)
{
    size_t n = 0;

    for (const char *part = path, *end; *part; part = end) {
        part += strspn(part, "/");
        end = part + strcspn(part, "/");
        size_t size = (size_t)(end - part);
        if (!size || (size == 1 && *part == '.'))
            continue;
        path[n++] = '/';
        memmove(path + n, part, size);
        n += size;
    }
    path[n ? n : 1] = '\0'; /* the first byte is '/' already */
    return path;
}

bool surface_fits(const char *pattern, const char *path, char **words)
{
    size_t stars = 0;

    for (; *pattern; pattern++) {
        if (*pattern != '*') {
            if (*path++ != *pattern)
                return false;
            continue;
        }
        size_t n = strcspn(path, "/");
        if (!n)
            return false;
        free(words[stars]);
        words[stars++] = tn_strndup(path, n);
        path += n;
    }
    return !*path;
}

char *surface_path(const char *home, const char *given)
{
    bool tilde = given && given[0] == '~' && (!given[1] || given[1] == '/');
    const char *rest = !given ? "" : tilde ? given + 1 + (given[1] == '/') : given;
    return without_idle_parts(*rest == '/' && !tilde ? tn_strdup(rest)
                                                     : tn_asprintf("%s/%s", home, rest));
}

/* --- files ----------------------------------------------------------------------------------- */

enum { TARGET_MAX = 16 << 10 };
#define FILE_SECONDS 60.0

struct tn_hand_files *surface_files(const struct tn_http_exchange *x, struct box *b,
                                    struct tn_error *err)
{
    tn_autofree char *address = NULL, *key = NULL;
    struct tn_hand_files *f = NULL;

    if (box_hand(b, &address, &key, tn_deadline_in(FILE_SECONDS), err) == 0)
        f = tn_hand_files_new(address, key, err);
    if (f)
        tn_hand_files_hold(f, purse_of(x));
    if (key)
        explicit_bzero(key, strlen(key));
    return f;
}

void surface_mode_text(const struct tn_entry *e, char out[11])
{
    static const char letters[] = "rwxrwxrwx";

    out[0] = e->type == TN_ENTRY_DIRECTORY ? 'd' : e->type == TN_ENTRY_SYMLINK ? 'L' : '-';
    for (int i = 0; i < 9; i++)
        out[1 + i] = e->mode & 1u << (8 - i) ? letters[i] : '-';
    out[10] = '\0';
}

void surface_put_owner(struct tn_jw *w, const char *key, int64_t id)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)id);
    tn_jw_kstr(w, key, id == 0 ? "root" : text);
}

void surface_send_file(struct tn_http_exchange *x, struct box *b, struct tn_hand_files *f,
                       const char *path)
{
    tn_autobuf struct tn_buf target = TN_BUF_INIT(TARGET_MAX);
    tn_autoentry struct tn_entry entry = {0};
    struct tn_error err = {0};

    if (tn_hand_files_stat(f, path, true, &entry, tn_deadline_in(FILE_SECONDS), &err)) {
        reply_error(x, &err);
        return;
    }
    if (entry.type != TN_ENTRY_FILE) {
        native_refuse(x, TN_E_INVALID, "path '%.400s' is %s", path,
                      entry.type == TN_ENTRY_DIRECTORY ? "a directory" : "no file");
        return;
    }
    tn_buf_puts(&target, "/v1/files/content?path=");
    tn_url_encode(&target, path, "/");
    if (tn_buf_ok(&target))
        proxy_to_hand(x, b, tn_buf_str(&target));
    else
        native_refuse(x, TN_E_URI_TOO_LONG, "the path is too long");
}

/* --- specs ----------------------------------------------------------------------------------- */

enum { SPEC_MAX = 256 << 10, RECORD_MAX = 64 << 10 };

static int put_variable(const char *name, struct tn_json *value, void *ctx)
{
    tn_jw_key(ctx, name);
    tn_jw_tree(ctx, value);
    return 0;
}

int surface_add_env(const struct tn_json *given, const char *home, struct tn_spec *spec,
                    struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    struct tn_jw w = tn_jw(&text);
    struct tn_json *env = NULL;

    if (!spec->workspace)
        spec->workspace = tn_strdup(home);
    tn_jw_object(&w);
    if (!tn_json_has(spec->env, "HOME"))
        tn_jw_kstr(&w, "HOME", spec->workspace);
    tn_json_each(spec->env, put_variable, &w); /* of two members of a name the later one counts */
    tn_json_each(given, put_variable, &w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_INVALID, "env: more than %d KiB", SPEC_MAX >> 10);
    if (tn_json_parse(tn_buf_str(&text), text.len, &env, err))
        return -1;
    tn_json_free(spec->env);
    spec->env = env;
    return tn_spec_check(spec, err);
}

void surface_add_quoted(struct tn_buf *out, const char *text, size_t n)
{
    tn_buf_putc(out, '\'');
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\'')
            tn_buf_puts(out, "'\\''");
        else
            tn_buf_putc(out, text[i]);
    tn_buf_putc(out, '\'');
}

void surface_add_arg(struct tn_str_list *args, const char *text)
{
    args->items = tn_realloc(args->items, (args->count + 1) * sizeof *args->items);
    args->items[args->count++] = tn_strdup(text);
}

int surface_process_env(const struct tn_http_exchange *x, const char *home,
                        const struct tn_json *given, struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = {.max = SPEC_MAX << 2, .purse = purse_of(x)};
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    if (home && !tn_json_has(given, "HOME"))
        tn_jw_kstr(&w, "HOME", home);
    tn_json_each(given, put_variable, &w);
    tn_jw_object_end(&w);
    return tn_json_parse(tn_buf_str(&text), text.len, out, err);
}

/* --- records --------------------------------------------------------------------------------- */

static int put_word(const char *key, struct tn_json *value, void *w)
{
    if (tn_json_type(value) == TN_JSON_STRING)
        tn_jw_kstr(w, key, tn_json_str(value, NULL));
    return 0;
}

void surface_put_words(struct tn_jw *w, const struct tn_json *metadata)
{
    tn_json_each(metadata, put_word, w);
}

struct others {
    struct tn_jw *w;
    const char *but;
};

static int put_other(const char *key, struct tn_json *value, void *ctx)
{
    const struct others *o = ctx;

    if (o->but && strcmp(key, o->but) == 0)
        return 0;
    tn_jw_key(o->w, key);
    tn_jw_tree(o->w, value);
    return 0;
}

struct tn_json *surface_metadata(const struct tn_json *words, const char *name,
                                 const struct tn_json *record, const char *member,
                                 const char *value, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(RECORD_MAX);
    struct tn_jw w = tn_jw(&text);
    struct others others = {.w = &w, .but = member};
    struct tn_json *made = NULL;

    tn_jw_object(&w);
    surface_put_words(&w, words);
    tn_jw_key(&w, name);
    tn_jw_object(&w);
    tn_json_each(record, put_other, &others);
    if (value) {
        tn_jw_key(&w, member);
        tn_jw_raw(&w, value, strlen(value));
    }
    tn_jw_object_end(&w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text)) {
        tn_fail(err, TN_E_INVALID, "metadata: more than %d KiB", RECORD_MAX >> 10);
        return NULL;
    }
    if (tn_json_parse(tn_buf_str(&text), text.len, &made, err) ||
        native_check_names(NULL, NULL, made, err)) {
        tn_json_free(made);
        return NULL;
    }
    return made;
}

/* --- lives ----------------------------------------------------------------------------------- */

int surface_mount(struct tn_service *s, const struct caller *who, const struct surface_mounts *m,
                  struct tn_spec *spec, struct tn_error *err)
{
    for (size_t i = 0; m && i < tn_json_count(m->list); i++) {
        const struct tn_json *one = tn_json_at(m->list, i);
        const char *below = m->below ? tn_json_get_str(one, m->below, NULL) : NULL;
        if (volume_mount(s, who->tenant, tn_json_get_str(one, m->name, ""), below,
                         tn_json_get_str(one, m->inside, ""), false, spec, err))
            return -1;
    }
    return 0;
}

struct box *surface_fork(struct box *parent, const struct caller *who,
                         const struct tn_json *const given[2], const char *home,
                         const struct surface_mounts *mounts, struct box_wish *wish,
                         struct tn_error *err)
{
    struct box *b = NULL;
    autoview struct box_view v;

    box_look(parent, &v);
    tn_spec_init(&wish->spec);
    wish->spec.env = v.spec.env ? tn_json_copy(v.spec.env) : NULL;
    wish->spec.workspace = tn_strdup_or_null(v.spec.workspace);
    wish->spec.runtime = tn_strdup_or_null(v.runtime);
    if (surface_mount(box_service(parent), who, mounts, &wish->spec, err) == 0 &&
        surface_add_env(given[0], home, &wish->spec, err) == 0 &&
        surface_add_env(given[1], home, &wish->spec, err) == 0)
        b = box_fork(parent, who, NULL, wish, err);
    tn_spec_done(&wish->spec);
    return b;
}

int surface_spec_can_fork(struct tn_service *s, const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_backend *backend = spec_backend(s, spec, err);

    if (!backend)
        return -1;
    return backend->abilities & TN_CAN_SNAPSHOT
               ? 0
               : tn_fail(err, TN_E_UNSUPPORTED, "%s cannot fork a sandbox", backend->name);
}

int surface_can_fork(struct box *b, struct tn_error *err)
{
    autoview struct box_view v;

    box_look(b, &v);
    return surface_spec_can_fork(box_service(b), &(struct tn_spec){.runtime = v.runtime}, err);
}

struct surface_size surface_size_of(const struct box_view *v)
{
    struct bound_limits most = {0};

    bounds_measure(box_service(v->box), v->runtime, &v->spec, v->resource_factor, &most, NULL);
    struct surface_size size = {
        .cpus = most.cpus > 0 ? (int64_t)(most.cpus + 0.999) : sysconf(_SC_NPROCESSORS_ONLN),
        .memory = most.memory > 0 ? (int64_t)most.memory
                                  : sysconf(_SC_PHYS_PAGES) * (int64_t)sysconf(_SC_PAGESIZE),
        .disk = (int64_t)most.disk,
    };
    size.cpus = size.cpus > 0 ? size.cpus : 1;
    return size;
}

double surface_most_seconds(const struct tn_service *s, const struct caller *who)
{
    double most = who->limits.max_seconds, service = s->options->ttl_seconds;

    return service > 0 && !(who->scopes & SCOPE_ADMIN) && (most <= 0 || service < most) ? service
                                                                                        : most;
}

int surface_order(struct tn_http_exchange *x, struct box *b, enum box_order what, double seconds)
{
    struct tn_error err = {0};
    char name[32];

    int failed = box_order(b, caller_of(x), what, tn_deadline_in(seconds), &err);
    snprintf(name, sizeof name, "sandbox.%s", box_order_words[what]);
    if (native_audit(x, box_service(b), name, box_id(b), failed ? &err : NULL))
        return -1;
    if (failed && err.code == TN_E_TIMEOUT)
        return 0; /* it goes on behind our back: clients look how far it is */
    if (failed)
        reply_error(x, &err);
    return failed;
}

int surface_settle(struct box *made, const struct caller *who, struct tn_json *metadata,
                   double seconds, struct tn_error *err)
{
    const double never = 0;

    if (surface_await(made, seconds, err) == 0 &&
        box_order(made, who, ORDER_STOP, tn_deadline_in(seconds), err) == 0 &&
        box_change(made, who, &(struct box_change){.metadata = metadata, .timeout = &never}, err) ==
            0)
        return 0;
    box_order(made, who, ORDER_DELETE, tn_now(), NULL);
    return -1;
}

struct box *surface_rest(struct box *b, const struct caller *who, struct box_wish *wish,
                         struct tn_json *metadata, double seconds, struct tn_error *err)
{
    wish->idle_pause = wish->idle_stop = wish->ttl = -1;
    wish->timeout = SURFACE_REST_SECONDS + 2 * seconds;
    tn_spec_init(&wish->spec);
    autobox struct box *made = box_fork(b, who, NULL, wish, err);
    tn_spec_done(&wish->spec);
    return made && surface_settle(made, who, metadata, seconds, err) == 0 ? TN_TAKE_PTR(made)
                                                                          : NULL;
}

int surface_await(struct box *b, double seconds, struct tn_error *err)
{
    static const unsigned settled = 1u << BOX_RUNNING | 1u << BOX_PAUSED | 1u << BOX_STOPPED |
                                    1u << BOX_ERROR | 1u << BOX_MISSING;
    autoview struct box_view v = {0};

    if (box_wait(b, settled, tn_deadline_in(seconds), err))
        return -1;
    box_look(b, &v);
    if (v.state != BOX_ERROR && v.state != BOX_MISSING)
        return 0;
    return tn_fail(err, v.cause == CAUSE_QUOTA ? TN_E_BUSY : TN_E_INTERNAL, "%s",
                   v.reason ? v.reason : "the sandbox could not be started");
}

/* --- volumes --------------------------------------------------------------------------------- */

enum { VOLUME_BODY_MAX = 64 << 10, VOLUMES_MAX = 1 << 20 };

struct volume_list {
    const struct surface_volumes *how;
    const char *tenant;
    struct tn_jw w;
};

static int put_volume(const struct volume *v, void *ctx)
{
    struct volume_list *l = ctx;

    l->how->put(&l->w, l->tenant, v);
    return 0;
}

/* name NULL: all. */
static void reply_volume(struct tn_http_exchange *x, struct tn_service *s, int status,
                         const char *name, const struct surface_volumes *how)
{
    tn_autobuf struct tn_buf json = ANSWER_BUF(x, VOLUMES_MAX);
    struct volume_list list = {how, caller_of(x)->tenant, tn_jw(&json)};
    struct tn_error err = {0};
    struct volume v;

    if (!name)
        tn_jw_array(&list.w);
    if (name ? volume_find(s, list.tenant, name, &v, &err) || put_volume(&v, &list)
             : volume_each(s, list.tenant, put_volume, &list)) {
        reply_error(x, &err);
        return;
    }
    if (!name)
        tn_jw_array_end(&list.w);
    tn_http_reply_json(x, status, &json);
}

void surface_volumes(struct tn_http_exchange *x, struct tn_service *s,
                     const struct surface_volumes *how)
{
    const char *name = tn_http_param(x, "volume");
    bool reads = strcmp(tn_http_method(x), "GET") == 0, makes = !reads && !name;
    tn_autojson struct tn_json *body = NULL;
    struct tn_error err = {0};

    if (!caller_may(x, reads ? SCOPE_READ : SCOPE_MANAGE) ||
        (makes && surface_body(x, VOLUME_BODY_MAX, &body)))
        return;
    if (reads) {
        reply_volume(x, s, 200, name, how);
        return;
    }
    const char *tenant = caller_of(x)->tenant;
    name = makes ? tn_json_get_str(body, "name", NULL) : name;
    int failed =
        makes ? volume_create(s, tenant, name, &err) : volume_delete(s, tenant, name, NULL, &err);
    if (native_audit_of(x, s, makes ? "volume.create" : "volume.delete", name,
                        failed ? &err : NULL))
        return;
    if (failed)
        reply_error(x, &err);
    else if (makes)
        reply_volume(x, s, how->made, name, how);
    else
        tn_http_reply(x, how->deleted, NULL, NULL, 0);
}
