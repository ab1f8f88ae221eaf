/* Runs a fuzz target over the files named on the command line: the corpus as a regression test. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        FILE *f = fopen(argv[i], "rb");
        if (!f) {
            perror(argv[i]);
            return 1;
        }
        fseek(f, 0, SEEK_END);
        size_t size = (size_t)ftell(f);
        rewind(f);
        uint8_t *data = malloc(size ? size : 1);
        if (!data || fread(data, 1, size, f) != size)
            return 1;
        fclose(f);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    printf("%d inputs replayed\n", argc - 1);
    return argc > 1 ? 0 : 1;
}
