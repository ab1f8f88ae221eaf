/* From what was wished to what a sandbox is made of. */
#include "runtime/registry.h"
#include "service/bounds.h"
#include "service/box-internal.h"

#define MAX_LABELS (256u << 10)

const struct tn_backend *spec_backend(struct tn_service *s, const struct tn_spec *spec,
                                      struct tn_error *err)
{
    const struct tn_config *c = tn_runtime_host(s->rt)->config;
    const char *name = spec->runtime       ? spec->runtime
                       : c->tendon.runtime ? c->tendon.runtime
                                           : "jail";

    return tn_backend_find(c, name, err);
}

int measure(struct box *b, struct tn_error *err)
{
    struct bound_limits l;

    if (bounds_measure(b->s, b->runtime, &b->spec, b->resource_factor, &l, err))
        return -1;
    b->memory = (int64_t)l.memory;
    b->cpus = l.cpus;
    b->pids = (int64_t)l.pids;
    b->disk = (int64_t)l.disk;
    b->claim = (int64_t)bounds_claim(tn_runtime_host(b->s->rt)->config, b->runtime);
    return 0;
}

/* --- labels ----------------------------------------------------------------------------------- */

/* Programs that watch an engine act on labels: what a tenant calls its sandbox means nothing to
 * them. */
#define TENANT_LABEL "tenant/"

struct marking {
    struct tn_jw w;
    const char *prefix;
    const struct tn_json *operators; /* said already */
};

static int put_label(const char *name, struct tn_json *value, void *ctx)
{
    struct marking *m = ctx;
    tn_autofree char *whole = tn_asprintf("%s%s", m->prefix, name);

    if (strcmp(name, BOX_LABEL) != 0 && !tn_json_has(m->operators, name)) {
        tn_jw_key(&m->w, whole);
        tn_jw_tree(&m->w, value);
    }
    return 0;
}

/* A tenant cannot take away or change what the operator's template says. */
static int mark(const struct box *b, struct tn_spec *spec, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_LABELS);
    tn_autojson struct tn_json *operators = NULL;
    struct marking m = {.w = tn_jw(&text), .prefix = ""};
    struct tn_json *labels = NULL;

    tn_jw_object(&m.w);
    if (!bounds_admin(b->s, b->key_id)) {
        operators = bounds_labels(b->s, b->template);
        tn_json_each(operators, put_label, &m);
        m.operators = operators;
        m.prefix = TENANT_LABEL;
    }
    tn_json_each(spec->labels, put_label, &m);
    tn_jw_kstr(&m.w, BOX_LABEL, "box");
    tn_jw_object_end(&m.w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "labels: more than %u KiB", MAX_LABELS >> 10);
    if (tn_json_parse(tn_buf_str(&text), text.len, &labels, err))
        return -1;
    tn_json_free(spec->labels);
    spec->labels = labels;
    return 0;
}

int sandbox_spec(struct box *b, struct tn_spec *out, struct tn_error *err)
{
    struct bound_limits l;

    if (bounds_measure(b->s, b->runtime, &b->spec, b->resource_factor, &l, err) ||
        tn_spec_copy(&b->spec, out, err))
        return -1;
    replace(&out->runtime, b->runtime);
    replace(&out->name, NULL);
    out->keep = true;
    out->lease = (struct tn_opt_double){0};
    /* Untouched limits stay as they are: warm ones of the same spec fit. */
    if (b->resource_factor != 1 && l.memory > 0) {
        free(out->memory);
        out->memory = tn_asprintf("%.0f", l.memory);
    }
    if (b->resource_factor != 1 && l.cpus > 0)
        out->cpus = (struct tn_opt_double){.set = true, .value = l.cpus};
    if (!mark(b, out, err) && !tn_spec_check(out, err))
        return 0;
    tn_spec_done(out);
    return -1;
}
