/* A form with one file (multipart/form-data), as vendors take files. */
#include "runtime/cloud/cloud.h"

#define BOUNDARY "tendon-d2f0a4b7c19e4d0f9a61"
#define PART(name) "--" BOUNDARY "\r\nContent-Disposition: form-data; name=\"" name "\""
enum { ANSWER_MAX = 1 << 20 };

struct form {
    struct piece {
        const char *bytes;
        size_t n;
    } pieces[3];
    size_t at;
};

static ssize_t read_form(void *to, size_t n, void *ctx, struct tn_error *err)
{
    struct form *f = ctx;

    while (f->at < TN_COUNT(f->pieces) && !f->pieces[f->at].n)
        f->at++;
    if (f->at == TN_COUNT(f->pieces))
        return 0;
    struct piece *p = &f->pieces[f->at];
    size_t part = p->n < n ? p->n : n;
    memcpy(to, p->bytes, part);
    p->bytes += part;
    p->n -= part;
    return (ssize_t)part;
}

int cloud_upload(const struct cloud_line *line, const char *target, const char *const *headers,
                 const char *path, const void *bytes, size_t n, int64_t deadline,
                 struct tn_error *err)
{
    static const char tail[] = "\r\n--" BOUNDARY "--\r\n";
    tn_autofree char *named =
        path ? tn_asprintf(PART("path") "\r\n\r\n%s\r\n", path) : tn_strdup("");
    tn_autofree char *head = tn_asprintf("%s" PART("file") "; filename=\"file\"\r\nContent-Type: "
                                                           "application/octet-stream\r\n\r\n",
                                         named);
    struct form form = {{{head, strlen(head)}, {bytes, n}, {tail, sizeof tail - 1}}, 0};
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(ANSWER_MAX);
    const struct cloud_call call = {
        .web = {.method = "POST",
                .target = target,
                .headers = headers,
                .type = "multipart/form-data; boundary=" BOUNDARY,
                .source = read_form,
                .source_ctx = &form,
                .source_len = (int64_t)(strlen(head) + n + sizeof tail - 1)},
        .hurried = true, /* the form can be read once */
    };

    return cloud_ask_raw(line, &call, &answer, deadline, err);
}
