#include "base/words.h"

const char *tn_word_next(const char *at, struct tn_buf *word, struct tn_error *err)
{
    char quote = '\0';

    for (; *at && (quote || !strchr(TN_WORD_SPACE, *at)); at++) {
        if (*at == '\\' && quote != '\'') {
            bool special = !quote || at[1] == '"' || at[1] == '\\' || at[1] == '$' || at[1] == '`';
            if (!at[1]) {
                tn_fail(err, TN_E_INVALID, "nothing follows the last backslash");
                return NULL;
            }
            if (!special)
                tn_buf_putc(word, *at);
            tn_buf_putc(word, *++at);
        } else if (quote ? *at == quote : *at == '\'' || *at == '"') {
            quote = quote ? '\0' : *at;
        } else {
            tn_buf_putc(word, *at);
        }
    }
    if (quote) {
        tn_fail(err, TN_E_INVALID, "a quotation is not closed");
        return NULL;
    }
    return at;
}
