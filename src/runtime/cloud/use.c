/* Using a sandbox by its vendor's own ways, without its hand; time-outs; what doctors ask. */
#include <math.h>

#include "base/again.h"
#include "runtime/cloud/cloud.h"

#define CALL_SECONDS 30.0
#define CLOCK_SECONDS 60.0 /* clocks that are further apart make signatures and time-outs wrong */
enum { LOG_PIECE = 4 << 20, FOLLOW_MS = 500, OUTPUT_MAX = 4096 };

/* --- files and programs ----------------------------------------------------------------------- */

static int run(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
               const char *const *argv, const char *cwd, struct tn_buf *out, int *status,
               int64_t deadline, struct tn_error *err)
{
    const struct cloud_run r = {
        .argv = argv, .cwd = cwd, .user = s->spec->user, .out = tn_buf_sink, .ctx = out};

    int failed = c->vendor->run(c, v, &r, status, deadline, err);
    return tn_output_fits(out, err) < 0 ? -1 : failed;
}

int cloud_exec(void *engine, const struct tn_subject *s, const char *const *argv,
               struct tn_buf *out, int *status, int64_t deadline, struct tn_error *err)
{
    const struct cloud *c = engine;
    autocloudview struct cloud_view view = {0};

    if (cloud_must_run(c, s, &view, deadline, err) < 0)
        return -1;
    return run(c, s, &view, argv, cloud_workspace(c, s), out, status, deadline, err);
}

int cloud_put(void *engine, const struct tn_subject *s, const char *path, const void *bytes,
              size_t n, mode_t mode, int64_t deadline, struct tn_error *err)
{
    const struct cloud *c = engine;
    autocloudview struct cloud_view view = {0};
    tn_autobuf struct tn_buf words = TN_BUF_INIT(OUTPUT_MAX);
    tn_autofree char *digits = tn_asprintf("%o", (unsigned)mode & 07777);
    const char *const argv[] = {"chmod", digits, path, NULL};
    int status = 0;

    if (cloud_must_run(c, s, &view, deadline, err) < 0 ||
        c->vendor->put(c, &view, s->spec->user, path, bytes, n, deadline, err) < 0 ||
        run(c, s, &view, argv, NULL, &words, &status, deadline, err) < 0)
        return -1;
    tn_autofree char *text = cloud_sentence(tn_buf_str(&words));
    return status ? tn_fail(err, TN_E_PEER, "%s: %s", path, text) : 0;
}

/* --- logs ------------------------------------------------------------------------------------- */

/* What the hand has written, from the byte of that number on.  Nothing is left running inside by
 * somebody who follows and is gone. */
static int read_log(const struct cloud *c, const struct tn_subject *s, struct cloud_view *v,
                    int64_t *at, tn_log_fn fn, void *ctx, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf bytes = TN_BUF_INIT(LOG_PIECE + 1);
    tn_autofree char *from = tn_asprintf("%lld", (long long)*at + 1);
    tn_autofree char *most = tn_asprintf("%d", LOG_PIECE);
    const char *const argv[] = {
        "sh", "-c", "tail -c +\"$1\" \"${HOME:-/tmp}/.tendon/log\" | head -c \"$2\"", "sh", from,
        most, NULL};
    int status;

    if (run(c, s, v, argv, NULL, &bytes, &status, deadline, err) < 0)
        return -1;
    *at += (int64_t)bytes.len;
    return bytes.len ? fn(bytes.data, bytes.len, ctx) : 0;
}

int cloud_logs(void *engine, const struct tn_subject *s, bool follow, tn_log_fn fn, void *ctx,
               int64_t deadline, struct tn_error *err)
{
    const struct cloud *c = engine;
    autocloudview struct cloud_view view = {0};
    int64_t at = 0;
    int stop = cloud_must_run(c, s, &view, deadline, err);

    if (stop == 0)
        stop = read_log(c, s, &view, &at, fn, ctx, deadline, err);
    while (stop == 0 && follow && tn_look_again_in(FOLLOW_MS, deadline))
        stop = read_log(c, s, &view, &at, fn, ctx, deadline, err);
    return stop < 0 ? -1 : 0;
}

int cloud_usage(void *engine, const struct tn_subject *s, struct tn_usage *out,
                struct tn_error *err)
{
    const struct cloud *c = engine;
    autocloudview struct cloud_view view = {0};
    int64_t deadline = tn_deadline_in(CALL_SECONDS);

    *out = TN_USAGE_UNKNOWN;
    if (cloud_must_run(c, s, &view, deadline, err) < 0)
        return -1;
    return c->vendor->usage(c, view.id, out, deadline, err);
}

char *cloud_url(void *engine, const struct tn_subject *s, int port, struct tn_error *err)
{
    const struct cloud *c = engine;
    autocloudview struct cloud_view view = {0};
    int64_t deadline = tn_deadline_in(CALL_SECONDS);

    if (!c->open_ports) {
        tn_fail(err, TN_E_UNSUPPORTED,
                "ports of this sandbox want a token, which browsers do not send: set "
                "%s.public_ports before it is made, or use: tendon port",
                c->vendor->name);
        return NULL;
    }
    if (cloud_must_run(c, s, &view, deadline, err) < 0)
        return NULL;
    return c->vendor->port(c, &view, port, deadline, err);
}

/* --- time-outs -------------------------------------------------------------------------------- */

void cloud_attend(void *engine, const struct tn_subject *s, bool used)
{
    const struct cloud *c = engine;
    tn_autojson struct tn_json *ref = NULL;

    if (s->ref)
        tn_json_parse(s->ref, strlen(s->ref), &ref, NULL);
    const char *id = tn_json_get_str(ref, "id", NULL);
    if (used && id && strlen(id) <= CLOUD_ID_MAX)
        cloud_keep_add(c->keep, s->id, id, true);
    else if (!cloud_is_own(s)) /* its owner keeps what is its own, in use or not */
        cloud_keep_drop(c->keep, s->id, false);
}

/* --- doctor ----------------------------------------------------------------------------------- */

/* "Tue, 17 Nov 2026 17:05:00 GMT" */
static bool read_date(const char *text, time_t *out)
{
    struct tm t = {0};
    const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S", &t);

    *out = end ? timegm(&t) : 0;
    return end;
}

static void tell_clock(const struct tn_web_answer *answer, tn_symptom_fn fn, void *ctx)
{
    tn_autofree char *date = tn_web_answer_header(answer, "date");
    time_t there;

    if (!date || !read_date(date, &there))
        return;
    double apart = difftime(time(NULL), there);
    tn_autofree char *detail =
        tn_asprintf("%.0f seconds apart from the vendor's%s", fabs(apart),
                    fabs(apart) > CLOCK_SECONDS ? ": set this machine's clock (NTP)" : "");
    fn(&(struct tn_symptom){.what = "clock",
                            .good = fabs(apart) <= CLOCK_SECONDS,
                            .detail = detail},
       ctx);
}

/* What is left of a limit, where the answer tells. */
static void tell_quota(const struct tn_web_answer *answer, tn_symptom_fn fn, void *ctx)
{
    static const char *const names[] = {"ratelimit-remaining", "x-ratelimit-remaining",
                                        "x-ratelimit-remaining-requests"};

    for (size_t i = 0; i < TN_COUNT(names); i++) {
        tn_autofree char *left = tn_web_answer_header(answer, names[i]);
        if (!left)
            continue;
        tn_autofree char *text = cloud_sentence(left);
        tn_autofree char *detail = tn_asprintf("%.40s requests left", text);
        fn(&(struct tn_symptom){.what = "quota", .good = strtod(left, NULL) > 0, .detail = detail},
           ctx);
        return;
    }
}

static void examine(const struct cloud *c, tn_symptom_fn fn, void *ctx)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(CLOUD_ANSWER_MAX);
    const struct cloud_call call = {.web = *c->vendor->harmless, .hurried = true};
    struct tn_error why = {0};
    bool good = cloud_ask_raw(&c->line, &call, &answer, tn_deadline_in(CALL_SECONDS), &why) == 0;
    tn_autofree char *detail =
        good ? tn_asprintf("%s accepts the key", c->line.url) : tn_strdup(why.text);

    fn(&(struct tn_symptom){.what = c->line.who, .good = good, .needed = true, .detail = detail},
       ctx);
    if (answer.status) {
        tell_clock(&answer, fn, ctx);
        tell_quota(&answer, fn, ctx);
    }
    if (strncmp(c->line.url, "https:", 6) != 0)
        fn(
            &(struct tn_symptom){
                .what = "encryption",
                .detail =
                    "keys and everything else travel in the clear: fine on this machine only"},
            ctx);
}

int cloud_doctor(const struct cloud_vendor *vendor, const struct tn_host *host, tn_symptom_fn fn,
                 void *ctx)
{
    struct tn_error why = {0};
    void *engine;

    if (cloud_open(vendor, host, &engine, &why) < 0)
        fn(&(struct tn_symptom){.what = vendor->who, .needed = true, .detail = why.text}, ctx);
    else if (((struct cloud *)engine)->unmarked)
        fn(&(struct tn_symptom){.what = vendor->who, .good = true, .detail = "debug: no platform"},
           ctx);
    else
        examine(engine, fn, ctx);
    cloud_close(engine);
    return 0;
}
