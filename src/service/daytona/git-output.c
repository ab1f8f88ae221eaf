/* What git says, as answers of the toolbox.  Everything here comes out of a sandbox. */
#include "service/daytona/daytona.h"

#define PART "\x1f" /* as the words of git.c ask for it */

static const char *status_word(char letter)
{
    static const char letters[] = ".?MTADRCU";
    static const char *const words[] = {"Unmodified", "Untracked", "Modified",
                                        "Modified",   "Added",     "Deleted",
                                        "Renamed",    "Copied",    "Updated but unmerged"};
    const char *at = letter ? strchr(letters, letter) : NULL;

    return at ? words[at - letters] : words[0];
}

static void put_file(struct tn_jw *w, const char *states, const char *name, const char *extra)
{
    tn_jw_object(w);
    tn_jw_kstr(w, "name", name);
    tn_jw_kstr(w, "staging", status_word(states[0]));
    tn_jw_kstr(w, "worktree", status_word(states[1]));
    tn_jw_kstr(w, "extra", extra);
    tn_jw_object_end(w);
}

/* The path behind so many other words. */
static const char *behind(const char *line, int words)
{
    for (; words && *line; line++)
        words -= *line == ' ';
    return line;
}

/* Lines of `git status --porcelain=v2`, each with its NUL. */
void daytona_git_status(const struct daytona_done *done, struct tn_jw *w)
{
    const char *branch = "", *upstream = "";
    long long ahead = 0, behind_it = 0;
    const char *at = tn_buf_str(&done->out), *stop = at + done->out.len;

    tn_jw_object(w);
    tn_jw_key(w, "fileStatus");
    tn_jw_array(w);
    for (; at < stop; at += strlen(at) + 1) {
        if (strncmp(at, "# branch.head ", 14) == 0)
            branch = at + 14;
        else if (strncmp(at, "# branch.upstream ", 18) == 0)
            upstream = at + 18;
        else if (strncmp(at, "# branch.ab ", 12) == 0)
            sscanf(at + 12, "+%lld -%lld", &ahead, &behind_it);
        else if (*at == '?')
            put_file(w, "??", behind(at, 1), "");
        else if (strlen(at) < 4) /* nothing that git says */
            continue;
        else if (*at == '1')
            put_file(w, at + 2, behind(at, 8), "");
        else if (*at == 'u')
            put_file(w, at + 2, behind(at, 10), "");
        else if (*at == '2') {
            const char *name = at;
            at += strlen(at) + 1;
            put_file(w, name + 2, behind(name, 9), at < stop ? at : "");
            if (at >= stop)
                break;
        }
    }
    tn_jw_array_end(w);
    bool detached = strcmp(branch, "(detached)") == 0;
    tn_jw_kstr(w, "currentBranch", detached ? "HEAD" : branch);
    tn_jw_kbool(w, "detached", detached);
    tn_jw_kstr(w, "upstream", upstream);
    tn_jw_kbool(w, "branchPublished", *upstream);
    tn_jw_kint(w, "ahead", ahead);
    tn_jw_kint(w, "behind", behind_it);
    tn_jw_object_end(w);
}

/* "*name" or " name" in each line. */
void daytona_git_branches(const struct daytona_done *done, struct tn_jw *w)
{
    const char *current = "";
    size_t length = 0;

    tn_jw_object(w);
    tn_jw_key(w, "branches");
    tn_jw_array(w);
    for (const char *at = tn_buf_str(&done->out); *at; at += strspn(at, "\n")) {
        size_t n = strcspn(at, "\n");
        if (!n)
            continue;
        tn_jw_strn(w, at + 1, n - 1);
        if (*at == '*') {
            current = at + 1;
            length = n - 1;
        }
        at += n;
    }
    tn_jw_array_end(w);
    tn_jw_key(w, "current");
    tn_jw_strn(w, current, length);
    tn_jw_object_end(w);
}

/* Commits: parts apart by PART, each commit with its NUL. */
void daytona_git_history(const struct daytona_done *done, struct tn_jw *w)
{
    static const char *const names[] = {"hash", "author", "email", "timestamp", "message"};
    const char *at = tn_buf_str(&done->out), *stop = at + done->out.len;

    tn_jw_array(w);
    for (; at < stop; at++) {
        tn_jw_object(w);
        for (size_t i = 0; i < TN_COUNT(names); i++) {
            size_t n = i + 1 < TN_COUNT(names) ? strcspn(at, PART) : strlen(at);
            tn_jw_key(w, names[i]);
            tn_jw_strn(w, at, n);
            at += n + (at[n] == *PART);
        }
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
}

/* "remote.NAME.url", a line feed, the URL and a NUL each; there may be none. */
void daytona_git_remotes(const struct daytona_done *done, struct tn_jw *w)
{
    const char *at = tn_buf_str(&done->out), *stop = at + done->out.len;

    tn_jw_object(w);
    tn_jw_key(w, "remotes");
    tn_jw_array(w);
    for (; at < stop; at += strlen(at) + 1) {
        const char *url = strchr(at, '\n');
        if (!url || url - at < 12)
            continue;
        tn_jw_object(w);
        tn_jw_key(w, "name");
        tn_jw_strn(w, at + 7, (size_t)(url - at) - 11);
        tn_jw_kstr(w, "url", url + 1);
        tn_jw_object_end(w);
    }
    tn_jw_array_end(w);
    tn_jw_object_end(w);
}
