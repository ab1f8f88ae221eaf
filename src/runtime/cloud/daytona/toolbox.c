/* The toolbox, the agent inside: files and programs. */
#include <ctype.h>
#include <strings.h>

#include "base/base64.h"
#include "base/clock.h"
#include "runtime/cloud/daytona/daytona.h"
#include "runtime/hand-address.h"

/* --- where it is ------------------------------------------------------------------------------ */

static bool is_secure(const char *url)
{
    return strncmp(url, "https:", 6) == 0;
}

/* The domain that a host is of: what follows its first label, if that is a domain itself. */
static const char *domain_of(const char *host)
{
    const char *dot = strchr(host, '.');

    return dot && strchr(dot + 1, '.') ? dot + 1 : host;
}

bool daytona_is_near(const char *api, const char *url)
{
    tn_autohandplace struct tn_hand_place a, b;

    if (!tn_hand_is_url(url) || tn_hand_place(api, &a, NULL) < 0 ||
        tn_hand_place(url, &b, NULL) < 0 || (is_secure(api) && !is_secure(url)))
        return false;
    if (strcasecmp(a.host, b.host) == 0)
        return true;
    a.host[strcspn(a.host, ":")] = '\0';
    b.host[strcspn(b.host, ":")] = '\0';
    size_t n = strlen(a.host), m = strlen(b.host);
    if (n == 0 || a.host[0] == '[' || isdigit((unsigned char)a.host[n - 1])) /* an address */
        return false;
    const char *domain = domain_of(a.host);
    n = strlen(domain);
    return m > n + 1 && b.host[m - n - 1] == '.' && strcasecmp(b.host + m - n, domain) == 0;
}

/* Who a request for the toolbox goes to: the proxy for toolboxes, or the API itself, as older
 * platforms have it. */
struct toolbox {
    struct cloud_line line;
    char *base; /* before every target */
};

static void toolbox_done(struct toolbox *t)
{
    free(t->base);
}
#define autotoolbox TN_CLEANUP(toolbox_done)

static int reach(const struct cloud *c, struct cloud_view *v, struct toolbox *t,
                 struct tn_error *err)
{
    const struct daytona *d = daytona_of(c);
    const char *url = d->toolbox_url                                               ? d->toolbox_url
                      : v->agent_url && daytona_is_near(c->line.url, v->agent_url) ? v->agent_url
                                                                                   : NULL;

    *t = (struct toolbox){.line = c->line};
    t->line.who = "Daytona's toolbox";
    t->line.seconds = 0;
    t->base = url ? cloud_target("/", v->id, "") : cloud_target("/toolbox/", v->id, "/toolbox");
    if (url && !v->agent)
        v->agent = daytona_web(c, url, err);
    if (url)
        t->line.web = v->agent;
    return t->line.web ? 0 : -1;
}

/* --- files ------------------------------------------------------------------------------------ */

/* As the sandbox's own user: there is no other here. */
int daytona_put_file(const struct cloud *c, struct cloud_view *v, const char *user,
                     const char *path, const void *bytes, size_t n, int64_t deadline,
                     struct tn_error *err)
{
    autotoolbox struct toolbox t = {0};

    if (reach(c, v, &t, err) < 0)
        return -1;
    tn_autofree char *before = tn_asprintf("%s/files/upload?path=", t.base);
    tn_autofree char *target = cloud_target(before, path, "");
    return cloud_upload(&t.line, target, NULL, NULL, bytes, n, deadline, err);
}

/* --- programs --------------------------------------------------------------------------------- */

/* A line that is the same to a shell and to toolboxes that only split words at quotes. */
static int write_command(const char *const *argv, struct tn_buf *out)
{
    tn_autobuf struct tn_buf words = TN_BUF_INIT(CLOUD_BODY_MAX);

    for (const char *const *word = argv; *word; word++) {
        tn_buf_puts(&words, word == argv ? "'" : " '");
        for (const char *p = *word; *p; p++)
            if (*p == '\'')
                tn_buf_puts(&words, "'\\''");
            else
                tn_buf_add(&words, p, 1);
        tn_buf_puts(&words, "'");
    }
    tn_buf_puts(out, "sh -c 'eval \"$(echo ");
    tn_base64_encode(out, tn_buf_str(&words), words.len);
    tn_buf_puts(out, " | base64 -d)\"'");
    return tn_buf_ok(&words) && tn_buf_ok(out) ? 0 : -1;
}

static int write_run(const struct cloud_run *run, int64_t deadline, struct tn_buf *out,
                     struct tn_error *err)
{
    tn_autobuf struct tn_buf command = TN_BUF_INIT(CLOUD_BODY_MAX);
    struct tn_jw w = tn_jw(out);
    int left = tn_poll_ms(deadline);

    if (write_command(run->argv, &command) < 0)
        return tn_fail(err, TN_E_TOO_LARGE, "the command is too long");
    tn_jw_object(&w);
    tn_jw_kstr(&w, "command", tn_buf_str(&command));
    if (run->cwd)
        tn_jw_kstr(&w, "cwd", run->cwd);
    if (tn_json_count(run->env)) {
        tn_jw_key(&w, "envs");
        tn_jw_tree(&w, run->env);
    }
    if (left >= 0) /* the toolbox ends it then, whether we are still here or not */
        tn_jw_kint(&w, "timeout", left / 1000 + 1);
    tn_jw_object_end(&w);
    return tn_buf_ok(out) ? 0 : tn_fail(err, TN_E_TOO_LARGE, "the command is too long");
}

int daytona_read_run(const struct tn_json *tree, const struct cloud_run *run, int *status,
                     struct tn_error *err)
{
    int64_t code = tn_json_int(tn_json_get(tree, "exitCode"), INT64_MIN);
    size_t n = 0;
    const char *text = tn_json_str(tn_json_get(tree, "result"), &n);

    if (code == INT64_MIN || !text)
        return tn_fail(err, TN_E_PEER, "Daytona's toolbox does not say what became of the command");
    if (n && run->out(text, n, run->ctx))
        return tn_fail(err, TN_E_TOO_LARGE, "its output was more than was wanted");
    *status = code >= 0 && code <= 255 ? (int)code : 255;
    return 0;
}

int daytona_run_program(const struct cloud *c, struct cloud_view *v, const struct cloud_run *run,
                        int *status, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf body = TN_BUF_INIT(CLOUD_BODY_MAX);
    tn_autojson struct tn_json *tree = NULL;
    autotoolbox struct toolbox t = {0};

    if (reach(c, v, &t, err) < 0 || write_run(run, deadline, &body, err) < 0)
        return -1;
    tn_autofree char *target = tn_asprintf("%s/process/execute", t.base);
    const struct cloud_call call = {.web = {.method = "POST",
                                            .target = target,
                                            .type = "application/json",
                                            .body = tn_buf_str(&body),
                                            .body_len = body.len},
                                    .unsafe = true};
    if (cloud_ask(&t.line, &call, &tree, deadline, err) < 0)
        return -1;
    return daytona_read_run(tree, run, status, err);
}
