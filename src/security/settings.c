#include "security/settings.h"

const char *const tn_confirmation_mode_words[] = {
    [TN_CONFIRM_NEVER] = "never",
    [TN_CONFIRM_RISKY] = "risky",
    [TN_CONFIRM_ALWAYS] = "always",
    [TN_CONFIRM_ALWAYS + 1] = NULL,
};

#define NULLABLE TN_FIELD_NULLABLE
#define SECURITY struct tn_security_settings
#define DECISION(key, ...) TN_WORD(#key, SECURITY, key, tn_decision_words, __VA_ARGS__)
static const struct tn_field security_rows[] = {
    TN_BOOL("confirmation_mode", SECURITY, confirmation_mode, .env = "SECURITY_CONFIRMATION_MODE",
            .help =
                "OpenHands': ask before risky actions; `confirmation = risky` and `high = ask`, "
                "where these are not set"),
    TN_STRING("security_analyzer", SECURITY, security_analyzer, .flags = NULLABLE,
              .env = "SECURITY_SECURITY_ANALYZER",
              .help = "OpenHands': one analyzer more, asked while `confirmation_mode` is on"),
    TN_STRINGS("analyzers", SECURITY, analyzers, .env = "TENDON_SECURITY_ANALYZERS",
               .help = "who judges actions before they are carried out: built-in ones, or NAME of "
                       "a program tendon-analyzer-NAME"),
    TN_STRINGS("analyzer_path", SECURITY, analyzer_path, .env = "TENDON_ANALYZER_PATH",
               .help = "directories with programs tendon-analyzer-NAME, before those of PATH"),
    TN_DOUBLE("analyzer_seconds", SECURITY, analyzer_seconds, .fallback = "30", .min = 0.1,
              .max = 600, .env = "TENDON_SECURITY_ANALYZER_SECONDS",
              .help = "how long the answer of such a program is waited for"),
    TN_WORD("confirmation", SECURITY, confirmation, tn_confirmation_mode_words, .flags = NULLABLE,
            .env = "TENDON_SECURITY_CONFIRMATION",
            .help = "who is asked: nobody (what would be asked is refused), somebody about what is "
                    "risky, or somebody about everything; null: `risky` where anything is judged"),
    DECISION(low, .fallback = "allow", .env = "TENDON_SECURITY_LOW",
             .help = "what becomes of an action of low risk"),
    DECISION(medium, .fallback = "ask", .env = "TENDON_SECURITY_MEDIUM",
             .help = "...of medium risk"),
    DECISION(high, .flags = NULLABLE, .env = "TENDON_SECURITY_HIGH",
             .help = "...of high risk; null: `block`, or `ask` with `confirmation_mode`"),
    DECISION(unknown, .fallback = "ask", .env = "TENDON_SECURITY_UNKNOWN",
             .help = "...of a risk that nobody knows, also because an analyzer failed"),
    TN_DOUBLE("confirm_seconds", SECURITY, confirm_seconds, .fallback = "3600", .min = 1,
              .max = 1e9, .env = "TENDON_SECURITY_CONFIRM_SECONDS",
              .help = "how long an action waits for its confirmation before it is refused"),
    TN_STRINGS("policies", SECURITY, policies, .env = "TENDON_SECURITY_POLICIES",
               .help = "files of rules for the analyzer `policy`"),
    TN_STRING("secret_key", SECURITY, secret_key, .flags = NULLABLE,
              .env = "TENDON_SECURITY_SECRET_KEY",
              .help = "file of the key that secrets are sealed with; made with the first secret "
                      "[/etc/tendon/secret.key; of a user $XDG_CONFIG_HOME/tendon/secret.key]"),
    TN_STRING("roots", SECURITY, roots, .flags = NULLABLE, .env = "TENDON_SECURITY_ROOTS",
              .help = "file of certificates (PEM) that gates trust beside those of this machine, "
                      "where they put secrets in or look at paths"),
    TN_BOOL("default_policy", SECURITY, default_policy, .fallback = "true",
            .env = "TENDON_SECURITY_DEFAULT_POLICY",
            .help = "whether the rules that ship are among them"),
};
const struct tn_fields tn_security_fields = TN_FIELDS(security_rows);

#define LLM struct tn_llm_settings
static const struct tn_field llm_rows[] = {
    TN_STRING("endpoint", LLM, endpoint, .flags = NULLABLE, .env = "TENDON_SECURITY_LLM_ENDPOINT",
              .help = "an OpenAI-compatible API, `https://HOST/v1`, that is asked about each "
                      "action; null: the rating that the agent's model put on it counts"),
    TN_STRING("model", LLM, model, .flags = NULLABLE, .env = "TENDON_SECURITY_LLM_MODEL",
              .help = "the model that is asked there"),
    TN_STRING("key_env", LLM, key_env, .flags = NULLABLE, .env = "TENDON_SECURITY_LLM_KEY_ENV",
              .help = "name of the environment variable that holds its key"),
    TN_DOUBLE("seconds", LLM, seconds, .fallback = "30", .min = 0.1, .max = 600,
              .env = "TENDON_SECURITY_LLM_SECONDS", .help = "how long its answer is waited for"),
    TN_INT("cache", LLM, cache, .fallback = "1024", .min = 0, .max = 65536,
           .env = "TENDON_SECURITY_LLM_CACHE",
           .help = "answers that are remembered, for when the same action comes again"),
    TN_STRING("prompt", LLM, prompt, .flags = NULLABLE, .env = "TENDON_SECURITY_LLM_PROMPT",
              .help = "what it is told about this place beyond how to judge"),
};
const struct tn_fields tn_security_llm_fields = TN_FIELDS(llm_rows);

#define INVARIANT struct tn_invariant_settings
static const struct tn_field invariant_rows[] = {
    TN_STRING("endpoint", INVARIANT, endpoint, .flags = NULLABLE,
              .env = "TENDON_SECURITY_INVARIANT_ENDPOINT",
              .help = "where an Invariant server runs: `http://HOST:PORT`"),
    TN_STRING("policy", INVARIANT, policy, .flags = NULLABLE,
              .env = "TENDON_SECURITY_INVARIANT_POLICY",
              .help = "a file of rules in its language; null: the template that the server gives"),
    TN_DOUBLE("seconds", INVARIANT, seconds, .fallback = "60", .min = 0.1, .max = 600,
              .env = "TENDON_SECURITY_INVARIANT_SECONDS",
              .help = "how long its answer is waited for"),
};
const struct tn_fields tn_security_invariant_fields = TN_FIELDS(invariant_rows);

#define GRAYSWAN struct tn_grayswan_settings
static const struct tn_field grayswan_rows[] = {
    TN_STRING("endpoint", GRAYSWAN, endpoint, .fallback = "https://api.grayswan.ai/cygnal/monitor",
              .env = "TENDON_SECURITY_GRAYSWAN_ENDPOINT",
              .help = "where it is asked; its key is in `GRAYSWAN_API_KEY`"),
    TN_STRING("policy_id", GRAYSWAN, policy_id, .fallback = "689ca4885af3538a39b2ba04",
              .env = "GRAYSWAN_POLICY_ID", .help = "the policy there that is applied"),
    TN_DOUBLE("seconds", GRAYSWAN, seconds, .fallback = "30", .min = 0.1, .max = 600,
              .env = "TENDON_SECURITY_GRAYSWAN_SECONDS",
              .help = "how long its answer is waited for"),
};
const struct tn_fields tn_security_grayswan_fields = TN_FIELDS(grayswan_rows);

#define OWN(key, word)                                                                          \
    TN_WORD(#key, struct tn_thresholds, key, tn_decision_words,                                 \
            .flags = NULLABLE | TN_FIELD_SPARSE, .flag = "--" #key, .value = "allow|ask|block", \
            .help = word)
static const struct tn_field thresholds_rows[] = {
    OWN(low, "what becomes of actions of low risk [as the service says]"),
    OWN(medium, "...of medium risk"),
    OWN(high, "...of high risk"),
    OWN(unknown, "...of a risk that nobody knows"),
    TN_WORD("confirmation", struct tn_thresholds, mode, tn_confirmation_mode_words,
            .flags = NULLABLE | TN_FIELD_SPARSE, .flag = "--confirmation",
            .value = "never|risky|always", .help = "who is asked about its actions"),
};
const struct tn_fields tn_thresholds_fields = TN_FIELDS(thresholds_rows);

/* --- what follows from them ------------------------------------------------------------------- */

bool tn_security_on(const struct tn_security_settings *s)
{
    return s->confirmation_mode || s->analyzers.count > 0 || (int)s->confirmation >= 0;
}

struct tn_thresholds tn_security_thresholds(const struct tn_security_settings *s)
{
    struct tn_thresholds t = {.low = s->low,
                              .medium = s->medium,
                              .high = s->high,
                              .unknown = s->unknown,
                              .mode = s->confirmation};

    if ((int)t.high < 0)
        t.high = s->confirmation_mode ? TN_ASK : TN_BLOCK;
    if ((int)t.mode < 0)
        t.mode = TN_CONFIRM_RISKY;
    return t;
}

static enum tn_decision set_or(enum tn_decision own, enum tn_decision base)
{
    return (int)own < 0 ? base : own;
}

struct tn_thresholds tn_thresholds_over(const struct tn_thresholds *base,
                                        const struct tn_thresholds *own)
{
    struct tn_thresholds t = {
        .low = set_or(own->low, base->low),
        .medium = set_or(own->medium, base->medium),
        .high = set_or(own->high, base->high),
        .unknown = set_or(own->unknown, base->unknown),
        .mode = (int)own->mode < 0 ? base->mode : own->mode,
    };
    memcpy(t.analyzers, *own->analyzers ? own->analyzers : base->analyzers, sizeof t.analyzers);
    return t;
}

static bool is_there(const struct tn_security_settings *s, const char *name)
{
    bool openhands =
        s->confirmation_mode && s->security_analyzer && strcmp(s->security_analyzer, name) == 0;

    for (size_t i = 0; i < s->analyzers.count && !openhands; i++)
        openhands = strcmp(s->analyzers.items[i], name) == 0;
    return openhands;
}

int tn_thresholds_choose(struct tn_thresholds *t, const struct tn_str_list *names,
                         const struct tn_security_settings *s, struct tn_error *err)
{
    size_t n = 0;

    *t->analyzers = '\0';
    for (size_t i = 0; i < names->count; i++) {
        if (!is_there(s, names->items[i]))
            return tn_fail(err, TN_E_UNPROCESSABLE, "analyzers: %.40s judges nothing here",
                           names->items[i]);
        n += (size_t)snprintf(t->analyzers + n, sizeof t->analyzers - n, "%s%s", n ? "," : "",
                              names->items[i]);
        if (n >= sizeof t->analyzers)
            return tn_fail(err, TN_E_UNPROCESSABLE, "analyzers: there are too many");
    }
    return 0;
}

/* The next name of a list, of *n bytes; NULL at its end. */
static const char *next_name(const char *at, size_t *n)
{
    *n = strcspn(at, ",");
    return *n ? at : NULL;
}

bool tn_thresholds_has(const struct tn_thresholds *t, const char *analyzer)
{
    size_t n;

    for (const char *at = t->analyzers; (at = next_name(at, &n)); at += n + (at[n] == ','))
        if (strlen(analyzer) == n && memcmp(analyzer, at, n) == 0)
            return true;
    return !*t->analyzers;
}

void tn_thresholds_put_analyzers(const struct tn_thresholds *t, struct tn_jw *w)
{
    size_t n;

    if (!*t->analyzers) {
        tn_jw_null(w);
        return;
    }
    tn_jw_array(w);
    for (const char *at = t->analyzers; (at = next_name(at, &n)); at += n + (at[n] == ','))
        tn_jw_strn(w, at, n);
    tn_jw_array_end(w);
}

enum tn_decision tn_thresholds_decide(const struct tn_thresholds *t, enum tn_risk risk)
{
    const enum tn_decision of[] = {
        [TN_RISK_UNKNOWN + 1] = t->unknown,
        [TN_RISK_LOW + 1] = t->low,
        [TN_RISK_MEDIUM + 1] = t->medium,
        [TN_RISK_HIGH + 1] = t->high,
    };
    enum tn_decision d = of[risk + 1];

    if (t->mode == TN_CONFIRM_ALWAYS && d == TN_ALLOW)
        d = TN_ASK;
    if (t->mode == TN_CONFIRM_NEVER && d == TN_ASK)
        d = TN_BLOCK;
    return d;
}
