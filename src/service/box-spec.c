/* From what was wished to what a sandbox is made of. */
#include "runtime/registry.h"
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

/* The limits of a backend for specs that name none. */
struct usual {
    const char *memory;
    double cpus;
};

static struct usual usual_limits(const struct box *b)
{
    const struct tn_config *c = tn_runtime_host(b->s->rt)->config;

    if (!strcmp(b->runtime, "jail"))
        return (struct usual){c->jail.memory, c->jail.cpus};
    if (!strcmp(b->runtime, "docker"))
        return (struct usual){c->docker.memory, c->docker.cpus};
    return (struct usual){0};
}

/* What the limits come to, with the factor; 0: none. */
static int numbers(const struct box *b, uint64_t *memory, double *cpus, struct tn_error *err)
{
    struct usual usual = usual_limits(b);
    const char *text = b->spec.memory ? b->spec.memory : usual.memory;
    double factor = b->resource_factor;

    *memory = 0;
    *cpus = (b->spec.cpus.set ? b->spec.cpus.value : usual.cpus) * factor;
    if (!text || !*text)
        return 0;
    if (tn_size_parse(text, memory, err))
        return tn_error_context(err, "memory");
    double scaled = (double)*memory * factor;
    *memory = scaled < 1e18 ? (uint64_t)scaled : UINT64_C(1000000000000000000);
    return 0;
}

int measure(struct box *b, struct tn_error *err)
{
    uint64_t memory;

    if (numbers(b, &memory, &b->cpus, err))
        return -1;
    b->memory = (int64_t)memory;
    return 0;
}

static int put_label(const char *name, struct tn_json *value, void *ctx)
{
    struct tn_jw *w = ctx;

    if (strcmp(name, BOX_LABEL) != 0) {
        tn_jw_key(w, name);
        tn_jw_tree(w, value);
    }
    return 0;
}

static int mark(struct tn_spec *spec, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_LABELS);
    struct tn_jw w = tn_jw(&text);
    struct tn_json *labels = NULL;

    tn_jw_object(&w);
    tn_json_each(spec->labels, put_label, &w);
    tn_jw_kstr(&w, BOX_LABEL, "box");
    tn_jw_object_end(&w);
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
    uint64_t memory;
    double cpus;

    if (numbers(b, &memory, &cpus, err) || tn_spec_copy(&b->spec, out, err))
        return -1;
    replace(&out->runtime, b->runtime);
    replace(&out->name, NULL);
    out->keep = true;
    out->lease = (struct tn_opt_double){0};
    /* Untouched limits stay as they are: warm ones of the same spec fit. */
    if (b->resource_factor != 1 && memory) {
        free(out->memory);
        out->memory = tn_asprintf("%llu", (unsigned long long)memory);
    }
    if (b->resource_factor != 1 && cpus > 0)
        out->cpus = (struct tn_opt_double){.set = true, .value = cpus};
    if (!mark(out, err) && !tn_spec_check(out, err))
        return 0;
    tn_spec_done(out);
    return -1;
}
