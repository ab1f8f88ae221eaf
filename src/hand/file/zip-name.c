#include "hand/file/zip-name.h"

#include <limits.h>
#include <stdint.h>

#include "base/utf8.h"

/* Code page 437 from 0x80 on. */
static const uint16_t cp437[128] = {
    0x00c7, 0x00fc, 0x00e9, 0x00e2, 0x00e4, 0x00e0, 0x00e5, 0x00e7, 0x00ea, 0x00eb, 0x00e8, 0x00ef,
    0x00ee, 0x00ec, 0x00c4, 0x00c5, 0x00c9, 0x00e6, 0x00c6, 0x00f4, 0x00f6, 0x00f2, 0x00fb, 0x00f9,
    0x00ff, 0x00d6, 0x00dc, 0x00a2, 0x00a3, 0x00a5, 0x20a7, 0x0192, 0x00e1, 0x00ed, 0x00f3, 0x00fa,
    0x00f1, 0x00d1, 0x00aa, 0x00ba, 0x00bf, 0x2310, 0x00ac, 0x00bd, 0x00bc, 0x00a1, 0x00ab, 0x00bb,
    0x2591, 0x2592, 0x2593, 0x2502, 0x2524, 0x2561, 0x2562, 0x2556, 0x2555, 0x2563, 0x2551, 0x2557,
    0x255d, 0x255c, 0x255b, 0x2510, 0x2514, 0x2534, 0x252c, 0x251c, 0x2500, 0x253c, 0x255e, 0x255f,
    0x255a, 0x2554, 0x2569, 0x2566, 0x2560, 0x2550, 0x256c, 0x2567, 0x2568, 0x2564, 0x2565, 0x2559,
    0x2558, 0x2552, 0x2553, 0x256b, 0x256a, 0x2518, 0x250c, 0x2588, 0x2584, 0x258c, 0x2590, 0x2580,
    0x03b1, 0x00df, 0x0393, 0x03c0, 0x03a3, 0x03c3, 0x00b5, 0x03c4, 0x03a6, 0x0398, 0x03a9, 0x03b4,
    0x221e, 0x03c6, 0x03b5, 0x2229, 0x2261, 0x00b1, 0x2265, 0x2264, 0x2320, 0x2321, 0x00f7, 0x2248,
    0x00b0, 0x2219, 0x00b7, 0x221a, 0x207f, 0x00b2, 0x25a0, 0x00a0,
};

static int refuse(struct tn_error *err, const char *name, const char *why)
{
    /* The name goes into a message: nothing but printable ASCII of it. */
    char shown[100];
    size_t n = 0;
    for (; name[n] && n < sizeof shown - 1; n++)
        shown[n] = name[n] >= 0x20 && name[n] < 0x7f ? name[n] : '?';
    shown[n] = '\0';
    return tn_fail(err, TN_E_INVALID, "zip: the entry name \"%s\" %s", shown, why);
}

static int decode(const char *bytes, size_t n, bool utf8, struct tn_buf *out)
{
    tn_buf_reset(out);
    if (utf8 || tn_utf8_valid(bytes, n))
        return tn_buf_add(out, bytes, n);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)bytes[i];
        char to[4];
        if (tn_buf_add(out, to, tn_utf8_encode(c < 0x80 ? c : cp437[c - 0x80], to)))
            return -1;
    }
    return 0;
}

static bool has_control(const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        size_t len = tn_utf8_decode(s + i, n - i, &cp);
        if (len == 0 || cp < 0x20 || (cp >= 0x7f && cp < 0xa0))
            return true;
        i += len;
    }
    return false;
}

/* Why the path, cut at its slashes, is no good; NULL when it is. */
static const char *fault_in_parts(const char *name)
{
    int depth = 0;

    for (const char *part = name;; depth++) {
        size_t len = strcspn(part, "/");
        if (len == 0 || (len == 1 && part[0] == '.'))
            return "has an empty part";
        if (len == 2 && part[0] == '.' && part[1] == '.')
            return "goes up with \"..\"";
        if (len > NAME_MAX)
            return "has a part that is too long";
        if (depth > ZIP_NAME_DEPTH)
            return "is too deep";
        if (!part[len])
            return NULL;
        part += len + 1;
    }
}

int zip_name(const char *bytes, size_t n, bool utf8, struct tn_buf *out, bool *is_dir,
             struct tn_error *err)
{
    if (n >= PATH_MAX || decode(bytes, n, utf8, out) || out->len >= PATH_MAX)
        return tn_fail(err, TN_E_INVALID, "zip: an entry name is too long");
    *is_dir = out->len > 0 && out->data[out->len - 1] == '/';
    tn_buf_cut(out, out->len - *is_dir);

    const char *name = tn_buf_str(out);
    if (out->len == 0)
        return refuse(err, name, "is empty");
    if (has_control(name, out->len))
        return refuse(err, name, "holds control characters or is not UTF-8");
    if (name[0] == '/')
        return refuse(err, name, "is absolute");
    if (strchr(name, '\\'))
        return refuse(err, name, "holds a backslash");
    if (((name[0] | 0x20) >= 'a' && (name[0] | 0x20) <= 'z') && name[1] == ':')
        return refuse(err, name, "starts with a drive letter");
    const char *fault = fault_in_parts(name);
    return fault ? refuse(err, name, fault) : 0;
}
