/* What a file action answers: a text for the observation, or the text of an error observation. */
#ifndef TN_HAND_FILE_ANSWER_H
#define TN_HAND_FILE_ANSWER_H

#include <stdbool.h>

#include "base/buf.h"

struct tn_file_answer {
    bool failed;
    char *path; /* the resolved one, or NULL when it could not be resolved */
    struct tn_buf text;
};

#define TN_FILE_ANSWER_INIT(maximum) \
    {                                \
        .text = TN_BUF_INIT(maximum) \
    }
#define tn_autofileanswer TN_CLEANUP(tn_file_answer_done)

static inline void tn_file_answer_done(struct tn_file_answer *a)
{
    free(a->path);
    tn_buf_done(&a->text);
}

/* Makes it an error. */
void tn_file_answer_fail(struct tn_file_answer *a, const char *fmt, ...) TN_PRINTF(2, 3);

#endif
