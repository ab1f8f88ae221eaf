#include "cli/result.h"

#include "cli/clean.h"
#include "cli/style.h"
#include "cli/units.h"

/* --- a tool -------------------------------------------------------------------------------- */

struct page {
    bool colour;
    const struct tn_json *required;
};

static void print_kind(const struct tn_json *property)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&text);
    const struct tn_json *values = tn_json_get(property, "enum");
    const char *type = tn_json_get_str(property, "type", NULL);

    if (values)
        tn_jw_tree(&w, values);
    else if (type)
        tn_buf_puts(&text, type);
    else
        tn_buf_puts(&text, "any");
    print_clean(tn_buf_str(&text));
}

static int print_property(const char *name, struct tn_json *property, void *ctx)
{
    const struct page *p = ctx;
    const char *description = tn_json_get_str(property, "description", "");

    fputs(p->colour ? "  " STYLE_CYAN : "  ", stdout);
    print_clean(name);
    fputs(p->colour ? STYLE_PLAIN "  " : "  ", stdout);
    print_kind(property);
    fputs(tn_json_lists(p->required, name) ? ", required" : "", stdout);
    if (*description) {
        tn_autofree char *line = tn_strndup(description, strcspn(description, "\r\n"));
        fputs(": ", stdout);
        print_clean(line);
    }
    putchar('\n');
    return 0;
}

void result_print_tool(const char *server, const struct tn_json *tool)
{
    const struct tn_json *schema = tn_json_get(tool, "inputSchema");
    const struct tn_json *properties = tn_json_get(schema, "properties");
    struct page p = {.colour = style_wanted(stdout), .required = tn_json_get(schema, "required")};
    const char *description = tn_json_get_str(tool, "description", "");

    fputs(p.colour ? STYLE_BOLD : "", stdout);
    print_clean(tn_json_get_str(tool, "name", ""));
    fputs(p.colour ? STYLE_PLAIN " of " : " of ", stdout);
    print_clean(server);
    putchar('\n');
    if (*description)
        print_content_lines(stdout, description);
    puts(tn_json_count(properties) ? "arguments:" : "no arguments");
    tn_json_each(properties, print_property, &p);
}

/* --- an answer ----------------------------------------------------------------------------- */

static void print_media(const struct tn_json *block)
{
    size_t n = 0;
    char size[32];

    tn_json_str(tn_json_get(block, "data"), &n);
    printf("[%s, ", strcmp(tn_json_get_str(block, "type", ""), "audio") == 0 ? "audio" : "image");
    print_clean(tn_json_get_str(block, "mimeType", "of no type"));
    printf(", %s]\n", format_bytes((int64_t)(n / 4 * 3), size));
}

static void print_place(const char *what, const struct tn_json *at)
{
    printf("[%s ", what);
    print_clean(tn_json_get_str(at, "uri", ""));
    puts("]");
}

static void print_block(const struct tn_json *block)
{
    const struct tn_json *resource = tn_json_get(block, "resource");
    const char *type = tn_json_get_str(block, "type", "");
    const char *text = tn_json_get_str(resource ? resource : block, "text", NULL);

    if (strcmp(type, "image") == 0 || strcmp(type, "audio") == 0)
        print_media(block);
    else if (strcmp(type, "resource_link") == 0)
        print_place("link to", block);
    else if (resource)
        print_place("resource", resource);
    if (text)
        print_content_lines(stdout, text);
}

static int print_content(const struct tn_json *result)
{
    const struct tn_json *content = tn_json_get(result, "content");
    tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 20);
    struct tn_jw w = tn_jw(&text);

    for (size_t i = 0, n = tn_json_count(content); i < n; i++)
        print_block(tn_json_at(content, i));
    if (!tn_json_count(content) && tn_json_get(result, "structuredContent")) {
        tn_jw_tree(&w, tn_json_get(result, "structuredContent"));
        print_content_lines(stdout, tn_buf_str(&text));
    }
    return tn_json_bool(tn_json_get(result, "isError"), false);
}

int result_print(const struct tn_observation *o, bool json, struct tn_error *err)
{
    tn_autojson struct tn_json *result = NULL;
    const char *content = o->content.data ? o->content.data : "";

    if (o->type != TN_OBSERVATION_MCP)
        return tn_fail(err, TN_E_NOT_FOUND, "%s", content);
    if (tn_json_parse(content, o->content.len, &result, err) < 0)
        return -1;
    if (tn_json_get(result, "error") && tn_json_bool(tn_json_get(result, "isError"), false))
        return tn_fail(err, TN_E_PEER, "%s", tn_json_get_str(result, "error", ""));
    if (!json)
        return print_content(result);
    puts(content);
    return tn_json_bool(tn_json_get(result, "isError"), false);
}
