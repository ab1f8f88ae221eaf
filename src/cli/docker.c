#include "cli/docker.h"

#include <string.h>

#include "base/guard.h"

/* A verb of docker, or (with flag) flags of it behind a verb that there is here, too. */
struct word {
    const char *verb;
    const char *flag;    /* several with spaces between */
    const char *same;    /* our verb for it */
    const char *instead; /* what to type, where there is none */
    const char *value;   /* it is docker's only with this in the word behind the flag */
};

/* clang-format off */
static const struct word words[] = {
    {"start", .same = "resume"},
    {"unpause", .same = "resume"},
    {"stats", .same = "ps"},
    {"top", .same = "ps"},
    {"attach", .instead = "tendon shell SANDBOX"},
    {"commit", .instead = "tendon snapshot SANDBOX, and tendon fork SANDBOX for more like it"},
    {"container", .instead = "the verb alone, such as tendon ls"},
    {"create", .instead = "tendon new --image IMAGE"},
    {"image", .instead = "tendon images, tendon build"},
    {"info", .instead = "tendon doctor"},
    {"kill", .instead = "tendon stop SANDBOX"},
    {"login", .instead = "docker login, whose credentials --runtime docker takes"},
    {"prune", .instead = "tendon gc"},
    {"pull", .instead = "an image is fetched at its first use: tendon run --runtime docker --image IMAGE COMMAND"},
    {"rename", .instead = "the name when it is made: tendon new --name NAME"},
    {"restart", .instead = "tendon stop SANDBOX, then tendon resume SANDBOX"},
    {"rmi", .instead = "tendon images --prune"},
    {"system", .instead = "tendon gc, tendon doctor"},
    {"volume", .instead = "tendon new --volume HOST:DIR"},
    {"run", "-it -ti --interactive --tty", .instead = "tendon shell --new, for a terminal"},
    {"run", "-d --detach", .instead = "tendon new --name NAME, then tendon exec --session main NAME 'COMMAND &'"},
    {"run", "--entrypoint", .instead = "tendon run --image IMAGE COMMAND"},
    {"run", "-p --port --publish", .value = ":", .instead = "tendon new --name NAME, then tendon port NAME LOCAL:PORT"},
    {"new", "-p --port --publish", .value = ":", .instead = "tendon new -p PORT, then tendon port NAME LOCAL:PORT"},
    {"exec", "-it -ti -t --interactive --tty", .instead = "tendon shell SANDBOX, for a terminal"},
    {"exec", "-d --detach", .instead = "tendon exec --session main SANDBOX 'COMMAND &'"},
    {"exec", "-w --workdir", .instead = "tendon exec --directory DIR SANDBOX COMMAND"},
};

/* Images that people name without a tag. */
static const char *const images[] = {"alpine", "busybox", "debian", "fedora", "node", "python", "ubuntu"};
/* clang-format on */

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; n && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == '\0' || at[n] == ' '))
            return true;
    return false;
}

/* The row of a verb (flag NULL), or of a flag behind it. */
static const struct word *find(const char *verb, const char *flag)
{
    for (size_t i = 0; i < TN_COUNT(words); i++)
        if (strcmp(words[i].verb, verb) == 0 &&
            (flag ? words[i].flag && has_word(words[i].flag, flag) : !words[i].flag))
            return &words[i];
    return NULL;
}

const char *docker_same(const char *verb)
{
    const struct word *w = find(verb, NULL);

    return w ? w->same : NULL;
}

int docker_refuse_verb(const char *verb, struct tn_error *err)
{
    const struct word *w = find(verb, NULL);

    return w ? tn_fail(err, TN_E_INVALID, "there is no verb '%s' as in docker; here: %s", verb,
                       w->instead)
             : 0;
}

void docker_explain_flags(const char *verb, const struct tn_str_list *words_behind,
                          struct tn_error *err)
{
    for (size_t i = 0; i < words_behind->count; i++) {
        const char *word = words_behind->items[i];
        const char *next = i + 1 < words_behind->count ? words_behind->items[i + 1] : "";
        const struct word *w = find(verb, word);
        if (strcmp(word, "--") == 0)
            return;
        if (w && (!w->value || strstr(next, w->value))) {
            tn_fail(err, TN_E_INVALID, "%s has no %s as in docker; here: %s", verb, word,
                    w->instead);
            return;
        }
    }
}

bool docker_is_image(const char *word)
{
    const char *colon = strchr(word, ':');

    if (*word == '/' || *word == '.' || strchr(word, ' ') || strchr(word, '='))
        return false;
    if (strchr(word, '/') || (colon && colon != word && colon[1]))
        return true;
    for (size_t i = 0; i < TN_COUNT(images); i++)
        if (strcmp(word, images[i]) == 0)
            return true;
    return false;
}
