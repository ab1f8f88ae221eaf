/* WWW-Authenticate and the URLs in it: what is read is well formed, whatever came. */
#include <assert.h>
#include <stdint.h>

#include "base/buf.h"
#include "runtime/mcp/challenge.h"

static void check_url(const char *text)
{
    struct mcp_url u, again;

    if (mcp_url_read(text, &u, NULL) < 0)
        return;
    assert(*u.host && !strpbrk(u.host, "@/?# \r\n") && !strpbrk(u.path, "?# \r\n"));
    assert(!*u.path || *u.path == '/');
    assert(!*u.query || *u.query == '?');
    assert(mcp_url_covers(&u, &u) || *u.query);
    /* What it was taken apart into is the same URL. */
    tn_autofree char *joined = tn_asprintf("%s%s%s", u.origin, u.path, u.query);
    assert(mcp_url_read(joined, &again, NULL) == 0);
    assert(strcmp(again.origin, u.origin) == 0 && strcmp(again.path, u.path) == 0);
    assert(strcmp(again.host, u.host) == 0 && again.secure == u.secure);
    mcp_url_done(&again);
    mcp_url_done(&u);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *text = tn_strndup((const char *)data, size);
    mcp_autochallenge struct mcp_challenge c;

    mcp_challenge_read(text, &c);
    assert(c.bearer || (!c.metadata && !c.scope && !c.error));
    check_url(text);
    if (c.metadata)
        check_url(c.metadata);
    tn_autofree char *scopes = mcp_scope_join(c.scope, text);
    if (size < 4096)
        assert(mcp_scope_has(scopes, c.scope));
    return 0;
}
