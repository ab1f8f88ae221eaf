/* The remote builder from the command line: remote-build URL KEY IMAGE [TAG...] */
#include <stdio.h>

#include "image/remote.h"

static void show(const char *text, void *ctx)
{
    fprintf(stderr, "%s\n", text);
}

int main(int argc, char **argv)
{
    struct tn_error err = {0};
    tn_autofree char *image = NULL;

    if (argc < 4)
        return 2;
    tn_autoweb struct tn_web *web = tn_web_new(&(struct tn_web_options){.base = argv[1]}, &err);
    tn_autocontext struct tn_context *context = tn_context_new("FROM scratch\n", ".", &err);
    struct tn_remote_build build = {.context = context,
                                    .image = argv[3],
                                    .tags = (const char *const *)argv + 4,
                                    .tag_count = (size_t)argc - 4,
                                    .progress = show};
    tn_autofree char *prefix = NULL;
    int exists;
    if (!web || !context || tn_web_header(web, "X-API-Key", argv[2], &err) ||
        !(prefix = tn_remote_registry_prefix(web, tn_deadline_in(20), &err)) ||
        tn_remote_build(web, &build, &image, tn_deadline_in(20), &err) ||
        (exists = tn_remote_image_exists(web, image, tn_deadline_in(20), &err)) < 0) {
        fprintf(stderr, "%s: %s\n", tn_code_row(err.code)->name, err.text);
        return 1;
    }
    printf("%s %s %d\n", prefix, image, exists);
    return 0;
}
