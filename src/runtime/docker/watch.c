/* The first process of a container, where it is one of this machine: its end is heard of at once,
 * also when the engine went with it. */
#include "runtime/docker/docker.h"

/* An engine in a virtual machine counts processes of its own: ours is known by what bears the name
 * of the container. */
void docker_process(const struct docker *d, const struct tn_json *tree, struct tn_proc *out)
{
    pid_t pid = (pid_t)tn_json_int(tn_json_get(tn_json_get(tree, "State"), "Pid"), 0);

    if (!tn_engine_info(d->engine)->local || pid <= 0 || tn_proc_get(pid, out) < 0 ||
        !tn_proc_bears(pid, docker_id(tree)))
        *out = (struct tn_proc){0};
}

struct tn_proc docker_first_process(void *engine, const struct tn_subject *s)
{
    tn_autojson struct tn_json *ref = NULL;

    if (!s->ref || tn_json_parse(s->ref, strlen(s->ref), &ref, NULL) < 0)
        return (struct tn_proc){0};
    return (struct tn_proc){
        .pid = (pid_t)tn_json_int(tn_json_get(ref, "pid"), 0),
        .start = (uint64_t)tn_json_int(tn_json_get(ref, "start"), 0),
    };
}
