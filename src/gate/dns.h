/* DNS messages: read strictly, and written anew.  Nothing of a peer's bytes is passed on. */
#ifndef TN_GATE_DNS_H
#define TN_GATE_DNS_H

#include "base/buf.h"
#include "gate/rules.h"

enum {
    TN_DNS_MAX = 4096,     /* the largest message */
    TN_DNS_SMALL = 512,    /* what everybody understands over UDP */
    TN_DNS_ADDRESSES = 16, /* of an answer; they fit into a small message */
    TN_DNS_TTL_MAX = 3600,
};

enum tn_dns_type {
    TN_DNS_A = 1,
    TN_DNS_CNAME = 5,
    TN_DNS_AAAA = 28,
    TN_DNS_OPT = 41,
};

enum tn_dns_code {
    TN_DNS_OK = 0,
    TN_DNS_FORMAT = 1,
    TN_DNS_FAILED = 2,
    TN_DNS_NO_NAME = 3,
    TN_DNS_NOT_THIS = 4,
    TN_DNS_REFUSED = 5,
};

struct tn_dns_question {
    uint16_t id, type;
    bool recursion; /* desired */
    bool extended;  /* it has an OPT record: so may the answer */
    char name[TN_NAME_MAX + 1];
};

/* A question as a client sends it.  0, or the code to answer with (question->id is set), or -1:
 * nothing can be answered. */
int tn_dns_read_question(const uint8_t *bytes, size_t size, struct tn_dns_question *q);

struct tn_dns_answer {
    enum tn_dns_code code;
    bool truncated;
    uint32_t ttl; /* the smallest on the way to the addresses */
    size_t count;
    struct tn_address addresses[TN_DNS_ADDRESSES];
};

/* The answer to that question from a server: for A and AAAA the addresses at the end of its chain
 * of names.  -1: it is none. */
int tn_dns_read_answer(const uint8_t *bytes, size_t size, const struct tn_dns_question *q,
                       struct tn_dns_answer *a);

/* Both write a whole message into out (emptied before).  reason: a sentence for whoever asked, or
 * NULL. */
void tn_dns_write_question(struct tn_buf *out, const struct tn_dns_question *q);
void tn_dns_write_answer(struct tn_buf *out, const struct tn_dns_question *q,
                         const struct tn_dns_answer *a, const char *reason);

#endif
