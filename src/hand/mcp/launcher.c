#include "hand/mcp/launcher.h"

#include <string.h>

static const struct {
    const char *program, *install;
} launchers[] = {
    {"npx", "apt-get install npm"},
    {"npm", "apt-get install npm"},
    {"node", "apt-get install nodejs"},
    {"uvx", "pip install uv"},
    {"uv", "pip install uv"},
    {"pipx", "apt-get install pipx"},
    {"python3", "apt-get install python3"},
    {"python", "apt-get install python-is-python3"},
    {"docker", "apt-get install docker.io"},
};

int mcp_launcher_missing(const char *program, struct tn_error *err)
{
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

    for (size_t i = 0; i < TN_COUNT(launchers); i++) {
        if (strcmp(launchers[i].program, name) == 0)
            return tn_fail(err, err->code, "%s; to get it: %s", err->text, launchers[i].install);
    }
    return tn_fail(err, err->code, "%s; install %.200s in the sandbox", err->text, program);
}
