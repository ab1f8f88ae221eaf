/* Finding our containers, and only ours. */
#include "runtime/docker/docker.h"

const char *docker_status(const struct tn_json *tree)
{
    return tn_json_get_str(tn_json_get(tree, "State"), "Status", "");
}

const char *docker_label(const struct tn_json *tree, const char *name)
{
    return tn_json_get_str(tn_json_get(tn_json_get(tree, "Config"), "Labels"), name, "");
}

static bool is_ours(const struct docker *d, const struct tn_subject *s, const struct tn_json *tree)
{
    return strcmp(docker_label(tree, DOCKER_LABEL_ID), s->id) == 0 &&
           strcmp(docker_label(tree, DOCKER_LABEL_STATE), d->mark) == 0;
}

static char *id_from_ref(const char *ref)
{
    tn_autojson struct tn_json *tree = NULL;

    if (!ref || tn_json_parse(ref, strlen(ref), &tree, NULL) < 0)
        return NULL;
    return tn_strdup_or_null(tn_json_get_str(tree, "container", NULL));
}

/* All containers of this store, or of one sandbox of it. */
static int ours(const struct docker *d, const char *id, struct tn_json **list, int64_t deadline,
                struct tn_error *err)
{
    tn_autofree char *state = tn_asprintf(DOCKER_LABEL_STATE "=%s", d->mark);
    tn_autofree char *which = id ? tn_asprintf(DOCKER_LABEL_ID "=%s", id) : NULL;
    const char *const filters[] = {"label", state, id ? "label" : NULL, which, NULL};

    return tn_engine_containers(d->engine, filters, list, deadline, err);
}

int docker_taken_ports(const struct docker *d, const char *but, uint8_t *taken, int64_t deadline,
                       struct tn_error *err)
{
    const char *const filters[] = {"label", DOCKER_LABEL_PORTS, NULL};
    tn_autojson struct tn_json *list = NULL;

    if (tn_engine_containers(d->engine, filters, &list, deadline, err) < 0)
        return -1;
    memset(taken, 0, DOCKER_TAKEN_BYTES);
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *one = tn_json_at(list, i), *labels = tn_json_get(one, "Labels");
        const char *at = tn_json_get_str(labels, DOCKER_LABEL_PORTS, "");
        if (but && strcmp(tn_json_get_str(one, "Id", ""), but) == 0)
            continue;
        for (char *end; *at; at = end) {
            unsigned long port = strtoul(at, &end, 10);
            if (end == at || port > 65535)
                break;
            taken[port / 8] |= (uint8_t)(1 << port % 8);
        }
    }
    return 0;
}

static int id_from_labels(const struct docker *d, const struct tn_subject *s, char **id,
                          int64_t deadline, struct tn_error *err)
{
    tn_autojson struct tn_json *list = NULL;

    *id = NULL;
    if (ours(d, s->id, &list, deadline, err) < 0)
        return -1;
    *id = tn_strdup_or_null(tn_json_get_str(tn_json_at(list, 0), "Id", NULL));
    return 0;
}

/* One that vanishes between two questions was not there. */
static int inspect(const struct docker *d, const struct tn_subject *s, const char *id,
                   struct tn_json **tree, int64_t deadline, struct tn_error *err)
{
    struct tn_error why = {0};
    tn_autojson struct tn_json *found = NULL;

    *tree = NULL;
    if (tn_engine_inspect(d->engine, id, &found, deadline, &why) == 0) {
        if (is_ours(d, s, found))
            *tree = TN_TAKE_PTR(found);
        return 0;
    }
    if (why.code == TN_E_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int docker_find(const struct docker *d, const struct tn_subject *s, struct tn_json **tree,
                int64_t deadline, struct tn_error *err)
{
    tn_autofree char *noted = id_from_ref(s->ref), *found = NULL;

    *tree = NULL;
    if (noted && inspect(d, s, noted, tree, deadline, err) < 0)
        return -1;
    if (*tree)
        return 0;
    if (id_from_labels(d, s, &found, deadline, err) < 0)
        return -1;
    return found ? inspect(d, s, found, tree, deadline, err) : 0;
}

int docker_must_find(const struct docker *d, const struct tn_subject *s, struct tn_json **tree,
                     int64_t deadline, struct tn_error *err)
{
    if (docker_find(d, s, tree, deadline, err) < 0)
        return -1;
    if (!*tree)
        return tn_fail(err, TN_E_NOT_FOUND, "docker: sandbox %s has no container any more", s->id);
    return 0;
}

int docker_list(void *engine, tn_found_fn found, void *ctx, int64_t deadline, struct tn_error *err)
{
    const struct docker *d = engine;
    tn_autojson struct tn_json *list = NULL;

    if (ours(d, NULL, &list, deadline, err) < 0)
        return tn_error_context(err, "docker");
    for (size_t i = 0; i < tn_json_count(list); i++) {
        const struct tn_json *labels = tn_json_get(tn_json_at(list, i), "Labels");
        const char *id = tn_json_get_str(labels, DOCKER_LABEL_ID, NULL);
        if (id && strcmp(tn_json_get_str(labels, DOCKER_LABEL_STATE, ""), d->mark) == 0 &&
            found(id, ctx))
            break;
    }
    return 0;
}
