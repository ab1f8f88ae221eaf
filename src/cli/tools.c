#include "base/clock.h"
#include "base/fs.h"
#include "cli/person.h"
#include "cli/result.h"
#include "cli/style.h"
#include "cli/table.h"
#include "cli/verb.h"
#include "runtime/toolbox.h"

#define MAX_ARGUMENTS (16u << 20)
#define MAX_LIST (256u << 20)
#define LIST_SECONDS 60.0

struct tools_options {
    struct tn_str_list urls, programs;
    char *key;
    bool functions, defaults, login, paste, machine;
    struct tn_str_list answers;
    char *client, *secret, *client_key, *workload, *document, *issuer, *scope;
    int64_t port;
    double timeout;
    char *sandbox;
    struct tn_str_list words;
};

static const struct tn_field rows[] = {
    TN_STRINGS("url", struct tools_options, urls, .flag = "--url", .value = "URL",
               .help = "instead of a sandbox: the tools of this MCP server (several: of all)"),
    TN_STRINGS("stdio", struct tools_options, programs, .flag = "--stdio", .value = "COMMAND",
               .help =
                   "instead of a sandbox: the tools of a server that is this command, run here"),
    TN_STRING("key_from", struct tools_options, key, .flag = "--key-from", .value = "NAME",
              .help = "the variable of the environment that holds the key for --url"),
    TN_BOOL("functions", struct tools_options, functions, .flag = "--functions",
            .help = "list them as JSON, as language models are told of functions"),
    TN_DOUBLE("timeout", struct tools_options, timeout, .flag = "--timeout", .value = "S",
              .fallback = "120", .min = 0.001, .max = 1e8, .help = "seconds a call may take"),
    TN_STRINGS("answers", struct tools_options, answers, .flag = "--answer", .value = "NAME=VALUE",
               .help = "an answer to what a tool asks during its call; the rest gets its defaults"),
    TN_BOOL("defaults", struct tools_options, defaults, .flag = "--accept",
            .help = "answer what a tool asks during its call with the defaults"),
    TN_BOOL("login", struct tools_options, login, .flag = "--login",
            .help = "log in meanwhile where a server wants it (see \"login\" below)"),
    TN_BOOL("paste", struct tools_options, paste, .flag = "--paste",
            .help = "login: read the address that the browser ended at, for one elsewhere"),
    TN_STRING("client_id", struct tools_options, client, .flag = "--client-id", .value = "ID",
              .help = "login: as this client, which is known there already"),
    TN_STRING("client_secret_from", struct tools_options, secret, .flag = "--client-secret-from",
              .value = "NAME", .help = "login: the variable that holds its secret"),
    TN_STRING("client_key", struct tools_options, client_key, .flag = "--client-key",
              .value = "FILE",
              .help = "login: the private key (PEM) that it signs with instead of a secret"),
    TN_STRING("workload_token", struct tools_options, workload, .flag = "--workload-token",
              .value = "FILE",
              .help = "login: the token that vouches for this machine; nobody logs in"),
    TN_STRING("client_metadata", struct tools_options, document, .flag = "--client-metadata",
              .value = "URL", .help = "login: as the client that is described at this URL"),
    TN_STRING("issuer", struct tools_options, issuer, .flag = "--issuer", .value = "URL",
              .help = "login: whom the client is known to [whom the server names]"),
    TN_STRING("scope", struct tools_options, scope, .flag = "--scope", .value = "WORDS",
              .help = "login: rights to ask for, besides those the server names"),
    TN_BOOL("machine", struct tools_options, machine, .flag = "--client-credentials",
            .help = "login: the client acts for itself, nobody logs in"),
    TN_INT("redirect_port", struct tools_options, port, .flag = "--redirect-port", .value = "N",
           .fallback = "0", .min = 0, .max = 65535,
           .help = "login: the port of 127.0.0.1 that the browser comes back to [any]"),
    TN_STRING("sandbox", struct tools_options, sandbox, .flags = TN_FIELD_POSITIONAL,
              .value = VALUE_SANDBOX, .help = "id, start of the id, or name [the only one]"),
    TN_STRINGS("words", struct tools_options, words, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REST,
               .value = "WORD",
               .help = "show TOOL; call TOOL and its arguments; login; logout [list them]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct job {
    struct cli *cli;
    const struct tools_options *options;
    struct tn_sandbox *sb;      /* NULL: with --url or --stdio */
    struct tn_toolbox *toolbox; /* of the sandbox, or own */
    struct tn_toolbox *own;
    struct person person;
    const char *words[2]; /* what to do, with which tool; NULL: none */
    char *const *arguments;
};

/* --- listing ------------------------------------------------------------------------------- */

static const struct table_column columns[] = {
    {.title = "TOOL"},
    {.title = "SERVER"},
    {.title = "DESCRIPTION"},
};

struct listing {
    struct job *job;
    struct table *table;
    struct tn_buf json, problems;
    struct tn_jw w, problem;
    int count, failed;
    struct tn_error last;
};

static void put_tool(const struct tn_tool *tool, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "server", tool->server);
    tn_jw_key(w, "tool");
    tn_jw_tree(w, tool->json);
    tn_jw_object_end(w);
}

static int list_tool(const struct tn_tool *tool, void *ctx)
{
    struct listing *l = ctx;
    const char *description = tn_json_get_str(tool->json, "description", "");
    tn_autofree char *line = tn_strndup(description, strcspn(description, "\r\n"));

    l->count++;
    if (l->job->options->functions)
        tn_tool_put_function(&l->w, tool->json);
    else
        put_tool(tool, &l->w);
    table_cell(l->table, tool->name, STYLE_BOLD);
    table_cell(l->table, tool->server, NULL);
    table_cell(l->table, line, NULL);
    return 0;
}

static void list_problem(const char *server, const struct tn_error *why, void *ctx)
{
    struct listing *l = ctx;

    l->failed++;
    l->last = *why;
    tn_error_context(&l->last, "%s", server);
    cli_note(l->job->cli, "%s", l->last.text);
    tn_jw_object(&l->problem);
    tn_jw_kstr(&l->problem, "server", server);
    tn_jw_kstr(&l->problem, "error", why->text);
    tn_jw_object_end(&l->problem);
}

static int print_json(struct listing *l, struct tn_error *err)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(MAX_LIST);
    struct tn_jw w = tn_jw(&out);

    tn_jw_object(&w);
    tn_jw_key(&w, "tools");
    tn_jw_raw(&w, tn_buf_str(&l->json), l->json.len);
    tn_jw_key(&w, "problems");
    tn_jw_raw(&w, tn_buf_str(&l->problems), l->problems.len);
    tn_jw_object_end(&w);
    return cli_print(&out, err);
}

static int list(struct job *job, struct tn_error *err)
{
    autotable struct table *table = table_new(columns, TN_COUNT(columns));
    struct listing l = {.job = job,
                        .table = table,
                        .json = TN_BUF_INIT(MAX_LIST),
                        .problems = TN_BUF_INIT(1 << 20)};
    int result = 0;

    l.w = tn_jw(&l.json);
    l.problem = tn_jw(&l.problems);
    tn_jw_array(&l.w);
    tn_jw_array(&l.problem);
    int ready =
        tn_toolbox_list(job->toolbox, tn_deadline_in(LIST_SECONDS), list_tool, list_problem, &l);
    tn_jw_array_end(&l.w);
    tn_jw_array_end(&l.problem);
    if (ready == 0 && l.failed) {
        *err = l.last;
        result = -1;
    } else if (job->options->functions) {
        result = cli_print(&l.json, err);
    } else if (job->cli->json) {
        result = print_json(&l, err);
    } else if (ready == 0) {
        cli_note(job->cli, "no MCP servers: name some in [mcp] of the configuration");
    } else {
        table_print(table);
    }
    tn_buf_done(&l.json);
    tn_buf_done(&l.problems);
    return result;
}

/* --- one tool ------------------------------------------------------------------------------ */

struct search {
    const char *name;
    char *server;
    struct tn_json *tool; /* found */
    struct tn_error problem;
};

static int match_tool(const struct tn_tool *tool, void *ctx)
{
    struct search *s = ctx;

    if (strcmp(tool->name, s->name) != 0)
        return 0;
    s->server = tn_strdup(tool->server);
    s->tool = tn_json_ref((struct tn_json *)(uintptr_t)tool->json);
    return 1;
}

static void note_problem(const char *server, const struct tn_error *why, void *ctx)
{
    struct search *s = ctx;

    s->problem = *why;
    tn_error_context(&s->problem, "%s", server);
}

static int find_tool(struct job *job, struct search *s, struct tn_error *err)
{
    *s = (struct search){.name = job->words[1]};
    tn_toolbox_list(job->toolbox, tn_deadline_in(LIST_SECONDS), match_tool, note_problem, s);
    if (s->tool)
        return 0;
    return tn_fail(err, TN_E_NOT_FOUND, "there is no tool '%s'%s%s", s->name,
                   s->problem.code ? "; " : "", s->problem.text);
}

static void search_done(struct search *s)
{
    free(s->server);
    tn_json_free(s->tool);
}

static int show(struct job *job, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(MAX_LIST);
    struct tn_jw w = tn_jw(&json);
    struct search s;
    int result = find_tool(job, &s, err);

    if (result == 0 && job->cli->json) {
        put_tool(&(struct tn_tool){.server = s.server, .name = s.name, .json = s.tool}, &w);
        result = cli_print(&json, err);
    } else if (result == 0) {
        result_print_tool(s.server, s.tool);
    }
    search_done(&s);
    return result;
}

/* --- arguments of a call ------------------------------------------------------------------- */

static bool takes_text(const struct tn_json *tool, const char *name)
{
    const struct tn_json *property =
        tn_json_get(tn_json_get(tn_json_get(tool, "inputSchema"), "properties"), name);

    return strcmp(tn_json_get_str(property, "type", ""), "string") == 0;
}

/* NAME=VALUE: text where the tool wants text, else JSON if it is some. */
static int put_pair(struct tn_jw *w, const char *pair, const struct tn_json *tool,
                    struct tn_error *err)
{
    const char *equals = strchr(pair, '=');
    tn_autojson struct tn_json *value = NULL;

    if (!equals || equals == pair)
        return tn_fail(err, TN_E_INVALID, "expected NAME=VALUE or a JSON object, found '%.60s'",
                       pair);
    tn_autofree char *name = tn_strndup(pair, (size_t)(equals - pair));
    tn_jw_key(w, name);
    if (takes_text(tool, name) || tn_json_parse(equals + 1, strlen(equals + 1), &value, NULL) < 0)
        tn_jw_str(w, equals + 1);
    else
        tn_jw_tree(w, value);
    return 0;
}

static int put_pairs(struct job *job, struct tn_buf *out, struct tn_error *err)
{
    struct tn_jw w = tn_jw(out);
    struct search s;
    int result = find_tool(job, &s, err);

    tn_jw_object(&w);
    for (char *const *a = job->arguments; *a && result == 0; a++)
        result = put_pair(&w, *a, s.tool, err);
    tn_jw_object_end(&w);
    search_done(&s);
    return result;
}

static int read_arguments(struct job *job, struct tn_json **out, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(MAX_ARGUMENTS);
    char *const *a = job->arguments;

    if (!*a)
        tn_buf_puts(&text, "{}");
    else if (strcmp(*a, "-") == 0 && !a[1] && tn_fs_read_fd(STDIN_FILENO, &text, err) < 0)
        return tn_error_context(err, "standard input");
    else if (**a == '{' && !a[1])
        tn_buf_puts(&text, *a);
    else if (strcmp(*a, "-") != 0 && put_pairs(job, &text, err) < 0)
        return -1;
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the arguments are longer than %u MiB",
                       MAX_ARGUMENTS >> 20);
    if (tn_json_parse(tn_buf_str(&text), text.len, out, err) < 0)
        return tn_error_context(err, "arguments");
    if (tn_json_type(*out) == TN_JSON_OBJECT)
        return 0;
    tn_json_free(TN_TAKE_PTR(*out));
    return tn_fail(err, TN_E_INVALID, "arguments: expected a JSON object");
}

/* --- a call -------------------------------------------------------------------------------- */

static int call(struct job *job, struct tn_error *err)
{
    tn_autoaction struct tn_action action;
    tn_autoobservation struct tn_observation o;

    tn_action_init(&action, TN_ACTION_CALL_TOOL_MCP);
    tn_observation_init(&o, TN_OBSERVATION_NULL);
    tn_json_free(TN_TAKE_PTR(action.call_tool_mcp.arguments));
    if (read_arguments(job, &action.call_tool_mcp.arguments, err) < 0)
        return -1;
    action.call_tool_mcp.name = tn_strdup(job->words[1]);
    action.timeout = (struct tn_opt_double){.set = true, .value = job->options->timeout};
    action.event.source = tn_strdup("user");
    if (!job->sb)
        tn_toolbox_execute(job->toolbox, &action, &o);
    else if (tn_sandbox_execute(job->sb, &action, &o, err) < 0)
        return -1;
    return result_print(&o, job->cli->json, err);
}

/* --- the verb ------------------------------------------------------------------------------ */

/* The variable that a flag names. */
static int from_environment(const char *flag, const char *name, const char **value,
                            struct tn_error *err)
{
    *value = name ? getenv(name) : NULL;
    if (name && !*value)
        return tn_fail(err, TN_E_INVALID, "%s: the variable %.60s is not set", flag, name);
    return 0;
}

static int add_servers(struct job *job, struct tn_error *err)
{
    const struct tools_options *o = job->options;
    const char *key;

    if (from_environment("--key-from", o->key, &key, err) < 0)
        return -1;
    for (size_t i = 0; i < o->urls.count; i++)
        if (tn_toolbox_add_url(job->own, o->urls.items[i], key, err) < 0)
            return tn_error_context(err, "--url");
    for (size_t i = 0; i < o->programs.count; i++)
        if (tn_toolbox_add_program(job->own, o->programs.items[i], err) < 0)
            return tn_error_context(err, "--stdio");
    return 0;
}

/* Words after the sandbox; without one the first of them stands in its place. */
static void read_words(struct job *job)
{
    const struct tools_options *o = job->options;
    static char *const none[] = {NULL};
    size_t at = 0;

    if (!job->sb && o->sandbox)
        job->words[at++] = o->sandbox;
    char *const *rest = o->words.items ? o->words.items : none;
    while (at < TN_COUNT(job->words) && *rest)
        job->words[at++] = *rest++;
    job->arguments = rest;
}

/* --- logins -------------------------------------------------------------------------------- */

static int only_url(struct job *job, const char **url, struct tn_error *err)
{
    if (job->options->urls.count != 1)
        return tn_fail(err, TN_E_INVALID, "%s: expected one --url", job->words[0]);
    *url = job->options->urls.items[0];
    return 0;
}

/* Prepared, then done by the first use. */
static int log_in(struct job *job, struct tn_error *err)
{
    const struct tools_options *o = job->options;
    struct tn_toolbox_login login = {.client = o->client,
                                     .key = o->client_key,
                                     .workload = o->workload,
                                     .document = o->document,
                                     .issuer = o->issuer,
                                     .scope = o->scope,
                                     .machine = o->machine,
                                     .port = (int)o->port};
    const char *url = NULL;

    if (only_url(job, &url, err) < 0 ||
        from_environment("--client-secret-from", o->secret, &login.secret, err) < 0 ||
        tn_toolbox_prepare_login(job->toolbox, url, &login, err) < 0)
        return -1;
    return list(job, err);
}

static int log_out(struct job *job, struct tn_error *err)
{
    const char *url = NULL;

    return only_url(job, &url, err) < 0 ? -1 : tn_toolbox_logout(job->toolbox, url, err);
}

/* --- what to do ---------------------------------------------------------------------------- */

static const struct {
    const char *word;
    int (*run)(struct job *job, struct tn_error *err);
    bool plain; /* of no tool */
} deeds[] = {
    {"show", show, false},
    {"call", call, false},
    {"login", log_in, true},
    {"logout", log_out, true},
};

static int perform(struct job *job, struct tn_error *err)
{
    read_words(job);
    if (!job->words[0])
        return list(job, err);
    for (size_t i = 0; i < TN_COUNT(deeds); i++)
        if (strcmp(deeds[i].word, job->words[0]) == 0)
            return job->words[1] || deeds[i].plain
                       ? deeds[i].run(job, err)
                       : tn_fail(err, TN_E_INVALID, "%s: expected the name of a tool",
                                 deeds[i].word);
    return tn_fail(err, TN_E_INVALID, "expected show, call, login or logout, found '%.60s'",
                   job->words[0]);
}

/* Whether a person may be asked to log in. */
static bool may_log_in(const struct tools_options *o)
{
    return o->login || (o->sandbox && strcmp(o->sandbox, "login") == 0);
}

static struct tn_toolbox *open_own(struct job *job, struct tn_error *err)
{
    const struct tools_options *o = job->options;
    const struct tn_config *config = cli_config(job->cli, err);

    if (!config)
        return NULL;
    tn_autofree char *state = tn_config_state(config);
    const struct tn_toolbox_options options = {
        .state = state,
        .visit = may_log_in(o) ? person_visit : NULL,
        .question = person_answers(&job->person) ? person_question : NULL,
        .person_ctx = &job->person,
    };
    return tn_toolbox_new(&options, err);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct tools_options *options = given;
    struct job job = {.cli = cli,
                      .options = options,
                      .person = {.cli = cli,
                                 .paste = options->paste,
                                 .defaults = options->defaults,
                                 .answers = &options->answers}};
    int status = -1;

    if (options->urls.count || options->programs.count) {
        job.toolbox = job.own = open_own(&job, err);
        if (job.own && add_servers(&job, err) == 0)
            status = perform(&job, err);
    } else {
        job.sb = cli_sandbox(cli, options->sandbox, err);
        job.toolbox = job.sb ? tn_sandbox_toolbox(job.sb, err) : NULL;
        if (job.toolbox)
            status = perform(&job, err);
    }
    tn_toolbox_free(job.own);
    tn_sandbox_free(job.sb);
    return status;
}

const struct verb verb_tools = {
    .name = "tools",
    .group = VERB_WORK,
    .summary = "list and call the tools of MCP servers that an agent has",
    .details =
        "The servers are those of [mcp] in the configuration: the ones with URLs are asked from\n"
        "here, programs run inside the sandbox. \"show TOOL\" tells what one does and takes,\n"
        "\"call TOOL\" calls it: with NAME=VALUE arguments, one JSON object, or - for one that is\n"
        "read. A tool that reports an error makes the exit status 1.\n"
        "\n"
        "\"--url URL login\" logs in at a server that wants it (OAuth): it prints an address for a\n"
        "browser, which comes back to this program. The tokens are kept in the state directory,\n"
        "for all who use the server from here; \"logout\" forgets them.",
    .options = &options_table,
    .options_size = sizeof(struct tools_options),
    .run = run,
};
