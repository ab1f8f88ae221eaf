#include "base/error-hide.h"

#include <pthread.h>

#include "base/buf.h"

static _Atomic(void (*)(const char *, const char *)) hidden_to;

void tn_error_hidden_to(void (*listener)(const char *instead, const char *text))
{
    hidden_to = listener;
}

void tn_error_hide(struct tn_error *err, const char *instead)
{
    void (*listener)(const char *, const char *) = hidden_to;

    if (!err || !listener)
        return;
    listener(instead, err->text);
    tn_fail(err, err->code, "%s", instead);
}

static pthread_mutex_t hidden_lock = PTHREAD_MUTEX_INITIALIZER;
static char *hidden;

void tn_hide_below(const char *directory)
{
    pthread_mutex_lock(&hidden_lock);
    free(hidden);
    hidden = directory && *directory ? tn_strdup(directory) : NULL;
    pthread_mutex_unlock(&hidden_lock);
}

char *tn_hide_paths(const char *text)
{
    void (*listener)(const char *, const char *) = hidden_to;
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1 << 20);
    bool found = false;
    const char *rest = text ? text : "", *at;

    pthread_mutex_lock(&hidden_lock);
    for (; hidden && (at = strstr(rest, hidden)); rest = at + strcspn(at, " :,;\"'()\n")) {
        tn_buf_add(&out, rest, (size_t)(at - rest));
        tn_buf_puts(&out, "a file of the service");
        found = true;
    }
    pthread_mutex_unlock(&hidden_lock);
    if (!found)
        return NULL;
    if (listener)
        listener("a text told no path of this machine", text);
    tn_buf_puts(&out, rest);
    return tn_buf_ok(&out) ? tn_buf_take(&out) : tn_strdup("the text is too long to be told");
}
