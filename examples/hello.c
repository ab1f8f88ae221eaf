/* Makes a sandbox, runs a command in it, prints the output, and removes it again.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs tendon)
 *     ./hello 'uname -a; id'
 *
 * The sandbox is a jail unless the environment says otherwise (TENDON_RUNTIME=docker). */
#include <stdio.h>
#include <stdlib.h>

#include <tendon/tendon.h>

static int fail(const char *what, const struct tendon_error *err)
{
    fprintf(stderr, "hello: %s: %s\n", what, err->text);
    return 1;
}

int main(int argc, char **argv)
{
    const char *command = argc > 1 ? argv[1] : "echo \"hello from $(hostname), process $$\"";
    struct tendon_error err = {0};
    char *output = NULL;

    struct tendon *tendon = tendon_open(NULL, NULL, &err);
    if (!tendon)
        return fail("open", &err);

    /* It ends with this program, however that ends. */
    struct tendon_sandbox *sandbox = tendon_create(tendon, NULL, 30, &err);
    if (!sandbox) {
        tendon_close(tendon);
        return fail("create", &err);
    }

    int status = tendon_run(sandbox, command, 30, &output, &err);
    if (status < 0)
        status = fail("run", &err);
    else
        printf("%s\n", output);
    free(output);

    if (tendon_remove(sandbox, 30, &err) < 0)
        status = fail("remove", &err);
    tendon_close(tendon);
    return status;
}
