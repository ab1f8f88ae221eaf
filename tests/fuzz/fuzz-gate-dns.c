/* DNS messages: a question that is accepted reads back as itself, and so does an answer. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "gate/dns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(TN_DNS_MAX);
    struct tn_dns_question q, again;
    struct tn_dns_answer a, read;

    if (tn_dns_read_question(data, size, &q) == TN_DNS_OK && q.name[0] != '?') {
        tn_dns_write_question(&out, &q);
        if (tn_dns_read_question((const uint8_t *)out.data, out.len, &again) != TN_DNS_OK ||
            strcmp(q.name, again.name) != 0 || q.type != again.type)
            abort();
    }
    q = (struct tn_dns_question){.id = 0x1234, .type = TN_DNS_A, .name = "good.test"};
    if (tn_dns_read_answer(data, size, &q, &a) < 0)
        return 0;
    tn_dns_write_answer(&out, &q, &a, NULL);
    if (tn_dns_read_answer((const uint8_t *)out.data, out.len, &q, &read) < 0 ||
        read.count != a.count)
        abort();
    return 0;
}
