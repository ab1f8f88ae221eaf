#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "runtime/jail/image-manifest.h"

#define PAPER_MAX (4u << 20)
#define PAPERS_MAX_BYTES (64u << 20)
#define PAPERS_MAX_COUNT 10000
#define BLOBS "blobs/sha256"

static const char *without_dot(const char *name)
{
    while (strncmp(name, "./", 2) == 0)
        name += 2;
    return name;
}

static bool starts_with_digest(const char *name)
{
    size_t n = 0;

    while (n < 64 && isxdigit((unsigned char)name[n]))
        n++;
    return n == 64;
}

bool jail_papers_likely(const char *first)
{
    static const char *const names[] = {"blobs",      "blobs/",        "oci-layout",
                                        "index.json", "manifest.json", "repositories"};

    first = without_dot(first);
    for (size_t i = 0; i < TN_COUNT(names); i++)
        if (strcmp(first, names[i]) == 0)
            return true;
    return strncmp(first, "blobs/sha256", 12) == 0 || starts_with_digest(first);
}

static int add(struct jail_papers *papers, const char *name, struct tn_buf *text, bool link,
               struct tn_error *err)
{
    papers->bytes += text->len;
    if (papers->count >= PAPERS_MAX_COUNT || papers->bytes > PAPERS_MAX_BYTES)
        return tn_fail(err, TN_E_TOO_LARGE, "the image has too many small files");
    papers->items = tn_realloc(papers->items, (papers->count + 1) * sizeof *papers->items);
    size_t length = text->len;
    papers->items[papers->count++] = (struct jail_paper){
        .name = tn_strdup(name), .text = tn_buf_take(text), .length = length, .link = link};
    return 0;
}

/* JSON begins with a brace or a bracket; a layer does not. */
static bool begins_json(char first)
{
    return first == '{' || first == '[';
}

static int collect_file(struct jail_tar *tar, struct jail_papers *papers, const char *name,
                        struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(PAPER_MAX);
    const char *bytes;
    size_t n;
    int64_t offset;
    int r;

    while ((r = jail_tar_data(tar, (const void **)&bytes, &n, &offset, err)) > 0) {
        if (n == 0)
            continue;
        if ((text.len == 0 && !begins_json(bytes[0])) || tn_buf_add(&text, bytes, n) < 0)
            return 0;
    }
    return r < 0 ? -1 : add(papers, name, &text, false, err);
}

static int collect_link(const char *target, struct jail_papers *papers, const char *name,
                        struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(PAPER_MAX);

    tn_buf_puts(&text, target);
    return add(papers, name, &text, true, err);
}

int jail_papers_collect(struct jail_tar *tar, struct jail_papers *out, struct tn_error *err)
{
    const struct jail_archive_lib *lib = jail_archive_lib(err);
    struct archive_entry *entry;
    int r;

    if (!lib)
        return -1;
    while ((r = jail_tar_next(tar, &entry, err)) > 0) {
        const char *name = lib->archive_entry_pathname(entry);
        const char *link = lib->archive_entry_symlink(entry);
        if (!name)
            continue;
        tn_autofree char *kept = tn_strdup(without_dot(name));
        if (link && collect_link(link, out, kept, err) < 0)
            return -1;
        if (!link && lib->archive_entry_filetype(entry) == AE_IFREG &&
            lib->archive_entry_size(entry) <= PAPER_MAX && collect_file(tar, out, kept, err) < 0)
            return -1;
    }
    return r;
}

/* One file of a layout, if it may be JSON. */
static int collect_blob(int layout, const char *name, struct jail_papers *papers,
                        struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(PAPER_MAX);
    tn_autofd int fd = tn_fs_open(layout, name, O_RDONLY | O_NONBLOCK, 0, err);
    struct stat st;
    char first;

    if (fd < 0)
        return -1;
    if (fstat(fd, &st) < 0)
        return tn_fail_errno(err, errno, "%s", name);
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t)PAPER_MAX || pread(fd, &first, 1, 0) != 1 ||
        !begins_json(first))
        return 0;
    if (tn_fs_read_fd(fd, &text, err) < 0)
        return tn_error_context(err, "%s", name);
    return add(papers, name, &text, false, err);
}

int jail_papers_collect_layout(int layout, struct jail_papers *out, struct tn_error *err)
{
    int fd = tn_fs_open(layout, BLOBS, O_RDONLY | O_DIRECTORY, 0, err);
    DIR *list = fd < 0 ? NULL : fdopendir(fd);
    int r = list ? collect_blob(layout, "index.json", out, err) : -1;

    for (struct dirent *e; r == 0 && (e = readdir(list));) {
        tn_autofree char *name = tn_asprintf(BLOBS "/%s", e->d_name);
        if (starts_with_digest(e->d_name))
            r = collect_blob(layout, name, out, err);
    }
    if (list)
        closedir(list);
    return r;
}

void jail_papers_done(struct jail_papers *papers)
{
    for (size_t i = 0; i < papers->count; i++) {
        free(papers->items[i].name);
        free(papers->items[i].text);
    }
    free(papers->items);
    *papers = (struct jail_papers){0};
}
