#include "hand/browser/mark.h"

#include "hand/embedded.h"

char *tn_mark_script(void)
{
    return tn_embedded_text("src/hand/browser/mark.js.gz");
}
