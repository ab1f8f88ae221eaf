/* pause, resume, stop, rm: sandboxes are driven to a state, whatever state they are in. */
#include "cli/progress.h"
#include "cli/record.h"
#include "cli/verb.h"
#include "runtime/owner.h"

struct drive_options {
    bool all, force, suspend;
    struct tn_str_list sandboxes;
};

#define DRIVE struct drive_options
#define ALL_ROW \
    TN_BOOL("all", DRIVE, all, .flag = "--all", .letter = 'a', .help = "every sandbox there is")
#define SANDBOXES_ROW                                                       \
    TN_STRINGS("sandboxes", DRIVE, sandboxes, .flags = TN_FIELD_POSITIONAL, \
               .value = VALUE_SANDBOX, .help = "ids, starts of ids, or names")

static const struct tn_field plain_rows[] = {ALL_ROW, SANDBOXES_ROW};
static const struct tn_fields plain_table = TN_FIELDS(plain_rows);

static const struct tn_field pause_rows[] = {
    ALL_ROW,
    TN_BOOL("suspend", DRIVE, suspend, .flag = "--suspend",
            .help = "keep the memory on disk instead, and free it"),
    SANDBOXES_ROW,
};
static const struct tn_fields pause_table = TN_FIELDS(pause_rows);

static const struct tn_field rm_rows[] = {
    ALL_ROW,
    TN_BOOL("force", DRIVE, force, .flag = "--force", .letter = 'f',
            .help = "one that does not exist is no error; one whose runtime cannot be asked is "
                    "forgotten"),
    SANDBOXES_ROW,
};
static const struct tn_fields rm_table = TN_FIELDS(rm_rows);

/* --- what they share ----------------------------------------------------------------------- */

struct drive {
    struct cli *cli;
    enum tn_goal goal;
    const char *doing; /* for people */
    bool force;
    struct tn_error first; /* what failed first; the others are driven all the same */
    int failures;
};

static void failed(struct drive *d, const struct tn_error *why)
{
    if (d->failures++ == 0)
        d->first = *why;
    else
        cli_note(d->cli, "%s", why->text);
}

/* What was paused or suspended goes on; what had ended begins anew. */
static void tell_losses(struct drive *d, struct tn_sandbox *sb, enum tn_status before)
{
    if (before == TN_STATUS_STOPPED || before == TN_STATUS_ERROR)
        cli_note(d->cli, "%s was %s: its files are as they were, but the processes are gone",
                 sandbox_label(sb), status_word(before));
}

static void print_driven(struct drive *d, struct tn_sandbox *sb)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 20);
    struct tn_jw w = tn_jw(&json);

    if (!d->cli->json) {
        if (!d->cli->quiet)
            printf("%s\n", sandbox_label(sb));
        return;
    }
    tn_jw_object(&w);
    tn_jw_kstr(&w, "id", tn_sandbox_record(sb)->id);
    tn_jw_kstr(&w, "name", tn_sandbox_record(sb)->name);
    tn_jw_kstr(&w, "status", status_word(tn_sandbox_record(sb)->status));
    tn_jw_object_end(&w);
    cli_print(&json, NULL);
}

/* One that cannot be removed, because its runtime cannot be asked, is forgotten here. */
static bool forget(struct drive *d, const char *which, const struct tn_error *why)
{
    struct tn_runtime *rt = cli_runtime(d->cli, NULL);
    tn_autorecord struct tn_record r = {0};

    if (!d->force || d->goal != TN_GOAL_GONE || why->code == TN_E_BUSY || !rt ||
        tn_store_find(tn_runtime_store(rt), which, &r, NULL) < 0)
        return false;
    tn_autofd int lock = tn_sandbox_lock(tn_runtime_host(rt)->state, r.id, 0, NULL);
    if (lock < 0 || tn_sandbox_abandon(rt, &r, NULL) < 0)
        return false;
    cli_note(d->cli, "%s is forgotten, but %s may still have it: %s", record_label(&r), r.runtime,
             why->text);
    return true;
}

static void drive_one(struct drive *d, const char *which)
{
    struct tn_error why = {0};
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(d->cli, which, &why);
    tn_autofree char *label = NULL;

    if (!sb) {
        if (!forget(d, which, &why) && (!d->force || why.code != TN_E_NOT_FOUND))
            failed(d, &why);
        return;
    }
    label = tn_asprintf("%s %s", d->doing, sandbox_label(sb));
    progress_begin(label);
    bool starts = d->goal == TN_GOAL_RUNNING;
    enum tn_status before = tn_sandbox_record(sb)->status;
    int r = tn_sandbox_drive(sb, d->goal,
                             starts ? cli_start_deadline(d->cli) : cli_stop_deadline(d->cli), &why);
    progress_end();
    if (r == 0 && starts)
        tell_losses(d, sb, before);
    if (r == 0)
        print_driven(d, sb);
    else if (!forget(d, tn_sandbox_record(sb)->id, &why))
        failed(d, &why);
}

static int add_id(const struct tn_record *r, void *ctx)
{
    struct tn_str_list *ids = ctx;

    ids->items = tn_realloc(ids->items, (ids->count + 1) * sizeof *ids->items);
    ids->items[ids->count++] = tn_strdup(r->id);
    return 0;
}

static int drive_all(struct drive *d, struct tn_error *err)
{
    struct tn_runtime *rt = cli_runtime(d->cli, err);
    struct tn_str_list ids = {0};
    enum tn_store_part part = d->goal == TN_GOAL_GONE ? TN_STORE_ALL : TN_STORE_CLAIMED;

    if (!rt || tn_store_each(tn_runtime_store(rt), part, add_id, &ids, err) < 0)
        return -1;
    for (size_t i = 0; i < ids.count; i++) {
        drive_one(d, ids.items[i]);
        free(ids.items[i]);
    }
    free(ids.items);
    return 0;
}

static int drive(struct cli *cli, const struct drive_options *options, enum tn_goal goal,
                 const char *doing, struct tn_error *err)
{
    struct drive d = {.cli = cli, .goal = goal, .doing = doing, .force = options->force};

    if (options->all && options->sandboxes.count)
        return tn_fail(err, TN_E_INVALID, "either --all or names, not both");
    if (!options->all && !options->sandboxes.count)
        return tn_fail(err, TN_E_INVALID, "which sandbox? (tendon ls shows them; --all means all)");
    if (options->all && drive_all(&d, err) < 0)
        return -1;
    for (size_t i = 0; i < options->sandboxes.count; i++)
        drive_one(&d, options->sandboxes.items[i]);
    if (d.failures && err)
        *err = d.first;
    return d.failures ? -1 : 0;
}

/* --- the verbs ----------------------------------------------------------------------------- */

static int run_pause(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct drive_options *options = given;

    return options->suspend ? drive(cli, options, TN_GOAL_SUSPENDED, "suspending", err)
                            : drive(cli, options, TN_GOAL_PAUSED, "pausing", err);
}

static int run_resume(struct cli *cli, const void *given, struct tn_error *err)
{
    return drive(cli, given, TN_GOAL_RUNNING, "resuming", err);
}

static int run_stop(struct cli *cli, const void *given, struct tn_error *err)
{
    return drive(cli, given, TN_GOAL_STOPPED, "stopping", err);
}

static int run_rm(struct cli *cli, const void *given, struct tn_error *err)
{
    return drive(cli, given, TN_GOAL_GONE, "removing", err);
}

const struct verb verb_pause = {
    .name = "pause",
    .group = VERB_LIFE,
    .summary = "freeze all processes of sandboxes; nothing is lost",
    .options = &pause_table,
    .options_size = sizeof(struct drive_options),
    .run = run_pause,
};

const struct verb verb_resume = {
    .name = "resume",
    .group = VERB_LIFE,
    .summary = "let sandboxes run again that are paused, suspended, stopped or failed",
    .options = &plain_table,
    .options_size = sizeof(struct drive_options),
    .run = run_resume,
};

const struct verb verb_stop = {
    .name = "stop",
    .group = VERB_LIFE,
    .summary = "end all processes of sandboxes and keep their files",
    .options = &plain_table,
    .options_size = sizeof(struct drive_options),
    .run = run_stop,
};

const struct verb verb_rm = {
    .name = "rm",
    .group = VERB_LIFE,
    .summary = "remove sandboxes with everything in them",
    .details = "With --force, a sandbox whose runtime cannot be asked (a service that is gone, a\n"
               "program that is not installed any more) is forgotten here; whoever ran it may\n"
               "still have it.",
    .options = &rm_table,
    .options_size = sizeof(struct drive_options),
    .run = run_rm,
};
