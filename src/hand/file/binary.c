#include "hand/file/binary.h"

#include <stdint.h>
#include <strings.h>

#include "base/utf8.h"

/* One row per extension that has a meaning here. */
static const struct {
    const char *extension;
    const char *media_type; /* `read` answers with a data URL */
    bool document;          /* the editor's `view` converts it */
} kinds[] = {
    {.extension = ".png", .media_type = "image/png"},
    {.extension = ".jpg", .media_type = "image/jpeg"},
    {.extension = ".jpeg", .media_type = "image/jpeg"},
    {.extension = ".bmp", .media_type = "image/bmp"},
    {.extension = ".gif", .media_type = "image/gif"},
    {.extension = ".pdf", .media_type = "application/pdf", .document = true},
    {.extension = ".mp4", .media_type = "video/mp4"},
    {.extension = ".webm", .media_type = "video/webm"},
    {.extension = ".ogg", .media_type = "audio/ogg"},
    {.extension = ".docx", .document = true},
    {.extension = ".xlsx", .document = true},
    {.extension = ".pptx", .document = true},
    {.extension = ".mp3", .document = true},
    {.extension = ".wav", .document = true},
    {.extension = ".m4a", .document = true},
    {.extension = ".flac", .document = true},
};

const char *binary_extension(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    return dot && dot != name ? dot : "";
}

const char *binary_media_type(const char *path)
{
    const char *extension = binary_extension(path);

    for (size_t i = 0; i < TN_COUNT(kinds); i++)
        if (strcasecmp(kinds[i].extension, extension) == 0)
            return kinds[i].media_type;
    return NULL;
}

const char *binary_document(const char *path)
{
    const char *extension = binary_extension(path);

    for (size_t i = 0; i < TN_COUNT(kinds); i++)
        if (kinds[i].document && strcasecmp(kinds[i].extension, extension) == 0)
            return extension;
    return NULL;
}

/* Bytes no text file has many of.  Escape stays out: colours in logs. */
static bool is_control(unsigned char c)
{
    return c == 0x7f || (c < 0x20 && (c < '\b' || c > '\r') && c != 0x1b);
}

/* Valid UTF-8, but for a last character that the end of the sample may have cut. */
static bool valid_but_cut(struct tn_slice t)
{
    for (size_t cut = 0; cut < 4 && cut <= t.n; cut++)
        if (tn_utf8_valid(t.s, t.n - cut))
            return cut == 0 || (unsigned char)t.s[t.n - cut] >= 0xc2;
    return false;
}

bool binary_bytes(struct tn_slice sample)
{
    struct tn_slice t = {.s = sample.s, .n = sample.n < BINARY_SAMPLE ? sample.n : BINARY_SAMPLE};
    size_t controls = 0;

    if (t.n == 0)
        return false;
    if (t.n >= 2 && (memcmp(t.s, "\xff\xfe", 2) == 0 || memcmp(t.s, "\xfe\xff", 2) == 0))
        return false;
    if (memchr(t.s, '\0', t.n))
        return true;
    for (size_t i = 0; i < t.n; i++)
        controls += is_control((unsigned char)t.s[i]);
    if (valid_but_cut(t))
        return controls * 2 > t.n;
    return controls * 20 > t.n;
}

bool binary_file(const char *path, struct tn_slice sample)
{
    return strcasecmp(binary_extension(path), ".pyc") == 0 || binary_bytes(sample);
}
