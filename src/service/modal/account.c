/* What comes before any sandbox: greetings, environments, apps, which are names and nothing else.
 */
#include "base/sha256.h"
#include "service/jws.h"
#include "service/modal/modal.h"

#define TOKEN_SECONDS 86400
#define BUILDER "2025.06" /* of whose images clients put nothing of their own into ours */

/* Clients look at its time alone: what counts is the key that comes with every call. */
static int auth_token_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    Modal__AuthTokenGetResponse out = MODAL__AUTH_TOKEN_GET_RESPONSE__INIT;
    tn_autobuf struct tn_buf token = TN_BUF_INIT(JWS_MAX);
    char secret[SURFACE_TOKEN];

    surface_token(c->s, "modal-auth", "", secret);
    tn_autofree char *claims =
        tn_asprintf("{\"exp\":%lld}", (long long)service_time() + TOKEN_SECONDS);
    jws_sign(secret, claims, &token);
    out.token = token.data;
    return modal_send(c, &out, err);
}

static int client_hello(struct modal_call *c, const void *request, struct tn_error *err)
{
    static char builder[] = BUILDER;
    Modal__ClientHelloResponse out = MODAL__CLIENT_HELLO_RESPONSE__INIT;

    out.image_builder_version = builder;
    return modal_send(c, &out, err);
}

static int environment_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    static char builder[] = BUILDER, id[] = "en-main", name[] = "main";
    const Modal__EnvironmentGetOrCreateRequest *in = request;
    Modal__EnvironmentGetOrCreateResponse out = MODAL__ENVIRONMENT_GET_OR_CREATE_RESPONSE__INIT;
    Modal__EnvironmentMetadata metadata = MODAL__ENVIRONMENT_METADATA__INIT;
    Modal__EnvironmentSettings settings = MODAL__ENVIRONMENT_SETTINGS__INIT;

    settings.image_builder_version = builder;
    metadata.name = in->deployment_name && *in->deployment_name ? in->deployment_name : name;
    metadata.settings = &settings;
    out.environment_id = id;
    out.metadata = &metadata;
    return modal_send(c, &out, err);
}

void modal_app_id(const char *name, char out[MODAL_APP_ID])
{
    struct tn_sha256 h;
    char hex[2 * TN_SHA256_BYTES + 1];

    tn_sha256_init(&h);
    tn_sha256_add(&h, name, strlen(name));
    tn_sha256_end_hex(&h, hex);
    snprintf(out, MODAL_APP_ID, "ap-%.22s", hex);
}

static int app_get(struct modal_call *c, const void *request, struct tn_error *err)
{
    const Modal__AppGetOrCreateRequest *in = request;
    Modal__AppGetOrCreateResponse out = MODAL__APP_GET_OR_CREATE_RESPONSE__INIT;
    Modal__AppHandleMetadata metadata = MODAL__APP_HANDLE_METADATA__INIT;
    char id[MODAL_APP_ID];

    if (!in->app_name || !*in->app_name || strlen(in->app_name) > 64)
        return tn_fail(err, TN_E_INVALID, "app_name: expected 1 to 64 characters");
    modal_app_id(in->app_name, id);
    metadata.description = in->app_name;
    metadata.app_id = out.app_id = id;
    out.handle_metadata = &metadata;
    return modal_send(c, &out, err);
}

const struct modal_method modal_account[] = {
    {"AuthTokenGet", MODAL_MESSAGE(empty), auth_token_get, SCOPE_READ},
    {"ClientHello", MODAL_MESSAGE(empty), client_hello, SCOPE_READ},
    {"EnvironmentGetOrCreate", MODAL_MESSAGE(environment_get_or_create_request), environment_get,
     SCOPE_READ},
    {"AppGetOrCreate", MODAL_MESSAGE(app_get_or_create_request), app_get, SCOPE_READ},
    {0},
};
