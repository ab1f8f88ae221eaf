#include "cli/clean.h"
#include "cli/progress.h"
#include "cli/style.h"
#include "cli/verb.h"
#include "runtime/registry.h"

static const struct tn_fields options_table = {0};

struct visit {
    struct cli *cli;
    struct tn_jw w;
    bool colour;
    bool works; /* nothing that is needed is missing */
};

static const char *const mark_words[] = {"ok", "missing", "needed"};
static const char *const mark_styles[] = {STYLE_GREEN, STYLE_YELLOW, STYLE_RED};

static void tell(const struct tn_symptom *f, void *ctx)
{
    struct visit *v = ctx;
    int mark = f->good ? 0 : f->needed ? 2 : 1;

    progress_pause();
    v->works &= f->good || !f->needed;
    if (v->cli->json) {
        tn_jw_object(&v->w);
        tn_jw_kstr(&v->w, "what", f->what);
        tn_jw_kbool(&v->w, "good", f->good);
        tn_jw_kbool(&v->w, "needed", f->needed);
        tn_jw_kstr(&v->w, "detail", f->detail);
        tn_jw_object_end(&v->w);
        return;
    }
    printf("  %s%-8s%s ", v->colour ? mark_styles[mark] : "", mark_words[mark],
           v->colour ? STYLE_PLAIN : "");
    print_clean(f->what);
    if (f->detail && *f->detail) {
        fputs(": ", stdout);
        print_clean(f->detail);
    }
    putchar('\n');
}

static void put_head(struct visit *v, const struct tn_backend *b)
{
    tn_jw_object(&v->w);
    tn_jw_kstr(&v->w, "runtime", b->name);
    tn_jw_kstr(&v->w, "summary", b->summary);
    tn_jw_key(&v->w, "findings");
    tn_jw_array(&v->w);
    progress_pause();
    if (!v->cli->json)
        printf("%s%s%s: %s\n", v->colour ? STYLE_BOLD : "", b->name, v->colour ? STYLE_PLAIN : "",
               b->summary);
}

static void visit(struct visit *v, const struct tn_backend *b, const struct tn_host *host)
{
    struct tn_error err = {0};

    v->works = true;
    put_head(v, b);
    if (b->doctor && b->doctor(host, tell, v, &err) < 0)
        tell(&(struct tn_symptom){.what = "examination", .needed = true, .detail = err.text}, v);
    void *engine = NULL;
    err = (struct tn_error){0};
    if (v->works && b->open(host, &engine, &err) < 0)
        tell(&(struct tn_symptom){.what = "start", .needed = true, .detail = err.text}, v);
    else if (engine)
        b->close(engine);
    tn_jw_array_end(&v->w);
    tn_jw_kbool(&v->w, "works", v->works);
    tn_jw_object_end(&v->w);
    progress_pause();
    if (!v->cli->json)
        putchar('\n');
}

struct round {
    struct visit *visit;
    const struct tn_host *host;
    const struct tn_backend *usual; /* comes last */
};

/* Also those that are programs of somebody. */
static void visit_named(const char *name, const char *summary, void *ctx)
{
    const struct round *r = ctx;
    const struct tn_backend *b = tn_backend_find(r->host->config, name, NULL);

    if (b && b != r->usual)
        visit(r->visit, b, r->host);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(4 << 20);
    struct visit v = {.cli = cli, .w = tn_jw(&json), .colour = style_wanted(stdout)};
    struct tn_runtime *rt = cli_runtime(cli, err);

    if (!rt)
        return -1;
    struct tn_host host = *tn_runtime_host(rt);
    const struct tn_backend *usual = tn_backend_find(host.config, host.config->tendon.runtime, err);
    if (!usual)
        return -1;
    host.trial = cli->globals.runtime;
    tn_jw_array(&v.w);
    if (!cli->globals.runtime)
        tn_backend_each(host.config, visit_named,
                        &(struct round){.visit = &v, .host = &host, .usual = usual});
    visit(&v, usual, &host);
    tn_jw_array_end(&v.w);
    if (cli->json && cli_print(&json, err) < 0)
        return -1;
    progress_end();
    if (!cli->json)
        printf("sandboxes are made with %s unless --runtime says otherwise\n", usual->name);
    return v.works ? 0 : 1;
}

const struct verb verb_doctor = {
    .name = "doctor",
    .group = VERB_SYSTEM,
    .summary = "tell what this machine can do, what is missing and how to get it",
    .details =
        "Examines every backend; with --runtime one of them, more closely: kubernetes makes\n"
        "a pod of the hand's image and removes it. What is `needed` must be there; without\n"
        "what is `missing` the backend works less well. Exits with 1 when the backend that\n"
        "sandboxes are made with does not work.",
    .options = &options_table,
    .doing = "examining what sandboxes need",
    .run = run,
};
