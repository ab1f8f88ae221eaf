/* The words around what is seen. */
#include "hand/browser/view.h"

static void put_error(struct tn_buf *out, const char *when, const char *error)
{
    tn_buf_printf(out,
                  "================ BEGIN error message ===============\n"
                  "The following error occurred when %s:\n"
                  "%s\n"
                  "================ END error message ===============\n",
                  when, error);
}

static const char still_loading[] =
    "[The page is still loading: this is what has come of it so far.]\n";

void tn_view_put_interactive(struct tn_buf *out, const struct tn_view_facts *facts,
                             const struct tn_view *view)
{
    tn_buf_printf(out, "[Current URL: %s]\n[Focused element bid: %s]\n", facts->url, view->focused);
    if (facts->screenshot_path)
        tn_buf_printf(out, "[Screenshot saved to: %s]\n", facts->screenshot_path);
    if (view->loading)
        tn_buf_puts(out, still_loading);
    tn_buf_putc(out, '\n');
    if (facts->error && *facts->error)
        put_error(out, "executing the last action", facts->error);
    else
        tn_buf_puts(out, "[Action executed successfully.]\n");
    if (view->tree_error) {
        tn_buf_printf(out, "\n[Error encountered when processing the accessibility tree: %s]",
                      view->tree_error);
        return;
    }
    tn_buf_puts(out,
                "Accessibility tree of the COMPLETE webpage:\n"
                "Note: [bid] is the unique alpha-numeric identifier at the beginning of lines for "
                "each element in the AXTree. Always use bid to refer to elements in your actions.\n"
                "============== BEGIN accessibility tree ==============\n");
    tn_buf_puts(out, view->tree);
    tn_buf_puts(out, "\n============== END accessibility tree ==============\n");
}

void tn_view_put_browse(struct tn_buf *out, const struct tn_view_facts *facts,
                        const struct tn_view *view)
{
    tn_buf_printf(out, "[Current URL: %s]\n", facts->url);
    if (view->loading)
        tn_buf_puts(out, still_loading);
    if (facts->error && *facts->error)
        put_error(out, "trying to visit the URL", facts->error);
    tn_buf_puts(out, "============== BEGIN webpage content ==============\n");
    if (view->tree_error)
        tn_buf_printf(out, "[Error encountered when processing the webpage: %s]\n",
                      view->tree_error);
    tn_buf_puts(out, view->text);
    tn_buf_puts(out, "\n============== END webpage content ==============\n");
}
