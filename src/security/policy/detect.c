#include "security/policy/detect.h"

#include <string.h>

const struct detector *const detectors[] = {
    &detect_secrets,     &detect_dangerous,    &detect_exfiltration,
    &detect_persistence, &detect_supply_chain, &detect_injection,
    &detect_unseen,      &detect_python,       NULL,
};

const struct detector *detector_find(const char *name, size_t n)
{
    for (const struct detector *const *d = detectors; *d; d++) {
        if (strlen((*d)->name) == n && strncmp((*d)->name, name, n) == 0)
            return *d;
    }
    return NULL;
}

const struct sign *detector_signs(const struct detector *d, struct scene *s)
{
    size_t i = 0;

    while (detectors[i] != d)
        i++;
    if (!(s->looked & 1u << i)) {
        s->looked |= 1u << i;
        s->next_sign = &s->signs[i];
        d->look(s);
    }
    return s->signs[i];
}

bool host_is_local(const char *host)
{
    size_t n = strlen(host);

    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0 || strcmp(host, "0.0.0.0") == 0 ||
           strcmp(host, "host.docker.internal") == 0 ||
           (n > 10 && strcmp(host + n - 10, ".localhost") == 0);
}

const struct seen_path *run_written(const struct scene *s, const char *programs)
{
    for (size_t i = 0; i < s->path_count; i++) {
        const struct seen_path *to = &s->paths[i];
        if (!(to->use & USE_WRITE) || !to->call || !word_in(to->call->name, programs))
            continue;
        for (size_t k = i + 1; k < s->path_count; k++)
            if (s->paths[k].use & USE_EXECUTE && strcmp(s->paths[k].path, to->path) == 0)
                return &s->paths[k];
    }
    return NULL;
}

/* --- unseen ----------------------------------------------------------------------------------- */

/* A script of a file is what agents run all day; what an interpreter reads from a terminal is
 * judged when it is typed. */
static const char *const unseen_kinds[TN_UNSEEN_COUNT] = {
    [TN_UNSEEN_NAME] = "name",     [TN_UNSEEN_SCRIPT] = "script", [TN_UNSEEN_INPUT] = "input",
    [TN_UNSEEN_OPTION] = "option", [TN_UNSEEN_SYNTAX] = "syntax", [TN_UNSEEN_LOADED] = "loaded",
};

static void look_unseen(struct scene *s)
{
    const struct seen_path *made =
        run_written(s, "base64 base32 basenc xxd openssl uudecode gpg rev tr");

    if (made) /* base64 -d > x; sh x */
        scene_add_sign(s, "script", tn_unseen_text(TN_UNSEEN_SCRIPT), made->call, made->part);
    if (s->unread)
        scene_add_sign(s, "syntax", s->unread, NULL, s->unread_part);
    for (size_t i = 0; i < s->call_count; i++) {
        const struct tn_call *c = s->calls[i].call;
        const char *kind = unseen_kinds[c->unseen];
        if (kind && (c->unseen != TN_UNSEEN_INPUT || c->in))
            scene_add_sign(s, kind, tn_unseen_text(c->unseen), c, s->calls[i].part);
    }
}

const struct detector detect_unseen = {
    .name = "unseen",
    .about = "a command of which the text does not say what it runs",
    .kinds = "name script input option syntax loaded",
    .look = look_unseen,
};
