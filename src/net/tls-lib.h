/* OpenSSL, loaded when first needed: by the service that listens with TLS, by the gate that ends
 * it, by the safe of secrets, and to sign.  One table for all of them. */
#ifndef TN_NET_TLS_LIB_H
#define TN_NET_TLS_LIB_H

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/error.h"

#define TLS_FUNCTIONS(X)                  \
    X(ASN1_INTEGER_set_uint64)            \
    X(BIO_ctrl)                           \
    X(BIO_free)                           \
    X(BIO_new)                            \
    X(BIO_new_mem_buf)                    \
    X(BIO_s_mem)                          \
    X(BIO_s_secmem)                       \
    X(BN_bn2binpad)                       \
    X(BN_free)                            \
    X(BN_num_bits)                        \
    X(d2i_ECDSA_SIG)                      \
    X(ECDSA_SIG_free)                     \
    X(ECDSA_SIG_get0)                     \
    X(ERR_clear_error)                    \
    X(ERR_error_string_n)                 \
    X(ERR_get_error)                      \
    X(ERR_reason_error_string)            \
    X(EVP_aes_256_gcm)                    \
    X(EVP_CIPHER_CTX_ctrl)                \
    X(EVP_CIPHER_CTX_free)                \
    X(EVP_CIPHER_CTX_new)                 \
    X(EVP_CipherFinal_ex)                 \
    X(EVP_CipherInit_ex)                  \
    X(EVP_CipherUpdate)                   \
    X(EVP_DigestSign)                     \
    X(EVP_DigestSignInit)                 \
    X(EVP_MD_CTX_free)                    \
    X(EVP_MD_CTX_new)                     \
    X(EVP_PKEY_free)                      \
    X(EVP_PKEY_get_base_id)               \
    X(EVP_PKEY_get_bits)                  \
    X(EVP_PKEY_get_bn_param)              \
    X(EVP_PKEY_get_group_name)            \
    X(EVP_PKEY_Q_keygen)                  \
    X(EVP_sha256)                         \
    X(OPENSSL_thread_stop)                \
    X(PEM_read_bio_PrivateKey)            \
    X(PEM_read_bio_X509)                  \
    X(PEM_write_bio_PKCS8PrivateKey)      \
    X(PEM_write_bio_PrivateKey)           \
    X(PEM_write_bio_X509)                 \
    X(RAND_bytes)                         \
    X(SSL_accept)                         \
    X(SSL_connect)                        \
    X(SSL_ctrl)                           \
    X(SSL_CTX_check_private_key)          \
    X(SSL_CTX_ctrl)                       \
    X(SSL_CTX_free)                       \
    X(SSL_CTX_get_cert_store)             \
    X(SSL_CTX_new)                        \
    X(SSL_CTX_set_alpn_protos)            \
    X(SSL_CTX_set_alpn_select_cb)         \
    X(SSL_CTX_set_cipher_list)            \
    X(SSL_CTX_set_num_tickets)            \
    X(SSL_CTX_set_options)                \
    X(SSL_CTX_set_verify)                 \
    X(SSL_CTX_use_certificate_chain_file) \
    X(SSL_CTX_use_PrivateKey)             \
    X(SSL_free)                           \
    X(SSL_get_error)                      \
    X(SSL_get_verify_result)              \
    X(SSL_new)                            \
    X(SSL_read)                           \
    X(SSL_set1_host)                      \
    X(SSL_set_fd)                         \
    X(SSL_shutdown)                       \
    X(SSL_use_certificate)                \
    X(SSL_use_PrivateKey)                 \
    X(SSL_write)                          \
    X(TLS_client_method)                  \
    X(TLS_server_method)                  \
    X(X509_add_ext)                       \
    X(X509_EXTENSION_free)                \
    X(X509_free)                          \
    X(X509_get_serialNumber)              \
    X(X509_get_subject_name)              \
    X(X509_getm_notAfter)                 \
    X(X509_getm_notBefore)                \
    X(X509_gmtime_adj)                    \
    X(X509_NAME_add_entry_by_txt)         \
    X(X509_new)                           \
    X(X509_set_issuer_name)               \
    X(X509_set_pubkey)                    \
    X(X509_set_version)                   \
    X(X509_sign)                          \
    X(X509_STORE_add_cert)                \
    X(X509_verify_cert_error_string)      \
    X(X509V3_EXT_conf_nid)                \
    X(X509V3_set_ctx)

struct tn_tls_lib {
#define TLS_MEMBER(name) __typeof__(&name) name;
    TLS_FUNCTIONS(TLS_MEMBER)
#undef TLS_MEMBER
};

/* The functions; NULL with err (TN_E_UNSUPPORTED) when there is no OpenSSL here.  It stays loaded
 * until the process ends. */
const struct tn_tls_lib *tn_tls_lib(struct tn_error *err);

#endif
