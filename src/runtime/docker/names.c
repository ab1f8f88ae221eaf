/* Names, and where things of a sandbox lie on this machine. */
#include <limits.h>

#include "base/fs.h"
#include "base/sha256.h"
#include "runtime/docker/docker.h"

static void machine_id(struct tn_buf *out)
{
    char host[256] = "";

    if (tn_fs_read(TN_FS_ANYWHERE, "/etc/machine-id", out, NULL) == 0 && out->len)
        return;
    tn_buf_reset(out);
    gethostname(host, sizeof host - 1);
    tn_buf_puts(out, host);
}

/* Not a random number in the directory: when that is lost, its containers are still found. */
void docker_mark(const char *state, char out[17])
{
    tn_autobuf struct tn_buf id = TN_BUF_INIT(4096);
    tn_autofree char *real = realpath(state, NULL);
    char digest[2 * TN_SHA256_BYTES + 1];
    struct tn_sha256 hash;

    machine_id(&id);
    tn_sha256_init(&hash);
    tn_sha256_add(&hash, tn_buf_str(&id), id.len);
    tn_sha256_add(&hash, "", 1);
    tn_sha256_add(&hash, real ? real : state, strlen(real ? real : state));
    tn_sha256_end_hex(&hash, digest);
    memcpy(out, digest, 16);
    out[16] = '\0';
}

char *docker_name(const struct tn_subject *s)
{
    return s->spec->name ? tn_asprintf("openhands-runtime-%s", s->spec->name)
                         : tn_asprintf("tendon-%s", s->id);
}

const char *docker_workspace(const struct docker *d, const struct tn_subject *s)
{
    const char *usual = docker_config(d)->core.workspace_mount_path_in_sandbox;

    return s->spec->workspace ? s->spec->workspace : usual && *usual ? usual : "/workspace";
}

char *docker_run_directory(const struct tn_subject *s)
{
    return tn_asprintf("%s/run", s->directory);
}

char *docker_socket_address(const struct tn_subject *s)
{
    return tn_asprintf("unix:%s/run/hand.sock", s->directory);
}

char *docker_hand_copy(const struct tn_subject *s)
{
    return tn_asprintf("%s/hand", s->directory);
}

char *docker_ref(const char *container, bool stopped)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "container", container);
    tn_jw_kbool(&w, "stopped", stopped);
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}
