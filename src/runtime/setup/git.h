/* Git providers: their hosts, their tokens, their URLs.
 *
 * A token is never part of a command line or of a repository's configuration unless somebody asks
 * for that: a clone gets a credential helper that takes it from the variable of the provider, in
 * the sandbox, at the moment it is needed.  So a token that was refreshed is used at once, and what
 * is left on disk is the name of a variable. */
#ifndef TN_RUNTIME_SETUP_GIT_H
#define TN_RUNTIME_SETUP_GIT_H

#include "base/buf.h"
#include "base/error.h"

enum tn_git_provider {
    TN_GIT_GITHUB,
    TN_GIT_GITLAB,
    TN_GIT_BITBUCKET,
    TN_GIT_AZURE_DEVOPS,
    TN_GIT_ENTERPRISE_SSO, /* a token only: no repositories */
    TN_GIT_PROVIDERS
};

struct tn_git_token {
    enum tn_git_provider provider;
    const char *token;
    const char *host; /* instead of the provider's own; NULL: that one */
};

/* "github"; lives for ever. */
const char *tn_git_provider_name(enum tn_git_provider provider);
int tn_git_provider_find(const char *name, enum tn_git_provider *provider, struct tn_error *err);
/* "github_token": the variable, in lower case as OpenHands has it. */
const char *tn_git_provider_key(enum tn_git_provider provider);

/* A repository as it was asked for, and how it is reached. */
struct git_place {
    char *url;       /* without credentials */
    char *directory; /* last part of its path */
    char *helper;    /* value for the credential helper, or NULL: none is needed */
    char *helper_key;
    const struct tn_git_token *token; /* that fits, or NULL */
    enum tn_git_provider provider;    /* TN_GIT_PROVIDERS: unknown */
};
void git_place_done(struct git_place *p);
#define autoplace TN_CLEANUP(git_place_done)

/* repository is OWNER/NAME (deeper for GitLab, ORG/PROJECT/NAME for Azure DevOps) of the provider,
 * or a whole URL (https, http, ssh, git, file, user@host:path) or an absolute path.  provider
 * TN_GIT_PROVIDERS: that of the only token, or GitHub.  The token is borrowed. */
int git_place_find(struct git_place *p, const char *repository, enum tn_git_provider provider,
                   const struct tn_git_token *tokens, size_t token_count, struct tn_error *err);

/* Appends the URL with the token in it, as OpenHands writes it; the plain one without a token. */
void git_put_authenticated_url(const struct git_place *p, struct tn_buf *out);

/* Appends what goes between `git` and `clone`, or what follows `clone`, to use the helper. */
void git_put_helper_option(const struct git_place *p, const char *option, struct tn_buf *out);
/* " NAME='token'" for the command that needs it; nothing without a token. */
void git_put_token_assignment(const struct git_place *p, struct tn_buf *out);

/* A name that `git checkout` takes for a branch and nothing else. */
int git_check_branch(const char *branch, struct tn_error *err);

/* Owner of the repositories next to this one, or NULL: who may have microagents for all of them. */
char *git_owner(const struct git_place *p, const char *repository);
/* Repository in which that owner keeps them, on the heap. */
char *git_owner_repository(enum tn_git_provider provider, const char *owner);

#endif
