/* What may be asked about calls. */
#include "security/command/calls.h"

static const char *const unseen_texts[] = {
    [TN_SEEN] = "is seen through",
    [TN_UNSEEN_NAME] = "the name of the command is not known before it runs",
    [TN_UNSEEN_SCRIPT] = "runs a text that is not known before it runs",
    [TN_UNSEEN_INPUT] = "runs what it reads",
    [TN_UNSEEN_FILE] = "runs a script from a file",
    [TN_UNSEEN_OPTION] = "has an option that is not known, so what it runs is a guess",
    [TN_UNSEEN_SYNTAX] = "runs a text that cannot be read as a command",
    [TN_UNSEEN_LOADED] = "a variable or a setting makes it load what is not seen",
};

const char *tn_unseen_text(enum tn_unseen unseen)
{
    return unseen_texts[unseen];
}

bool tn_call_feeds(const struct tn_calls *calls, const struct tn_call *from,
                   const struct tn_call *to)
{
    if (!from->out || !to->in)
        return false;
    tn_autofree bool *reached = tn_calloc(calls->pipes + 1, sizeof(*reached));
    reached[from->out] = true;
    for (bool more = true; more && !reached[to->in];) {
        more = false;
        for (const struct tn_call *call = calls->first; call; call = call->next)
            if (call->in && call->out && reached[call->in] && !reached[call->out])
                more = reached[call->out] = true;
    }
    return reached[to->in];
}

bool tn_call_has(const struct tn_call *call, const char *value)
{
    for (size_t i = 1; i < call->argc; i++)
        if (call->argv[i].value && strcmp(call->argv[i].value, value) == 0)
            return true;
    return false;
}

bool tn_call_letter(const struct tn_call *call, char letter)
{
    for (size_t i = 1; i < call->argc; i++) {
        const char *word = call->argv[i].text;
        if (strcmp(word, "--") == 0)
            return false;
        if (word[0] == '-' && word[1] != '-' && letter && strchr(word + 1, letter))
            return true;
    }
    return false;
}
