#include "hand/browser/mark.h"

#include "hand/embedded.h"

const char *tn_mark_script(void)
{
    return (const char *)tn_embedded_find("src/hand/browser/mark.js")->bytes;
}
