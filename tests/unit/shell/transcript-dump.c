/* Prints the transcript of its standard input: transcript-dump COLUMNS ROWS MAX_ROWS.  For
 * comparing with other terminals (tests/shell/test_transcript.py) and for looking at one by hand.
 */
#include <stdio.h>
#include <stdlib.h>

#include "hand/shell/transcript.h"

int main(int argc, char **argv)
{
    tn_autobuf struct tn_buf out = TN_BUF_INIT(64 << 20);
    static char bytes[64 << 10];
    size_t n;

    if (argc != 4) {
        fprintf(stderr, "usage: %s COLUMNS ROWS MAX_ROWS <bytes\n", argv[0]);
        return 2;
    }
    struct tn_transcript *t =
        tn_transcript_new((int)strtol(argv[1], NULL, 10), (int)strtol(argv[2], NULL, 10),
                          strtoul(argv[3], NULL, 10), 4 << 20);
    while ((n = fread(bytes, 1, sizeof bytes, stdin)) > 0)
        tn_transcript_feed(t, bytes, n);
    int r = tn_transcript_take(t, &out);
    fwrite(tn_buf_str(&out), 1, out.len, stdout);
    tn_transcript_free(t);
    return r < 0 || fflush(stdout) != 0;
}
