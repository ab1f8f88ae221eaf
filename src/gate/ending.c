#include "gate/ending.h"

#include "base/clock.h"
#include "base/fs.h"
#include "gate/roots.h"
#include "net/tls-certificate.h"

enum {
    LEAVES = 64,
    LEAF_DAYS = 30,
    ROOTS_MAX = 8 << 20,
};
#define LEAF_SECONDS 86400 /* that one is used again */
/* Of TLS 1.2: who learns a key one day does not read what was recorded before. */
#define SUITES_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"

struct leaf {
    char name[TN_NAME_MAX + 1];
    X509 *certificate; /* NULL: none */
    int64_t until;
};

struct ending {
    const struct tn_tls_lib *lib;
    SSL_CTX *inside, *outside;
    X509 *authority;
    EVP_PKEY *authority_key, *leaf_key; /* one key for all leaves of this gate */
    struct leaf leaves[LEAVES];
    size_t next;
};

static const unsigned char protocols[] = "\x08http/1.1";

const struct tn_tls_lib *ending_lib(const struct ending *e)
{
    return e->lib;
}

/* --- whom it believes ------------------------------------------------------------------------ */

/* Adds all certificates of the text; how many. */
static int add_roots(const struct ending *e, const char *pem, size_t size)
{
    const struct tn_tls_lib *lib = e->lib;
    BIO *in = lib->BIO_new_mem_buf(pem, (int)size);
    int count = 0;

    for (X509 *x; in && (x = lib->PEM_read_bio_X509(in, NULL, NULL, NULL));) {
        count += lib->X509_STORE_add_cert(lib->SSL_CTX_get_cert_store(e->outside), x) == 1;
        lib->X509_free(x);
    }
    lib->BIO_free(in);
    lib->ERR_clear_error(); /* the last one is that there are no more */
    return count;
}

static void add_bundle(const struct ending *e)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(ROOTS_MAX);

    for (const char *const *path = tn_root_bundles; *path; path++) {
        tn_buf_reset(&text);
        if (tn_fs_read(TN_FS_ANYWHERE, *path, &text, NULL) == 0 &&
            add_roots(e, tn_buf_str(&text), text.len) > 0)
            return;
    }
}

/* --- setting up ------------------------------------------------------------------------------ */

/* What both sides speak inside; who offers only something else is told so. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *size,
                           const unsigned char *in, unsigned n, void *ctx)
{
    for (unsigned i = 0; i < n; i += in[i] + 1U) {
        if (in[i] == protocols[0] && i + in[i] < n &&
            memcmp(in + i + 1, protocols + 1, in[i]) == 0) {
            *out = in + i + 1;
            *size = in[i];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static SSL_CTX *new_side(const struct tn_tls_lib *lib, const SSL_METHOD *method)
{
    SSL_CTX *ctx = lib->SSL_CTX_new(method);

    if (!ctx || lib->SSL_CTX_set_cipher_list(ctx, SUITES_1_2) != 1)
        return ctx;
    lib->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_2_VERSION, NULL);
    lib->SSL_CTX_ctrl(ctx, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    lib->SSL_CTX_ctrl(ctx, SSL_CTRL_MODE,
                      SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                          SSL_MODE_RELEASE_BUFFERS,
                      NULL);
    lib->SSL_CTX_set_options(ctx,
                             SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    return ctx;
}

static int no_password(char *buf, int size, int writing, void *ctx)
{
    return -1;
}

static bool take_authority(struct ending *e, const struct vault *v)
{
    const struct tn_tls_lib *lib = e->lib;
    BIO *certificate = lib->BIO_new_mem_buf(v->certificate, -1);
    BIO *key = lib->BIO_new_mem_buf(v->key, -1);

    e->authority = certificate ? lib->PEM_read_bio_X509(certificate, NULL, NULL, NULL) : NULL;
    e->authority_key = key ? lib->PEM_read_bio_PrivateKey(key, NULL, no_password, NULL) : NULL;
    e->leaf_key = tn_certificate_key(lib);
    lib->BIO_free(certificate);
    lib->BIO_free(key);
    lib->ERR_clear_error();
    return e->authority && e->authority_key && e->leaf_key;
}

struct ending *ending_new(const struct vault *v, struct tn_error *err)
{
    const struct tn_tls_lib *lib = tn_tls_lib(err);

    if (!lib)
        return NULL;
    struct ending *e = tn_calloc(1, sizeof *e);
    e->lib = lib;
    e->inside = new_side(lib, lib->TLS_server_method());
    e->outside = new_side(lib, lib->TLS_client_method());
    if (!e->inside || !e->outside || !take_authority(e, v) ||
        lib->SSL_CTX_set_alpn_protos(e->outside, protocols, sizeof protocols - 1) != 0) {
        tn_fail(err, TN_E_INVALID, "the authority of the sandbox cannot be used");
        return NULL; /* the gate ends */
    }
    lib->SSL_CTX_set_num_tickets(e->inside, 0);
    lib->SSL_CTX_set_alpn_select_cb(e->inside, choose_protocol, NULL);
    lib->SSL_CTX_set_verify(e->outside, SSL_VERIFY_PEER, NULL);
    add_bundle(e);
    add_roots(e, v->roots, strlen(v->roots));
    return e;
}

/* --- connections ----------------------------------------------------------------------------- */

static X509 *leaf_for(struct ending *e, const char *name)
{
    struct leaf *l = NULL;

    for (size_t i = 0; i < LEAVES; i++)
        if (e->leaves[i].certificate && strcmp(e->leaves[i].name, name) == 0)
            l = &e->leaves[i];
    if (l && tn_now() < l->until)
        return l->certificate;
    if (!l)
        l = &e->leaves[e->next++ % LEAVES];
    e->lib->X509_free(l->certificate);
    const struct tn_certificate wanted = {.subject = "Tendon gate",
                                          .host = name,
                                          .days = LEAF_DAYS,
                                          .key = e->leaf_key,
                                          .issuer = e->authority,
                                          .issuer_key = e->authority_key};
    *l = (struct leaf){.certificate = tn_certificate_make(e->lib, &wanted),
                       .until = tn_deadline_in(LEAF_SECONDS)};
    snprintf(l->name, sizeof l->name, "%s", name);
    return l->certificate;
}

static SSL *new_connection(const struct ending *e, SSL_CTX *ctx, int fd)
{
    SSL *ssl = e->lib->SSL_new(ctx);

    if (!ssl || e->lib->SSL_set_fd(ssl, fd) == 1)
        return ssl;
    e->lib->SSL_free(ssl);
    return NULL;
}

SSL *ending_towards_client(struct ending *e, const char *name, int fd)
{
    X509 *leaf = leaf_for(e, name);
    SSL *ssl = leaf ? new_connection(e, e->inside, fd) : NULL;

    if (!ssl || (e->lib->SSL_use_certificate(ssl, leaf) == 1 &&
                 e->lib->SSL_use_PrivateKey(ssl, e->leaf_key) == 1))
        return ssl;
    e->lib->SSL_free(ssl);
    return NULL;
}

SSL *ending_towards_server(struct ending *e, const char *name, int fd)
{
    SSL *ssl = new_connection(e, e->outside, fd);

    if (!ssl || (e->lib->SSL_set1_host(ssl, name) == 1 &&
                 e->lib->SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                                  (void *)(uintptr_t)name) == 1))
        return ssl;
    e->lib->SSL_free(ssl);
    return NULL;
}

const char *ending_why(const struct ending *e, const SSL *ssl)
{
    long verified = e->lib->SSL_get_verify_result(ssl);
    unsigned long code = e->lib->ERR_get_error();
    const char *reason = code ? e->lib->ERR_reason_error_string(code) : NULL;

    e->lib->ERR_clear_error();
    if (verified != X509_V_OK)
        return e->lib->X509_verify_cert_error_string(verified);
    return reason ? reason : "the connection was closed";
}
