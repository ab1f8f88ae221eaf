#include "runtime/setup/microagent.h"

#include "base/utf8.h"
#include "base/yaml-tree.h"

const char *const tn_microagent_types[] = {
    [TN_MICROAGENT_KNOWLEDGE] = "knowledge",
    [TN_MICROAGENT_REPO] = "repo",
    [TN_MICROAGENT_TASK] = "task",
    [TN_MICROAGENT_TASK + 1] = NULL,
};

#define MICROAGENT struct tn_microagent
static const struct tn_field rows[] = {
    TN_STRING("name", MICROAGENT, name, .help = "what it is called"),
    TN_WORD("type", MICROAGENT, type, tn_microagent_types, .fallback = "repo",
            .help = "when it counts"),
    TN_STRING("version", MICROAGENT, version, .fallback = "1.0.0", .help = "version"),
    TN_STRING("agent", MICROAGENT, agent, .fallback = "CodeActAgent", .help = "agent it is for"),
    TN_STRINGS("triggers", MICROAGENT, triggers, .help = "words that call for it"),
    TN_JSON("inputs", MICROAGENT, inputs, .flags = TN_FIELD_LIST | TN_FIELD_NULLABLE,
            .help = "what a task needs to know"),
    TN_JSON("mcp_tools", MICROAGENT, mcp_tools, .flags = TN_FIELD_MAP | TN_FIELD_NULLABLE,
            .help = "servers of tools it brings along"),
    TN_STRING("source", MICROAGENT, source, .help = "path of the file"),
    TN_TEXT("content", MICROAGENT, content, .help = "what it says"),
};
const struct tn_fields tn_microagent_fields = TN_FIELDS(rows);

void tn_microagents_done(struct tn_microagents *list)
{
    for (size_t i = 0; i < list->count; i++)
        tn_fields_done(&tn_microagent_fields, &list->items[i]);
    free(list->items);
    *list = (struct tn_microagents){0};
}

enum { VALUES_MAX = 10000 }; /* of front matter, which comes from others */

/* --- front matter ------------------------------------------------------------------------- */

/* The length of the line at the start of the text, with its end; 0 at the end of the text. */
static size_t line_length(const char *text, size_t len)
{
    const char *end = len ? memchr(text, '\n', len) : NULL;

    return end ? (size_t)(end - text) + 1 : len;
}

static bool is_fence(const char *line, size_t n)
{
    while (n > 0 && strchr(" \t\r\n", line[n - 1]))
        n--;
    return n == 3 && memcmp(line, "---", 3) == 0;
}

/* Finds the YAML between two lines of dashes at the start; returns where the content begins. */
static size_t find_front(const char *text, size_t len, size_t *front, size_t *front_len)
{
    size_t start = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    size_t first = line_length(text + start, len - start), at = start + first;

    *front = *front_len = 0;
    if (!is_fence(text + start, first))
        return start;
    for (size_t n; (n = line_length(text + at, len - at)) > 0; at += n)
        if (is_fence(text + at, n)) {
            *front = start + first;
            *front_len = at - *front;
            return at + n;
        }
    return start;
}

/* A version may look like a number, and a single trigger like a word. */
static int write_member(const char *key, struct tn_json *value, void *ctx)
{
    struct tn_jw *w = ctx;
    enum tn_json_type type = tn_json_type(value);
    char number[32];

    /* Where it lies, not what it says, decides these. */
    if (strcmp(key, "type") == 0 || strcmp(key, "source") == 0 || strcmp(key, "content") == 0 ||
        strcmp(key, "name") == 0 || type == TN_JSON_NULL)
        return 0;
    tn_jw_key(w, key);
    if (strcmp(key, "version") == 0 && (type == TN_JSON_INT || type == TN_JSON_DOUBLE)) {
        tn_format_double(number, tn_json_double(value, 0));
        tn_jw_str(w, number);
    } else if (strcmp(key, "triggers") == 0 && type == TN_JSON_STRING) {
        tn_jw_array(w);
        tn_jw_tree(w, value);
        tn_jw_array_end(w);
    } else {
        tn_jw_tree(w, value);
    }
    return 0;
}

static int read_front(struct tn_microagent *m, const char *yaml, size_t len, struct tn_error *err)
{
    tn_autojson struct tn_json *front = NULL, *known = NULL;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16u << 20);
    struct tn_jw w = tn_jw(&text);

    if (tn_yaml_parse(yaml, len, VALUES_MAX, &front, err) < 0)
        return -1;
    if (!front)
        return 0;
    if (tn_json_type(front) != TN_JSON_OBJECT)
        return tn_fail(err, TN_E_UNPROCESSABLE, "front matter: expected keys and values, found %s",
                       tn_json_type_name(front));
    tn_jw_object(&w);
    tn_json_each(front, write_member, &w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text) || tn_json_parse(text.data, text.len, &known, err) < 0 ||
        tn_fields_from_json(&tn_microagent_fields, m, known, err) < 0)
        return tn_error_context(err, "front matter");
    return 0;
}

/* A task is called by its name. */
static void add_task_trigger(struct tn_microagent *m)
{
    tn_autofree char *call = tn_asprintf("/%s", m->name);
    struct tn_str_list *t = &m->triggers;

    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->items[i], call) == 0)
            return;
    t->items = tn_realloc(t->items, (t->count + 2) * sizeof *t->items);
    t->items[t->count++] = TN_TAKE_PTR(call);
    t->items[t->count] = NULL;
}

int tn_microagents_add(struct tn_microagents *list, const char *name, const char *source,
                       const char *text, size_t len, struct tn_error *err)
{
    struct tn_microagent m;
    size_t front, front_len;
    size_t content = find_front(text, len, &front, &front_len);

    tn_fields_defaults(&tn_microagent_fields, &m);
    m.name = tn_strdup(name);
    m.source = tn_strdup(source);
    if (front_len > 0 && read_front(&m, text + front, front_len, err) < 0) {
        tn_fields_done(&tn_microagent_fields, &m);
        return tn_error_context(err, "%.120s", source);
    }
    while (content < len && strchr("\r\n", text[content]))
        content++;
    while (len > content && strchr(" \t\r\n", text[len - 1]))
        len--;
    m.content = (struct tn_text){.data = tn_strndup(text + content, len - content)};
    m.content.len = strlen(m.content.data); /* what follows a NUL is no text */
    m.type = tn_json_count(m.inputs) ? TN_MICROAGENT_TASK
             : m.triggers.count      ? TN_MICROAGENT_KNOWLEDGE
                                     : TN_MICROAGENT_REPO;
    if (m.type == TN_MICROAGENT_TASK)
        add_task_trigger(&m);
    list->items = tn_realloc(list->items, (list->count + 1) * sizeof *list->items);
    list->items[list->count++] = m;
    return 0;
}
