/* The reference for requests per second: libmicrohttpd, epoll, one thread, a small JSON answer. */
#include <microhttpd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *data,
                              size_t *size, void **state)
{
    static char body[] = "{\"status\":\"ok\"}";
    struct MHD_Response *response =
        MHD_create_response_from_buffer(sizeof body - 1, body, MHD_RESPMEM_PERSISTENT);
    MHD_add_response_header(response, "Content-Type", "application/json");
    enum MHD_Result r = MHD_queue_response(connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return r;
}

int main(int argc, char **argv)
{
    sigset_t signals;
    int got;

    if (argc != 2)
        return 2;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_TURBO, (uint16_t)strtoul(argv[1], NULL, 10), NULL,
        NULL, answer, NULL, MHD_OPTION_CONNECTION_LIMIT, 256u, MHD_OPTION_END);
    if (!daemon)
        return 1;
    sigwait(&signals, &got);
    MHD_stop_daemon(daemon);
    return 0;
}
