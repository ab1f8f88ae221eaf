/* The command of the action execution server, as OpenHands' clients send it to /start: the server
 * is ours, and what the words say about the sandbox becomes part of its spec. */
#include "runtime/registry.h"
#include "service/openhands.h"

enum { UID_DIGITS = 9 };

/* The value after that flag of the command, or NULL. */
static const char *flag_of(const struct tn_json *command, const char *flag)
{
    for (size_t i = 0; i + 1 < tn_json_count(command); i++) {
        const char *word = tn_json_str(tn_json_at(command, i), NULL);
        if (word && strcmp(word, flag) == 0)
            return tn_json_str(tn_json_at(command, i + 1), NULL);
    }
    return NULL;
}

static bool has_flag(const struct tn_json *command, const char *flag)
{
    for (size_t i = 0; i < tn_json_count(command); i++) {
        const char *word = tn_json_str(tn_json_at(command, i), NULL);
        if (word && strcmp(word, flag) == 0)
            return true;
    }
    return false;
}

static void set_text(char **to, const char *text)
{
    free(*to);
    *to = tn_strdup(text);
}

static void add_word(struct tn_str_list *list, const char *word)
{
    list->items = tn_realloc(list->items, (list->count + 2) * sizeof *list->items);
    list->items[list->count++] = tn_strdup(word);
    list->items[list->count] = NULL;
}

/* All words after --plugins, up to the next flag; a server that is started without has none. */
static void take_plugins(struct tn_spec *spec, const struct tn_json *command)
{
    bool after = false;

    for (size_t i = 0; i < spec->plugins.count; i++)
        free(spec->plugins.items[i]);
    spec->plugins.count = 0;
    for (size_t i = 0; i < tn_json_count(command); i++) {
        const char *word = tn_json_str(tn_json_at(command, i), NULL);
        if (!word || word[0] == '-')
            after = word && strcmp(word, "--plugins") == 0;
        else if (after)
            add_word(&spec->plugins, word);
    }
}

/* Who it is to be inside: the operator's word counts more.  A number is for a user that has to be
 * made. */
static int take_user(struct tn_spec *spec, const struct tn_json *command, struct tn_error *err)
{
    const char *name = flag_of(command, "--username"), *uid = flag_of(command, "--user-id");

    if (!name || spec->user)
        return 0;
    if (uid && (!*uid || strlen(uid) > UID_DIGITS || uid[strspn(uid, "0123456789")]))
        return tn_fail(err, TN_E_INVALID, "--user-id: expected a number, found '%.40s'", uid);
    set_text(&spec->user, name);
    if (uid && strcmp(name, "root") != 0 && strspn(name, "0123456789") != strlen(name)) {
        add_word(&spec->hand_args, "--user-id");
        add_word(&spec->hand_args, uid);
    }
    return 0;
}

static const struct tn_backend *backend_of(const struct tn_service *s, const char *runtime)
{
    const struct tn_config *config = tn_runtime_host(s->rt)->config;

    return tn_backend_find(config, runtime ? runtime : config->tendon.runtime, NULL);
}

/* Elsewhere somebody else chooses its arguments. */
static bool starts_hand(const struct tn_backend *backend)
{
    static const struct tn_backend *const ours[] = {&tn_backend_jail, &tn_backend_docker,
                                                    &tn_backend_local, &tn_backend_cli};

    for (size_t i = 0; i < TN_COUNT(ours); i++)
        if (backend == ours[i])
            return true;
    return false;
}

/* A jail of an ordinary user has nobody but root. */
static bool makes_users(const struct tn_backend *backend)
{
    return backend == &tn_backend_docker || (backend == &tn_backend_jail && geteuid() == 0);
}

int openhands_take_command(const struct tn_service *s, struct tn_spec *spec,
                           const struct tn_json *command, struct tn_error *err)
{
    const struct tn_backend *backend = backend_of(s, spec->runtime);
    const char *workspace = flag_of(command, "--working-dir");

    if (workspace)
        set_text(&spec->workspace, workspace);
    if (!has_flag(command, "--username") && !workspace)
        return 0; /* another program's */
    take_plugins(spec, command);
    if (!starts_hand(backend))
        return 0;
    add_word(&spec->hand_args,
             has_flag(command, "--no-enable-browser") ? "--no-enable-browser" : "--downloads");
    return makes_users(backend) ? take_user(spec, command, err) : 0;
}
