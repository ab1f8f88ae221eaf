#include "service/bounds.h"

#include <fnmatch.h>
#include <math.h>

#include "gate/rules.h"
#include "image/reference.h"
#include "runtime/kubernetes/pods.h"
#include "runtime/registry.h"
#include "service/openhands.h"
#include "service/volume.h"

#define MIB (1024.0 * 1024)

/* clang-format off */
static const struct bound_row rows[] = {
    {"runtime",    BOUND_CHOICE,   "service.runtimes, or that of the template"},
    {"name",       BOUND_FREE,     "for people; the sandbox itself goes by its id"},
    {"image",      BOUND_CHOICE,   "service.images, or that of the template; never of a jail"},
    {"workspace",  BOUND_FREE,     "a directory inside"},
    {"user",       BOUND_FREE,     "somebody inside"},
    {"plugins",    BOUND_FREE,     "run inside"},
    {"volumes",    BOUND_OPERATOR, "directories of the machine; surfaces add volumes of the tenant"},
    {"env",        BOUND_FREE,     "variables inside"},
    {"labels",     BOUND_FREE,     "engines see them as tenant/NAME"},
    {"isolation",  BOUND_CHOICE,   "more than the template or the key says, never less"},
    {"network",    BOUND_CHOICE,   "no wider than that of the template, or of the runtime"},
    {"allow",      BOUND_CHOICE,   "no wider than that of the template, or jail.allow"},
    {"ask",        BOUND_FREE,     "who allows a connection must be allowed such a rule"},
    {"secrets",    BOUND_CHOICE,   "the tenant's own, and those of the template"},
    {"ports",      BOUND_FREE,     "ports inside; who may reach them is the service's business"},
    {"devices",    BOUND_OPERATOR, "devices of the machine"},
    {"gpus",       BOUND_OPERATOR, "devices of the machine"},
    {"memory",     BOUND_CEILING,  "service.sandbox_memory, or the limit of the runtime"},
    {"cpus",       BOUND_CEILING,  "service.sandbox_cpus, or the limit of the runtime"},
    {"pids",       BOUND_CEILING,  "service.sandbox_pids, or the limit of the runtime"},
    {"file_size",  BOUND_FREE,     "of a file inside: disk bounds them all"},
    {"open_files", BOUND_CEILING,  "service.sandbox_open_files, or the limit of the runtime"},
    {"disk",       BOUND_CEILING,  "service.sandbox_disk, or the limit of the runtime"},
    {"wall_time",  BOUND_FREE,     "it only ends a sandbox; ttl has a ceiling"},
    {"keep",       BOUND_SERVICE,  "a sandbox of the service is kept"},
    {"lease",      BOUND_SERVICE,  "ttl is for clients"},
    {"hand_args",  BOUND_OPERATOR, "arguments of the hand"},
};
/* clang-format on */

const struct bound_row *bound_find(const char *member)
{
    for (size_t i = 0; i < TN_COUNT(rows); i++)
        if (strcmp(rows[i].member, member) == 0)
            return &rows[i];
    return NULL;
}

static int denied(const char *what, struct tn_error *err)
{
    return tn_fail(err, TN_E_DENIED,
                   "%s reaches into the machine itself: that takes the scope admin, or a template "
                   "that says so",
                   what);
}

int bounds_members(const struct caller *who, const struct tn_json *body, struct tn_error *err)
{
    for (size_t i = 0; i < tn_spec_fields.count; i++) {
        const char *member = tn_spec_fields.rows[i].name;
        const struct bound_row *row = bound_find(member);
        enum bound bound = row ? row->bound : BOUND_OPERATOR;
        if (bound == BOUND_SERVICE && tn_json_has(body, member))
            return tn_fail(err, TN_E_UNPROCESSABLE, "%s is not for clients of the service", member);
        if (bound == BOUND_OPERATOR && !(who->scopes & SCOPE_ADMIN) && tn_json_get(body, member))
            return denied(member, err);
    }
    return 0;
}

/* --- limits ----------------------------------------------------------------------------------- */

enum { MEMORY, CPUS, PIDS, OPEN_FILES, DISK, LIMITS };

static const struct {
    const char *member, *unit;
    double scale;
    bool scaled; /* by the resource factor */
} limits[LIMITS] = {
    [MEMORY] = {"memory", " MiB", MIB, true}, [CPUS] = {"cpus", "", 1, true},
    [PIDS] = {"pids", "", 1, false},          [OPEN_FILES] = {"open_files", "", 1, false},
    [DISK] = {"disk", " MiB", MIB, false},
};

/* What one place says of each limit. */
struct said {
    struct tn_opt_double of[LIMITS];
    const char *where; /* "jail": the section of its settings */
    unsigned keeps;    /* of a runtime: limits that a service can impose there, as bits */
};

static int take_size(const char *where, const char *name, const char *text,
                     struct tn_opt_double *out, struct tn_error *err)
{
    uint64_t bytes = 0;

    if (!text || !*text)
        return 0;
    if (tn_size_parse(text, &bytes, err))
        return tn_error_context(err, "%s%s", where, name);
    *out = (struct tn_opt_double){.set = true, .value = (double)bytes};
    return 0;
}

/* Of a setting of Kubernetes'; what is none is told when its engine is opened. */
static void take_quantity(const char *text, struct tn_opt_double *out)
{
    out->set = text && *text && pod_quantity(text, &out->value) == 0;
}

static struct tn_opt_double number(struct tn_opt_int v)
{
    return (struct tn_opt_double){.set = v.set, .value = (double)v.value};
}

static struct tn_opt_double always(double v)
{
    return (struct tn_opt_double){.set = true, .value = v};
}

static int spec_says(const struct tn_spec *spec, struct said *out, struct tn_error *err)
{
    *out = (struct said){.of = {[CPUS] = spec->cpus,
                                [PIDS] = number(spec->pids),
                                [OPEN_FILES] = number(spec->open_files)}};
    return take_size("", "memory", spec->memory, &out->of[MEMORY], err) ||
                   take_size("", "disk", spec->disk, &out->of[DISK], err)
               ? -1
               : 0;
}

/* Runtimes without a section have no limits of their own. */
static int runtime_says(const struct tn_config *c, const char *runtime, struct said *out,
                        struct tn_error *err)
{
    /* The steward looks at disks: a limit of a jail's is one in memory. */
    *out = (struct said){.where = runtime,
                         .keeps = 1u << MEMORY | 1u << CPUS | 1u << PIDS | 1u << OPEN_FILES};
    if (strcmp(runtime, "jail") == 0) {
        out->of[CPUS] = always(c->jail.cpus);
        out->of[PIDS] = always((double)c->jail.pids);
        out->of[OPEN_FILES] = always((double)c->jail.open_files);
        return take_size("jail.", "memory", c->jail.memory, &out->of[MEMORY], err) ||
                       take_size("jail.", "disk", c->jail.disk, &out->of[DISK], err)
                   ? -1
                   : 0;
    }
    if (strcmp(runtime, "docker") == 0) {
        out->of[CPUS] = always(c->docker.cpus);
        out->of[PIDS] = always((double)c->docker.pids);
        return take_size("docker.", "memory", c->docker.memory, &out->of[MEMORY], err);
    }
    if (strcmp(runtime, "kubernetes") == 0) {
        out->keeps = 1u << MEMORY | 1u << CPUS | 1u << DISK; /* the others: podPidsLimit */
        take_quantity(c->kubernetes.resource_memory_limit, &out->of[MEMORY]);
        take_quantity(c->kubernetes.resource_cpu_limit, &out->of[CPUS]);
        take_quantity(c->kubernetes.resource_ephemeral_limit, &out->of[DISK]);
    }
    return 0;
}

static int service_says(const struct tn_service_options *o, struct said *out, struct tn_error *err)
{
    *out = (struct said){.of = {[CPUS] = o->sandbox_cpus,
                                [PIDS] = number(o->sandbox_pids),
                                [OPEN_FILES] = number(o->sandbox_open_files)}};
    return take_size("service.", "sandbox_memory", o->sandbox_memory, &out->of[MEMORY], err) ||
                   take_size("service.", "sandbox_disk", o->sandbox_disk, &out->of[DISK], err)
               ? -1
               : 0;
}

static const char *runtime_of(const struct tn_service *s, const struct tn_spec *spec,
                              struct tn_error *err)
{
    const struct tn_config *c = tn_runtime_host(s->rt)->config;
    const char *name = spec->runtime ? spec->runtime : c->tendon.runtime;
    const struct tn_backend *backend = tn_backend_find(c, name ? name : "jail", err);

    return backend ? backend->name : NULL;
}

/* Everything that is said about a spec and what it is made from. */
struct words {
    struct said wish, template, runtime, service;
};

static int gather(const struct tn_service *s, const char *runtime, const struct tn_spec *base,
                  const struct tn_spec *spec, struct words *w, struct tn_error *err)
{
    return spec_says(spec, &w->wish, err) || spec_says(base, &w->template, err) ||
                   runtime_says(tn_runtime_host(s->rt)->config, runtime, &w->runtime, err) ||
                   service_says(s->options, &w->service, err)
               ? -1
               : 0;
}

/* The ceiling of a limit and its name; 0: there is none. */
static double ceiling_of(const struct words *w, int i, char name[64])
{
    const struct tn_opt_double *template = &w->template.of[i];
    double most;

    if (w->service.of[i].set) {
        most = w->service.of[i].value;
        snprintf(name, 64, "service.sandbox_%s", limits[i].member);
    } else {
        most = w->runtime.of[i].value;
        snprintf(name, 64, "%.20s.%s", w->runtime.where, limits[i].member);
    }
    if (template->set && (template->value <= 0 || (most > 0 && template->value > most))) {
        most = template->value;
        snprintf(name, 64, "%s of the template", limits[i].member);
    }
    return most > 0 ? most : 0;
}

static int refuse_limit(int i, double wanted, double factor, double most, const char *name,
                        struct tn_error *err)
{
    double scale = limits[i].scale;
    char by[64] = "";

    if (limits[i].scaled && factor != 1)
        snprintf(by, sizeof by, " with a resource_factor of %g", factor);
    if (wanted <= 0)
        return tn_fail(err, TN_E_DENIED,
                       "%s: 0 is no limit; a sandbox may have %.15g%s at most here (%s)",
                       limits[i].member, most / scale, limits[i].unit, name);
    return tn_fail(err, TN_E_DENIED,
                   "%s: %.15g%s%s is more than a sandbox may have here: %.15g%s at most (%s)",
                   limits[i].member, wanted / scale, limits[i].unit, by, most / scale,
                   limits[i].unit, name);
}

static void impose(struct tn_spec *spec, int i, double most)
{
    switch (i) {
    case MEMORY:
        free(spec->memory);
        spec->memory = tn_asprintf("%.0f", most);
        break;
    case CPUS:
        spec->cpus = always(most);
        break;
    case PIDS:
        spec->pids = (struct tn_opt_int){.set = true, .value = (int64_t)most};
        break;
    case OPEN_FILES:
        spec->open_files = (struct tn_opt_int){.set = true, .value = (int64_t)most};
        break;
    case DISK:
        free(spec->disk);
        spec->disk = tn_asprintf("%.0f", most);
        break;
    default:
        break;
    }
}

static int settle_limit(const struct words *w, int i, double factor, struct tn_spec *spec,
                        struct tn_error *err)
{
    const struct tn_opt_double *wish = &w->wish.of[i];
    double by = limits[i].scaled ? factor : 1;
    char name[64];
    double most = ceiling_of(w, i, name);
    double wanted = (wish->set ? wish->value : w->runtime.of[i].value) * by;
    bool over = wanted <= 0 || wanted > (by == 1 ? most : most * (1 + 1e-9));

    if (most <= 0 || !over)
        return 0;
    if (wish->set || (by > 1 && wanted > 0))
        return refuse_limit(i, wanted, factor, most, name, err);
    if (w->runtime.keeps & 1u << i)
        impose(spec, i, by > 1 ? most / by : most);
    return 0;
}

int bounds_measure(const struct tn_service *s, const char *runtime, const struct tn_spec *spec,
                   double factor, struct bound_limits *out, struct tn_error *err)
{
    double of[LIMITS];
    struct words w;

    if (gather(s, runtime, spec, spec, &w, err))
        return -1;
    for (int i = 0; i < LIMITS; i++) {
        const struct tn_opt_double *v = w.wish.of[i].set ? &w.wish.of[i] : &w.runtime.of[i];
        double value = v->value * (limits[i].scaled ? factor : 1);
        of[i] = value > 0 && value < 1e18 ? value : value > 0 ? 1e18 : 0;
    }
    if (of[DISK] <= 0)
        of[DISK] = w.service.of[DISK].value;
    *out = (struct bound_limits){.memory = of[MEMORY],
                                 .cpus = of[CPUS],
                                 .pids = of[PIDS],
                                 .open_files = of[OPEN_FILES],
                                 .disk = of[DISK]};
    return 0;
}

/* Nobody measures what is in the claim of a pod, so it counts as full.  Where the cluster decides
 * whether there are claims, there may be. */
double bounds_claim(const struct tn_config *config, const char *runtime)
{
    const struct tn_config_kubernetes *k = &config->kubernetes;
    double size = 0;

    if (strcmp(runtime, "kubernetes") == 0 && k->workspace_volume != TN_KUBERNETES_EMPTY &&
        k->pvc_storage_size)
        pod_quantity(k->pvc_storage_size, &size); /* what is none is told as below */
    return fmin(size, 1e18);
}

static int settle_limits(struct tn_service *s, const struct tn_spec *base, double factor,
                         struct tn_spec *spec, struct tn_error *err)
{
    const char *runtime = runtime_of(s, spec, err);
    struct words w;

    if (!runtime || gather(s, runtime, base, spec, &w, err))
        return -1;
    for (int i = 0; i < LIMITS; i++)
        if (settle_limit(&w, i, factor, spec, err))
            return -1;
    return 0;
}

double bounds_nearest(const struct caller *who, double seconds, double most)
{
    bool free = most <= 0 || who->scopes & SCOPE_ADMIN;

    return free || (seconds > 0 && seconds <= most) ? seconds : most;
}

int bounds_time(const struct caller *who, const char *what, double seconds, double most,
                const char *setting, struct tn_error *err)
{
    if (!who || who->scopes & SCOPE_ADMIN || most <= 0 || seconds < 0 ||
        (seconds > 0 && seconds <= most))
        return 0;
    return tn_fail(err, TN_E_DENIED, "%s: %g seconds at most here (service.%s)%s", what, most,
                   setting, seconds > 0 ? "" : "; 0 is for ever");
}

/* --- choices ---------------------------------------------------------------------------------- */

static bool lists(const struct tn_service *s, const struct tn_str_list *names, const char *name)
{
    const struct tn_config *c = tn_runtime_host(s->rt)->config;

    for (size_t i = 0; i < names->count; i++) {
        const struct tn_backend *backend = tn_backend_find(c, names->items[i], NULL);
        if (backend && strcmp(backend->name, name) == 0)
            return true;
    }
    return false;
}

static void put_names(const struct tn_str_list *names, const char *usual, struct tn_buf *out)
{
    for (size_t i = 0; i < names->count; i++)
        tn_buf_printf(out, "%s%s", i ? ", " : "", names->items[i]);
    if (!names->count)
        tn_buf_puts(out, usual);
}

static int check_runtime(struct tn_service *s, const struct tn_spec *base,
                         const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_str_list *allowed = &s->options->runtimes;
    const char *name = runtime_of(s, spec, err), *usual = name ? runtime_of(s, base, err) : NULL;
    tn_autobuf struct tn_buf names = TN_BUF_INIT(256);

    if (!name || !usual)
        return -1;
    if (strcmp(name, usual) == 0 || lists(s, allowed, name))
        return 0;
    put_names(allowed, usual, &names);
    return tn_fail(err, TN_E_DENIED,
                   "runtime %s: tenants of this service may have %s (service.runtimes); another "
                   "takes the scope admin, or a template that says so",
                   name, tn_buf_str(&names));
}

static bool is_jail(const struct tn_service *s, const struct tn_spec *spec)
{
    const char *runtime = runtime_of(s, spec, NULL);

    return runtime && strcmp(runtime, tn_backend_jail.name) == 0;
}

/* What `like`, as a sandbox of the spec's runtime, has where that is said: the runtime's own, if
 * nothing is.  *rules (may be NULL) are those of its gate, or NULL. */
static int network_of(const struct tn_service *s, const struct tn_spec *spec,
                      const struct tn_spec *like, int said, const struct tn_str_list **rules)
{
    const char *runtime = runtime_of(s, spec, NULL);
    const struct tn_host *host = tn_runtime_host(s->rt);
    const struct tn_backend *backend =
        runtime ? tn_backend_find(host->config, runtime, NULL) : NULL;
    const struct tn_str_list *none = NULL, **found = rules ? rules : &none;
    struct tn_spec asked = *like; /* borrows everything */

    asked.network = said;
    if (backend && backend->network) {
        int network = backend->network(host, &asked, NULL, found);
        if (*found == &asked.allow)
            *found = &like->allow;
        return network;
    }
    return said == TN_NETWORK_DEFAULT ? TN_NETWORK_BRIDGE : said;
}

static bool is_wider(int network, int than)
{
    static const int reach[] = {
        [TN_NETWORK_NONE] = 0,   [TN_NETWORK_ALLOW] = 1, [TN_NETWORK_OPEN] = 2,
        [TN_NETWORK_BRIDGE] = 3, [TN_NETWORK_HOST] = 4,
    };
    return reach[network] > reach[than];
}

struct reach {
    int network;
    const struct tn_str_list *rules; /* of the operator */
};

/* A key's own lies over what the template, or the runtime, has. */
static struct reach reach_of(const struct tn_service *s, const struct key_limits *key,
                             const struct tn_spec *base, const struct tn_spec *spec)
{
    struct reach c = {.network = network_of(s, spec, base, base->network, NULL)};

    if (key->network != TN_NETWORK_DEFAULT && is_wider(c.network, key->network))
        c.network = key->network;
    network_of(s, spec, base, c.network, &c.rules);
    if (!c.rules)
        c.rules = &base->allow;
    return c;
}

/* Whether the rules of that network are the spec's, or would be if it had any: not those of the
 * configuration. */
static bool has_own_rules(const struct tn_service *s, const struct tn_spec *spec)
{
    const struct tn_str_list *usual = NULL;
    int network = network_of(s, spec, spec, spec->network, &usual);

    return network != TN_NETWORK_NONE && (!usual || usual == &spec->allow);
}

static int check_rules(const struct tn_service *s, const struct reach *c,
                       const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_str_list *allowed = c->rules;
    bool listed = c->network == TN_NETWORK_ALLOW || c->network == TN_NETWORK_NONE;
    tn_autorules struct tn_rules wide = {.mode = listed ? TN_GATE_ALLOW : TN_GATE_OPEN};
    tn_autorules struct tn_rules wanted = {0};
    char text[TN_ADDRESS_TEXT];

    for (size_t i = 0; i < allowed->count; i++)
        if (tn_rules_add(&wide, allowed->items[i], err) < 0)
            return tn_error_context(err, "allow of the template");
    for (size_t i = 0, done = 0; i < spec->allow.count; i++) {
        if (tn_rules_add(&wanted, spec->allow.items[i], err) < 0)
            return tn_error_context(err, "allow");
        for (; done < wanted.count; done++)
            if (!tn_rules_cover(&wide, &wanted.items[done]))
                return tn_fail(err, TN_E_DENIED,
                               "allow %.200s: more than the operator allows; that takes the scope "
                               "admin, or a template that says so",
                               spec->allow.items[i]);
    }
    const struct tn_rule *missing =
        has_own_rules(s, spec) ? tn_rules_denial_without(&wide, &wanted) : NULL;
    return missing ? tn_fail(err, TN_E_DENIED,
                             "allow: the operator denies %s/%d, and so must these rules",
                             tn_address_text(&missing->net, text), missing->bits)
                   : 0;
}

static int check_network(const struct tn_service *s, const struct key_limits *key,
                         const struct tn_spec *base, const struct tn_spec *spec,
                         struct tn_error *err)
{
    const struct reach c = reach_of(s, key, base, spec);
    int wanted = network_of(s, spec, spec, spec->network, NULL);

    if (wanted == TN_NETWORK_BRIDGE && is_jail(s, spec))
        return 0; /* which no jail has: the backend says so */
    if (wanted != c.network && wanted == TN_NETWORK_HOST)
        return denied("network host", err);
    if (is_wider(wanted, c.network))
        return tn_fail(err, TN_E_DENIED,
                       "network %s: the template, the runtime, or the key has %s; a wider one "
                       "takes the scope admin",
                       tn_networks[wanted], tn_networks[c.network]);
    return check_rules(s, &c, spec, err);
}

/* Who says nothing has what the key allows at most. */
static void impose_network(const struct tn_service *s, const struct caller *who,
                           struct tn_spec *spec)
{
    int most = who->limits.network;

    if (most != TN_NETWORK_DEFAULT && spec->network == TN_NETWORK_DEFAULT &&
        is_wider(network_of(s, spec, spec, spec->network, NULL), most))
        spec->network = most;
}

/* What the operator denies, a list of its own denies as well. */
static void impose_denials(const struct tn_service *s, const struct caller *who,
                           const struct tn_spec *base, struct tn_spec *spec)
{
    const struct reach c = reach_of(s, &who->limits, base, spec);
    struct tn_str_list *own = &spec->allow;

    for (size_t i = 0; has_own_rules(s, spec) && i < c.rules->count; i++) {
        if (!tn_rule_denies(c.rules->items[i]) || tn_str_list_has(own, c.rules->items[i]))
            continue;
        own->items = tn_realloc(own->items, (own->count + 2) * sizeof *own->items);
        own->items[own->count++] = tn_strdup(c.rules->items[i]);
        own->items[own->count] = NULL;
    }
}

/* The stronger of what the key and what the operator demands; NULL: neither demands any. */
static const char *demand_of(const struct key_limits *key, const struct tn_spec *base)
{
    const char *keys = key->gvisor ? "gvisor" : NULL;
    const char *demanded = tn_isolation_weaker(base->isolation, keys) ? keys : base->isolation;

    return tn_isolation_weaker(NULL, demanded) ? demanded : NULL;
}

/* A tenant may have stronger walls than the operator thought of, and no weaker ones. */
static int check_isolation(const struct key_limits *key, const struct tn_spec *base,
                           const struct tn_spec *spec, struct tn_error *err)
{
    const char *demanded = demand_of(key, base);

    if (!tn_isolation_weaker(spec->isolation, demanded))
        return 0;
    return tn_fail(err, TN_E_DENIED,
                   "isolation: the configuration, the template or the key demands %s; less "
                   "takes the scope admin",
                   demanded);
}

/* Who says nothing has what the key demands. */
static void impose_isolation(const struct caller *who, struct tn_spec *spec)
{
    if (who->limits.gvisor && !spec->isolation)
        spec->isolation = tn_strdup("gvisor");
}

static bool same(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_own(const struct tn_service *s, const char *tenant, const struct tn_reference *r)
{
    tn_autofree char *prefix = openhands_registry_prefix(s, tenant);
    size_t n = strlen(prefix);

    return !r->host && strncmp(r->path, prefix, n) == 0 && r->path[n] == '/';
}

/* Patterns match the whole name, docker.io/library/debian:latest: part of a name could be that of
 * another registry. */
static bool matches(const struct tn_str_list *patterns, const struct tn_reference *r)
{
    tn_autobuf struct tn_buf full = TN_BUF_INIT(4096);

    tn_reference_put_full(r, &full);
    for (size_t i = 0; tn_buf_ok(&full) && i < patterns->count; i++)
        if (fnmatch(patterns->items[i], tn_buf_str(&full), 0) == 0)
            return true;
    return false;
}

static int check_image(struct tn_service *s, const struct caller *who, const struct tn_spec *base,
                       const struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_str_list *patterns = &s->options->images;
    tn_autoreference struct tn_reference r = {0};
    const char *runtime = runtime_of(s, spec, err);

    if (!runtime)
        return -1;
    if (!spec->image || same(spec->image, base->image))
        return 0;
    if (strcmp(runtime, tn_backend_jail.name) == 0) /* a path on this machine */
        return denied("the image of a jail", err);
    if (!patterns->count)
        return 0;
    if (tn_reference_parse(spec->image, &r, err))
        return tn_error_context(err, "image");
    if (is_own(s, who->tenant, &r) || matches(patterns, &r))
        return 0;
    tn_autobuf struct tn_buf names = TN_BUF_INIT(256);
    put_names(patterns, "", &names);
    return tn_fail(err, TN_E_DENIED,
                   "image %.200s: tenants of this service may name %s (service.images)",
                   spec->image, tn_buf_str(&names));
}

static bool has_all(const struct tn_str_list *list, const struct tn_str_list *wanted)
{
    for (size_t i = 0; i < wanted->count; i++) {
        bool found = false;
        for (size_t k = 0; k < list->count && !found; k++)
            found = strcmp(list->items[k], wanted->items[i]) == 0;
        if (!found)
            return false;
    }
    return true;
}

/* Those of the operator, and the tenant's own. */
static bool may_mount(const struct tn_service *s, const char *tenant, const struct tn_spec *base,
                      const struct tn_spec *spec)
{
    for (size_t i = 0; i < spec->volumes.count; i++) {
        const struct tn_str_list one = {.items = &spec->volumes.items[i], .count = 1};
        tn_autovolume struct tn_volume v = {0};
        const char *name;
        if (!has_all(&base->volumes, &one) && !volume_read(s, tenant, *one.items, &v, &name))
            return false;
    }
    return true;
}

/* Nothing that the operator does not say; a sandbox that is older than a part of it has less. */
static int check_operators(const struct tn_service *s, const char *tenant,
                           const struct tn_spec *base, const struct tn_spec *spec,
                           struct tn_error *err)
{
    const char *what = !may_mount(s, tenant, base, spec)             ? "volumes"
                       : !has_all(&base->devices, &spec->devices)    ? "devices"
                       : spec->gpus && !same(spec->gpus, base->gpus) ? "gpus"
                                                                     : NULL;

    return what ? denied(what, err) : 0;
}

/* A tenant's own, which native_spec calls by its whole name; others are the operator's. */
static int check_secrets(const char *tenant, const struct tn_spec *base, const struct tn_spec *spec,
                         struct tn_error *err)
{
    for (size_t i = 0; i < spec->secrets.count; i++) {
        char *secret = spec->secrets.items[i];
        const struct tn_str_list one = {.items = &secret, .count = 1};
        size_t n = (size_t)(tn_secret_name(secret) - secret);
        bool own = n && n == strlen(tenant) + 1 && strncmp(secret, tenant, n - 1) == 0;
        if (!own && !has_all(&base->secrets, &one))
            return tn_fail(err, TN_E_DENIED, "secrets: %.140s is not one of this tenant's", secret);
    }
    return 0;
}

int bounds_check(const struct tn_service_options *o, struct tn_error *err)
{
    struct tn_opt_double ignored;
    struct said said;

    return service_says(o, &said, err) ||
                   take_size("service.", "disk_reserve", o->disk_reserve, &ignored, err) ||
                   take_size("service.", "memory_reserve", o->memory_reserve, &ignored, err)
               ? -1
               : 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* What the operator says about a sandbox of that template; one that is gone says nothing. */
static int base_of(const struct tn_service *s, const char *template, struct tn_spec *base,
                   struct tn_error *err)
{
    const struct tn_config *c = tn_runtime_host(s->rt)->config;

    tn_spec_init(base);
    return tn_config_spec(c, template && tn_config_template(c, template) ? template : NULL, base,
                          err);
}

/* What of the machine a sandbox may have. */
static int check_reach(const struct tn_service *s, const char *tenant, const struct key_limits *key,
                       const struct tn_spec *base, const struct tn_spec *spec, struct tn_error *err)
{
    return check_network(s, key, base, spec, err) || check_operators(s, tenant, base, spec, err)
               ? -1
               : 0;
}

static int settle(struct tn_service *s, const struct caller *who, const char *template,
                  double factor, bool fork, struct tn_spec *spec, struct tn_error *err)
{
    struct tn_spec base;

    impose_isolation(who, spec);
    impose_network(s, who, spec);
    if (who->scopes & SCOPE_ADMIN)
        return 0;
    int failed = base_of(s, template, &base, err) || check_runtime(s, &base, spec, err);
    if (!failed)
        impose_denials(s, who, &base, spec);
    failed = failed || (!fork && check_image(s, who, &base, spec, err)) ||
             check_reach(s, who->tenant, &who->limits, &base, spec, err) ||
             check_secrets(who->tenant, &base, spec, err) ||
             check_isolation(&who->limits, &base, spec, err) ||
             settle_limits(s, &base, factor, spec, err);
    tn_spec_done(&base);
    return failed ? -1 : 0;
}

int bounds_settle(struct tn_service *s, const struct caller *who, const char *template,
                  double factor, struct tn_spec *spec, struct tn_error *err)
{
    return settle(s, who, template, factor, false, spec, err);
}

int bounds_fork(struct tn_service *s, const struct caller *who, const char *template, double factor,
                struct tn_spec *spec, struct tn_error *err)
{
    return settle(s, who, template, factor, true, spec, err);
}

int bounds_again(const struct tn_service *s, const char *tenant, const char *key_id,
                 const char *template, const struct tn_spec *spec, struct tn_error *err)
{
    struct tn_spec base;
    struct caller maker = {0};
    struct tn_error why = {0};

    if (bounds_admin(s, key_id))
        return 0;
    if (keyring_find(s->keys, key_id, &maker, &why) < 0 && why.code != TN_E_DENIED)
        return tn_fail(err, why.code, "%s", why.text); /* one that is gone demands nothing */
    int failed = base_of(s, template, &base, err) ||
                 check_reach(s, tenant, &maker.limits, &base, spec, err) ||
                 check_secrets(tenant, &base, spec, err) ||
                 check_isolation(&maker.limits, &base, spec, err);
    tn_spec_done(&base);
    return failed ? -1 : 0;
}

int bounds_rules(const struct tn_service *s, const struct caller *who, const char *template,
                 const struct tn_spec *spec, struct tn_error *err)
{
    struct tn_spec base;

    if (who->scopes & SCOPE_ADMIN)
        return 0;
    int failed =
        base_of(s, template, &base, err) || check_network(s, &who->limits, &base, spec, err);
    tn_spec_done(&base);
    return failed ? -1 : 0;
}

bool bounds_deny(const struct tn_service *s, const struct caller *who, const char *template,
                 const struct tn_spec *spec, const char *rule)
{
    struct tn_spec base;
    bool denied = base_of(s, template, &base, NULL) == 0 &&
                  tn_str_list_has(reach_of(s, &who->limits, &base, spec).rules, rule);

    tn_spec_done(&base);
    return denied;
}

struct tn_json *bounds_labels(const struct tn_service *s, const char *template)
{
    struct tn_spec base;
    struct tn_json *labels =
        base_of(s, template, &base, NULL) == 0 ? TN_TAKE_PTR(base.labels) : NULL;

    tn_spec_done(&base);
    return labels;
}

bool bounds_admin(const struct tn_service *s, const char *key_id)
{
    struct caller maker;

    return !keyring_find(s->keys, key_id, &maker, NULL) && maker.scopes & SCOPE_ADMIN;
}

int bounds_image(struct tn_service *s, const struct caller *who, const char *image,
                 struct tn_error *err)
{
    struct tn_spec base, spec;

    if (who->scopes & SCOPE_ADMIN)
        return 0;
    tn_spec_init(&spec);
    spec.image = tn_strdup(image);
    int failed = base_of(s, NULL, &base, err) || check_image(s, who, &base, &spec, err);
    tn_spec_done(&spec);
    tn_spec_done(&base);
    return failed ? -1 : 0;
}

int bounds_build(struct tn_service *s, const struct caller *who, struct bound_build *out,
                 struct tn_error *err)
{
    bool admin = who->scopes & SCOPE_ADMIN;
    int most = who->limits.network;
    struct tn_spec base;
    const char *runtime = NULL;

    int failed = base_of(s, NULL, &base, err) || !(runtime = runtime_of(s, &base, err));
    const char *demanded = failed ? NULL : demand_of(&who->limits, &base);
    if (demanded && (who->limits.gvisor || !admin))
        failed = tn_fail(err, TN_E_DENIED,
                         "isolation: the configuration or the key demands %s, which the steps of a "
                         "build do not have",
                         demanded);
    struct tn_spec spec = base; /* borrows all but its memory */
    spec.memory = tn_strdup_or_null(base.memory);
    failed = failed || (!admin && settle_limits(s, &base, 1, &spec, err)) ||
             bounds_measure(s, runtime, &spec, 1, &out->limits, err);
    out->network =
        most == TN_NETWORK_DEFAULT ? s->options->build_network : !is_wider(TN_NETWORK_BRIDGE, most);
    free(spec.memory);
    tn_spec_done(&base);
    return failed ? -1 : 0;
}

bool bounds_login(struct tn_service *s, const char *key_id, const char *template,
                  const struct tn_spec *spec)
{
    tn_autoreference struct tn_reference r = {0};
    struct tn_spec base;

    bool ours = base_of(s, template, &base, NULL) == 0 && same(base.image, spec->image);
    tn_spec_done(&base);
    if (ours || bounds_admin(s, key_id))
        return true;
    return tn_reference_parse(spec->image, &r, NULL) == 0 && matches(&s->options->images, &r);
}
