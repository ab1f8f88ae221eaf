#include "security/verdict.h"

#include <strings.h>

#include "base/utf8.h"

static const struct {
    const char *word;
    int rank; /* of two that lead to the same decision */
} risks[] = {
    [TN_RISK_UNKNOWN + 1] = {"unknown", 1},
    [TN_RISK_LOW + 1] = {"low", 0},
    [TN_RISK_MEDIUM + 1] = {"medium", 2},
    [TN_RISK_HIGH + 1] = {"high", 3},
};

const char *const tn_decision_words[] = {
    [TN_ALLOW] = "allow",
    [TN_ASK] = "ask",
    [TN_BLOCK] = "block",
    [TN_BLOCK + 1] = NULL,
};

bool tn_risk_exceeds(enum tn_risk a, enum tn_risk b)
{
    return risks[a + 1].rank > risks[b + 1].rank;
}

const char *tn_risk_word(enum tn_risk risk)
{
    return risks[risk + 1].word;
}

bool tn_risk_from_word(const char *word, size_t n, enum tn_risk *risk)
{
    *risk = TN_RISK_UNKNOWN;
    for (size_t i = 0; i < TN_COUNT(risks); i++)
        if (strlen(risks[i].word) == n && strncasecmp(risks[i].word, word, n) == 0) {
            *risk = (enum tn_risk)((int)i - 1);
            return true;
        }
    return false;
}

/* --- findings --------------------------------------------------------------------------------- */

static void finding_done(struct tn_finding *f)
{
    free(f->analyzer);
    free(f->rule);
    free(f->part);
    free(f->text);
}

void tn_verdict_done(struct tn_verdict *v)
{
    for (size_t i = 0; i < v->count; i++)
        finding_done(&v->findings[i]);
    free(v->findings);
    *v = (struct tn_verdict){0};
}

/* Takes what f holds. */
static void put(struct tn_verdict *v, struct tn_finding f)
{
    size_t least = 0;

    if (v->count < TN_FINDINGS_MAX) {
        v->findings = tn_realloc(v->findings, (v->count + 1) * sizeof *v->findings);
        v->findings[v->count++] = f;
        return;
    }
    for (size_t i = 1; i < v->count; i++)
        if (tn_risk_exceeds(v->findings[least].risk, v->findings[i].risk))
            least = i;
    if (!tn_risk_exceeds(f.risk, v->findings[least].risk)) {
        finding_done(&f);
        return;
    }
    finding_done(&v->findings[least]);
    v->findings[least] = f;
}

/* The string, valid and of a bounded length. */
static char *bounded(const char *s)
{
    struct tn_buf out = TN_BUF_INIT(TN_FINDING_TEXT_MAX);
    size_t n = s ? strnlen(s, TN_FINDING_TEXT_MAX + 4) : 0;
    uint32_t cp;

    for (size_t i = 0, len; i < n; i += len ? len : 1) {
        len = tn_utf8_decode(s + i, n - i, &cp);
        if (tn_buf_add(&out, len ? s + i : "?", len ? len : 1))
            break;
    }
    return tn_buf_take(&out);
}

void tn_verdict_add(struct tn_verdict *v, const char *analyzer, const char *rule, const char *part,
                    enum tn_risk risk, const char *text)
{
    put(v, (struct tn_finding){.analyzer = bounded(analyzer),
                               .rule = bounded(rule),
                               .part = bounded(part),
                               .text = bounded(text),
                               .risk = risk});
}

void tn_verdict_move(struct tn_verdict *v, struct tn_verdict *from)
{
    for (size_t i = 0; i < from->count; i++)
        put(v, from->findings[i]);
    free(from->findings);
    *from = (struct tn_verdict){0};
}

static enum tn_risk told_risk(const struct tn_json *told)
{
    const char *word = tn_json_get_str(told, "risk", "");
    enum tn_risk risk;

    tn_risk_from_word(word, strlen(word), &risk);
    return risk;
}

void tn_verdict_add_told(struct tn_verdict *v, const struct tn_json *told, const char *mark)
{
    const struct tn_json *findings = tn_json_get(told, "findings");
    const char *word = tn_json_get_str(told, "decision", "");
    enum tn_decision decision = TN_BLOCK;

    if (tn_json_type(told) != TN_JSON_OBJECT)
        return;
    while (decision > TN_ALLOW && strcmp(word, tn_decision_words[decision]) != 0)
        decision--;
    if (decision == TN_ALLOW && strcmp(word, tn_decision_words[TN_ALLOW]) != 0)
        decision = TN_ASK;
    for (size_t i = 0; i < tn_json_count(findings); i++) {
        const struct tn_json *f = tn_json_at(findings, i);
        tn_autofree char *by = tn_asprintf("%s%s", mark, tn_json_get_str(f, "analyzer", ""));
        tn_verdict_add(v, by, tn_json_get_str(f, "rule", ""), tn_json_get_str(f, "part", ""),
                       told_risk(f), tn_json_get_str(f, "text", ""));
    }
    if (decision > v->decision ||
        (decision == v->decision && tn_risk_exceeds(told_risk(told), v->risk)))
        v->risk = told_risk(told);
    v->decision = decision > v->decision ? decision : v->decision;
}

/* --- how it is told --------------------------------------------------------------------------- */

const struct tn_finding *tn_verdict_reason(const struct tn_verdict *v)
{
    for (size_t i = 0; i < v->count; i++)
        if (v->findings[i].risk == v->risk)
            return &v->findings[i];
    return NULL;
}

void tn_verdict_to_json(const struct tn_verdict *v, struct tn_jw *w)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "risk", tn_risk_word(v->risk));
    tn_jw_kstr(w, "decision", tn_decision_words[v->decision]);
    tn_jw_key(w, "findings");
    tn_jw_array(w);
    for (size_t i = 0; i < v->count; i++) {
        const struct tn_finding *f = &v->findings[i];
        tn_jw_object(w);
        tn_jw_kstr(w, "analyzer", f->analyzer);
        tn_jw_kstr(w, "rule", f->rule);
        tn_jw_kstr(w, "part", f->part);
        tn_jw_kstr(w, "text", f->text);
        tn_jw_kstr(w, "risk", tn_risk_word(f->risk));
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}

void tn_verdict_put_reason(const struct tn_verdict *v, struct tn_buf *out)
{
    const struct tn_finding *f = tn_verdict_reason(v);

    if (!f) {
        tn_buf_printf(out, "every action is to be confirmed");
        return;
    }
    tn_buf_printf(out, "%s", f->analyzer);
    if (*f->rule)
        tn_buf_printf(out, ", rule %s", f->rule);
    tn_buf_printf(out, ": %s (risk %s)", f->text, tn_risk_word(f->risk));
    if (*f->part)
        tn_buf_printf(out, " in %s", f->part);
}
