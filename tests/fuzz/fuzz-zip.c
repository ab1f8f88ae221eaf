/* Reading archives: everything that is looked at before anything is written, the contents, and the
 * XML of documents. */
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fs.h"
#include "hand/file/office-impl.h"
#include "hand/file/office.h"
#include "hand/file/zip-archive.h"

#define MOST_BYTES (4u << 20)

static void read_archive(int fd)
{
    struct zip_archive *z = zip_archive_open(fd, NULL);
    struct zip_item item;
    char chunk[4096];
    uint64_t total = 0;

    while (z && total < MOST_BYTES && zip_archive_next(z, &item, NULL) > 0) {
        uint64_t got = 0;
        ssize_t n;
        if (item.name[0] == '/' || strncmp(item.name, "../", 3) == 0 || strstr(item.name, "/../") ||
            item.mode > 0777)
            abort();
        while ((n = zip_archive_read(z, chunk, sizeof chunk, NULL)) > 0 && got < MOST_BYTES)
            got += (uint64_t)n;
        if (got > item.size || (n == 0 && got != item.size))
            abort();
        total += got;
    }
    zip_archive_close(z);
}

static void read_xml(struct tn_slice text)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(1u << 20);
    struct xml x = {.rest = text};

    while (xml_next(&x) != XML_END) {
        if (x.kind == XML_TEXT)
            xml_put_text(&x, &out);
        else if (x.kind == XML_OPEN)
            xml_attr(&x, ":id", &out);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const documents[] = {".docx", ".xlsx", ".pptx"};
    static int fd = -1;
    struct tn_slice bytes = {.s = (const char *)data, .n = size};

    if (fd < 0)
        fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET) || tn_fs_write(fd, data, size, NULL))
        return 0;
    read_archive(fd);
    for (size_t i = 0; i < TN_COUNT(documents); i++) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(1u << 16);
        office_text(documents[i], bytes, &out, NULL);
    }
    read_xml(bytes);
    return 0;
}
