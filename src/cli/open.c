#include "base/child.h"
#include "cli/forward.h"
#include "cli/verb.h"

struct open_options {
    bool print;
    char *path;
    char *sandbox;
    int64_t port;
};

static const struct tn_field rows[] = {
    TN_BOOL("print", struct open_options, print, .flag = "--print", .letter = 'p',
            .help = "only print the address, start no browser"),
    TN_STRING("path", struct open_options, path, .flag = "--path", .value = "PATH", .fallback = "/",
              .help = "path of the page"),
    TN_STRING("sandbox", struct open_options, sandbox,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = VALUE_SANDBOX,
              .help = "id, start of the id, or name"),
    TN_INT("port", struct open_options, port, .flags = TN_FIELD_POSITIONAL, .value = "PORT",
           .min = 0, .max = 65535, .help = "port inside on which it serves [the first published]"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

struct page {
    struct cli *cli;
    const struct open_options *options;
};

/* On a desktop; elsewhere the printed address has to do. */
static void start_browser(const char *url)
{
    const char *const argv[] = {"xdg-open", url, NULL};
    tn_autochild struct tn_child *child = NULL;

    if (!getenv("DISPLAY") && !getenv("WAYLAND_DISPLAY"))
        return;
    child = tn_child_start(&(struct tn_child_spec){.argv = argv, .session = true}, NULL);
    if (child)
        tn_child_wait(child, tn_deadline_in(5), NULL, NULL);
}

static void show(const struct page *p, const char *base)
{
    const char *path = p->options->path;
    tn_autofree char *url = tn_asprintf("%s%s%s", base, *path == '/' ? "" : "/", path);

    printf(p->cli->json ? "{\"url\":\"%s\"}\n" : "%s\n", url);
    fflush(stdout);
    if (!p->options->print && !p->cli->json)
        start_browser(url);
}

static void forwarded(const struct forward *f, void *ctx)
{
    tn_autofree char *base = tn_asprintf("http://%s:%d", f->host, f->local);

    show(ctx, base);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct open_options *options = given;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    struct page page = {.cli = cli, .options = options};
    struct forward forward = {.host = "127.0.0.1"};
    const char *address, *key;

    if (!sb)
        return -1;
    const struct tn_int_list *ports = &tn_sandbox_spec(sb)->ports;
    forward.inside = options->port ? (int)options->port : ports->count ? (int)ports->items[0] : 0;
    if (!forward.inside)
        return tn_fail(err, TN_E_INVALID, "which port? %s publishes none", sandbox_label(sb));
    if (tn_sandbox_address(sb, &address, &key, cli_start_deadline(cli), err) < 0)
        return -1;
    tn_autofree char *url = tn_sandbox_url(sb, forward.inside, NULL);
    if (url) {
        size_t n = strlen(url);
        if (n && url[n - 1] == '/')
            url[n - 1] = '\0';
        show(&page, url);
        return 0;
    }
    cli_note(cli, "forwarding until ctrl-C");
    return forward_all(cli, sb, &forward, 1, forwarded, &page, err);
}

const struct verb verb_open = {
    .name = "open",
    .group = VERB_WORK,
    .summary = "open a port of a sandbox in a browser",
    .details = "Prints the address, and starts a browser on a desktop. A port that the backend\n"
               "does not publish is forwarded by this program until ctrl-C.",
    .options = &options_table,
    .options_size = sizeof(struct open_options),
    .run = run,
};
