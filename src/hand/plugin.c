#include "hand/plugin.h"

const struct tn_plugin tn_plugins[] = {
    {
        .name = "jupyter",
        .help = "IPython cells (run_ipython)",
        .missing = "JupyterRequirement not found. Unable to run IPython action.",
    },
    {
        .name = "agent_skills",
        .help = "Python helpers for the agent, loaded into the kernel",
        .missing = "agent skills need the jupyter plugin",
    },
    {
        .name = "vscode",
        .help = "an editor in the browser",
        .missing = "VSCode is not available in this build",
    },
    {0},
};

const struct tn_plugin *tn_plugin_find(const char *name)
{
    for (const struct tn_plugin *p = tn_plugins; p->name; p++) {
        if (strcmp(p->name, name) == 0)
            return p;
    }
    return NULL;
}
