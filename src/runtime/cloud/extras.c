/* Volumes of a vendor: named by a spec, found before a sandbox is made, mounted by its wish.  What is
 * in them is the user's: nothing here removes one. */
#include "runtime/cloud/cloud.h"

void cloud_extras_done(struct cloud_extras *e)
{
    for (size_t i = 0; i < e->mount_count; i++) {
        tn_volume_done(&e->mounts[i].of);
        free(e->mounts[i].which);
    }
    free(e->mounts);
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

int cloud_extras_check(const struct cloud_vendor *vendor, const struct tn_spec *spec,
                       struct tn_error *err)
{
    for (size_t i = 0; i < spec->volumes.count; i++) {
        tn_autovolume struct tn_volume v = {0};
        if (check_mount(vendor, spec->volumes.items[i], &v, err) < 0)
            return -1;
    }
    return 0;
}

/* --- finding ---------------------------------------------------------------------------------- */

int cloud_extras_find(const struct cloud *c, const struct tn_subject *s, struct cloud_extras *out,
                      int64_t deadline, struct tn_error *err)
{
    const struct tn_str_list *wanted = &s->spec->volumes;

    if (wanted->count && c->unmarked)
        return tn_fail(err, TN_E_UNSUPPORTED, "volumes: there is no platform that has any");
    out->mounts = tn_calloc(wanted->count + 1, sizeof *out->mounts);
    for (size_t i = 0; i < wanted->count; i++) {
        struct cloud_mount *m = &out->mounts[out->mount_count++];
        if (check_mount(c->vendor, wanted->items[i], &m->of, err) < 0)
            return -1;
        m->which = c->vendor->disks->find
                       ? c->vendor->disks->find(c, m->of.host, s->cancel, deadline, err)
                       : tn_strdup(m->of.host);
        if (!m->which)
            return tn_error_context(err, "the volume %s", m->of.host);
    }
    return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

void cloud_put_extras(const struct cloud *c, const struct cloud_extras *e, struct tn_jw *w)
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
