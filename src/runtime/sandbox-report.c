#include "runtime/sandbox-report.h"

#define BETWEEN "; "
#define END "]"

/* --- sentences ----------------------------------------------------------------------------- */

/* The length of the first sentence; *rest is what follows it, or NULL. */
static size_t first_sentence(const char *report, const char **rest)
{
    const char *end = strstr(report, BETWEEN);

    *rest = end ? end + strlen(BETWEEN) : NULL;
    return end ? (size_t)(end - report) : strlen(report);
}

static bool has_sentence(const char *report, const char *sentence, size_t n)
{
    for (const char *rest; report; report = rest)
        if (first_sentence(report, &rest) == n && memcmp(report, sentence, n) == 0)
            return true;
    return false;
}

static char *pick(const char *report, const char *other, bool shared)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(report ? strlen(report) + 1 : 1);

    for (const char *rest; report; report = rest) {
        size_t n = first_sentence(report, &rest);
        if (n == 0 || has_sentence(other, report, n) != shared)
            continue;
        if (out.len)
            tn_buf_puts(&out, BETWEEN);
        tn_buf_add(&out, report, n);
    }
    return out.len ? tn_buf_take(&out) : NULL;
}

char *tn_report_without(const char *report, const char *other)
{
    return pick(report, other, false);
}

char *tn_report_shared(const char *report, const char *other)
{
    return pick(report, other, true);
}

/* --- in an observation --------------------------------------------------------------------- */

bool tn_report_is_due(const struct tn_observation *o)
{
    return o->type == TN_OBSERVATION_ERROR ||
           (o->type == TN_OBSERVATION_RUN && o->run.metadata.exit_code != 0);
}

/* Where it is told; borrowed. */
static struct tn_text place_of(const struct tn_observation *o)
{
    char *suffix = o->type == TN_OBSERVATION_RUN ? o->run.metadata.suffix : NULL;

    if (o->type == TN_OBSERVATION_RUN)
        return (struct tn_text){.data = suffix, .len = suffix ? strlen(suffix) : 0};
    return o->type == TN_OBSERVATION_ERROR ? o->content : (struct tn_text){0};
}

char *tn_report_of(const struct tn_observation *o)
{
    static const size_t begin = sizeof TN_REPORT_BEGIN - 1;
    struct tn_text in = place_of(o);

    if (in.len <= begin || in.data[in.len - 1] != *END)
        return NULL;
    for (size_t at = in.len - begin; at-- > 0;)
        if (memcmp(in.data + at, TN_REPORT_BEGIN, begin) == 0)
            return tn_strndup(in.data + at + begin, in.len - at - begin - strlen(END));
    return NULL;
}

bool tn_report_add(struct tn_observation *o, const char *report)
{
    struct tn_text before = place_of(o);
    tn_autofree char *told = tn_report_of(o);
    tn_autofree char *news = tn_report_without(report, told);

    if (!news || !tn_report_is_due(o))
        return false;
    tn_autobuf struct tn_buf text =
        TN_BUF_INIT(before.len + strlen(news) + sizeof TN_REPORT_BEGIN END);
    tn_buf_add(&text, before.data, before.len);
    tn_buf_puts(&text, TN_REPORT_BEGIN);
    tn_buf_puts(&text, news);
    tn_buf_puts(&text, END);
    if (!tn_buf_ok(&text))
        return false;
    if (o->type == TN_OBSERVATION_RUN) {
        free(o->run.metadata.suffix);
        o->run.metadata.suffix = tn_buf_take(&text);
    } else {
        tn_observation_take_content(o, &text);
    }
    return true;
}
