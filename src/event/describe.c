/* docs/actions.md, from the tables. */
#include "event/kinds.h"

static void put_cell(const char *text, struct tn_buf *out)
{
    for (; *text; text++) {
        if (*text == '|')
            tn_buf_putc(out, '\\');
        tn_buf_putc(out, *text);
    }
}

static void put_row(const struct tn_field *row, struct tn_buf *out)
{
    tn_buf_printf(out, "| `%s` | ", row->name);
    tn_field_put_kind(row, out);
    tn_buf_puts(out, " | ");
    if (row->flags & TN_FIELD_REQUIRED)
        tn_buf_puts(out, "required");
    else if (row->flags & TN_FIELD_SPARSE && row->type != TN_FIELD_BOOL)
        tn_buf_puts(out, "left out");
    else if (row->fallback)
        tn_buf_printf(out, "`%s`", *row->fallback ? row->fallback : "\"\"");
    else if (row->flags & TN_FIELD_NULLABLE)
        tn_buf_puts(out, "`null`");
    else if (row->type == TN_FIELD_BOOL)
        tn_buf_puts(out, "`false`");
    else if (row->type == TN_FIELD_STRINGS)
        tn_buf_puts(out, "`[]`");
    tn_buf_puts(out, " | ");
    put_cell(row->help, out);
    tn_buf_puts(out, " |\n");
}

static void put_table(const char *heading, const struct tn_fields *f, struct tn_buf *out)
{
    if (f->count == 0) {
        tn_buf_printf(out, "No %ss.\n\n", heading);
        return;
    }
    tn_buf_printf(out, "| %s | takes | default | meaning |\n|---|---|---|---|\n", heading);
    for (size_t i = 0; i < f->count; i++)
        put_row(&f->rows[i], out);
    tn_buf_putc(out, '\n');
    for (size_t i = 0; i < f->count; i++) {
        if (!f->rows[i].fields)
            continue;
        tn_buf_printf(out, "Inside `%s`:\n\n", f->rows[i].name);
        put_table("key", f->rows[i].fields, out);
    }
}

/* The template as a code span: single backticks may stand inside one that is quoted by two. */
static void put_message(const char *template, struct tn_buf *out)
{
    if (!template || !*template)
        return;
    tn_buf_puts(out, "Message: `` ");
    for (const char *p = template; *p; p++)
        tn_buf_putc(out, *p == '\n' ? ' ' : *p);
    tn_buf_puts(out, " ``\n\n");
}

static void put_actions(size_t first, size_t end, struct tn_buf *out)
{
    for (size_t i = first; i < end; i++) {
        const struct tn_action_kind *kind = &tn_action_kinds[i];
        tn_buf_printf(out, "### `%s`\n\n%s.\n\n", kind->name, kind->help);
        put_table("argument", &kind->args, out);
        put_message(kind->message, out);
    }
}

static void put_observations(size_t first, size_t end, struct tn_buf *out)
{
    for (size_t i = first; i < end; i++) {
        const struct tn_observation_kind *kind = &tn_observation_kinds[i];
        tn_buf_printf(out, "### `%s`\n\n%s.\n\n", kind->name, kind->help);
        put_table("extra", &kind->extras, out);
        put_message(kind->message, out);
    }
}

void tn_event_describe(struct tn_buf *out)
{
    tn_buf_puts(
        out,
        "# Actions and observations\n\n"
        "Printed by `print-actions` from the tables the programs use; do not edit by hand.\n\n"
        "An action travels as\n\n"
        "    {\"action\": \"run\", \"args\": {\"command\": \"ls\"}, \"timeout\": 120.0}\n\n"
        "and is answered by an observation:\n\n"
        "    {\"message\": \"...\", \"observation\": \"run\", \"content\": \"...\", "
        "\"extras\": {...}, "
        "\"success\": true}\n\n"
        "Arguments that are not given, or given as null, have their default. Unknown arguments\n"
        "and extras are ignored. What is marked Tendon is an addition to the protocol; it is\n"
        "written only when it is set. Every action takes `confirmation_state`; where it is not\n"
        "listed below it is written only when it is not `confirmed`. One that is `rejected` or\n"
        "`awaiting_confirmation` is never carried out: the answer is `user_rejected` or `null`.\n\n"
        "Both may carry an envelope, which is kept and otherwise ignored:\n\n");
    tn_buf_puts(out, "| key | takes | default | meaning |\n|---|---|---|---|\n");
    for (size_t i = 0; i < tn_event_head.count; i++)
        put_row(&tn_event_head.rows[i], out);
    for (size_t i = 0; i < tn_event_tail.count; i++)
        put_row(&tn_event_tail.rows[i], out);
    tn_buf_puts(out, "\n## Actions a hand executes\n\n");
    put_actions(0, TN_ACTION_NULL, out);
    tn_buf_puts(out, "## Actions of the host\n\n");
    put_actions(TN_ACTION_NULL, TN_ACTION_TYPE_COUNT, out);
    tn_buf_puts(out, "## Observations a hand makes\n\n");
    put_observations(0, TN_OBSERVATION_NULL, out);
    tn_buf_puts(out, "## Observations of the host\n\n");
    put_observations(TN_OBSERVATION_NULL, TN_OBSERVATION_TYPE_COUNT, out);
    /* Each table ends with an empty line; the page does not. */
    tn_buf_cut(out, out->len - 1);
}
