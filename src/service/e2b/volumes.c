/* Volumes (volume.h): made, listed, mounted by create.  Their files are those that sandboxes put
 * there: the API of their content is not served, and their token opens nothing. */
#include "service/e2b/e2b.h"
#include "service/volume.h"

static void put(struct tn_jw *w, const char *tenant, const struct volume *v)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "volumeID", v->name);
    tn_jw_kstr(w, "name", v->name);
    tn_jw_kstr(w, "token", "");
    tn_jw_object_end(w);
}

static void volumes(struct tn_http_exchange *x, void *ctx)
{
    static const struct surface_volumes how = {.put = put, .made = 201, .deleted = 204};

    surface_volumes(x, ctx, &how);
}

const struct tn_route routes_e2b_volumes[] = {
    {"GET", "/volumes", volumes, "E2B: volumes of the tenant", 0},
    {"POST", "/volumes", volumes, "E2B: a new volume", 0},
    {"GET", "/volumes/{volume}", volumes, "E2B: a volume", 0},
    {"DELETE", "/volumes/{volume}", volumes, "E2B: removes a volume with its files", 0},
    {0},
};
