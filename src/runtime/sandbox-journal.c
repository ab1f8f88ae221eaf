#include "runtime/sandbox-journal.h"

bool tn_names_secret(const char *name)
{
    static const char *const words[] = {"KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"};

    for (size_t i = 0; i < TN_COUNT(words); i++)
        if (strcasestr(name, words[i]))
            return true;
    return false;
}

static void hide(struct tn_stream *stream, const char *name, const char *value)
{
    const struct tn_secret secret = {.name = name, .value = value};

    if (value && *value)
        tn_stream_update_secrets(stream, &secret, 1, NULL);
}

static int hide_variable(const char *name, struct tn_json *value, void *ctx)
{
    if (tn_names_secret(name))
        hide(ctx, name, tn_json_str(value, NULL));
    return 0;
}

static void hide_tool_secrets(struct tn_stream *stream, const struct tn_config *c)
{
    const struct tn_json *const lists[] = {c->mcp.sse_servers, c->mcp.shttp_servers,
                                           c->mcp.stdio_servers};

    hide(stream, "search_api_key", c->core.search_api_key);
    for (size_t i = 0; i < TN_COUNT(lists); i++)
        for (size_t k = 0, n = tn_json_count(lists[i]); k < n; k++) {
            const struct tn_json *server = tn_json_at(lists[i], k);
            hide(stream, "api_key", tn_json_get_str(server, "api_key", NULL));
            tn_json_each(tn_json_get(server, "env"), hide_variable, stream);
        }
}

struct tn_stream *tn_sandbox_journal_open(const struct tn_sandbox_journal *of)
{
    const struct tn_stream_options options = {
        .directory = of->directory, .existing = true, .log_only = true};
    struct tn_stream *stream = tn_stream_open(&options, NULL);

    if (stream) {
        hide(stream, "session_api_key", of->key);
        tn_json_each(of->env, hide_variable, stream);
        hide_tool_secrets(stream, of->config);
    }
    return stream;
}

static enum tn_source source_of(const struct tn_action *action)
{
    for (int i = 0; action->event.source && tn_source_words[i]; i++)
        if (!strcmp(tn_source_words[i], action->event.source))
            return (enum tn_source)i;
    return TN_SOURCE_AGENT;
}

int64_t tn_note_action(struct tn_stream *s, const struct tn_action *action)
{
    struct tn_action entry = *action; /* borrows everything */
    int64_t id = -1;

    if (!s || tn_action_hidden(action))
        return -1;
    entry.event.id = (struct tn_opt_int){0}; /* the journal gives it one of its own */
    return tn_stream_add_action(s, &entry, source_of(action), &id, NULL) ? -1 : id;
}

void tn_note_observation(struct tn_stream *s, const struct tn_action *action, int64_t cause,
                         const struct tn_observation *observation)
{
    if (s && cause >= 0 && observation->type != TN_OBSERVATION_NULL)
        tn_stream_add_observation(s, observation, source_of(action), cause, NULL, NULL);
}
