#include "base/clock.h"
#include "cli/progress.h"
#include "cli/verb.h"

#define GC_SECONDS 120.0

static const struct tn_fields options_table = {0};

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
    struct tally t = {.cli = cli, .w = tn_jw(&json)};
    struct tn_runtime *rt = cli_runtime(cli, err);

    if (!rt)
        return -1;
    tn_jw_array(&t.w);
    progress_begin("collecting what nobody owns");
    int count = tn_runtime_gc(rt, tell, &t, tn_deadline_in(GC_SECONDS), err);
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
    .details = "Every start of tendon does the quick part of it. This also asks each backend for\n"
               "things that carry our marks and that nobody knows. What belongs to a living\n"
               "process or to somebody else is never touched.",
    .options = &options_table,
    .run = run,
};
