/* What is mounted: the volumes of the spec, and what carries the hand. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "gate/roots.h"
#include "runtime/docker/docker.h"

/* File in the sandbox's directory that says where its overlay layers are, when that is elsewhere.
 */
#define NOTE "overlay"

static bool on_podman(const struct docker_plan *p)
{
    return strcmp(tn_engine_info(p->docker->engine)->name, "podman") == 0;
}

/* --- overlay layers ------------------------------------------------------------------------- */

/* The directory of all layers of this sandbox: below SANDBOX_VOLUME_OVERLAYS, or its own. */
static char *layers_of(const struct docker_plan *p)
{
    const char *base = docker_config(p->docker)->docker.overlays;

    return base && *base ? tn_asprintf("%s/%s", base, p->name)
                         : tn_asprintf("%s/layers", p->subject->directory);
}

static int check_overlay(const struct docker_plan *p, const struct tn_volume *v,
                         struct tn_error *err)
{
    if (v->named)
        return tn_fail(err, TN_E_INVALID, "volume %s: only a directory can be the lower layer",
                       v->host);
    if (geteuid() != 0 || !tn_engine_info(p->docker->engine)->local)
        return tn_fail(err, TN_E_UNSUPPORTED,
                       "volume %s: an overlay needs root and an engine on this machine, for its "
                       "layers could not be removed",
                       v->host);
    if (strpbrk(v->host, ":,\\"))
        return tn_fail(err, TN_E_INVALID, "volume %s: an overlay cannot have ':', ',' or '\\'",
                       v->host);
    return 0;
}

/* The root of the merged tree looks like the upper layer's: give it the face of the lower one. */
static int make_upper(const char *upper, const char *lower, struct tn_error *err)
{
    struct stat st;

    if (stat(lower, &st) < 0)
        return tn_fail_errno(err, errno, "volume %s", lower);
    if (mkdir(upper, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", upper);
    if (chown(upper, st.st_uid, st.st_gid) < 0 || chmod(upper, st.st_mode & 07777) < 0)
        return tn_fail_errno(err, errno, "%s", upper);
    return 0;
}

static int make_layers(const char *layers, size_t i, const char *lower, struct tn_error *err)
{
    tn_autofree char *one = tn_asprintf("%s/%zu", layers, i);
    tn_autofree char *upper = tn_asprintf("%s/upper", one), *work = tn_asprintf("%s/work", one);

    tn_autofd int made = tn_fs_mkdirs(TN_FS_ANYWHERE, one, 0700, NULL, NULL, err);
    if (made < 0 || make_upper(upper, lower, err) < 0)
        return -1;
    if (mkdir(work, 0700) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", work);
    return 0;
}

static int write_text(int fd, void *text, struct tn_error *err)
{
    return tn_fs_write(fd, text, strlen(text), err);
}

/* Before they exist: whoever finds the note knows what to remove. */
static int note_layers(const struct docker_plan *p, const char *layers, struct tn_error *err)
{
    tn_autofree char *note = tn_asprintf("%s/" NOTE, p->subject->directory);
    struct tn_fs_replace how = {.mode = 0600};

    return tn_fs_replace(TN_FS_ANYWHERE, note, &how, write_text, (void *)layers, err);
}

/* Podman would make it, as root, on the machine of a user who has mistyped it. */
static int check_source(const struct docker_plan *p, const struct tn_volume *v,
                        struct tn_error *err)
{
    if (v->below)
        return tn_fail(err, TN_E_UNSUPPORTED, "volume %s: only jails mount a directory of one",
                       v->host);
    if (v->named || !on_podman(p) || !tn_engine_info(p->docker->engine)->local ||
        access(v->host, F_OK) == 0 || errno != ENOENT)
        return 0;
    return tn_fail(err, TN_E_INVALID, "volume: %s does not exist", v->host);
}

static int make_all_layers(const struct docker_plan *p, struct tn_error *err)
{
    const struct tn_str_list *list = &p->subject->spec->volumes;
    tn_autofree char *layers = layers_of(p);
    bool noted = false;

    for (size_t i = 0; i < list->count; i++) {
        tn_autovolume struct tn_volume v = {0};
        if (tn_volume_parse(list->items[i], &v, err) < 0 || check_source(p, &v, err) < 0)
            return -1;
        if (!v.overlay)
            continue;
        if (check_overlay(p, &v, err) < 0 || (!noted && note_layers(p, layers, err) < 0) ||
            make_layers(layers, i, v.host, err) < 0)
            return -1;
        noted = true;
    }
    return 0;
}

/* --- the hand ------------------------------------------------------------------------------- */

/* A copy, not a link: with enough capabilities a container writes to what is mounted read-only. */
static int copy_hand(const char *from, const char *to, struct tn_error *err)
{
    tn_autofree char *part = tn_asprintf("%s.part", to);
    tn_autofd int in = open(from, O_RDONLY | O_CLOEXEC);
    tn_autofd int out = in < 0 ? -1 : open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (in < 0 || out < 0)
        return tn_fail_errno(err, errno, "%s", in < 0 ? from : part);
    if (tn_fs_copy(in, out, UINT64_MAX, err) < 0)
        return -1;
    if (fchmod(out, 0755) < 0 || rename(part, to) < 0)
        return tn_fail_errno(err, errno, "%s", to);
    return 0;
}

int docker_make_directories(const struct docker_plan *p, struct tn_error *err)
{
    tn_autofree char *run = docker_run_directory(p->subject);
    tn_autofree char *hand = docker_hand_copy(p->subject);

    if (make_all_layers(p, err) < 0)
        return -1;
    if (p->way == DOCKER_BY_PORT)
        return 0;
    if (mkdir(run, 0755) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", run);
    if (docker_leash(p->subject, err) < 0 || docker_make_gate_files(p, err) < 0)
        return -1;
    return copy_hand(p->docker->host->hand, hand, err);
}

int docker_remove_directories(const struct tn_subject *s, struct tn_error *err)
{
    tn_autofree char *note = tn_asprintf("%s/" NOTE, s->directory);
    tn_autobuf struct tn_buf layers = TN_BUF_INIT(8192);
    struct tn_error why = {0};

    if (tn_fs_read(TN_FS_ANYWHERE, note, &layers, &why) < 0)
        return why.code == TN_E_NOT_FOUND ? 0 : tn_fail(err, why.code, "%s", why.text);
    char *slash = strrchr(tn_buf_str(&layers), '/');
    if (!slash || slash == layers.data || !slash[1])
        return tn_fail(err, TN_E_INTERNAL, "%s makes no sense", note);
    *slash = '\0';
    tn_autofd int base = open(layers.data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (base < 0 && errno != ENOENT)
        return tn_fail_errno(err, errno, "%s", layers.data);
    if (base >= 0 && tn_fs_remove_tree(base, slash + 1, 0, err) < 0)
        return tn_error_context(err, "layers of overlay volumes");
    unlink(note);
    return 0;
}

/* --- JSON ----------------------------------------------------------------------------------- */

static void put_bind(struct tn_jw *w, const char *from, const char *to, bool read_only)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "Type", "bind");
    tn_jw_kstr(w, "Source", from);
    tn_jw_kstr(w, "Target", to);
    tn_jw_kbool(w, "ReadOnly", read_only);
    tn_jw_object_end(w);
}

static void put_named(struct tn_jw *w, const struct tn_volume *v)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "Type", "volume");
    tn_jw_kstr(w, "Source", v->host);
    tn_jw_kstr(w, "Target", v->inside);
    tn_jw_kbool(w, "ReadOnly", v->read_only);
    tn_jw_object_end(w);
}

/* An anonymous volume, which goes with its container. */
static void put_overlay(const struct docker_plan *p, struct tn_jw *w, const struct tn_volume *v,
                        size_t i)
{
    tn_autofree char *layers = layers_of(p);
    tn_autofree char *o = tn_asprintf("lowerdir=%s,upperdir=%s/%zu/upper,workdir=%s/%zu/work",
                                      v->host, layers, i, layers, i);

    tn_jw_object(w);
    tn_jw_kstr(w, "Type", "volume");
    tn_jw_kstr(w, "Target", v->inside);
    tn_jw_key(w, "VolumeOptions");
    tn_jw_object(w);
    tn_jw_key(w, "Labels");
    tn_jw_object(w);
    tn_jw_kstr(w, "app", "openhands");
    tn_jw_kstr(w, "role", "worker");
    tn_jw_kstr(w, "container", p->name);
    tn_jw_kstr(w, DOCKER_LABEL_ID, p->subject->id);
    tn_jw_kstr(w, DOCKER_LABEL_STATE, p->docker->mark);
    tn_jw_object_end(w);
    tn_jw_key(w, "DriverConfig");
    tn_jw_object(w);
    tn_jw_kstr(w, "Name", "local");
    tn_jw_key(w, "Options");
    tn_jw_object(w);
    tn_jw_kstr(w, "type", "overlay");
    tn_jw_kstr(w, "device", "overlay");
    tn_jw_kstr(w, "o", o);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
    tn_jw_object_end(w);
}

/* Only Binds can say these: relabelling for SELinux, and Podman's own overlays. */
static bool is_old_style(const struct docker_plan *p, const struct tn_volume *v)
{
    return v->overlay ? on_podman(p) : strpbrk(v->mode, "zZ") != NULL;
}

static void put_old_style(const struct docker_plan *p, struct tn_jw *w, const struct tn_volume *v,
                          size_t i)
{
    tn_autofree char *layers = layers_of(p);
    tn_autofree char *text = v->overlay
                                 ? tn_asprintf("%s:%s:O,upperdir=%s/%zu/upper,workdir=%s/%zu/work",
                                               v->host, v->inside, layers, i, layers, i)
                                 : tn_asprintf("%s:%s:%s", v->host, v->inside, v->mode);

    tn_jw_str(w, text);
}

static void put_new_style(const struct docker_plan *p, struct tn_jw *w, const struct tn_volume *v,
                          size_t i)
{
    if (v->overlay)
        put_overlay(p, w, v, i);
    else if (v->named)
        put_named(w, v);
    else
        put_bind(w, v->host, v->inside, v->read_only);
}

static int put_volumes(const struct docker_plan *p, struct tn_jw *w, bool old_style,
                       struct tn_error *err)
{
    const struct tn_str_list *list = &p->subject->spec->volumes;

    for (size_t i = 0; i < list->count; i++) {
        tn_autovolume struct tn_volume v = {0};
        if (tn_volume_parse(list->items[i], &v, err) < 0)
            return -1;
        if (is_old_style(p, &v) == old_style)
            (old_style ? put_old_style : put_new_style)(p, w, &v, i);
    }
    return 0;
}

/* A file of its directory. */
static void put_own(const struct docker_plan *p, struct tn_jw *w, const char *name,
                    const char *inside)
{
    tn_autofree char *path = docker_file(p->subject, name);

    put_bind(w, path, inside, true);
}

static void put_authority(const struct docker_plan *p, struct tn_jw *w)
{
    put_own(p, w, TN_ROOTS_AUTHORITY_FILE, TN_ROOTS_AUTHORITY);
    put_own(p, w, TN_ROOTS_BUNDLE_FILE, TN_ROOTS_BUNDLE);
    for (const char *const *policy = tn_root_policies; *policy; policy++)
        put_own(p, w, TN_ROOTS_POLICY_FILE, *policy);
}

int docker_put_mounts(const struct docker_plan *p, struct tn_jw *w, struct tn_error *err)
{
    tn_autofree char *run = docker_run_directory(p->subject);
    tn_autofree char *hand = docker_hand_copy(p->subject);

    tn_jw_key(w, "Mounts");
    tn_jw_array(w);
    if (p->way == DOCKER_BY_SOCKET) {
        put_bind(w, hand, DOCKER_HAND, true);
        put_bind(w, run, DOCKER_INSIDE "/run", false);
    }
    if (p->gated)
        put_own(p, w, DOCKER_RESOLVER, "/etc/resolv.conf");
    if (p->ends_tls)
        put_authority(p, w);
    if (put_volumes(p, w, false, err) < 0)
        return -1;
    tn_jw_array_end(w);
    tn_jw_key(w, "Binds");
    tn_jw_array(w);
    if (put_volumes(p, w, true, err) < 0)
        return -1;
    tn_jw_array_end(w);
    return 0;
}
