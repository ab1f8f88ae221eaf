/* Calls of PowerShell.  Its language is not read here; but for lines of commands that only show
 * something, which a shell would take apart in the same way. */
#include <ctype.h>
#include <strings.h>

#include "security/command/walk.h"

/* Whether one of those in the list begins with the word; a list has spaces between. */
static bool begins_one(const char *word, const char *list)
{
    size_t n = strlen(word);

    for (; *list; list += strcspn(list, " "), list += *list == ' ')
        if (n && strncasecmp(list, word, n) == 0 && n <= strcspn(list, " "))
            return true;
    return false;
}

/* Whether the command begins with one of these: "Get-" is all that are called so. */
static bool is_mild(const char *command, size_t n)
{
    static const char *const mild[] = {
        "Get-",         "Test-Path",     "Test-Json",  "Select-",          "Sort-Object",
        "Group-Object", "Measure-",      "Compare-",   "Format-Table",     "Format-List",
        "Format-Wide",  "Format-Custom", "Format-Hex", "Out-String",       "Out-Null",
        "Out-Host",     "Out-Default",   "ConvertTo-", "ConvertFrom-Json", "ConvertFrom-Csv",
        "Write-Output", "Write-Host",    "Join-Path",  "Split-Path",       "Resolve-Path"};

    for (size_t i = 0; i < TN_COUNT(mild); i++) {
        size_t len = strlen(mild[i]);
        if (n >= len && strncasecmp(command, mild[i], len) == 0 &&
            (n == len || mild[i][len - 1] == '-'))
            return true;
    }
    return false;
}

/* Whether all it does is to show something: commands of that kind, words and one variable; nothing
 * that computes, runs, assigns or redirects. */
static bool is_plain(const char *text)
{
    static const char signs[] = " _-./:,*?|;\"'$";
    bool variable = text[0] == '$';

    for (const char *c = text; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(signs, *c))
            return false;
    if (variable) /* $PSVersionTable.PSVersion */
        return !text[strcspn(text, " |;\"'")];
    for (size_t n; *text; text += n + (text[n] != 0)) {
        text += strspn(text, " ");
        n = strcspn(text, "|;");
        if (!is_mild(text, strcspn(text, " |;")) || memchr(text, '$', n))
            return false;
    }
    return true;
}

void see_pwsh(struct walker *w, const struct place *at, struct tn_call *call)
{
    static const char flags[] =
        "NoProfile NoLogo NonInteractive NoExit Login Interactive Sta Mta noni nop nol noe";
    static const char valued[] = "ExecutionPolicy ep WorkingDirectory wd OutputFormat InputFormat "
                                 "inp if WindowStyle SettingsFile";
    size_t i = 1;
    bool text = false;

    for (; i < call->argc && !text; i++) {
        const char *word = call->argv[i].value ? call->argv[i].value : "?";
        const char *name = word + strspn(word, "-");
        if (word[0] != '-' || !*name) {
            text = strncasecmp(call->name, "powershell", 10) == 0 && *name;
            if (!text) { /* pwsh x.ps1, pwsh - */
                call->unseen = *name ? TN_UNSEEN_FILE : TN_UNSEEN_INPUT;
                return;
            }
            i--;
        } else if (begins_one(name, "Command")) {
            text = true;
        } else if (begins_one(name, "File")) {
            call->unseen = i + 1 < call->argc && call->argv[i + 1].text[0] == '-' ? TN_UNSEEN_INPUT
                                                                                  : TN_UNSEEN_FILE;
            return;
        } else if (begins_one(name, "Version Help")) {
            return;
        } else if (begins_one(name, "EncodedCommand ec") ||
                   (!begins_one(name, valued) && !begins_one(name, flags))) {
            call->unseen = TN_UNSEEN_SYNTAX;
            return;
        } else {
            i += !begins_one(name, flags); /* where it may be either, the next word is looked at */
        }
    }
    call->language = "pwsh";
    call->unseen = text && i < call->argc ? TN_UNSEEN_SYNTAX : TN_UNSEEN_INPUT;
    if (call->unseen == TN_UNSEEN_INPUT)
        return;
    call->program = call->argv[i].text;
    if (i + 1 == call->argc && call->argv[i].value && is_plain(call->program)) {
        call->unseen = TN_SEEN;
        if (call->program[0] != '$')
            walk_text(w, at, call, &call->argv[i], false);
    }
}
