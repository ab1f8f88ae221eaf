/* The person at the terminal, for servers that want a login or ask something. */
#ifndef TN_CLI_PERSON_H
#define TN_CLI_PERSON_H

#include "cli/cli.h"
#include "runtime/toolbox.h"

struct person {
    const struct cli *cli;
    bool paste;    /* the address that a login ended with is read, not received */
    bool defaults; /* questions are accepted as they are */
    const struct tn_str_list *answers; /* NAME=VALUE, for questions */
};

/* tn_toolbox_visit_fn and tn_toolbox_question_fn; ctx is a struct person. */
int person_visit(const char *url, char **ended, int stop, int64_t deadline, void *ctx,
                 struct tn_error *err);
int person_question(const char *server, const struct tn_json *params, int stop,
                    struct tn_jw *answer, void *ctx, struct tn_error *err);
/* Whether questions can be answered at all: by flags, or at a terminal. */
bool person_answers(const struct person *p);

#endif
