/* Names, and where things of a sandbox lie on this machine. */
#include "runtime/docker/docker.h"

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

char *docker_ref(const char *container, const char *network, bool stopped,
                 const struct tn_proc *process)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_kstr(&w, "container", container);
    tn_jw_kbool(&w, "stopped", stopped);
    if (*network)
        tn_jw_kstr(&w, "network", network);
    if (process->pid) {
        tn_jw_kint(&w, "pid", process->pid);
        tn_jw_kint(&w, "start", (int64_t)process->start);
    }
    tn_jw_object_end(&w);
    return tn_buf_take(&out);
}
