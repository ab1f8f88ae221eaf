/* Sending again what was refused or failed. */
#include <strings.h>

#include "base/again.h"
#include "web/web.h"

enum { TRIES = 8 }; /* some eight seconds: what is being restarted is back after that */
#define REFUSED_SECONDS \
    30 /* refusals of one call are waited for so long, or as the first one says */
#define LEAST_SECONDS 1.0
#define MOST_SECONDS 3600.0

double tn_web_retry_after(const struct tn_web_answer *answer)
{
    tn_autofree char *text = tn_web_answer_header(answer, "retry-after");
    char *end = text;
    double seconds = text ? strtod(text, &end) : 0;

    if (end == text || !(seconds >= 0)) /* a date, or nonsense */
        return 0;
    return seconds > LEAST_SECONDS ? seconds : LEAST_SECONDS;
}

static bool is_final(const struct tn_web_answer *answer)
{
    tn_autofree char *text = tn_web_answer_header(answer, "x-should-retry");

    return text && strcasecmp(text, "false") == 0;
}

/* Whether a refusal that asks for so many seconds is waited for once more. */
static bool has_patience(struct tn_web_again *a, double asked)
{
    double waited = (double)a->refused / 1e9;

    if (asked > 0 && a->patience <= 0)
        a->patience = asked > REFUSED_SECONDS ? asked : REFUSED_SECONDS;
    return waited + asked <= (a->patience > 0 ? a->patience : REFUSED_SECONDS);
}

int tn_web_again(struct tn_web_again *a, const struct tn_web_answer *answer, int cancel,
                 int64_t deadline, struct tn_error *why)
{
    double asked = answer ? tn_web_retry_after(answer) : 0;
    bool refused = answer && answer->status == 429;
    struct tn_error over = {0};

    a->tries++;
    if ((answer && is_final(answer)) || (asked <= 0 && a->tries >= TRIES) || asked > MOST_SECONDS ||
        (refused && !has_patience(a, asked)))
        return -1;
    int64_t begun = tn_now();
    int failed = tn_back_off(&a->ms, asked, cancel, deadline, &over);
    if (refused)
        a->refused += tn_now() - begun;
    if (failed && over.code == TN_E_GONE)
        *why = over;
    return failed;
}
