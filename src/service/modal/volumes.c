/* Volumes (volume.h) by name, for sandboxes.  What one writes all others see at once, so there is
 * nothing to commit or to reload; the files themselves are reached by sandboxes alone. */
#include "service/modal/modal.h"
#include "service/volume.h"

#define PREFIX "vo-"
enum { VERSION = 2, ID = sizeof PREFIX + VOLUME_NAME };

/* An id has one dash, behind its kind; names may have more. */
static void swap(char *text, char from, char to)
{
    for (char *at = text; (at = strchr(at, from)); at++)
        *at = to;
}

/* The name that an id means; "": it is none. */
static void name_of(const char *id, char out[VOLUME_NAME])
{
    bool known = id && strncmp(id, PREFIX, sizeof PREFIX - 1) == 0;

    if (snprintf(out, VOLUME_NAME, "%s", known ? id + sizeof PREFIX - 1 : "") >= VOLUME_NAME)
        *out = '\0';
    swap(out, '~', '-');
}

/* Type 0 looks one up, 1 makes one that is missing, 2 makes one that is not there. */
static int get(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__VolumeGetOrCreateRequest *in = request;
    Modal__VolumeGetOrCreateResponse out = MODAL__VOLUME_GET_OR_CREATE_RESPONSE__INIT;
    Modal__VolumeMetadata metadata = MODAL__VOLUME_METADATA__INIT;
    Modal__CreationInfo info = MODAL__CREATION_INFO__INIT;
    const char *name = in->deployment_name ? in->deployment_name : "";
    struct volume v = {0};
    char id[ID];

    bool there = volume_find(c->s, c->who->tenant, name, &v, err) == 0;
    if (in->object_creation_type > 2 || !*name)
        return tn_fail(err, TN_E_INVALID, "volumes without a name are not served here");
    if (there && in->object_creation_type == 2)
        return modal_exists(c, "a volume of the name", name);
    if (!there && in->object_creation_type == 0)
        return -1;
    if (!there) {
        if (!(c->who->scopes & (SCOPE_MANAGE | SCOPE_ADMIN)))
            return tn_fail(err, TN_E_DENIED, "a new volume needs a key with the scope manage");
        int failed = volume_create(c->s, c->who->tenant, name, err) &&
                             err->code != TN_E_CONFLICT /* another one was faster */
                         ? -1
                         : volume_find(c->s, c->who->tenant, name, &v, err);
        if (native_audit_of(c->x, c->s, "volume.create", name, failed ? err : NULL))
            return MODAL_ANSWERED;
        if (failed)
            return -1;
    }
    snprintf(id, sizeof id, PREFIX "%s", v.name);
    swap(id + sizeof PREFIX - 1, '-', '~');
    info.has_created_at = true;
    info.created_at = v.created;
    metadata.name = v.name;
    metadata.has_version = out.has_version = true;
    metadata.version = out.version = VERSION;
    metadata.creation_info = &info;
    out.volume_id = id;
    out.metadata = &metadata;
    return modal_send(c, &out, err);
}

static int delete_one(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__VolumeId *in = request;
    char name[VOLUME_NAME];

    name_of(in->volume_id, name);
    /* One that was terminated is remembered, and never starts again. */
    int failed = volume_delete(c->s, c->who->tenant, name, MODAL_RECORD, err);
    return native_audit_of(c->x, c->s, "volume.delete", name, failed ? err : NULL) ? MODAL_ANSWERED
                                                                                   : failed;
}

int modal_mount_volumes(struct modal_call *c, const Modal__Sandbox *d, struct tn_spec *spec,
                        struct tn_error *err)
{
    char name[VOLUME_NAME];

    for (size_t i = 0; i < d->n_volume_mounts; i++) {
        const Modal__VolumeMount *m = d->volume_mounts[i];
        name_of(m->volume_id, name);
        if (volume_mount(c->s, c->who->tenant, name, m->sub_path,
                         m->mount_path ? m->mount_path : "", m->read_only, spec, err))
            return -1;
    }
    return 0;
}

/* What others have written is seen at once: there is nothing to do, but for who has that task. */
int modal_reload_volumes(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__Who *in = request;
    autobox struct box *b = modal_box(c, in->id, err);

    return b ? 0 : -1;
}

const struct modal_method modal_volumes[] = {
    {"VolumeGetOrCreate", MODAL_MESSAGE(volume_get_or_create_request), get, SCOPE_USE},
    {"ContainerReloadVolumes", MODAL_MESSAGE(who), modal_reload_volumes, SCOPE_USE},
    {"VolumeDelete", MODAL_MESSAGE(volume_id), delete_one, SCOPE_MANAGE},
    {0},
};
