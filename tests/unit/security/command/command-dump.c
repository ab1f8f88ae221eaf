/* What the command tree makes of texts, for tests in other languages.
 *
 *   command-dump print    the text printed from its tree, or a byte 1 and the reason of a refusal
 *   command-dump words    the words of the last call, a line for each; "?" before unknown ones
 *   command-dump deeds    nothing for a call that is seen, runs no other and touches no file
 *
 * Texts come on standard input, each ended by a NUL; so do the answers. */
#include <stdio.h>
#include <string.h>

#include "command-print.h"
#include "security/command/calls.h"

static void print_tree(const char *text, struct tn_buf *out)
{
    struct tn_error err = {0};
    struct tn_sh_tree *tree = tn_sh_parse(text, strlen(text), &err);
    if (tree)
        command_print(tree, out);
    else
        tn_buf_printf(out, "\1%s", err.text);
    tn_sh_tree_free(tree);
}

static void print_words(const char *text, struct tn_buf *out)
{
    struct tn_error err = {0};
    struct tn_calls *calls = tn_calls_new(text, strlen(text), &err);
    if (!calls) {
        tn_buf_printf(out, "\1%s", err.text);
        return;
    }
    const struct tn_call *last = calls->first;
    while (last && last->next)
        last = last->next;
    for (size_t i = 0; last && i < last->argc; i++)
        tn_buf_printf(out, "%s%s\n", last->argv[i].value ? "" : "?", last->argv[i].text);
    tn_calls_free(calls);
}

static void print_deeds(const char *text, struct tn_buf *out)
{
    struct tn_error err = {0};
    struct tn_calls *calls = tn_calls_new(text, strlen(text), &err);
    const struct tn_call *first = calls ? calls->first : NULL;
    if (!first)
        tn_buf_printf(out, "\1%s", err.text);
    else if (first->unseen || first->next || first->redirects)
        tn_buf_printf(out, "%s, %zu calls, files: %d", tn_unseen_text(first->unseen), calls->count,
                      first->redirects != NULL);
    tn_calls_free(calls);
}

int main(int argc, char **argv)
{
    tn_autobuf struct tn_buf input = TN_BUF_INIT(64 << 20);
    size_t n;
    do {
        char *room = tn_buf_reserve(&input, 1 << 16);
        if (!room)
            return 1;
        n = fread(room, 1, 1 << 16, stdin);
        tn_buf_grew(&input, n);
    } while (n > 0);
    const char *mode = argc > 1 ? argv[1] : "";
    void (*print)(const char *, struct tn_buf *) = strcmp(mode, "words") == 0   ? print_words
                                                   : strcmp(mode, "deeds") == 0 ? print_deeds
                                                                                : print_tree;
    const char *text = tn_buf_str(&input), *end = text + input.len;
    for (; text < end; text += strlen(text) + 1) {
        tn_autobuf struct tn_buf out = TN_BUF_INIT(16 << 20);
        print(text, &out);
        fwrite(tn_buf_str(&out), 1, out.len + 1, stdout);
    }
    return 0;
}
