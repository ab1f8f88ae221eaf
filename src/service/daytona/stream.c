/* What a process says, over a WebSocket: logs of a command, and terminals, which also listen. */
#include "service/channel.h"
#include "service/daytona/daytona.h"

void daytona_choose_protocol(struct tn_http_exchange *x)
{
    static const char known[] = "X-Daytona-Pty-Exit-Control";
    const char *offered = tn_http_header(x, "Sec-WebSocket-Protocol");
    char first[128];

    if (!offered)
        return;
    snprintf(first, sizeof first, "%.*s", (int)strcspn(offered, ", "), offered);
    tn_http_set_header(x, "Sec-WebSocket-Protocol", strstr(offered, known) ? known : first);
}

static void send_end(struct channel *ch)
{
    char text[128], reason[64];

    snprintf(text, sizeof text, "{\"type\":\"control\",\"status\":\"exited\",\"exitCode\":%lld}",
             (long long)ch->exit_code);
    snprintf(reason, sizeof reason, "{\"exitCode\":%lld}", (long long)ch->exit_code);
    channel_say(ch, TN_WS_TEXT, text, strlen(text));
    channel_close(ch, ch->exit_code ? 1011 : 1000, reason);
}

void daytona_stream(struct daytona_call *c, const char *which, bool terminal)
{
    static const char connected[] = "{\"type\":\"control\",\"status\":\"connected\"}";
    struct channel ch = {.x = c->x, .box = c->b, .terminal = terminal};

    daytona_choose_protocol(c->x);
    if (channel_open(&ch))
        return;
    if (!terminal || channel_say(&ch, TN_WS_TEXT, connected, sizeof connected - 1) == 0)
        channel_converse(&ch, which);
    if (ch.over && terminal)
        send_end(&ch);
    else
        channel_close(&ch, ch.over ? 1000 : 1001, "");
}
