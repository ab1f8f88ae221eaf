/* Host names of previews, and targets with tickets in them.  The first line is the domain. */
#include <assert.h>
#include <stdint.h>
#include <strings.h>

#include "base/buf.h"
#include "service/preview-host.h"
#include "service/preview-lines.h"

static void use_host(const char *host, const char *domain)
{
    char id[11], name[600];
    int port;

    if (!preview_parse_host(host, domain, &port, id))
        return;
    assert(port >= 1 && port <= 65535 && preview_is_id(id, strlen(id)));
    int n = snprintf(name, sizeof name, "%d-%s.%s", port, id, domain);
    assert(n > 0 && (size_t)n < sizeof name);
    assert(strncasecmp(host, name, (size_t)n) == 0 &&
           strspn(host + n, ":0123456789") == strlen(host + n));
    /* What it is called is found again. */
    tn_autofree char *origin = preview_origin("http://127.0.0.1:7171", domain, id, port);
    char again[11];
    int same;
    assert(preview_parse_host(origin + strlen("http://"), domain, &same, again));
    assert(same == port && strcmp(again, id) == 0);
}

static void use_target(const char *target)
{
    tn_autobuf struct tn_buf once = TN_BUF_INIT(1 << 20), twice = TN_BUF_INIT(1 << 20);
    char ticket[512];

    target_without_ticket(target, &once);
    target_without_ticket(tn_buf_str(&once), &twice);
    assert(once.len <= strlen(target));
    assert(strcmp(tn_buf_str(&once), tn_buf_str(&twice)) == 0);
    assert(!target_value(tn_buf_str(&once), TICKET_QUERY, ticket, sizeof ticket));
    assert(!target_value(tn_buf_str(&once), DAYTONA_QUERY, ticket, sizeof ticket));
    if (!target_value(target, TICKET_QUERY, ticket, sizeof ticket))
        return;
    assert(once.len < strlen(target));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *text = tn_strndup((const char *)data, size < 1000 ? size : 1000);
    size_t line = strcspn(text, "\n");

    use_target(text);
    preview_reaches(text, "localhost");
    if (!text[line] || line > 255)
        return 0;
    text[line] = '\0';
    use_host(text + line + 1, text);
    return 0;
}
