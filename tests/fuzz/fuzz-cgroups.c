/* Where control groups are: mountinfo, a NUL, and /proc/self/cgroup.  Mount points are looked up,
 * so what is found is only ever something that exists. */
#include "base/buf.h"
#include "jail/cgroup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tn_autofree char *mounts = tn_malloc(size + 2);
    tn_autocgroups struct tn_cgroups c;

    memcpy(mounts, data, size);
    mounts[size] = mounts[size + 1] = 0;
    if (tn_cgroups_parse(&c, mounts, mounts + strlen(mounts) + 1, NULL) < 0)
        abort();
    bool found = false;
    for (int i = 0; i < TN_CGROUP_KINDS; i++)
        found = found || c.base[i];
    if (found == (c.why != NULL))
        abort();
    return 0;
}
