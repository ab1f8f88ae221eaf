/* What a client of the native API may ask for. */
#include "runtime/registry.h"
#include "service/api-native.h"
#include "service/openhands.h"

/* Members that reach into the machine itself: only an administrator, or a template, has them. */
static const char *const reserved[] = {"volumes", "devices", "gpus", "hand_args"};
/* Those that the service decides about. */
static const char *const ours[] = {"keep", "lease"};

static int denied(const char *what, struct tn_error *err)
{
    return tn_fail(err, TN_E_DENIED,
                   "%s reaches into the machine itself: that takes the scope admin, or a template "
                   "that says so",
                   what);
}

/* What the spec became, compared with what it was without the caller's words.  An image of the
 * caller's gets its whole name. */
static int check_choice(struct tn_service *s, const struct caller *who, const struct tn_spec *base,
                        struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_config *config = tn_runtime_host(s->rt)->config;
    const char *name = spec->runtime ? spec->runtime : config->tendon.runtime;
    const char *usual = base->runtime ? base->runtime : config->tendon.runtime;
    const struct tn_backend *backend = tn_backend_find(config, name, err);

    if (!backend)
        return -1;
    if (strcmp(name, usual) != 0 && !(backend->abilities & TN_CAN_ISOLATE))
        return denied("a runtime that does not isolate", err);
    if (spec->network == TN_NETWORK_HOST && base->network != TN_NETWORK_HOST)
        return denied("network host", err);
    if (!spec->image || (base->image && strcmp(base->image, spec->image) == 0))
        return 0;
    if (backend == &tn_backend_jail) /* a path on this machine */
        return denied("the image of a jail", err);
    char *image = openhands_image(s, who->tenant, spec->image, err);
    if (!image)
        return -1;
    free(spec->image);
    spec->image = image;
    return 0;
}

static int check_members(const struct caller *who, const struct tn_json *body, struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(ours); i++)
        if (tn_json_has(body, ours[i]))
            return tn_fail(err, TN_E_UNPROCESSABLE, "%s is not for clients of the service",
                           ours[i]);
    for (size_t i = 0; !(who->scopes & SCOPE_ADMIN) && i < TN_COUNT(reserved); i++)
        if (tn_json_get(body, reserved[i]))
            return denied(reserved[i], err);
    return 0;
}

int native_spec(struct tn_service *s, const struct caller *who, const char *template,
                const struct tn_json *body, struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_config *config = tn_runtime_host(s->rt)->config;
    struct tn_spec base;

    tn_spec_init(spec);
    tn_spec_init(&base);
    int failed = check_members(who, body, err) || tn_config_spec(config, template, &base, err) ||
                 tn_spec_copy(&base, spec, err) ||
                 tn_fields_from_json(&tn_spec_fields, spec, body, err) ||
                 (!(who->scopes & SCOPE_ADMIN) && check_choice(s, who, &base, spec, err));
    if (!failed) {
        free(TN_TAKE_PTR(spec->name)); /* names of boxes are the service's */
        failed = tn_spec_check(spec, err);
    }
    tn_spec_done(&base);
    if (!failed)
        return 0;
    tn_spec_done(spec);
    return -1;
}
