/* What can be seen of a program in awk: commands that it gives to a shell, files that it opens. */
#include <ctype.h>

#include "security/policy/code.h"

/* A sign with what it is for behind it.  command: the string before it, or NULL. */
static void see_awk_sign(struct code *c, const char *command)
{
    const char *from = c->at;
    tn_autobuf struct tn_buf string = TN_BUF_INIT(1 << 20);

    for (c->at++; c->at < c->end && strchr("&> ", *c->at);)
        c->at++;
    if (*from == '|' && c->end - c->at >= 7 && strncmp(c->at, "getline", 7) == 0) {
        give_shell(c, command, false, from);
        return;
    }
    if (c->at == c->end || *c->at != '"') {
        if (*from == '|')
            give_shell(c, NULL, true, from);
        return;
    }
    read_string(c, &string);
    const char *text = tn_buf_str(&string), *next = c->at;
    while (next < c->end && *next == ' ')
        next++;
    if (*from == '|')
        give_shell(c, next == c->end || strchr(";})\n#", *next) ? text : NULL, true, from);
    else
        scene_add_path(c->s, c->s->cwd, pool_strdup(c->s->pool, text),
                       *from == '>' ? USE_WRITE : USE_READ, false, c->call,
                       (struct part){c->field, from, (size_t)(c->at - from)});
}

/* How many bytes follow the bracket of a class ("[:alpha:]"); 0: it is none. */
static size_t class_length(const char *at)
{
    size_t n = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz");

    return strncmp(at + n, ":]", 2) == 0 ? n + 1 : 0;
}

/* Skips the pattern of awk at c->at.  A slash in brackets ends it in some, and not in others. */
static void skip_awk_pattern(struct code *c)
{
    const char *from = c->at++;
    bool bracket = false, doubt = false;

    for (; c->at < c->end && *c->at != '\n' && (bracket || *c->at != '/'); c->at++) {
        doubt |= *c->at == '/';
        if (*c->at == '\\' && c->at + 1 < c->end)
            c->at++;
        else if (bracket && strncmp(c->at, "[:", 2) == 0)
            c->at += class_length(c->at);
        else if (*c->at == '[' && !bracket) {
            bracket = true;
            c->at += c->at + 1 < c->end && c->at[1] == '^';
            c->at += c->at + 1 < c->end && c->at[1] == ']';
        } else if (*c->at == ']')
            bracket = false;
    }
    c->at += c->at < c->end;
    c->odd |= doubt;
    if (bracket || (doubt && (memchr(from, '"', (size_t)(c->at - from)) ||
                              memchr(from, '#', (size_t)(c->at - from)))))
        give_shell(c, NULL, false, from);
}

/* system("command"), "command" | getline, print | "command", print > "file", getline < "file". */
void see_awk(struct code *c)
{
    tn_autobuf struct tn_buf string = TN_BUF_INIT(1 << 20);
    static const char starts[] = "({[};\n,&|!~=<>?:*%^$"; /* what an expression may stand behind */
    static const char words[] = "print printf return else do in case";
    char before = ';';
    bool alone = false; /* a string stands before, and nothing else */

    while (c->at < c->end) {
        const char *from = c->at;
        char here = *from, next = from + 1 < c->end ? from[1] : '\0';
        if (here == '"') {
            tn_buf_reset(&string);
            read_string(c, &string);
            see_hidden(c, from);
            alone = strchr(starts, before);
        } else if (here == '/' && strchr(starts, before)) {
            skip_awk_pattern(c);
            see_hidden(c, from);
            alone = false;
        } else if (here == '#') {
            while (c->at < c->end && *c->at != '\n')
                c->at++;
            see_hidden(c, from);
            continue;
        } else if (strchr("|<>", here) && (here != '|' || next != '|')) {
            see_awk_sign(c, alone ? tn_buf_str(&string) : NULL);
            alone = false;
        } else if (here == '@' && isalpha((unsigned char)next)) { /* @f("x"), @load */
            c->at++;
            mark_unread(c, unknown_name, from);
        } else if (here == '\\' && next == '\n') {
            c->at += 2;
            continue;
        } else if (name_byte(here)) {
            size_t n = 0;
            while (from + n < c->end && name_byte(from[n]))
                n++;
            tn_autofree char *name = tn_strndup(from, n);
            see_name(c);
            before = c->at > from + n && c->at[-1] == '(' ? '(' : word_in(name, words) ? ',' : 'a';
            alone = false;
            continue;
        } else {
            c->odd |= here == '/' && strchr(")+-", before); /* x++ / 2, or 1 + /x/ */
            c->at += here == '|' ? 2 : 1;
            alone = alone && here == ' ';
        }
        before = here == ' ' || here == '\t' ? before : here;
    }
}
