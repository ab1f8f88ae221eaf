#include "gate/hello.h"

enum {
    RECORD_HANDSHAKE = 22,
    RECORD_HEADER = 5,
    RECORD_MAX = 1 << 14,
    CLIENT_HELLO = 1,
    RANDOM = 32,
    EXTENSION_NAME = 0,
    EXTENSION_ECH = 0xfe0d,
    EXTENSION_ESNI = 0xffce,
    NAME_HOST = 0,
};

/* What is left to read. */
struct rest {
    const uint8_t *at;
    size_t size;
};

static bool skip(struct rest *r, size_t n)
{
    if (r->size < n)
        return false;
    r->at += n;
    r->size -= n;
    return true;
}

/* A number of that many bytes. */
static bool take(struct rest *r, int bytes, size_t *value)
{
    const uint8_t *from = r->at;

    if (!skip(r, (size_t)bytes))
        return false;
    *value = 0;
    for (int i = 0; i < bytes; i++)
        *value = *value << 8 | from[i];
    return true;
}

/* What a number of that many bytes says the length of. */
static bool take_part(struct rest *r, int bytes, struct rest *part)
{
    size_t n;

    if (!take(r, bytes, &n) || r->size < n)
        return false;
    *part = (struct rest){.at = r->at, .size = n};
    return skip(r, n);
}

/* One name and no more, as RFC 6066 has it. */
static bool read_name(struct rest extension, struct tn_hello *hello)
{
    struct rest list, name;
    size_t kind;

    return !hello->name[0] && take_part(&extension, 2, &list) && extension.size == 0 &&
           take(&list, 1, &kind) && kind == NAME_HOST && take_part(&list, 2, &name) &&
           list.size == 0 && tn_name_normalise((const char *)name.at, name.size, hello->name);
}

static bool read_extensions(struct rest all, struct tn_hello *hello)
{
    struct rest extension;
    size_t type;

    while (all.size > 0) {
        if (!take(&all, 2, &type) || !take_part(&all, 2, &extension))
            return false;
        if (type == EXTENSION_NAME && !read_name(extension, hello))
            return false;
        hello->encrypted |= type == EXTENSION_ECH || type == EXTENSION_ESNI;
    }
    return true;
}

static bool read_body(struct rest body, struct tn_hello *hello)
{
    struct rest session, ciphers, compressions, extensions;

    if (!skip(&body, 2 + RANDOM) || !take_part(&body, 1, &session) ||
        !take_part(&body, 2, &ciphers) || !take_part(&body, 1, &compressions))
        return false;
    if (body.size == 0)
        return true; /* as it was before there were extensions */
    return take_part(&body, 2, &extensions) && body.size == 0 && read_extensions(extensions, hello);
}

/* A hello may be cut into several records: they are put together first. */
enum tn_hello_state tn_hello_read(const uint8_t *bytes, size_t size, struct tn_hello *hello)
{
    uint8_t message[TN_HELLO_MAX];
    struct rest all = {.at = bytes, .size = size}, record;
    size_t used = 0, type, wanted;

    *hello = (struct tn_hello){0};
    for (;;) {
        struct rest before = all;
        if (all.size > 0 && all.at[0] != RECORD_HANDSHAKE)
            return TN_HELLO_NOT;
        if (all.size > 1 && all.at[1] != 3)
            return TN_HELLO_NOT;
        if (!skip(&all, RECORD_HEADER - 2))
            return TN_HELLO_MORE;
        size_t n = all.size < 2 ? 0 : (size_t)all.at[0] << 8 | all.at[1];
        if (all.size >= 2 && (n == 0 || n > RECORD_MAX || used + n > sizeof message))
            return TN_HELLO_NOT;
        bool whole = take_part(&all, 2, &record);
        if (!whole) { /* what is there of it may say already that it is something else */
            record = before;
            if (!skip(&record, RECORD_HEADER))
                return TN_HELLO_MORE;
        }
        if (used == 0 && record.size > 0 && record.at[0] != CLIENT_HELLO)
            return TN_HELLO_NOT;
        if (!whole)
            return TN_HELLO_MORE;
        memcpy(message + used, record.at, record.size);
        used += record.size;
        struct rest hand = {.at = message, .size = used};
        if (!take(&hand, 1, &type) || !take(&hand, 3, &wanted))
            continue;
        if (wanted > sizeof message)
            return TN_HELLO_NOT;
        if (hand.size < wanted)
            continue;
        hand.size = wanted;
        return read_body(hand, hello) ? TN_HELLO_WHOLE : TN_HELLO_NOT;
    }
}
