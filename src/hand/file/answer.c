#include "hand/file/answer.h"

void tn_file_answer_fail(struct tn_file_answer *a, const char *fmt, ...)
{
    va_list ap;

    a->failed = true;
    tn_buf_reset(&a->text);
    va_start(ap, fmt);
    tn_buf_vprintf(&a->text, fmt, ap);
    va_end(ap);
}
