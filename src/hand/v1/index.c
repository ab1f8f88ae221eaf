/* /v1/routes: what this server answers to, from the tables it routes by. */
#include "hand/routes.h"
#include "hand/v1/v1.h"

static void get_routes(struct tn_http_exchange *x, void *ctx)
{
    tn_autobuf struct tn_buf json = TN_BUF_INIT(64 << 10);
    struct tn_jw w = tn_jw(&json);

    tn_jw_object(&w);
    tn_jw_key(&w, "routes");
    tn_jw_array(&w);
    for (const struct tn_route **table = tn_route_tables; *table; table++) {
        for (const struct tn_route *r = *table; r->pattern; r++) {
            tn_jw_object(&w);
            tn_jw_kstr(&w, "method", r->method);
            tn_jw_kstr(&w, "path", r->pattern);
            tn_jw_kstr(&w, "help", r->help);
            tn_jw_kbool(&w, "open", r->flags & TN_ROUTE_OPEN);
            tn_jw_object_end(&w);
        }
    }
    tn_jw_array_end(&w);
    tn_jw_object_end(&w);
    tn_http_reply_json(x, 200, &json);
}

const struct tn_route tn_routes_index[] = {
    {"GET", "/v1/routes", get_routes, "this list", 0},
    {0},
};
