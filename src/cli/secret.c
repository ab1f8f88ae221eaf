#include <fcntl.h>
#include <termios.h>

#include "base/fs.h"
#include "base/key-file.h"
#include "base/proc.h"
#include "cli/record.h"
#include "cli/table.h"
#include "cli/units.h"
#include "cli/verb.h"
#include "runtime/secrets.h"
#include "service/audit.h"

enum { TERMINAL_LINE = 4096, CTRL_C = 3 };

enum secret_what { SECRET_SET, SECRET_LIST, SECRET_RM };
static const char *const what_words[] = {"set", "list", "rm", NULL};

struct secret_options {
    int what;
    char *name, *tenant, *from_env;
    struct tn_str_list hosts, headers;
};

#define SECRET struct secret_options
static const struct tn_field rows[] = {
    TN_WORD("what", SECRET, what, what_words, .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED,
            .value = "set|list|rm", .fallback = NULL, .help = "what to do"),
    TN_STRING("name", SECRET, name, .flags = TN_FIELD_POSITIONAL, .value = "NAME",
              .help = "of the secret, and of the variable inside: OPENAI_API_KEY"),
    TN_STRINGS("hosts", SECRET, hosts, .flag = "--host", .value = "HOST",
               .help = "set: a host that gets it: api.openai.com, *.example.com:8443"),
    TN_STRINGS("headers", SECRET, headers, .flag = "--header", .value = "HEADER",
               .help = "set: a header in which it is put in [authorization, x-api-key, api-key, "
                       "x-goog-api-key, private-token]"),
    TN_STRING("from_env", SECRET, from_env, .flag = "--from-env", .value = "VAR",
              .help = "set: to the value of this variable here [standard input]"),
    TN_STRING("tenant", SECRET, tenant, .flag = "--tenant", .value = "NAME",
              .help = "that of a tenant of the service [this command line's, and the service's "
                      "operator's]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- set -------------------------------------------------------------------------------------- */

/* A line, or all there is, without the end of the line. */
static int read_value(int fd, struct tn_buf *out, struct tn_error *err)
{
    tn_buf_reserve(out, TN_SAFE_VALUE_MAX + 2); /* what it grew out of would not be wiped */
    if (tn_fs_read_fd(fd, out, err) < 0)
        return tn_error_context(err, "value");
    size_t n = out->len;
    n -= n > 0 && out->data[n - 1] == '\n';
    n -= n > 0 && out->data[n - 1] == '\r';
    if (memchr(out->data, '\0', n))
        return tn_fail(err, TN_E_INVALID, "value: it holds a NUL");
    tn_buf_cut(out, n);
    return 0;
}

/* Without showing it.  Ctrl-C ends the line instead of this program: the terminal must get its echo
 * back. */
static int ask_value(const char *name, struct tn_buf *out, struct tn_error *err)
{
    tn_autofd int tty = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    struct termios before, silent;
    ssize_t n = -1;

    if (tty < 0 || tcgetattr(tty, &before) < 0)
        return tn_fail_errno(err, errno, "the terminal");
    silent = before;
    silent.c_lflag &= ~(tcflag_t)(ECHO | ISIG);
    silent.c_cc[VEOL] = CTRL_C;
    char *to = tn_buf_reserve(out, TERMINAL_LINE);
    if (tcsetattr(tty, TCSAFLUSH, &silent) == 0) {
        dprintf(tty, "%s: ", name);
        n = read(tty, to, TERMINAL_LINE);
        tcsetattr(tty, TCSAFLUSH, &before);
        dprintf(tty, "\n");
    }
    if (n < 0)
        return tn_fail_errno(err, errno, "the terminal");
    if (n > 0 && to[n - 1] == CTRL_C)
        return tn_fail(err, TN_E_GONE, "interrupted: nothing was changed");
    if (n >= TERMINAL_LINE - 1)
        return tn_fail(err, TN_E_INVALID, "value: too long for a terminal; use a pipe");
    tn_buf_grew(out, (size_t)n - (n > 0 && to[n - 1] == '\n'));
    return 0;
}

static int take_value(const struct secret_options *o, struct tn_buf *out, struct tn_error *err)
{
    if (!o->from_env)
        return isatty(STDIN_FILENO) ? ask_value(o->name, out, err)
                                    : read_value(STDIN_FILENO, out, err);
    const char *value = getenv(o->from_env);
    if (!value)
        return tn_fail(err, TN_E_INVALID, "--from-env %.80s: there is no such variable here",
                       o->from_env);
    tn_buf_reserve(out, strlen(value) + 1);
    return tn_buf_puts(out, value) < 0
               ? tn_fail(err, TN_E_INVALID, "value: more than %d KiB", TN_SAFE_VALUE_MAX >> 10)
               : 0;
}

static void copy_list(const struct tn_str_list *from, struct tn_str_list *to)
{
    to->items = tn_calloc(from->count + 1, sizeof *to->items);
    for (; to->count < from->count; to->count++)
        to->items[to->count] = tn_strdup(from->items[to->count]);
}

/* For the audit log: never the value. */
static int note(struct tn_db *db, const char *what, const struct secret_options *o,
                struct tn_error *err)
{
    tn_autobuf struct tn_buf detail = TN_BUF_INIT(16 << 10);

    tn_buf_printf(&detail, "%s%s%s", o->tenant ? o->tenant : "", o->tenant ? "/" : "", o->name);
    for (size_t i = 0; i < o->hosts.count; i++)
        tn_buf_printf(&detail, "%s%s", i ? ", " : " for ", o->hosts.items[i]);
    tn_buf_printf(&detail, " (tendon secret, by user %d)", (int)getuid());
    return audit_note(db, what, tn_buf_str(&detail), err);
}

static int set(const struct tn_safe *safe, struct tn_db *db, const struct secret_options *o,
               struct tn_error *err)
{
    tn_autokeyfile struct tn_buf value = TN_BUF_INIT(TN_SAFE_VALUE_MAX + 4096);
    tn_autosafeentry struct tn_safe_entry e = {.name = tn_strdup(o->name)};

    copy_list(&o->hosts, &e.hosts);
    copy_list(&o->headers, &e.headers);
    if (!o->hosts.count)
        return tn_fail(err, TN_E_INVALID,
                       "which hosts get it? tendon secret set %.64s --host api.example.com",
                       o->name);
    if (take_value(o, &value, err) < 0)
        return -1;
    e.value = tn_strdup(tn_buf_str(&value));
    return tn_safe_put(safe, o->tenant, &e, 0, err) < 0 ? -1 : note(db, "secret.set", o, err);
}

static int take_away(const struct tn_safe *safe, struct tn_db *db, const struct secret_options *o,
                     struct tn_error *err)
{
    return tn_safe_remove(safe, o->tenant, o->name, err) < 0 ? -1 : note(db, "secret.rm", o, err);
}

/* --- list ------------------------------------------------------------------------------------- */

struct listing {
    struct table *table;
    struct tn_jw w;
};

static void put_list(struct table *t, const struct tn_str_list *list)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(16 << 10);

    for (size_t i = 0; i < list->count; i++)
        tn_buf_printf(&text, "%s%s", i ? ", " : "", list->items[i]);
    table_cell(t, tn_buf_str(&text), NULL);
}

static int list_one(const struct tn_safe_entry *e, void *ctx)
{
    struct listing *l = ctx;
    char age[32];

    tn_jw_object(&l->w);
    tn_jw_kstr(&l->w, "name", e->name);
    tn_fields_to_json(&tn_safe_fields, e, &l->w);
    tn_jw_object_end(&l->w);
    table_cell(l->table, e->name, NULL);
    put_list(l->table, &e->hosts);
    put_list(l->table, &e->headers);
    table_cell(l->table, format_age(seconds_since(e->changed), age), NULL);
    return 0;
}

static int list(struct cli *cli, const struct tn_safe *safe, const struct secret_options *o,
                struct tn_error *err)
{
    static const struct table_column columns[] = {
        {.title = "NAME"},
        {.title = "HOSTS"},
        {.title = "HEADERS"},
        {.title = "AGE", .right = true},
    };
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64u << 20);
    autotable struct table *table = table_new(columns, TN_COUNT(columns));
    struct listing l = {.table = table, .w = tn_jw(&json)};

    tn_jw_array(&l.w);
    if (tn_safe_each(safe, o->tenant, list_one, &l, err) < 0)
        return -1;
    tn_jw_array_end(&l.w);
    if (cli->json)
        return cli_print(&json, err);
    table_print(table);
    return 0;
}

/* --- all of it -------------------------------------------------------------------------------- */

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct secret_options *o = given;
    tn_proc_no_core();
    struct tn_runtime *rt = cli_runtime(cli, err);

    if (!rt)
        return -1;
    const struct tn_safe safe = tn_secrets_safe(tn_runtime_host(rt));
    struct tn_db *db = tn_store_db(tn_runtime_store(rt));
    if (o->what == SECRET_LIST)
        return list(cli, &safe, o, err);
    if (!o->name)
        return tn_fail(err, TN_E_INVALID, "which secret? tendon secret %s NAME",
                       what_words[o->what]);
    return o->what == SECRET_SET ? set(&safe, db, o, err) : take_away(&safe, db, o, err);
}

const struct verb verb_secret = {
    .name = "secret",
    .group = VERB_SYSTEM,
    .summary = "keep secrets that sandboxes use and never see",
    .details =
        "The value is read from standard input, or asked for at a terminal: never given on the\n"
        "command line. It is kept encrypted; nothing shows it again. A sandbox made with\n"
        "--secret NAME has a placeholder in its variable NAME. Its gate puts the value in its\n"
        "place, in the headers named here, of requests by TLS to the hosts named here. What is\n"
        "changed or removed counts from the next start of a sandbox on.",
    .options = &options_table,
    .options_size = sizeof(struct secret_options),
    .run = run,
};
