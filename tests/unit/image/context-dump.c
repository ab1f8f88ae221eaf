/* Writes a build context to standard output: context-dump tar|packed DOCKERFILE [DIRECTORY] */
#include <stdio.h>
#include <string.h>

#include "image/context.h"

int main(int argc, char **argv)
{
    struct tn_error err = {0};
    char piece[777]; /* no divisor of anything */
    ssize_t n;

    if (argc < 3)
        return 2;
    tn_autocontext struct tn_context *c = tn_context_new(argv[2], argc > 3 ? argv[3] : NULL, &err);
    if (!c)
        goto failed;
    int packed = !strcmp(argv[1], "packed");
    struct tn_packed *p = packed ? tn_packed_new(c) : NULL;
    while ((n = packed ? tn_packed_read(piece, sizeof piece, p, &err)
                       : tn_context_read(piece, sizeof piece, c, &err)) > 0)
        fwrite(piece, 1, (size_t)n, stdout);
    tn_packed_free(p);
    if (n == 0)
        return 0;
failed:
    fprintf(stderr, "%s\n", err.text);
    return 1;
}
