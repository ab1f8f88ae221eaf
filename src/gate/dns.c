#include "gate/dns.h"

enum {
    HEADER = 12,
    CLASS_IN = 1,
    CHAIN_MAX = 12, /* names one after the other */
    JUMPS_MAX = 32,
    RECORDS_MAX = 256,
    UDP_SIZE = 1232,    /* what we take */
    OPTION_REASON = 15, /* extended error: RFC 8914 */
    REASON_FILTERED = 17,
};

/* Bits of the third and fourth byte. */
enum {
    RESPONSE = 0x8000,
    OPCODE = 0x7800,
    TRUNCATED = 0x0200,
    RECURSE = 0x0100,
    CAN_RECURSE = 0x0080,
    CODE = 0x000f,
};

/* --- reading ------------------------------------------------------------------------------- */

struct reader {
    const uint8_t *bytes;
    size_t size, at;
};

static bool take16(struct reader *r, uint16_t *value)
{
    if (r->size - r->at < 2)
        return false;
    *value = (uint16_t)(r->bytes[r->at] << 8 | r->bytes[r->at + 1]);
    r->at += 2;
    return true;
}

static bool take32(struct reader *r, uint32_t *value)
{
    uint16_t high, low;

    if (!take16(r, &high) || !take16(r, &low))
        return false;
    *value = (uint32_t)high << 16 | low;
    return true;
}

/* A name, with pointers only backwards.  Labels that are no part of a host's name make it "?",
 * which is equal to nothing that is asked for. */
static bool take_name(struct reader *r, char out[TN_NAME_MAX + 1])
{
    char text[256];
    size_t at = r->at, used = 0, end = 0;

    for (int jumps = 0;;) {
        if (at >= r->size)
            return false;
        uint8_t n = r->bytes[at];
        if ((n & 0xc0) == 0xc0) {
            if (at + 1 >= r->size || ++jumps > JUMPS_MAX)
                return false;
            size_t to = (size_t)(n & 0x3f) << 8 | r->bytes[at + 1];
            end = end ? end : at + 2;
            if (to >= at)
                return false;
            at = to;
            continue;
        }
        if (n & 0xc0 || at + 1 + n > r->size || used + n + 1 >= sizeof text)
            return false;
        at++;
        if (n == 0)
            break;
        memcpy(text + used, r->bytes + at, n);
        if (memchr(text + used, '.', n))
            text[used] = '?'; /* a dot inside a label is none */
        used += n;
        text[used++] = '.';
        at += n;
    }
    r->at = end ? end : at;
    if (!tn_name_normalise(text, used, out)) {
        out[0] = used ? '?' : '.';
        out[1] = '\0';
    }
    return true;
}

struct header {
    uint16_t id, flags, questions, answers, authorities, additional;
};

static bool take_header(struct reader *r, struct header *h)
{
    return take16(r, &h->id) && take16(r, &h->flags) && take16(r, &h->questions) &&
           take16(r, &h->answers) && take16(r, &h->authorities) && take16(r, &h->additional);
}

struct record {
    char name[TN_NAME_MAX + 1];
    uint16_t type, class, size;
    uint32_t ttl;
    size_t data;
};

static bool take_record(struct reader *r, struct record *record)
{
    if (!take_name(r, record->name) || !take16(r, &record->type) || !take16(r, &record->class) ||
        !take32(r, &record->ttl) || !take16(r, &record->size) || r->size - r->at < record->size)
        return false;
    record->data = r->at;
    r->at += record->size;
    return true;
}

int tn_dns_read_question(const uint8_t *bytes, size_t size, struct tn_dns_question *q)
{
    struct reader r = {.bytes = bytes, .size = size};
    struct header h;
    uint16_t class;
    struct record record;

    *q = (struct tn_dns_question){0};
    if (!take_header(&r, &h) || h.flags & RESPONSE)
        return -1;
    q->id = h.id;
    q->recursion = h.flags & RECURSE;
    if (h.flags & OPCODE)
        return TN_DNS_NOT_THIS;
    if (h.questions != 1 || h.answers || h.authorities || h.additional > 2 ||
        !take_name(&r, q->name) || !take16(&r, &q->type) || !take16(&r, &class))
        return TN_DNS_FORMAT;
    for (int i = 0; i < h.additional; i++) {
        if (!take_record(&r, &record))
            return TN_DNS_FORMAT;
        q->extended |= record.type == TN_DNS_OPT;
    }
    return class == CLASS_IN && r.at == size ? TN_DNS_OK : TN_DNS_FORMAT;
}

/* The names that the one that was asked for leads to. */
struct chain {
    size_t count;
    char names[CHAIN_MAX][TN_NAME_MAX + 1];
};

static bool in_chain(const struct chain *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->names[i], name) == 0)
            return true;
    return false;
}

static void take_address(const struct reader *r, const struct record *record,
                         struct tn_dns_answer *a)
{
    struct tn_address *to = &a->addresses[a->count];
    size_t size = record->type == TN_DNS_A ? 4 : 16;

    if (record->size != size || a->count == TN_DNS_ADDRESSES)
        return;
    *to = (struct tn_address){.family = record->type == TN_DNS_A ? AF_INET : AF_INET6};
    memcpy(to->bytes, r->bytes + record->data, size);
    a->count++;
}

int tn_dns_read_answer(const uint8_t *bytes, size_t size, const struct tn_dns_question *q,
                       struct tn_dns_answer *a)
{
    struct reader r = {.bytes = bytes, .size = size};
    struct header h;
    struct record record;
    struct chain chain = {.count = 1};
    uint16_t type, class;
    char name[TN_NAME_MAX + 1];

    *a = (struct tn_dns_answer){.ttl = TN_DNS_TTL_MAX};
    if (!take_header(&r, &h) || h.id != q->id || !(h.flags & RESPONSE) || h.questions != 1 ||
        !take_name(&r, name) || !take16(&r, &type) || !take16(&r, &class) ||
        strcmp(name, q->name) != 0 || type != q->type || class != CLASS_IN)
        return -1;
    a->code = (enum tn_dns_code)(h.flags & CODE);
    a->truncated = h.flags & TRUNCATED;
    memcpy(chain.names[0], q->name, sizeof q->name);
    for (int i = 0; i < h.answers && i < RECORDS_MAX; i++) {
        if (!take_record(&r, &record))
            return a->truncated ? 0 : -1;
        if (record.class != CLASS_IN || !in_chain(&chain, record.name))
            continue;
        struct reader target = {.bytes = bytes, .size = size, .at = record.data};
        if (record.type == q->type && (q->type == TN_DNS_A || q->type == TN_DNS_AAAA))
            take_address(&r, &record, a);
        else if (record.type != TN_DNS_CNAME || chain.count == CHAIN_MAX ||
                 !take_name(&target, chain.names[chain.count]))
            continue;
        else
            chain.count++;
        if (record.ttl < a->ttl)
            a->ttl = record.ttl;
    }
    return 0;
}

/* --- writing ------------------------------------------------------------------------------- */

static void put16(struct tn_buf *out, unsigned value)
{
    tn_buf_putc(out, (char)(value >> 8));
    tn_buf_putc(out, (char)value);
}

static void put32(struct tn_buf *out, uint32_t value)
{
    put16(out, value >> 16);
    put16(out, value & 0xffff);
}

static void put_name(struct tn_buf *out, const char *name)
{
    while (*name && *name != '.') {
        size_t n = strcspn(name, ".");
        tn_buf_putc(out, (char)n);
        tn_buf_add(out, name, n);
        name += n + (name[n] == '.');
    }
    tn_buf_putc(out, 0);
}

static void put_start(struct tn_buf *out, const struct tn_dns_question *q, unsigned flags,
                      size_t answers, bool extended)
{
    tn_buf_reset(out);
    put16(out, q->id);
    put16(out, flags);
    put16(out, 1);
    put16(out, (unsigned)answers);
    put16(out, 0);
    put16(out, extended);
    put_name(out, q->name);
    put16(out, q->type);
    put16(out, CLASS_IN);
}

static void put_opt(struct tn_buf *out, const char *reason)
{
    size_t n = reason ? strlen(reason) : 0;

    tn_buf_putc(out, 0); /* the root */
    put16(out, TN_DNS_OPT);
    put16(out, UDP_SIZE);
    put32(out, 0);
    put16(out, reason ? (unsigned)n + 6 : 0);
    if (!reason)
        return;
    put16(out, OPTION_REASON);
    put16(out, (unsigned)n + 2);
    put16(out, REASON_FILTERED);
    tn_buf_add(out, reason, n);
}

void tn_dns_write_question(struct tn_buf *out, const struct tn_dns_question *q)
{
    put_start(out, q, RECURSE, 0, true);
    put_opt(out, NULL);
}

void tn_dns_write_answer(struct tn_buf *out, const struct tn_dns_question *q,
                         const struct tn_dns_answer *a, const char *reason)
{
    put_start(out, q, RESPONSE | CAN_RECURSE | (q->recursion ? RECURSE : 0U) | (unsigned)a->code,
              a->count, q->extended);
    for (size_t i = 0; i < a->count; i++) {
        size_t size = a->addresses[i].family == AF_INET ? 4 : 16;
        put16(out, 0xc000 | HEADER); /* the name of the question */
        put16(out, q->type);
        put16(out, CLASS_IN);
        put32(out, a->ttl);
        put16(out, (unsigned)size);
        tn_buf_add(out, a->addresses[i].bytes, size);
    }
    if (q->extended)
        put_opt(out, reason);
}
