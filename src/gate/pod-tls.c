/* OpenSSL as a part of the program, for the image of the hand, which has no libraries. */
#include "net/tls-lib.h"

const struct tn_tls_lib *tn_tls_lib(struct tn_error *err)
{
    static const struct tn_tls_lib functions = {
#define MEMBER(name) .name = name,
        TLS_FUNCTIONS(MEMBER)
#undef MEMBER
    };

    return &functions;
}
