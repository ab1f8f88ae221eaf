#include "cli/complete.h"
#include "cli/verb.h"

static const char *const shells[] = {"bash", "zsh", "fish", NULL};

struct completion_options {
    char *shell;
};

static const struct tn_field rows[] = {
    TN_STRING("shell", struct completion_options, shell,
              .flags = TN_FIELD_POSITIONAL | TN_FIELD_REQUIRED, .value = "SHELL", .words = shells,
              .help = "for this one"),
};
static const struct tn_fields options_table = TN_FIELDS(rows);

static int run(struct cli *cli, const void *given, struct tn_error *err)
{
    const struct completion_options *options = given;
    tn_autobuf struct tn_buf text = TN_BUF_INIT(1 << 20);

    if (strcmp(options->shell, "bash") == 0)
        put_bash_completion(&text);
    else if (strcmp(options->shell, "zsh") == 0)
        put_zsh_completion(&text);
    else
        put_fish_completion(&text);
    if (!tn_buf_ok(&text))
        return tn_fail(err, TN_E_TOO_LARGE, "the completion is too long");
    fputs(tn_buf_str(&text), stdout);
    return 0;
}

const struct verb verb_completion = {
    .name = "completion",
    .group = VERB_SYSTEM,
    .summary = "print what makes a shell complete tendon's words",
    .details = "bash: eval \"$(tendon completion bash)\"\n"
               "zsh:  eval \"$(tendon completion zsh)\" (after compinit)\n"
               "fish: tendon completion fish | source",
    .options = &options_table,
    .options_size = sizeof(struct completion_options),
    .run = run,
};
