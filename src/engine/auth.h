/* What `docker login` knows of a registry. */
#ifndef TN_ENGINE_AUTH_H
#define TN_ENGINE_AUTH_H

#include <stdint.h>

#include "base/guard.h"

/* Secrets; all NULL: none is known. */
struct tn_login {
    char *username, *password;
    char *token; /* an identity token; where there is one, it counts */
};

/* The login of an image's registry, from the files and helpers of `docker login`; all of it stays
 * NULL where there is none.  login is all zero before. */
void tn_login_find(const char *reference, struct tn_login *login, int64_t deadline);
void tn_login_done(struct tn_login *login);
#define tn_autologin TN_CLEANUP(tn_login_done)

#endif
