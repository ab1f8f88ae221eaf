/* Other variables for a sandbox that exists. */
#include "runtime/runtime.h"

enum { SPEC_MAX = 1 << 20 };

int tn_sandbox_keep_spec(struct tn_sandbox *sb, const struct tn_spec *spec, struct tn_error *err)
{
    tn_autobuf struct tn_buf text = TN_BUF_INIT(SPEC_MAX);
    struct tn_jw w = tn_jw(&text);

    tn_jw_object(&w);
    tn_spec_to_json(spec, &w);
    tn_jw_object_end(&w);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the spec is larger than %d KiB", SPEC_MAX >> 10);
    return tn_store_spec(sb->rt->store, sb->id, tn_buf_str(&text), err);
}

int tn_sandbox_change_env(struct tn_sandbox *sb, struct tn_json *env, int64_t deadline,
                          struct tn_error *err)
{
    tn_autofd int lock = tn_sandbox_hold(sb, deadline, err);

    if (lock < 0)
        return -1;
    if (!(sb->backend->abilities & TN_CAN_CHANGE_ENV))
        return tn_fail(err, TN_E_UNSUPPORTED, "%s: variables of a sandbox stay as it was made with",
                       sb->backend->name);
    struct tn_spec wanted = sb->spec; /* borrows everything */
    wanted.env = env;
    if (tn_spec_check(&wanted, err) ||
        (sb->backend->check && sb->backend->check(&sb->rt->host, &wanted, err)) ||
        tn_sandbox_keep_spec(sb, &wanted, err))
        return -1;
    return tn_sandbox_reload(sb, err);
}
