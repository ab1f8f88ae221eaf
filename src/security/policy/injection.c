/* Marks of instructions in what a tool returned: text that speaks to the model. */
#include <ctype.h>

#include "security/policy/detect.h"

enum {
    INJECTION_WORDS = 4, /* of one phrase */
    INJECTION_GAP = 3,   /* other words between two of them */
};

/* One of the words of each column, in this order. */
static const struct {
    const char *words[INJECTION_WORDS];
} phrases[] = {
    {{"ignore disregard forget override bypass", "previous prior above earlier preceding all your",
      "instructions instruction prompts directions rules guidelines"}},
    {{"you", "are", "now", "dan unrestricted jailbroken root administrator"}},
    {{"new updated revised", "system", "prompt instructions"}},
    {{"don't never not", "tell inform mention reveal alert", "user human operator"}},
    {{"without", "telling informing asking", "user human operator"}},
    {{"reveal print repeat show", "your", "system hidden initial", "prompt instructions"}},
    {{"ai assistant agent model llm", "must should", "run execute send upload post delete fetch"}},
};

/* Signs by which models tell who speaks. */
static const char
    *const
        signs[] =
            {
                "<|im_start|>", "<|system|>",     "<|start_header_id|>", "[INST]",
                "<<SYS>>",      "</tool_result>", "<system-reminder>",   "\xf3\xa0\x80",
                "\xf3\xa0\x81", /* letters that nobody sees */
};

/* The next word, in small letters; NULL at the end. */
static const char *next_word(const char *at, const char *end, char word[24], const char **start)
{
    size_t n = 0;

    while (at < end && !isalpha((unsigned char)*at))
        at++;
    if (at == end)
        return NULL;
    *start = at;
    for (; at < end && (isalpha((unsigned char)*at) || *at == '\''); at++) {
        if (n < 23)
            word[n++] = (char)tolower((unsigned char)*at);
    }
    word[n] = '\0';
    return at;
}

/* Whether the rest of the phrase follows; its end. */
static const char *phrase_end(size_t phrase, const char *at, const char *end)
{
    size_t want = 1, gap = 0;
    char word[24];
    const char *start;

    while (want < INJECTION_WORDS && phrases[phrase].words[want]) {
        at = next_word(at, end, word, &start);
        if (!at || gap++ > INJECTION_GAP)
            return NULL;
        if (word_in(word, phrases[phrase].words[want])) {
            want++;
            gap = 0;
        }
    }
    return at;
}

static void look(struct scene *s)
{
    const char *end = s->output + s->output_len, *at = s->output, *start = NULL;
    char word[24];

    if (!s->output)
        return;
    for (size_t i = 0; i < TN_COUNT(signs); i++) {
        const char *found = memmem(s->output, s->output_len, signs[i], strlen(signs[i]));
        if (found)
            scene_add_sign(s, "role", "pretends to be another speaker", NULL,
                           (struct part){"content", found, strlen(signs[i])});
    }
    while ((at = next_word(at, end, word, &start))) {
        for (size_t i = 0; i < TN_COUNT(phrases); i++) {
            const char *stop = word_in(word, phrases[i].words[0]) ? phrase_end(i, at, end) : NULL;
            if (stop) {
                scene_add_sign(s, "instruction", "tells the model what to do", NULL,
                               (struct part){"content", start, (size_t)(stop - start)});
                return;
            }
        }
    }
}

const struct detector detect_injection = {
    .name = "injection",
    .about = "marks of instructions to the model in what a tool returned",
    .kinds = "instruction role",
    .look = look,
};
