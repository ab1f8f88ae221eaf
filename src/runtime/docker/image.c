/* Images that are not there yet. */
#include "runtime/docker/docker.h"

enum { LAYERS_MAX = 128 };

/* Adds up what the layers say. */
struct pull {
    const struct docker *docker;
    const char *image;
    struct {
        char id[24];
        int64_t current, total;
    } layers[LAYERS_MAX];
    size_t count;
    int told; /* percent */
};

static void tell(struct pull *p, const char *text)
{
    const struct tn_host *host = p->docker->host;

    if (host->progress)
        host->progress(text, host->progress_ctx);
}

static void tell_percent(struct pull *p)
{
    int64_t current = 0, total = 0;

    for (size_t i = 0; i < p->count; i++) {
        current += p->layers[i].current;
        total += p->layers[i].total;
    }
    int percent = total > 0 ? (int)(current * 100 / total) : 0;
    if (total <= 0 || percent == p->told)
        return;
    p->told = percent;
    tn_autofree char *text = tn_asprintf("pulling %s: %d%%", p->image, percent);
    tell(p, text);
}

static void on_progress(const struct tn_engine_progress *progress, void *ctx)
{
    struct pull *p = ctx;
    size_t i = 0;

    if (!progress->id || progress->total <= 0 || !progress->status ||
        strcmp(progress->status, "Downloading") != 0)
        return;
    while (i < p->count && strcmp(p->layers[i].id, progress->id) != 0)
        i++;
    if (i == LAYERS_MAX || strlen(progress->id) >= sizeof p->layers[i].id)
        return;
    if (i == p->count) {
        memcpy(p->layers[i].id, progress->id, strlen(progress->id) + 1);
        p->count++;
    }
    p->layers[i].current = progress->current;
    p->layers[i].total = progress->total;
    tell_percent(p);
}

int docker_pull(const struct docker *d, const char *image, const struct tn_subject *s,
                int64_t deadline, struct tn_error *err)
{
    tn_autofree struct pull *p = tn_calloc(1, sizeof *p);
    tn_autofree char *first = tn_asprintf("pulling %s", image);

    p->docker = d;
    p->image = image;
    p->told = -1;
    tell(p, first);
    tn_host_tell(d->host, s->id, TN_RUNTIME_BUILDING_RUNTIME, first);
    const struct tn_engine_pull how = {.platform = docker_config(d)->sandbox.platform,
                                       .anonymous = s->anonymous,
                                       .cancel = s->cancel};
    if (tn_engine_pull(d->engine, image, &how, on_progress, p, deadline, err) == 0) {
        tn_host_tell(d->host, s->id, TN_RUNTIME_STARTING_RUNTIME, "");
        return 0;
    }
    /* Whatever the registry or the way to it says: there is no such image here. */
    if (err && err->code != TN_E_TIMEOUT && err->code != TN_E_GONE)
        err->code = TN_E_NOT_FOUND;
    return tn_error_context(err, "image %s is not here and cannot be pulled", image);
}
