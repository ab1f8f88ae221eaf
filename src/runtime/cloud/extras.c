/* Volumes of a vendor: named by a spec, found before a sandbox is made, mounted by its wish.  What
 * is in them is the user's: nothing here removes one.  And rules of the network that vendors keep.
 */
#include "gate/rules.h"
#include "runtime/cloud/cloud.h"

static void free_list(struct tn_str_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
}

void cloud_extras_done(struct cloud_extras *e)
{
    for (size_t i = 0; i < e->mount_count; i++) {
        tn_volume_done(&e->mounts[i].of);
        free(e->mounts[i].which);
    }
    free(e->mounts);
    free_list(&e->nets);
    free_list(&e->names);
}

/* --- what the vendor has ---------------------------------------------------------------------- */

static int check_mount(const struct cloud_vendor *vendor, const char *text, struct tn_volume *v,
                       struct tn_error *err)
{
    const char *form =
        vendor->disks->below ? "NAME:INSIDE or volume:NAME/DIRECTORY:INSIDE" : "NAME:INSIDE";

    if (tn_volume_parse(text, v, err) < 0)
        return -1;
    if (!v->named || (v->below && !vendor->disks->below))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "volumes: %.120s: a sandbox there can mount volumes of %s, %s, not "
                       "directories of this machine",
                       text, vendor->who, form);
    if (v->read_only && !vendor->disks->read_only)
        return tn_fail(err, TN_E_UNSUPPORTED, "volumes: %.120s: %s mounts none read-only", text,
                       vendor->who);
    return 0;
}

static int read_mounts(const struct cloud_vendor *vendor, const struct tn_str_list *wanted,
                       struct cloud_extras *out, struct tn_error *err)
{
    out->mounts = tn_calloc(wanted->count + 1, sizeof *out->mounts);
    while (out->mount_count < wanted->count) {
        size_t i = out->mount_count++;
        if (check_mount(vendor, wanted->items[i], &out->mounts[i].of, err) < 0)
            return -1;
    }
    return 0;
}

/* --- where it may connect to ------------------------------------------------------------------ */

/* A name stands for TLS and HTTP at their ports in a rule, and at vendors, too; a net has no ports
 * there, and all that is in it. */
static int add_rule(const struct tn_rule *rule, const char *text, struct cloud_extras *out,
                    struct tn_error *err)
{
    char address[TN_ADDRESS_TEXT];
    bool all = rule->first == 1 && rule->last == UINT16_MAX;

    if (rule->scheme != TN_RULE_ANY || rule->methods || rule->path ||
        (rule->name ? rule->first != 0 : !all))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "allow: %.120s: the vendor keeps NAME, *.NAME and NET:* alone, without "
                       "schemes, ports, methods and paths",
                       text);
    if (tn_rule_is_too_wide(rule))
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "allow: %.120s: so wide a net has private addresses in it, which the vendor "
                       "would let through: name smaller ones",
                       text);
    struct tn_str_list *list = rule->name ? &out->names : &out->nets;
    list->items[list->count++] =
        rule->name ? tn_asprintf("%s%s", rule->below ? "*." : "", rule->name)
                   : tn_asprintf("%s/%d", tn_address_text(&rule->net, address), rule->bits);
    return 0;
}

static int read_fence(const struct tn_spec *spec, struct cloud_extras *out, struct tn_error *err)
{
    out->fenced = spec->network == TN_NETWORK_ALLOW;
    if (!out->fenced && spec->allow.count)
        return tn_fail(err, TN_E_UNSUPPORTED, "allow: in a cloud it takes the network allow");
    if (out->fenced && !spec->allow.count)
        return tn_fail(err, TN_E_INVALID,
                       "network allow: nothing says what a sandbox in a cloud may reach (--allow)");
    for (size_t i = 0; i < spec->allow.count; i++) {
        tn_autorules struct tn_rules rules = {0};
        if (tn_rules_add(&rules, spec->allow.items[i], err) < 0)
            return -1;
        out->nets.items =
            tn_realloc(out->nets.items, (out->nets.count + rules.count) * sizeof(char *));
        out->names.items =
            tn_realloc(out->names.items, (out->names.count + rules.count) * sizeof(char *));
        for (size_t k = 0; k < rules.count; k++)
            if (add_rule(&rules.items[k], spec->allow.items[i], out, err) < 0)
                return -1;
    }
    return 0;
}

int cloud_extras_read(const struct cloud_vendor *vendor, const struct tn_spec *spec,
                      struct cloud_extras *out, struct tn_error *err)
{
    return read_mounts(vendor, &spec->volumes, out, err) < 0 ? -1 : read_fence(spec, out, err);
}

/* --- finding ---------------------------------------------------------------------------------- */

int cloud_extras_find(const struct cloud *c, const struct tn_subject *s, struct cloud_extras *out,
                      int64_t deadline, struct tn_error *err)
{
    const struct cloud_disks *disks = c->vendor->disks;

    if (cloud_extras_read(c->vendor, s->spec, out, err) < 0)
        return -1;
    if (c->unmarked && (out->mount_count || out->fenced))
        return tn_fail(err, TN_E_UNSUPPORTED, "there is no platform with volumes or rules");
    for (size_t i = 0; i < out->mount_count; i++) {
        struct cloud_mount *m = &out->mounts[i];
        m->which = disks->find ? disks->find(c, m->of.host, s->cancel, deadline, err)
                               : tn_strdup(m->of.host);
        if (!m->which)
            return tn_error_context(err, "the volume %s", m->of.host);
    }
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

void cloud_put_mounts(const struct cloud *c, const struct cloud_extras *e, struct tn_jw *w)
{
    const struct cloud_disks *disks = c->vendor->disks;

    if (!e->mount_count)
        return;
    tn_jw_key(w, disks->list);
    tn_jw_array(w);
    for (size_t i = 0; i < e->mount_count; i++) {
        const struct cloud_mount *m = &e->mounts[i];
        tn_jw_object(w);
        tn_jw_kstr(w, disks->which, m->which);
        tn_jw_kstr(w, disks->inside, m->of.inside);
        if (m->of.below)
            tn_jw_kstr(w, disks->directory, m->of.below + 1); /* it begins with a slash */
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
}
