#include "gate/roots.h"

#include "base/guard.h"

const char *const tn_root_bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine, Arch */
    "/etc/pki/tls/certs/ca-bundle.crt",   /* Fedora, Red Hat */
    "/etc/ssl/cert.pem",                  /* Alpine, BSD */
    "/etc/ssl/ca-bundle.pem",             /* SUSE */
    NULL,
};
const size_t tn_root_bundle_count = TN_COUNT(tn_root_bundles) - 1;

const char *const tn_root_policies[] = {
    "/etc/chromium/policies/managed/tendon-authority.json",
    "/etc/opt/chrome/policies/managed/tendon-authority.json",
    NULL,
};
const size_t tn_root_policy_count = TN_COUNT(tn_root_policies) - 1;

const char *const tn_root_variables[] = {
    "SSL_CERT_FILE=" TN_ROOTS_BUNDLE, /* OpenSSL, Python, Ruby, Go */
    "CURL_CA_BUNDLE=" TN_ROOTS_BUNDLE,
    "REQUESTS_CA_BUNDLE=" TN_ROOTS_BUNDLE,
    "GIT_SSL_CAINFO=" TN_ROOTS_BUNDLE,
    "PIP_CERT=" TN_ROOTS_BUNDLE,
    "AWS_CA_BUNDLE=" TN_ROOTS_BUNDLE,
    "CARGO_HTTP_CAINFO=" TN_ROOTS_BUNDLE,
    "NIX_SSL_CERT_FILE=" TN_ROOTS_BUNDLE,
    "DENO_CERT=" TN_ROOTS_AUTHORITY, /* these add to what they have */
    "NODE_EXTRA_CA_CERTS=" TN_ROOTS_AUTHORITY,
    NULL,
};
