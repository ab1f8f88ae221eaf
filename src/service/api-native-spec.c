/* The spec in a body of the native API; what of it a tenant may have is in bounds.h. */
#include "service/api-native.h"
#include "service/bounds.h"
#include "service/openhands.h"

/* An image of the caller's gets its whole name. */
static int name_image(struct tn_service *s, const struct caller *who, const struct tn_spec *base,
                      struct tn_spec *spec, struct tn_error *err)
{
    if (!spec->image || (base->image && strcmp(base->image, spec->image) == 0) ||
        !openhands_takes_images(s, spec->runtime))
        return 0;
    char *image = openhands_image(s, who->tenant, spec->image, err);
    if (!image)
        return -1;
    free(spec->image);
    spec->image = image;
    return 0;
}

/* Secrets that a body names are the caller's own, by their whole names; those of a template are the
 * operator's. */
static int name_secrets(const struct caller *who, const struct tn_json *body, struct tn_spec *spec,
                        struct tn_error *err)
{
    size_t n = strlen(who->tenant);

    if (!tn_json_get(body, "secrets"))
        return 0;
    for (size_t i = 0; i < spec->secrets.count; i++) {
        char *given = spec->secrets.items[i];
        const char *name = tn_secret_name(given);
        bool whole = strncmp(given, who->tenant, n) == 0 && name == given + n + 1;
        if (name != given && !whole)
            return tn_fail(err, TN_E_DENIED, "secrets: %.140s is not one of this tenant's", given);
        spec->secrets.items[i] = tn_asprintf("%s/%s", who->tenant, name);
        free(given);
    }
    return 0;
}

int native_spec(struct tn_service *s, const struct caller *who, const char *template,
                const struct tn_json *body, struct tn_spec *spec, struct tn_error *err)
{
    const struct tn_config *config = tn_runtime_host(s->rt)->config;
    struct tn_spec base;

    tn_spec_init(spec);
    tn_spec_init(&base);
    int failed = bounds_members(who, body, err) || tn_config_spec(config, template, &base, err) ||
                 tn_spec_copy(&base, spec, err) ||
                 tn_fields_from_json(&tn_spec_fields, spec, body, err) ||
                 name_secrets(who, body, spec, err) ||
                 (!(who->scopes & SCOPE_ADMIN) && name_image(s, who, &base, spec, err));
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
