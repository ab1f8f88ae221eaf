#include "base/clock.h"
#include "cli/browser.h"
#include "cli/clean.h"
#include "cli/forward.h"
#include "cli/progress.h"
#include "cli/verb.h"
#include "runtime/hand-vscode.h"

#define EDITOR_SECONDS 70.0

struct open_options {
    bool print, vscode;
    char *path;
    char *sandbox;
    int64_t port;
};

static const struct tn_field rows[] = {
    TN_BOOL("print", struct open_options, print, .flag = "--print", .letter = 'p',
            .help = "only print the address, start no browser"),
    TN_BOOL("vscode", struct open_options, vscode, .flag = "--vscode",
            .help = "the editor in the sandbox, which is started if need be"),
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
    bool start;  /* a browser */
    bool secret; /* the path holds a token */
    const char *path;
};

static void show(const struct page *p, const char *base)
{
    tn_autofree char *url = tn_asprintf("%s%s%s", base, *p->path == '/' ? "" : "/", p->path);

    progress_end();
    if (p->cli->json) {
        tn_autobuf struct tn_buf json = TN_BUF_INIT(1 << 20);
        struct tn_jw w = tn_jw(&json);
        tn_jw_object(&w);
        tn_jw_kstr(&w, "url", url);
        tn_jw_object_end(&w);
        puts(tn_buf_str(&json));
    } else {
        print_clean(url);
        putchar('\n');
    }
    fflush(stdout);
    if (p->start)
        browser_open(url, p->secret);
}

static void forwarded(const struct forward *f, void *ctx)
{
    tn_autofree char *base = tn_asprintf("http://%s:%d", f->host, f->local);

    show(ctx, base);
}

static void cut_end(char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    if (n >= m && strcmp(text + n - m, end) == 0)
        text[n - m] = '\0';
}

/* Where the backend publishes it, or else (or when only the sandbox itself can reach it) through
 * this program.  What stands in front of a published port may know the path `base` already. */
static int open_port(struct page *page, struct tn_sandbox *sb, int port, bool loopback,
                     const char *base, struct tn_error *err)
{
    struct forward forward = {.host = "127.0.0.1", .inside = port};
    bool far = tn_sandbox_backend(sb)->elsewhere; /* a page of a service wants to know who comes */
    tn_autofree char *seen =
        loopback || far ? NULL : tn_sandbox_look_url(sb, port, NULL, TN_NEVER, NULL);
    bool inner = seen && url_is_of_cluster(seen); /* no browser gets there: nothing is made */
    tn_autofree char *url = loopback || far || inner ? NULL : tn_sandbox_url(sb, port, NULL);

    if (!url) {
        cli_note(page->cli, "forwarding until ctrl-C");
        return forward_all(page->cli, sb, &forward, 1, forwarded, page, err);
    }
    cut_end(url, "/");
    cut_end(url, base);
    show(page, url);
    return 0;
}

static int open_vscode(struct page *page, struct tn_sandbox *sb, const struct tn_hand_address *at,
                       struct tn_error *err)
{
    tn_autovscode struct tn_hand_vscode editor = {0};

    if (tn_hand_vscode_open(at, &editor, tn_deadline_in(EDITOR_SECONDS), err) < 0)
        return -1;
    tn_autofree char *path = tn_asprintf("%s%s", editor.base, editor.page);
    page->path = path;
    page->secret = true;
    return open_port(page, sb, editor.port, editor.loopback, editor.base, err);
}

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct open_options *options = given;
    tn_autosandbox struct tn_sandbox *sb = cli_sandbox(cli, options->sandbox, err);
    struct page page = {.cli = cli, .start = !options->print && !cli->json, .path = options->path};
    struct tn_hand_address at;

    if (!sb)
        return -1;
    const struct tn_int_list *ports = &tn_sandbox_spec(sb)->ports;
    int port = options->port ? (int)options->port : ports->count ? (int)ports->items[0] : 0;
    if (!port && !options->vscode)
        return tn_fail(err, TN_E_INVALID, "which port? %s publishes none", sandbox_label(sb));
    if (tn_sandbox_address(sb, &at.address, &at.key, cli_start_deadline(cli), err) < 0)
        return -1;
    tn_sandbox_use(sb);
    return options->vscode ? open_vscode(&page, sb, &at, err)
                           : open_port(&page, sb, port, false, "", err);
}

const struct verb verb_open = {
    .name = "open",
    .group = VERB_WORK,
    .summary = "open a port of a sandbox, or its editor, in a browser",
    .details = "Prints the address, and starts a browser on a desktop. A port that the backend\n"
               "does not publish is forwarded by this program until ctrl-C.\n"
               "The address of the editor holds its token: who has it has a shell inside.",
    .options = &options_table,
    .options_size = sizeof(struct open_options),
    .doing = "opening",
    .run = run,
};
