/* What Modal answers: lines of headers, an empty line, a byte for the message that is awaited, then
 * frames.  A status is one of HTTP, and a message is taken only when there is one alone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cloud/modal/modal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_status(const char *headers, size_t n)
{
    tn_autoanswer struct tn_web_answer answer = TN_WEB_ANSWER_INIT(1024);
    tn_autofree char *words = NULL;

    answer.status = 200;
    tn_buf_add(&answer.headers, headers, n);
    if (!tn_buf_ok(&answer.headers))
        return;
    int status = modal_status(&answer, &words);
    if (status < 200 || status > 599 || (status != 200 && !words))
        abort();
}

static void check_message(unsigned which, const uint8_t *bytes, size_t n)
{
    static const ProtobufCMessageDescriptor *const all[] = {
        &modal__sandbox_list_response__descriptor,
        &modal__sandbox_get_tunnels_response__descriptor,
        &modal__image_join_streaming_response__descriptor,
        &modal__runtime_output_batch__descriptor,
        &modal__router_access__descriptor,
        &modal__exit_status__descriptor,
    };
    tn_autogrpc void *message = NULL;

    if (modal_read_one(all[which % TN_COUNT(all)], bytes, n, &message, NULL) == 0 && !message)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *blank = memmem(data, size, "\n\n", 2);
    size_t n = blank ? (size_t)(blank - data) + 1 : size;

    check_status((const char *)data, n);
    if (blank && size - n > 2)
        check_message(data[n + 1], data + n + 2, size - n - 2);
    return 0;
}
