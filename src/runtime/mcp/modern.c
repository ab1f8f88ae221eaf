#include "runtime/mcp/modern.h"

const struct tn_mcp_meta *mcp_meta(bool asks)
{
    static const struct tn_mcp_meta mute = {"tendon", TN_VERSION, "{}", NULL};
    static const struct tn_mcp_meta talks = {"tendon", TN_VERSION,
                                             "{\"elicitation\":{\"form\":{}}}", NULL};

    return asks ? &talks : &mute;
}
