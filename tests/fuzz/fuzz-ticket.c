/* Tickets: nothing but what we sealed opens, and what we sealed comes back. */
#include <assert.h>
#include <stdint.h>

#include "service/ticket.h"

static const char secret[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static void fill(char *to, size_t size, const char **from)
{
    size_t n = strcspn(*from, "|");
    size_t take = n < size - 1 ? n : size - 1;

    memcpy(to, *from, take);
    to[take] = '\0';
    *from += n + ((*from)[n] == '|');
}

/* key|box|purpose|... */
static void round_trip(const char *text)
{
    struct ticket t = {.expires = (int64_t)strlen(text) * 1000003}, back;
    char sealed[TICKET_MAX];

    fill(t.key_id, sizeof t.key_id, &text);
    fill(t.box, sizeof t.box, &text);
    fill(t.purpose, sizeof t.purpose, &text);
    if (ticket_seal(secret, &t, sealed) < 0) {
        assert(strchr(t.key_id, '\n') || strchr(t.box, '\n') || strchr(t.purpose, '\n'));
        return;
    }
    assert(ticket_unseal(secret, sealed, &back));
    assert(strcmp(back.key_id, t.key_id) == 0 && strcmp(back.box, t.box) == 0 &&
           strcmp(back.purpose, t.purpose) == 0 && back.expires == t.expires);
    assert(!ticket_unseal("another", sealed, &back));
    size_t n = strlen(sealed), at = (size_t)t.expires % n;
    sealed[at] = sealed[at] == 'A' ? 'B' : 'A';
    assert(!ticket_unseal(secret, sealed, &back));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *text = tn_strndup((const char *)data, size < 2000 ? size : 2000);
    struct ticket t;

    assert(!ticket_unseal(secret, text, &t));
    round_trip(text);
    return 0;
}
