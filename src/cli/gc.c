#include "base/clock.h"
#include "cli/progress.h"
#include "cli/verb.h"

#define GC_SECONDS 120.0

struct gc_options {
    bool force;
};

static const struct tn_field rows[] = {
    TN_BOOL("force", struct gc_options, force, .flag = "--force", .letter = 'f',
            .help = "also forget those whose runtime cannot be asked, and may still have them"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct tally {
    struct cli *cli;
    struct tn_jw w;
};

static void tell(const char *id, const char *why, void *ctx)
{
    struct tally *t = ctx;

    tn_jw_object(&t->w);
    tn_jw_kstr(&t->w, "id", id);
    tn_jw_kstr(&t->w, "why", why);
    tn_jw_object_end(&t->w);
    if (!t->cli->json && !t->cli->quiet) {
        progress_pause();
        printf("%s: %s\n", id, why);
    }
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 20);
    const struct gc_options *options = given;
    struct tally t = {.cli = cli, .w = tn_jw(&json)};
    struct tn_runtime *rt = cli_runtime(cli, err);

    if (!rt)
        return -1;
    tn_jw_array(&t.w);
    progress_begin("collecting what nobody owns");
    int count = tn_runtime_gc(rt, options->force, tell, &t, tn_deadline_in(GC_SECONDS), err);
    progress_end();
    tn_jw_array_end(&t.w);
    if (cli->json && cli_print(&json, err) < 0)
        return -1;
    return count < 0 ? -1 : 0;
}

const struct verb verb_gc = {
    .name = "gc",
    .group = VERB_SYSTEM,
    .summary = "remove what dead processes and spent leases left behind",
    .details =
        "Every start of tendon does the quick part of it. This also asks each runtime,\n"
        "programs among them, for things that carry our marks and that nobody knows. What belongs to a living\n"
        "process or to somebody else is never touched.",
    .options = &options_table,
    .options_size = sizeof(struct gc_options),
    .run = run,
};
