/* Scripts of sed: which commands they run and which files they read and write.
 *
 * A `/` in brackets ends a pattern in some versions of sed and not in others: a script is read in
 * both ways, and what it does in either counts. */
#include <ctype.h>

#include "security/command/walk.h"

struct script {
    struct walker *w;
    const struct place *at;
    struct tn_call *call;
    const char *text;
    bool brackets, acts; /* a delimiter in brackets is none; what is found is told */
    bool ended[3];       /* behind here no [:class:], [.class.], [=class=] ends */
    bool ok;
};

static void skip(struct script *s, const char *bytes)
{
    s->text += strspn(s->text, bytes);
}

/* The rest of the line. */
static struct tn_arg rest_of_line(struct script *s)
{
    skip(s, " \t");
    size_t len = strcspn(s->text, "\n");
    tn_autofree char *line = tn_strndup(s->text, len);
    s->text += len;
    return known_arg(s->w, line);
}

/* Behind a bracket expression, with its [:classes:]; NULL: it is none. */
static const char *behind_brackets(struct script *s, const char *at)
{
    static const char kinds[] = ":.=";

    at += 1 + (at[1] == '^');
    at += *at == ']';
    while (*at && *at != ']') {
        const char *kind = at[0] == '[' && at[1] ? strchr(kinds, at[1]) : NULL, *end = NULL;
        if (kind && !s->ended[kind - kinds]) {
            end = strstr(at + 2, (const char[]){*kind, ']', 0});
            s->ended[kind - kinds] = !end;
        }
        at = end ? end + 2 : at + 1;
    }
    return *at ? at + 1 : NULL;
}

/* Up to the delimiter, and it.  With brackets that do not end no sed takes the script: from there
 * on they are bytes like others, so that each byte is looked at a few times only. */
static void skip_pattern(struct script *s, char end, bool brackets)
{
    const char *at = s->text;
    while (*at && *at != end) {
        bool opens = brackets && s->brackets && *at == '[';
        const char *behind = opens ? behind_brackets(s, at) : NULL;
        s->brackets = s->brackets && (!opens || behind);
        at = behind ? behind : at + (*at == '\\' && at[1] ? 2 : 1);
    }
    s->ok = s->ok && *at;
    s->text = at + (*at != 0);
}

static bool skip_address(struct script *s)
{
    const char *before = s->text;
    if (*s->text == '/' || (*s->text == '\\' && s->text[1])) {
        s->text += *s->text == '\\';
        char end = *s->text++;
        skip_pattern(s, end, true);
        skip(s, "IM");
    } else {
        skip(s, "0123456789$~+");
    }
    return s->text > before;
}

static void use_file(struct script *s, bool writes)
{
    struct tn_call_redirect *file = tn_arena_get(s->w->arena, sizeof(*file));
    struct tn_arg name = rest_of_line(s);
    if (!s->acts)
        return;
    *file = (struct tn_call_redirect){.kind = writes ? TN_SH_WRITE : TN_SH_READ,
                                      .fd = writes ? 3 : 4,
                                      .reads = !writes,
                                      .writes = writes,
                                      .target = name,
                                      .start = s->call->start,
                                      .end = s->call->end,
                                      .next = s->call->redirects};
    s->call->redirects = file;
}

/* It runs what stands in the text that it edits. */
static void run_edited(struct script *s)
{
    if (s->acts)
        s->call->unseen = TN_UNSEEN_SCRIPT;
}

static void run_line(struct script *s)
{
    struct tn_arg line = rest_of_line(s);
    if (s->acts && line.text[0])
        run_added(s->w, s->at, s->call, &line);
    else
        run_edited(s);
}

static void substitute(struct script *s)
{
    char end = *s->text++;
    skip_pattern(s, end, true);
    skip_pattern(s, end, false);
    bool runs = false;
    for (; *s->text && strchr("gpiImMe0123456789 \t", *s->text); s->text++)
        runs = runs || *s->text == 'e';
    if (runs)
        run_edited(s);
    if (*s->text == 'w') {
        s->text++;
        use_file(s, true);
    }
}

/* Text for a, i and c: up to a line that does not end with a backslash. */
static void skip_text(struct script *s)
{
    while (*s->text && *s->text != '\n')
        s->text += *s->text == '\\' && s->text[1] ? 2 : 1;
}

static void read_command(struct script *s)
{
    char name = *s->text++;
    switch (name) {
    case '#':
        s->text += strcspn(s->text, "\n");
        break;
    case 'a':
    case 'i':
    case 'c':
        skip_text(s);
        break;
    case ':':
    case 'b':
    case 't':
    case 'T':
    case 'v':
        skip(s, " \t");
        s->text += strcspn(s->text, " \t;}\n");
        return; /* behind a label another command may stand */
    case 'r':
    case 'R':
    case 'w':
    case 'W':
        use_file(s, tolower((unsigned char)name) == 'w');
        break;
    case 'e':
        run_line(s);
        break;
    case 's':
        s->ok = *s->text && *s->text != '\n' && *s->text != '\\';
        if (s->ok)
            substitute(s);
        break;
    case 'y': {
        char end = *s->text;
        s->text += end != 0;
        skip_pattern(s, end, false);
        skip_pattern(s, end, false);
        break;
    }
    case 'l':
    case 'L':
    case 'q':
    case 'Q':
        skip(s, " \t0123456789");
        break;
    default:
        s->ok = strchr("=dDgGhHnNpPxzF", name) != NULL;
    }
    skip(s, " \t");
    s->ok = s->ok && (!*s->text || strchr(";}\n#", *s->text));
}

/* Whether the text is a script; if it acts, what that does is told. */
static bool read_script(struct script s, bool brackets, bool acts)
{
    s.brackets = brackets;
    s.acts = acts;
    s.ok = true;
    while (s.ok && *s.text && !s.w->failed) {
        skip(&s, " \t\n;{}");
        if (skip_address(&s)) {
            skip(&s, " \t");
            if (*s.text == ',') {
                s.text++;
                skip(&s, " \t");
                skip_address(&s);
            }
        }
        skip(&s, " \t!");
        if (*s.text && !strchr("{};\n", *s.text))
            read_command(&s);
    }
    return s.ok;
}

/* $x or ${x}, and nothing else. */
static bool is_variable(const char *text)
{
    size_t braces = text[0] == '$' && text[1] == '{', name = 1 + braces;
    while (isalnum((unsigned char)text[name]) || text[name] == '_')
        name++;
    return text[0] == '$' && (!braces || text[name] == '}') && !text[name + braces];
}

void see_sed(struct walker *w, const struct place *at, struct tn_call *call,
             const struct tn_arg *script)
{
    const struct script s = {.w = w, .at = at, .call = call, .text = script->text};
    bool one = read_script(s, true, false), other = read_script(s, false, false);
    if (one)
        read_script(s, true, true);
    if (other && strchr(script->text, '['))
        read_script(s, false, true);
    if (is_variable(script->text) && !script->value)
        call->unseen = TN_UNSEEN_SCRIPT;
    if (!one && !other && script->value && call->unseen == TN_SEEN)
        call->unseen = TN_UNSEEN_SYNTAX;
}
