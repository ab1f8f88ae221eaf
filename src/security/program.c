#include "security/program.h"

#include "base/clock.h"
#include "base/program-search.h"
#include "mcp/program.h"
#include "security/trace.h"

#define PREFIX "tendon-analyzer-"

/* Variables that are meant for such programs. */
#define PASSED_PREFIX "TENDON_ANALYZER_"

enum { EVENTS = 20, ANSWER_FINDINGS_MAX = 1000 };

struct program {
    struct tn_analyzer table;
    char *name, *about;
    char **env; /* ends with NULL */
    double seconds;
    struct tn_rpc_pool *pool;
};

char *security_program_find(const struct tn_security_settings *s, const char *name)
{
    return tn_program_search(&s->analyzer_path, PREFIX, name);
}

struct listing {
    void (*fn)(const char *name, void *ctx);
    void *ctx;
};

static void list_one(const char *name, const char *path, void *ctx)
{
    const struct listing *l = ctx;

    (void)path;
    l->fn(name, l->ctx);
}

void security_program_each(const struct tn_security_settings *s, void (*fn)(const char *, void *),
                           void *ctx)
{
    tn_program_each(&s->analyzer_path, PREFIX, list_one, &(struct listing){.fn = fn, .ctx = ctx});
}

/* --- its environment -------------------------------------------------------------------------- */

/* Whether a variable is one that every program wants, or was set for analyzers. */
static bool is_passed(const char *variable)
{
    static const char *const usual[] = {"PATH=", "HOME=",   "LANG=",    "LC_ALL=", "LC_CTYPE=",
                                        "TZ=",   "TMPDIR=", "LOGNAME=", "USER=",   PASSED_PREFIX};

    for (size_t i = 0; i < TN_COUNT(usual); i++)
        if (strncmp(variable, usual[i], strlen(usual[i])) == 0)
            return true;
    return false;
}

static char **environment(void)
{
    char **env = tn_calloc(1, sizeof *env);
    size_t n = 0;

    for (char **v = environ; *v; v++) {
        if (!is_passed(*v))
            continue;
        env = tn_realloc(env, (n + 2) * sizeof *env);
        env[n++] = tn_strdup(*v);
        env[n] = NULL;
    }
    return env;
}

/* --- what is said ----------------------------------------------------------------------------- */

/* A fresh program must speak our protocol. */
static int introduce(void *ctx, struct tn_rpc_program *p, int64_t deadline, struct tn_error *err)
{
    tn_autobuf struct tn_buf params = TN_BUF_INIT(64);
    tn_autojson struct tn_json *result = NULL;

    (void)ctx;
    tn_buf_puts(&params, "{\"protocol\":1}");
    if (tn_rpc_program_call(p, "describe", &params, NULL, NULL, deadline, &result, err) < 0)
        return -1;
    if (tn_json_int(tn_json_get(result, "protocol"), 0) != 1)
        return tn_fail(err, TN_E_UNSUPPORTED, "it speaks another protocol than version 1");
    return 0;
}

static void put_history(const struct tn_history *history, struct tn_jw *w)
{
    size_t count = history ? history->count : 0;

    tn_jw_key(w, "history");
    tn_jw_array(w);
    for (size_t i = count > EVENTS ? count - EVENTS : 0; i < count; i++)
        tn_jw_tree(w, history->events[i]);
    tn_jw_array_end(w);
}

static void put_question(const struct tn_case *c, struct tn_buf *out)
{
    struct tn_jw w = tn_jw(out);

    tn_jw_object(&w);
    tn_jw_key(&w, "action");
    tn_action_to_json(c->action, &w);
    tn_jw_kstr(&w, "cwd", c->cwd);
    put_history(c->history, &w);
    tn_jw_object_end(&w);
}

/* A finding that makes no sense spoils the answer: nobody knows what was meant. */
static int read_findings(const struct program *p, const struct tn_json *result,
                         struct tn_verdict *out, struct tn_error *err)
{
    const struct tn_json *findings = tn_json_get(result, "findings");

    if (tn_json_type(findings) != TN_JSON_ARRAY || tn_json_count(findings) > ANSWER_FINDINGS_MAX)
        return tn_fail(err, TN_E_PEER, "%s: its answer has no list of findings", p->name);
    for (size_t i = 0; i < tn_json_count(findings); i++) {
        const struct tn_json *f = tn_json_at(findings, i);
        const char *word = tn_json_get_str(f, "risk", "");
        enum tn_risk risk;
        if (!tn_risk_from_word(word, strlen(word), &risk))
            return tn_fail(err, TN_E_PEER, "%s: a finding names no risk that is known", p->name);
        tn_verdict_add(out, p->name, tn_json_get_str(f, "rule", ""), tn_json_get_str(f, "part", ""),
                       risk, tn_json_get_str(f, "text", ""));
    }
    return 0;
}

static int program_judge(void *self, const struct tn_case *c, int64_t deadline,
                         struct tn_verdict *out, struct tn_error *err)
{
    struct program *p = self;
    tn_autobuf struct tn_buf params = TN_BUF_INIT(16 * SECURITY_SHOWN_MAX);
    tn_autojson struct tn_json *result = NULL;
    int64_t own = tn_deadline_in(p->seconds);

    put_question(c, &params);
    if (tn_rpc_pool_call(p->pool, "judge", &params, NULL, NULL, own < deadline ? own : deadline,
                         &result, err) < 0)
        return -1;
    return read_findings(p, result, out, err);
}

/* --- its life --------------------------------------------------------------------------------- */

static void program_close(void *self)
{
    struct program *p = self;

    tn_rpc_pool_free(p->pool);
    for (size_t i = 0; p->env[i]; i++)
        free(p->env[i]);
    free(p->env);
    free(p->name);
    free(p->about);
    free(p);
}

void *security_program_new(const struct tn_security_settings *s, const char *name, const char *path,
                           const struct tn_analyzer **table)
{
    struct program *p = tn_calloc(1, sizeof *p);

    p->name = tn_strdup(name);
    p->about = tn_asprintf("the program %s", path);
    p->env = environment();
    p->seconds = s->analyzer_seconds;
    p->pool = tn_rpc_pool_new(&(struct tn_rpc_pool_options){
        .path = path, .env = (const char *const *)p->env, .introduce = introduce});
    p->table = (struct tn_analyzer){
        .name = p->name,
        .about = p->about,
        .slow = tn_analyzer_is_slow,
        .history = EVENTS,
        .close = program_close,
        .judge = program_judge,
    };
    *table = &p->table;
    return p;
}
