#include "event/event.h"

#include "event/kinds.h"

#define EVENT struct tn_event
#define LENIENT (TN_FIELD_LAX | TN_FIELD_SPARSE)

static const struct tn_field head_rows[] = {
    TN_OPT_INT("id", EVENT, id, .flags = LENIENT, .help = "number of the event in its stream"),
    TN_STRING("timestamp", EVENT, timestamp, .flags = LENIENT, .help = "ISO 8601"),
    TN_STRING("source", EVENT, source, .flags = LENIENT, .help = "agent, user or environment"),
    TN_OPT_INT("cause", EVENT, cause, .flags = LENIENT, .help = "id of the event this one answers"),
};
static const struct tn_field tail_rows[] = {
    TN_STRING("idempotency_key", EVENT, idempotency_key, .flags = LENIENT,
              .help = "Tendon: that the action was sent with; written by a service"),
    TN_OPT_INT("start", EVENT, start, .flags = LENIENT,
               .help = "Tendon: how often the sandbox had been restarted; written by a service"),
    TN_STRING("digest", EVENT, digest, .flags = LENIENT,
              .help = "Tendon: of type and arguments; written with an idempotency_key"),
    TN_JSON("verdict", EVENT, verdict, .flags = LENIENT,
            .help = "Tendon: what analyzers found in the action, and what followed"),
    TN_JSON("tool_call_metadata", EVENT, tool_call_metadata, .flags = LENIENT,
            .help = "the model's tool call behind the event"),
    TN_JSON("llm_metrics", EVENT, llm_metrics, .flags = LENIENT, .help = "tokens and cost so far"),
};
const struct tn_fields tn_event_head = TN_FIELDS(head_rows), tn_event_tail = TN_FIELDS(tail_rows);

void tn_event_init(struct tn_event *e)
{
    tn_fields_defaults(&tn_event_head, e);
    tn_fields_defaults(&tn_event_tail, e);
}

void tn_event_done(struct tn_event *e)
{
    tn_fields_done(&tn_event_head, e);
    tn_fields_done(&tn_event_tail, e);
}

void tn_event_from_json(struct tn_event *e, const struct tn_json *json)
{
    tn_fields_from_json(&tn_event_head, e, json, NULL);
    tn_fields_from_json(&tn_event_tail, e, json, NULL);
    if (e->id.value == -1) /* how some hosts say that it has none */
        e->id.set = false;
}

enum tn_event_kind tn_event_kind(const struct tn_json *json)
{
    if (tn_json_has(json, "action"))
        return TN_EVENT_ACTION;
    if (tn_json_has(json, "observation"))
        return TN_EVENT_OBSERVATION;
    return TN_EVENT_NONE;
}

static void put_named(const char *name, size_t n, const struct tn_fields *f, const void *object,
                      struct tn_buf *out)
{
    size_t part = 0;

    while (part < n && name[part] != '.')
        part++;
    for (size_t i = 0; i < f->count; i++) {
        const struct tn_field *row = &f->rows[i];
        if (strlen(row->name) != part || memcmp(row->name, name, part) != 0)
            continue;
        if (part < n)
            put_named(name + part + 1, n - part - 1, row->fields,
                      (const char *)object + row->offset, out);
        else
            tn_field_put_text(row, object, out);
        return;
    }
}

void tn_put_template(const char *template, const struct tn_fields *f, const void *object,
                     struct tn_buf *out)
{
    while (*template) {
        size_t plain = strcspn(template, "{");
        tn_buf_add(out, template, plain);
        template += plain;
        if (!*template)
            break;
        size_t name = strcspn(template, "}");
        put_named(template + 1, name - 1, f, object, out);
        template += name + 1;
    }
}
