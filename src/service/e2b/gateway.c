/* The MCP gateway: a command in the sandbox that clients start (hand/mcp/gateway.h), and its port
 * for who has the token that they gave it. */
#include <strings.h>

#include "base/secret.h"
#include "base/sha256.h"
#include "runtime/hand-answer.h"
#include "service/e2b/e2b.h"

#define INSTALL_SECONDS 30.0
#define MEMBER "mcp" /* of the record: the digest of the token, in hexadecimal digits */

int e2b_add_gateway(struct box *b, struct tn_error *err)
{
    tn_autobuf struct tn_buf nothing = TN_BUF_INIT(16), answer = TN_BUF_INIT(16 << 10);
    tn_autofree char *address = NULL, *key = NULL;
    int64_t deadline = tn_deadline_in(INSTALL_SECONDS);
    int failed = box_hand(b, &address, &key, deadline, err) ||
                 tn_hand_ask(&(struct tn_hand_address){address, key}, "POST", "/v1/mcp/gateway",
                             &nothing, &answer, deadline, err);

    if (key)
        explicit_bzero(key, strlen(key));
    return failed ? tn_error_context(err, "mcp") : 0;
}

static void digest_of(const char *token, char out[2 * TN_SHA256_BYTES + 1])
{
    struct tn_sha256 h;

    tn_sha256_init(&h);
    tn_sha256_add(&h, token, strlen(token));
    tn_sha256_end_hex(&h, out);
}

int e2b_note_gateway(struct e2b_call *c, const struct tn_json *envs, struct tn_error *err)
{
    const char *token = tn_json_get_str(envs, "GATEWAY_ACCESS_TOKEN", NULL);
    char digest[2 * TN_SHA256_BYTES + 1];
    autoview struct box_view v = {0};

    if (!token || !*token)
        return 0;
    box_look(c->b, &v);
    digest_of(token, digest);
    tn_autofree char *value = tn_asprintf("\"%s\"", digest);
    tn_autojson struct tn_json *metadata = surface_metadata(
        v.metadata, E2B_RECORD, tn_json_get(v.metadata, E2B_RECORD), MEMBER, value, err);
    return metadata
               ? box_change(c->b, caller_of(c->x), &(struct box_change){.metadata = metadata}, err)
               : -1;
}

bool e2b_take_gateway(struct tn_service *s, struct tn_http_exchange *x, const char *id)
{
    const char *given = tn_http_header(x, "Authorization");
    char digest[2 * TN_SHA256_BYTES + 1];
    autoview struct box_view v = {0};

    if (!given || strncasecmp(given, "Bearer ", 7) != 0 || strcmp(tn_http_path(x), "/mcp") != 0)
        return false;
    autobox struct box *b = box_find(s, NULL, id, NULL);
    if (!b)
        return false;
    box_look(b, &v);
    const char *wanted = tn_json_get_str(tn_json_get(v.metadata, E2B_RECORD), MEMBER, NULL);
    digest_of(given + 7, digest);
    if (!wanted || !tn_same_secret(digest, wanted))
        return false;
    if (surface_enter(x, b, v.key_id))
        e2b_pass(x, b, E2B_MCP_PORT);
    return true;
}
