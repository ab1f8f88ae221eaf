#include "hand/file/document.h"

/* Files are limited to 10 MB before they come here; UTF-8 makes at most three bytes of one. */
#define ROOM (96u << 20)

void document_init(struct document *d)
{
    *d = (struct document){
        .bytes = {"", 0},
        .text = {"", 0},
        .lf = {"", 0},
        .on_disk = TN_BUF_INIT(ROOM),
        .decoded = TN_BUF_INIT(ROOM),
        .normal = TN_BUF_INIT(ROOM),
    };
}

void document_done(struct document *d)
{
    tn_buf_done(&d->on_disk);
    tn_buf_done(&d->decoded);
    tn_buf_done(&d->normal);
}

static int normalise(struct document *d, struct tn_error *err)
{
    d->eol = text_eol_of(d->text);
    d->lf = d->text;
    if (!text_has_cr(d->text))
        return 0;
    tn_buf_reset(&d->normal);
    if (text_add_lf(&d->normal, d->text))
        return tn_fail(err, TN_E_TOO_LARGE, "the text is too large");
    d->lf = tn_slice_of(&d->normal);
    return 0;
}

int document_parse(struct document *d, struct tn_error *err)
{
    d->bytes = tn_slice_of(&d->on_disk);
    d->encoding = encoding_detect(d->bytes);
    if (encoding_decode(d->encoding, d->bytes, &d->decoded, &d->text, err))
        return -1;
    return normalise(d, err);
}

int document_compose(struct document *d, const struct document *like, struct tn_error *err)
{
    if (!tn_buf_ok(&d->decoded))
        return tn_fail(err, TN_E_TOO_LARGE, "the text is too large");
    d->encoding = like->encoding;
    d->text = tn_slice_of(&d->decoded);
    if (encoding_encode(d->encoding, d->text, &d->on_disk, &d->bytes, err))
        return -1;
    return normalise(d, err);
}
