#include <signal.h>

#include "base/nearest.h"
#include "cli/verb.h"

const struct verb *const verbs[] = {&verb_run, &verb_help, &verb_version, NULL};

const struct verb *find_verb(const char *name, struct tn_error *err)
{
    struct tn_nearest near = tn_nearest(name);

    for (const struct verb *const *v = verbs; *v; v++) {
        if (!strcmp((*v)->name, name))
            return *v;
        tn_nearest_offer(&near, (*v)->name);
    }
    if (near.best)
        tn_fail(err, TN_E_INVALID, "there is no verb '%s': did you mean '%s'?", name, near.best);
    else
        tn_fail(err, TN_E_INVALID, "there is no verb '%s': see tendon help", name);
    return NULL;
}

/* Exit status of a verb, or -1 with err. */
static int run_verb(const struct verb *v, int argc, char **argv, struct tn_error *err)
{
    tn_autofree void *options = tn_calloc(1, v->options_size);
    int status;

    tn_fields_defaults(v->options, options);
    status = tn_fields_from_argv(v->options, options, argc, argv, err);
    if (!status)
        status = tn_fields_check(v->options, options, err);
    if (status < 0) {
        err->code = TN_E_INVALID; /* whatever was wrong with them, it is wrong usage */
    } else if (status == 1) {
        tn_autobuf struct tn_buf text = TN_BUF_INIT(64 << 10);
        put_verb_help(v, &text);
        status = fputs(tn_buf_str(&text), stdout) < 0;
    } else {
        status = v->run(options, err);
    }
    tn_fields_done(v->options, options);
    return status;
}

/* The options that stand in place of a verb, as everybody types them. */
static const struct {
    const char *option;
    const char *verb;
} synonyms[] = {{"--help", "help"}, {"-h", "help"}, {"--version", "version"}, {"-V", "version"}};

int main(int argc, char **argv)
{
    struct tn_error err = {0};
    const char *name = argc > 1 ? argv[1] : "help";
    int status = -1;

    /* A reader that went away is an error of writing, which ends a verb in order. */
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < TN_COUNT(synonyms); i++)
        if (!strcmp(name, synonyms[i].option))
            name = synonyms[i].verb;

    const struct verb *v = find_verb(name, &err);
    if (v)
        status = run_verb(v, argc > 2 ? argc - 2 : 0, argv + 2, &err);
    if (status < 0) {
        fprintf(stderr, "tendon: %s\n", err.text);
        status = tn_code_row(err.code)->exit_code;
    }
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "tendon: standard output: %s\n", tn_strerror(errno));
        return status ? status : tn_code_row(TN_E_IO)->exit_code;
    }
    return status;
}
