#include "hand/file/office.h"

#include <strings.h>
#include <sys/mman.h>

#include "base/fs.h"
#include "hand/file/office-impl.h"

static const struct {
    const char *extension;
    int (*text)(struct zip_archive *z, struct tn_buf *out, struct tn_error *err);
} formats[] = {
    {.extension = ".docx", .text = office_docx},
    {.extension = ".xlsx", .text = office_xlsx},
    {.extension = ".pptx", .text = office_pptx},
};

int office_part(struct zip_archive *z, const char *name, struct tn_buf *part, struct tn_error *err)
{
    struct zip_item item;
    int r;

    zip_archive_rewind(z);
    while ((r = zip_archive_next(z, &item, err)) > 0 && strcmp(item.name, name) != 0)
        continue;
    if (r <= 0)
        return r < 0 ? -1 : tn_fail(err, TN_E_NOT_FOUND, "the document has no part %s", name);
    tn_buf_reset(part);
    for (;;) {
        char *to = tn_buf_reserve(part, 16384);
        if (!to)
            return tn_fail(err, TN_E_TOO_LARGE, "the part %s is too large", name);
        ssize_t n = zip_archive_read(z, to, 16384, err);
        if (n < 0)
            return -1;
        tn_buf_grew(part, (size_t)n);
        if (n == 0)
            return 0;
    }
}

int office_related(struct zip_archive *z, const char *owner, const char *id, struct tn_buf *name,
                   struct tn_error *err)
{
    tn_autobuf struct tn_buf rels = TN_BUF_INIT(1u << 20);
    tn_autobuf struct tn_buf value = TN_BUF_INIT(1024);
    const char *slash = strrchr(owner, '/');
    int dir = (int)(slash - owner);
    tn_autofree char *path = tn_asprintf("%.*s/_rels/%s.rels", dir, owner, slash + 1);

    if (office_part(z, path, &rels, err))
        return -1;
    struct xml x = {.rest = tn_slice_of(&rels)};
    while (xml_next(&x) != XML_END) {
        if (x.kind != XML_OPEN || !xml_is(&x, "Relationship") || !xml_attr(&x, "Id", &value) ||
            strcmp(tn_buf_str(&value), id) != 0 || !xml_attr(&x, "Target", &value))
            continue;
        tn_buf_reset(name);
        const char *target = tn_buf_str(&value);
        if (target[0] == '/')
            return tn_buf_puts(name, target + 1);
        return tn_buf_printf(name, "%.*s/%s", dir, owner, target);
    }
    return tn_fail(err, TN_E_NOT_FOUND, "the document has no relation %s", id);
}

void office_put_cell(struct tn_buf *out, const struct tn_buf *s)
{
    struct tn_slice t = text_strip(tn_slice_of(s));

    tn_buf_puts(out, "| ");
    for (size_t i = 0; i < t.n; i++) {
        if (t.s[i] == '|')
            tn_buf_putc(out, '\\');
        tn_buf_putc(out, t.s[i] == '\n' || t.s[i] == '\t' ? ' ' : t.s[i]);
    }
    tn_buf_putc(out, ' ');
}

void office_put_rule(struct tn_buf *out, size_t columns)
{
    for (size_t i = 0; i < columns; i++)
        tn_buf_puts(out, "| --- ");
    tn_buf_puts(out, "|\n");
}

static int convert(int (*text)(struct zip_archive *, struct tn_buf *, struct tn_error *),
                   struct tn_slice bytes, struct tn_buf *out, struct tn_error *err)
{
    tn_autofd int fd = memfd_create("document", MFD_CLOEXEC);

    if (fd < 0)
        return tn_fail_errno(err, errno, "memfd");
    if (tn_fs_write(fd, bytes.s, bytes.n, err))
        return -1;
    struct zip_archive *z = zip_archive_open(fd, err);
    int r = z ? text(z, out, err) : -1;
    zip_archive_close(z);
    return r;
}

int office_text(const char *extension, struct tn_slice bytes, struct tn_buf *out,
                struct tn_error *err)
{
    for (size_t i = 0; i < TN_COUNT(formats); i++)
        if (strcasecmp(formats[i].extension, extension) == 0)
            return convert(formats[i].text, bytes, out, err);
    return tn_fail(err, TN_E_UNSUPPORTED,
                   "a %s file, which only the Python agent skills can turn into text "
                   "(parse_pdf, parse_audio)",
                   extension);
}
