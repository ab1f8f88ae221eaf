#include <fcntl.h>

#include "base/clock.h"
#include "base/fs.h"
#include "cli/copy.h"
#include "cli/progress.h"
#include "cli/units.h"
#include "cli/verb.h"
#include "runtime/hand-sessions.h"

struct cp_options {
    struct tn_str_list places;
};

static const struct tn_field rows[] = {
    TN_STRINGS("places", struct cp_options, places,
               .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = VALUE_PLACE,
               .help = "sources and, last, the destination: PATH, SANDBOX:PATH, or - for a stream"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

/* --- places -------------------------------------------------------------------------------- */

struct place {
    bool stream;           /* "-" */
    struct tn_sandbox *sb; /* NULL: here */
    struct tn_hand_files *files;
    char *path;     /* absolute when inside */
    bool directory; /* was written with a final slash */
};

static void place_done(struct place *p)
{
    tn_hand_files_free(p->files);
    tn_sandbox_free(p->sb);
    free(p->path);
}
#define autoplace TN_CLEANUP(place_done)

/* Relative paths start where the sandbox's main shell is. */
static char *inside(struct tn_sandbox *sb, const struct tn_hand_address *at, const char *path,
                    struct tn_error *err)
{
    tn_autojson struct tn_json *session = NULL;

    if (*path == '/')
        return tn_strdup(path);
    if (tn_hand_session_get(at, "main", &session, tn_deadline_in(30), err) < 0)
        return NULL;
    const char *cwd = tn_json_get_str(session, "cwd", NULL);
    if (!cwd) {
        tn_fail(err, TN_E_INVALID, "%s:%s: use an absolute path", sandbox_label(sb), path);
        return NULL;
    }
    return *path ? tn_asprintf("%s/%s", cwd, path) : tn_strdup(cwd);
}

/* SANDBOX:PATH has a colon before any slash. */
static int parse_place(struct cli *cli, const char *text, struct place *p, struct tn_error *err)
{
    size_t n = strcspn(text, ":/");
    struct tn_hand_address at;

    *p = (struct place){.stream = strcmp(text, "-") == 0,
                        .directory = *text && text[strlen(text) - 1] == '/'};
    if (p->stream || text[n] != ':' || n == 0) {
        p->path = tn_strdup(text);
        return 0;
    }
    tn_autofree char *which = tn_strndup(text, n);
    p->sb = cli_sandbox(cli, which, err);
    if (!p->sb || tn_sandbox_address(p->sb, &at.address, &at.key, cli_start_deadline(cli), err) < 0)
        return -1;
    tn_sandbox_use(p->sb);
    p->files = tn_hand_files_new(at.address, at.key, err);
    p->path = p->files ? inside(p->sb, &at, text + n + 1, err) : NULL;
    return p->path ? 0 : -1;
}

/* The last component of a path, on the heap; "" when there is none. */
static char *last_name(const char *path)
{
    size_t n = strlen(path);

    while (n > 0 && path[n - 1] == '/')
        n--;
    size_t start = n;
    while (start > 0 && path[start - 1] != '/')
        start--;
    return tn_strndup(path + start, n - start);
}

static bool is_directory(const struct place *p)
{
    tn_autoentry struct tn_entry e = {0};

    if (p->files)
        return tn_hand_files_stat(p->files, p->path, true, &e, tn_deadline_in(60), NULL) == 0 &&
               e.type == TN_ENTRY_DIRECTORY;
    return tn_fs_is_directory(p->path);
}

/* --- copying ------------------------------------------------------------------------------- */

/* The path at the destination: `to` itself, or the source's name in it. */
static char *target_of(const struct place *from, const struct place *to, bool into,
                       struct tn_error *err)
{
    tn_autofree char *name = last_name(from->path);

    if (!into)
        return tn_strdup(to->path);
    if (from->stream || !*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        tn_fail(err, TN_E_INVALID, "%s: what shall it be called in %s?", from->path, to->path);
        return NULL;
    }
    size_t n = strlen(to->path);
    return tn_asprintf("%s%s%s", to->path, n && to->path[n - 1] == '/' ? "" : "/", name);
}

static int into_sandbox(struct copy *c, const struct place *from, const char *to,
                        struct tn_error *err)
{
    return from->stream ? copy_stream_in(c, STDIN_FILENO, to, err)
                        : copy_in(c, from->path, to, err);
}

static int out_of_sandbox(struct copy *c, const struct place *from, const struct place *to,
                          const char *target, struct tn_error *err)
{
    if (to->stream)
        return copy_stream_out(c, from->path, STDOUT_FILENO, err);
    tn_autofree char *name = last_name(target);
    size_t n = strlen(target);
    while (n > 0 && target[n - 1] == '/')
        n--;
    tn_autofree char *parent =
        n > strlen(name) ? tn_strndup(target, n - strlen(name)) : tn_strdup(".");
    tn_autofd int dir = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return tn_fail_errno(err, errno, "%s", parent);
    if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return tn_fail(err, TN_E_INVALID, "%s is no name for a file", target);
    return copy_out(c, from->path, dir, name, err);
}

static int copy_one(struct copy *c, const struct place *from, const struct place *to, bool into,
                    struct tn_error *err)
{
    if (from->stream && to->stream)
        return tn_fail(err, TN_E_INVALID, "from a stream to a stream there is cat");
    if (!from->sb == !to->sb)
        return tn_fail(err, TN_E_INVALID,
                       "one side must be in a sandbox and the other here: SANDBOX:PATH");
    tn_autofree char *target = to->stream ? tn_strdup("-") : target_of(from, to, into, err);
    if (!target)
        return -1;
    c->files = from->sb ? from->files : to->files;
    return from->sb ? out_of_sandbox(c, from, to, target, err) : into_sandbox(c, from, target, err);
}

static int report(struct cli *cli, const struct copy *c, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4096);
    struct tn_jw w = tn_jw(&json);

    if (c->skipped)
        cli_note(cli, "%lld files were skipped: they are neither files, directories nor links",
                 (long long)c->skipped);
    if (!cli->json)
        return 0;
    tn_jw_object(&w);
    tn_jw_kint(&w, "files", c->count);
    tn_jw_kint(&w, "bytes", c->bytes);
    tn_jw_kint(&w, "skipped", c->skipped);
    tn_jw_object_end(&w);
    return cli_print(&json, err);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct cp_options *options = given;
    size_t count = options->places.count;
    autoplace struct place to = {0};
    struct copy copy = {.total = -1};

    if (count < 2)
        return tn_fail(err, TN_E_INVALID, "a source and a destination are needed");
    if (parse_place(cli, options->places.items[count - 1], &to, err) < 0)
        return -1;
    bool into = !to.stream && is_directory(&to);
    if (!into && (count > 2 || to.directory))
        return tn_fail(err, TN_E_NOT_FOUND, "%s is not a directory",
                       options->places.items[count - 1]);
    progress_begin("copying");
    for (size_t i = 0; i + 1 < count; i++) {
        autoplace struct place from = {0};
        copy.total = -1;
        if (parse_place(cli, options->places.items[i], &from, err) < 0 ||
            copy_one(&copy, &from, &to, into, err) < 0)
            return tn_error_context(err, "%s", options->places.items[i]);
    }
    progress_end();
    return to.stream ? 0 : report(cli, &copy, err);
}

const struct verb verb_cp = {
    .name = "cp",
    .group = VERB_WORK,
    .summary = "copy files and directories into and out of a sandbox",
    .details =
        "One side is a path here, the other SANDBOX:PATH. A destination that is a directory\n"
        "takes the source under its own name, as with cp. Directories go as a whole;\n"
        "symbolic links stay links; permissions stay. A PATH inside that is not absolute\n"
        "starts where the main shell of the sandbox is. - is standard input or output.",
    .options = &options_table,
    .options_size = sizeof(struct cp_options),
    .run = run,
};
