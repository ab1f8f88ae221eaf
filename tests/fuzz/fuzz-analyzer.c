/* What those say who are asked about an action: servers of the analyzers llm, invariant and
 * grayswan, and programs.  The first byte chooses the analyzer; then each line is an answer, of a
 * server also "!STATUS".  Nothing that they say makes an action harmless but the answer that means
 * it, and what they say stays within its bounds.
 *
 * The ways to servers and programs are ours here, so that no byte leaves the process. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mcp/program.h"
#include "security/endpoint.h"
#include "security/program.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* --- those who answer ------------------------------------------------------------------------ */

struct security_endpoint {
    int unused;
};
struct tn_rpc_pool {
    int unused;
};

static const char *answers; /* the lines that are left */
static struct tn_json *last;

static int next_answer(int *status, struct tn_json **answer, struct tn_error *err)
{
    size_t n = strcspn(answers, "\n");
    const char *line = answers;

    answers += n + (answers[n] == '\n');
    *status = 200;
    tn_json_free(last);
    last = NULL;
    if (line[0] == '!') {
        *status = (int)strtol(line + 1, NULL, 10);
        return tn_fail(err, TN_E_PEER, "a refusal");
    }
    if (tn_json_parse(line, n, answer, err) < 0)
        return -1;
    tn_json_parse(line, n, &last, NULL);
    return 0;
}

struct security_endpoint *security_endpoint_new(const char *address, const char *key,
                                                struct tn_error *err)
{
    (void)address, (void)key, (void)err;
    return tn_calloc(1, sizeof(struct security_endpoint));
}

void security_endpoint_free(struct security_endpoint *e)
{
    free(e);
}

int security_endpoint_header(struct security_endpoint *e, const char *name, const char *value,
                             struct tn_error *err)
{
    (void)e, (void)name, (void)value, (void)err;
    return 0;
}

int security_ask(struct security_endpoint *e, const struct security_request *request, int *status,
                 struct tn_json **answer, struct tn_error *err)
{
    (void)e;
    assert(request->target && !strpbrk(request->target, " \t\r\n"));
    if (request->method) { /* a farewell */
        *status = 200;
        return tn_fail(err, TN_E_PEER, "nobody listens");
    }
    return next_answer(status, answer, err);
}

struct tn_rpc_pool *tn_rpc_pool_new(const struct tn_rpc_pool_options *options)
{
    (void)options;
    return tn_calloc(1, sizeof(struct tn_rpc_pool));
}

void tn_rpc_pool_free(struct tn_rpc_pool *pool)
{
    free(pool);
}

int tn_rpc_pool_call(struct tn_rpc_pool *pool, const char *method, const struct tn_buf *params,
                     tn_rpc_progress_fn progress, void *ctx, int64_t deadline,
                     struct tn_json **result, struct tn_error *err)
{
    int status;

    (void)pool, (void)method, (void)params, (void)progress, (void)ctx, (void)deadline;
    return next_answer(&status, result, err);
}

/* --- what must hold -------------------------------------------------------------------------- */

static bool says(const char *word, const struct tn_json *v)
{
    const char *text = tn_json_str(v, NULL);

    return text && strcasecmp(text, word) == 0;
}

static void check_low_llm(const struct tn_json *answer)
{
    const struct tn_json *choice = tn_json_at(tn_json_get(answer, "choices"), 0);
    size_t n = 0;
    const char *content = tn_json_str(tn_json_get(tn_json_get(choice, "message"), "content"), &n);
    tn_autojson struct tn_json *opinion = NULL;

    assert(content && tn_json_parse(content, n, &opinion, NULL) == 0);
    assert(says("low", tn_json_get(opinion, "risk")));
}

static void check_low_list(const struct tn_json *list)
{
    assert(tn_json_type(list) == TN_JSON_ARRAY && tn_json_count(list) == 0);
}

static void check_low_score(const struct tn_json *answer)
{
    const struct tn_json *data = tn_json_get(tn_json_get(answer, "output"), "data");

    assert(tn_json_get(data, "violation") || tn_json_get(answer, "violation"));
}

static void check_low_program(const struct tn_json *answer)
{
    check_low_list(tn_json_get(answer, "findings"));
}

static void check_findings(const struct tn_verdict *v)
{
    assert(v->count <= TN_FINDINGS_MAX);
    for (size_t i = 0; i < v->count; i++) {
        const struct tn_finding *f = &v->findings[i];
        assert(strlen(f->rule) <= TN_FINDING_TEXT_MAX && strlen(f->part) <= TN_FINDING_TEXT_MAX &&
               strlen(f->text) <= TN_FINDING_TEXT_MAX);
    }
}

static void *open_program(const struct tn_security_settings *s, const struct tn_analyzer **table)
{
    return security_program_new(s, "x", "/nowhere", table);
}

static const struct kind {
    const struct tn_analyzer *table; /* NULL: a program */
    void (*check_low)(const struct tn_json *answer);
} kinds[] = {
    {&tn_analyzer_llm, check_low_llm},
    {&tn_analyzer_invariant, check_low_list},
    {&tn_analyzer_grayswan, check_low_score},
    {NULL, check_low_program},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char address[] = "http://localhost", model[] = "m";
    const struct tn_security_settings s = {
        .analyzer_seconds = 1,
        .llm = {.endpoint = address, .model = model, .seconds = 1},
        .invariant = {.endpoint = address, .seconds = 1},
        .grayswan = {.endpoint = address, .policy_id = model, .seconds = 1},
    };
    tn_autoaction struct tn_action a = {.type = TN_ACTION_NULL};
    const struct tn_case c = {.action = &a};

    if (size < 1)
        return 0;
    setenv("GRAYSWAN_API_KEY", "k", 1);
    tn_autofree char *text = tn_strndup((const char *)data + 1, size - 1);
    const struct kind *kind = &kinds[data[0] % TN_COUNT(kinds)];
    const struct tn_analyzer *table = kind->table;
    void *self = table ? table->open(&s, NULL) : open_program(&s, &table);
    assert(self);
    tn_action_init_run(&a, "ls", 0);
    answers = text;
    for (int i = 0; i < 2; i++) { /* the second time with what it has learned */
        tn_autoverdict struct tn_verdict v = {0};
        int result = table->judge(self, &c, TN_NEVER, &v, NULL);
        check_findings(&v);
        if (result == 0 && v.count == 0)
            kind->check_low(last);
    }
    table->close(self);
    tn_json_free(last);
    last = NULL;
    return 0;
}
