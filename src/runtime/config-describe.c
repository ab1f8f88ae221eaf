/* docs/config.md, from the tables. */
#include "runtime/config-sections.h"

static const char top[] =
    "# Configuration\n"
    "\n"
    "<!-- Printed by print-config: do not edit. -->\n"
    "\n"
    "Values come from four places; each goes before those above it:\n"
    "\n"
    "1. the defaults below;\n"
    "2. one file: the one that `--config` names, else the one that `TENDON_CONFIG` names, else\n"
    "   `./config.toml`, else `$XDG_CONFIG_HOME/tendon/config.toml` (`~/.config/...`);\n"
    "3. variables of the environment (an empty one counts as unset);\n"
    "4. flags: `--set section.key=value`, and for a sandbox the flags of `tendon new`.\n"
    "\n"
    "`tendon config` prints what holds in the end and where each value came from.\n"
    "\n"
    "The file is TOML. It may be OpenHands' own `config.toml`: its sections are read as they are,\n"
    "and those that do not concern sandboxes (`[llm]`, `[agent]`, ...) are left alone. A key that\n"
    "is not known is an error that names the nearest known one; in `[core]`, and for a whole\n"
    "section, it is only a warning. A variable with a wrong value is an error where it\n"
    "is ours (`TENDON_...` and the sections `tendon`, `jail`, `docker`, `local`, `e2b`, `runloop`,\n"
    "`modal`, `daytona`, `kubernetes`, `service` and `security`), and a\n"
    "warning where it is OpenHands'.\n"
    "\n"
    "Lists in variables are written with commas, or as a JSON or Python list; objects as JSON or\n"
    "as a Python literal. Sizes are numbers of bytes, or `64k`, `512m`, `1.5g`, `1t`. `~/` at the\n"
    "start of a path is the home directory; relative paths start where the program does.\n"
    "\n"
    "A `config.toml` that merely lies in the current directory is used only when it belongs to\n"
    "you or root and others cannot write to it, and it may neither name programs (`tendon.hand`,\n"
    "`tendon.runtime_path`) nor say who is sent a key (`e2b.api_url`, `domain`, `sandbox_url`,\n"
    "`runloop.base_url`, `tunnel_url`, `modal.server_url`, `config_path`, `tunnel_url`,\n"
    "`daytona.api_url`, `toolbox_url`, `core.daytona_api_url`) nor decide what happens in your\n"
    "cluster (`[kubernetes]`, but for `resource_cpu_request`, `resource_memory_request`,\n"
    "`resource_cpu_limit`, `resource_memory_limit` and `pvc_storage_size`) nor\n"
    "open the service to others (`service.listen`, `insecure`, `hosts`,\n"
    "`origins`, `open_metrics`, `runtimes`) nor say who judges actions (`[security]`, but for the\n"
    "two keys of OpenHands): a repository that was just cloned does not decide what runs on your\n"
    "machine, who may use it and what its agent may do there.\n";

static const char middle[] =
    "\n"
    "## What follows from several values\n"
    "\n"
    "- `sandbox.volumes`: every entry is `HOST:INSIDE` or `HOST:INSIDE:MODE`. One at `/workspace`\n"
    "  sets `core.workspace_base` and `core.workspace_mount_path` to its host path; when there is\n"
    "  none, both are unset. Without `sandbox.volumes`, `core.workspace_mount_path` (by default\n"
    "  `core.workspace_base`, after `core.workspace_mount_rewrite`) is mounted.\n"
    "- `core.runtime` (and `RUNTIME`) count where somebody wrote them and `tendon.runtime` is not\n"
    "  set. OpenHands' default, docker, does not count.\n"
    "- With the runtime `cli` there is no browser: `core.enable_browser` is false.\n"
    "- Variables named `SANDBOX_ENV_X` become `X` in every sandbox.\n"
    "\n"
    "## `[template.NAME]`\n"
    "\n"
    "A template is a sandbox described once: `tendon new --template NAME` starts from it. Its keys\n"
    "are the flags of `tendon new`.\n"
    "\n"
    "```toml\n"
    "[template.python]\n"
    "runtime = \"docker\"\n"
    "image = \"python:3.12\"\n"
    "memory = \"1g\"\n"
    "volumes = [\"/srv/data:/data:ro\"]\n"
    "env = { PIP_NO_INPUT = \"1\" }\n"
    "```\n"
    "\n"
    "## `[pool.NAME]`\n"
    "\n"
    "Warm sandboxes that `tendon serve` makes in advance ([pools](service/pools.md)).\n"
    "\n"
    "```toml\n"
    "[pool.python]\n"
    "template = \"python\" # what they are; without it, a sandbox that nothing was asked of\n"
    "target = 10         # so many wait when nothing happens [1]\n"
    "minimum = 2         # below it, filling goes before other starts [0]\n"
    "burst = 4           # made at a time when it is low [the usual number]\n"
    "```\n";

/* '|' would end a cell. */
static void put_cell(struct tn_buf *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            tn_buf_putc(out, '\\');
        tn_buf_putc(out, *text);
    }
}

/* A long default reads better with room to break. */
static void put_default(struct tn_buf *out, const struct tn_field *row)
{
    const char *text = row->fallback;

    if (!text || !*text) {
        tn_buf_puts(out, row->type == TN_FIELD_BOOL                                  ? "`false`"
                         : row->type == TN_FIELD_INT || row->type == TN_FIELD_DOUBLE ? "`0`"
                                                                                     : "");
        return;
    }
    if (row->type != TN_FIELD_STRINGS) {
        tn_buf_printf(out, "`%s`", text);
        return;
    }
    while (*text) {
        size_t n = strcspn(text, ",");
        tn_buf_printf(out, "`%.*s`%s", (int)n, text, text[n] ? ", " : "");
        text += n + (text[n] == ',');
    }
}

static void put_row(struct tn_buf *out, const struct tn_field *row, const char *name)
{
    tn_autobuf struct tn_buf kind = TN_BUF_INIT(400);

    tn_field_put_kind(row, &kind);
    tn_buf_printf(out, "| `%s` | ", row->name);
    put_cell(out, tn_buf_str(&kind));
    tn_buf_puts(out, " | ");
    put_default(out, row);
    tn_buf_printf(out, " | %s%s%s | ", name ? "`" : "", name ? name : "", name ? "`" : "");
    put_cell(out, row->help);
    tn_buf_puts(out, row->flags & TN_FIELD_SECRET ? " (never shown) |\n" : " |\n");
}

static void put_table(struct tn_buf *out, const struct tn_fields *fields, bool flags)
{
    tn_buf_printf(out, "\n| key | takes | default | %s | meaning |\n|---|---|---|---|---|\n",
                  flags ? "flag" : "variable");
    for (size_t i = 0; i < fields->count; i++)
        put_row(out, &fields->rows[i], flags ? fields->rows[i].flag : fields->rows[i].env);
}

void tn_config_describe(struct tn_buf *out)
{
    tn_buf_puts(out, top);
    for (const struct tn_config_section *s = tn_config_sections; s->name; s++) {
        tn_buf_printf(out, "\n## `[%s]`\n\n%s\n", s->name, s->summary);
        put_table(out, s->fields, false);
    }
    tn_buf_puts(out, middle);
    put_table(out, &tn_spec_fields, true);
}
