#include <errno.h>
#include <signal.h>

#include "base/child-plan.h"

#define PATH_FALLBACK "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static char **copy_list(const char *const *list)
{
    size_t n = 0;
    while (list[n])
        n++;
    char **copy = tn_calloc(n + 1, sizeof *copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = tn_strdup(list[i]);
    return copy;
}

static void free_list(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

static const char *path_of(char *const *env)
{
    for (; *env; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return PATH_FALLBACK;
}

/* As execvp looks for it, but decided here: the child must not allocate. */
static char **candidates_for(const char *file, char *const *env)
{
    if (strchr(file, '/'))
        return copy_list((const char *const[]){file, NULL});
    const char *path = path_of(env);
    size_t n = 1;
    for (const char *p = path; *p; p++)
        n += *p == ':';
    char **list = tn_calloc(n + 1, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        size_t len = strcspn(path, ":");
        list[i] = tn_asprintf("%.*s/%s", len ? (int)len : 1, len ? path : ".", file);
        path += len + (path[len] == ':');
    }
    return list;
}

static bool mapped(const struct tn_child_spec *spec, int to)
{
    for (size_t i = 0; i < spec->fd_count; i++)
        if (spec->fds[i].to == to)
            return true;
    return false;
}

static void plan_descriptors(struct child_plan *plan, const struct tn_child_spec *spec)
{
    plan->fds = tn_calloc(spec->fd_count + 3, sizeof *plan->fds);
    plan->moved = tn_calloc(spec->fd_count + 3, sizeof *plan->moved);
    plan->above = 3;
    for (size_t i = 0; i < spec->fd_count; i++) {
        plan->fds[plan->fd_count++] = spec->fds[i];
        if (spec->fds[i].to >= plan->above)
            plan->above = spec->fds[i].to + 1;
    }
    for (int to = 0; to < 3; to++)
        if (!mapped(spec, to))
            plan->fds[plan->fd_count++] = (struct tn_child_fd){.from = -1, .to = to};
}

static void plan_user(struct child_plan *plan, const struct tn_child_user *user)
{
    plan->set_user = true;
    plan->uid = user->uid;
    plan->gid = user->gid;
    plan->group_count = user->group_count;
    plan->groups = tn_calloc(user->group_count, sizeof *plan->groups);
    if (user->group_count)
        memcpy(plan->groups, user->groups, user->group_count * sizeof *plan->groups);
}

struct child_plan *child_plan_new(const struct tn_child_spec *spec, struct tn_error *err)
{
    const char *file = spec->file ? spec->file : spec->argv[0];

    if (!spec->argv[0] || !file[0]) {
        tn_fail(err, TN_E_INVALID, "start a process: no program named");
        return NULL;
    }
    for (size_t i = 0; i < spec->fd_count; i++) {
        if (spec->fds[i].to < 0 || spec->fds[i].to > 65535 || spec->fds[i].from < -1) {
            tn_fail(err, TN_E_INVALID, "start %s: descriptor %d as %d makes no sense", file,
                    spec->fds[i].from, spec->fds[i].to);
            return NULL;
        }
    }
    struct child_plan *plan = tn_calloc(1, sizeof *plan);
    plan->argv = copy_list(spec->argv);
    plan->env = copy_list(spec->env ? spec->env : (const char *const *)environ);
    plan->candidates = candidates_for(file, plan->env);
    plan->cwd = tn_strdup_or_null(spec->cwd);
    plan_descriptors(plan, spec);
    if (spec->user)
        plan_user(plan, spec->user);
    plan->session = spec->session || spec->terminal;
    plan->group = spec->group;
    plan->terminal = spec->terminal;
    plan->death_signal = spec->death_signal;
    plan->mark = spec->mark;
    plan->orphan_stack = spec->orphan ? tn_malloc(CHILD_STACK) : NULL;
    plan->parent = getpid();
    plan->report_fd = -1;
    return plan;
}

void child_plan_free(struct child_plan *plan)
{
    if (!plan)
        return;
    free_list(plan->argv);
    free_list(plan->env);
    free_list(plan->candidates);
    free(plan->cwd);
    free(plan->fds);
    free(plan->moved);
    free(plan->groups);
    free(plan->orphan_stack);
    free(plan);
}
