#include "hand/browser/download.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/account.h"
#include "base/fs.h"

enum { NAMES_MAX = 10000, HEAD = 512, EXTENSION_MAX = 10 };

/* --- where ---------------------------------------------------------------------------------- */

char *download_directory(const struct tn_hand *hand)
{
    return tn_asprintf("%s/.downloads", hand->options.working_dir);
}

static int act_as_agent(struct tn_hand *hand, struct tn_act_as *as, struct tn_error *err)
{
    const struct tn_agent_user *user = &hand->user;
    return tn_act_as_begin(as, user->account.uid, user->account.gid, user->groups,
                           user->group_count, err);
}

int download_prepare(struct tn_hand *hand, struct tn_error *err)
{
    tn_autofree char *directory = download_directory(hand);
    tn_autoact struct tn_act_as as = {0};

    if (act_as_agent(hand, &as, err) < 0)
        return -1;
    if (mkdir(directory, 0755) < 0 && errno != EEXIST)
        return tn_fail_errno(err, errno, "%s", directory);
    return 0;
}

/* --- events --------------------------------------------------------------------------------- */

/* The browser chooses it: hexadecimal digits and dashes, as far as we believe it. */
static bool is_plain(const char *guid)
{
    for (const char *p = guid; *p; p++) {
        if (!isalnum((unsigned char)*p) && *p != '-')
            return false;
    }
    return *guid != '\0';
}

void download_began(struct tn_chrome *c, const struct tn_json *params)
{
    const char *guid = tn_json_get_str(params, "guid", "");

    if (!is_plain(guid))
        return;
    c->downloads = tn_realloc(c->downloads, (c->download_count + 1) * sizeof *c->downloads);
    c->downloads[c->download_count++] = (struct chrome_download){
        .guid = tn_strdup(guid),
        .name = tn_strdup(tn_json_get_str(params, "suggestedFilename", "")),
    };
}

void download_progressed(struct tn_chrome *c, const struct tn_json *params)
{
    const char *guid = tn_json_get_str(params, "guid", "");
    const char *state = tn_json_get_str(params, "state", "");

    for (size_t i = 0; i < c->download_count; i++) {
        struct chrome_download *d = &c->downloads[i];
        if (strcmp(d->guid, guid) != 0)
            continue;
        d->failed = strcmp(state, "canceled") == 0;
        d->over = d->failed || strcmp(state, "completed") == 0;
    }
}

bool download_news(struct tn_chrome *c)
{
    chrome_lock(c);
    bool any = c->download_count > c->downloads_seen;
    c->downloads_seen = c->download_count;
    chrome_unlock(c);
    return any;
}

/* --- what kind of file ---------------------------------------------------------------------- */

static const struct {
    const char *extension;
    size_t offset, length;
    const char *bytes;
} magic[] = {
    {".pdf", 0, 5, "%PDF-"},
    {".png", 0, 8, "\x89PNG\r\n\x1a\n"},
    {".jpg", 0, 3, "\xff\xd8\xff"},
    {".gif", 0, 4, "GIF8"},
    {".webp", 8, 4, "WEBP"},
    {".wav", 8, 4, "WAVE"},
    {".avi", 8, 4, "AVI "},
    {".mp4", 4, 4, "ftyp"},
    {".mp3", 0, 3, "ID3"},
    {".ogg", 0, 4, "OggS"},
    {".flac", 0, 4, "fLaC"},
    {".webm", 0, 4, "\x1a\x45\xdf\xa3"},
    {".docx", 30, 5, "word/"},
    {".xlsx", 30, 3, "xl/"},
    {".pptx", 30, 4, "ppt/"},
    {".odt", 38, 39, "application/vnd.oasis.opendocument.text"},
    {".epub", 38, 20, "application/epub+zip"},
    {".zip", 0, 4, "PK\x03\x04"},
    {".zip", 0, 4, "PK\x05\x06"},
    {".gz", 0, 2, "\x1f\x8b"},
    {".bz2", 0, 3, "BZh"},
    {".xz", 0, 6,
     "\xfd"
     "7zXZ\0"},
    {".zst", 0, 4, "\x28\xb5\x2f\xfd"},
    {".7z", 0, 6, "7z\xbc\xaf\x27\x1c"},
    {".rar", 0, 6, "Rar!\x1a\x07"},
    {".tar", 257, 5, "ustar"},
    {".tif", 0, 4, "II*\0"},
    {".tif", 0, 4, "MM\0*"},
    {".ico", 0, 4, "\0\0\1\0"},
    {".bmp", 0, 2, "BM"},
    {".doc", 0, 8, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"},
    {".rtf", 0, 5, "{\\rtf"},
    {".ps", 0, 4, "%!PS"},
    {".deb", 0, 7, "!<arch>"},
    {".rpm", 0, 4, "\xed\xab\xee\xdb"},
    {".sqlite", 0, 15, "SQLite format 3"},
    {".wasm", 0, 4, "\0asm"},
    {".xml", 0, 5, "<?xml"},
    {".html", 0, 14, "<!DOCTYPE html"},
    {".html", 0, 14, "<!doctype html"},
    {".html", 0, 5, "<html"},
};

const char *download_extension(const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < TN_COUNT(magic); i++) {
        if (n >= magic[i].offset + magic[i].length &&
            memcmp(bytes + magic[i].offset, magic[i].bytes, magic[i].length) == 0)
            return magic[i].extension;
    }
    return "";
}

/* What the site's own name ends with, when it looks like an extension; else "". */
static const char *named_extension(const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t n = dot ? strlen(dot + 1) : 0;

    if (!n || n > EXTENSION_MAX)
        return "";
    for (const char *p = dot + 1; *p; p++) {
        if (!isalnum((unsigned char)*p))
            return "";
    }
    return dot;
}

/* --- copies --------------------------------------------------------------------------------- */

/* Copies the file to the first free file_N.ext; *count becomes N. */
static char *copy_out(struct tn_hand *hand, const struct chrome_download *d, int64_t *count,
                      struct tn_error *err)
{
    tn_autofree char *directory = download_directory(hand);
    tn_autofree char *from = tn_asprintf("%s/%s", directory, d->guid);
    tn_autoact struct tn_act_as as = {0};
    unsigned char head[HEAD];

    if (act_as_agent(hand, &as, err) < 0)
        return NULL;
    tn_autofd int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n = in < 0 ? -1 : pread(in, head, sizeof head, 0);
    if (n < 0) {
        tn_fail_errno(err, errno, "%s", from);
        return NULL;
    }
    const char *extension = download_extension(head, (size_t)n);
    if (!*extension)
        extension = named_extension(d->name);
    for (int tries = 0; tries < NAMES_MAX; tries++) {
        tn_autofree char *path = tn_asprintf("%s/file_%lld%s", hand->options.working_dir,
                                             (long long)++*count, extension);
        tn_autofd int out = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (out < 0 && errno == EEXIST)
            continue;
        if (out < 0) {
            tn_fail_errno(err, errno, "%s", path);
            return NULL;
        }
        if (tn_fs_copy(in, out, UINT64_MAX, err) < 0) {
            unlink(path);
            return NULL;
        }
        return TN_TAKE_PTR(path);
    }
    tn_fail(err, TN_E_CONFLICT, "every name for a download is taken");
    return NULL;
}

/* With the lock: the oldest that is over and not told, or NULL. */
static struct chrome_download *next_one(struct tn_chrome *c)
{
    for (size_t i = 0; i < c->download_count; i++) {
        struct chrome_download *d = &c->downloads[i];
        if (d->over && !d->failed && !d->told)
            return d;
    }
    return NULL;
}

static bool under_way(const struct tn_chrome *c)
{
    for (size_t i = 0; i < c->download_count; i++) {
        if (!c->downloads[i].over)
            return true;
    }
    return false;
}

static void add_path(struct tn_str_list *paths, char *path)
{
    paths->items = tn_realloc(paths->items, (paths->count + 1) * sizeof *paths->items);
    paths->items[paths->count++] = path;
}

int download_collect(struct tn_chrome *c, int64_t deadline, int64_t *count,
                     struct tn_str_list *paths, struct tn_error *err)
{
    struct chrome_download *d;

    chrome_lock(c);
    while (under_way(c) && chrome_wait(c, deadline))
        ;
    while ((d = next_one(c)) != NULL) {
        d->told = true;
        struct chrome_download copy = {.guid = tn_strdup(d->guid), .name = tn_strdup(d->name)};
        chrome_unlock(c);
        char *path = copy_out(c->hand, &copy, count, err);
        free(copy.guid);
        free(copy.name);
        if (!path)
            return -1;
        add_path(paths, path);
        chrome_lock(c);
    }
    chrome_unlock(c);
    return 0;
}
